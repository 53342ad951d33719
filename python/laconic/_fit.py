"""Loads the module, or says why it does not fit: it fits only the torch that it was compiled against."""

from __future__ import annotations

import re

import torch  # loads the libraries that the module needs

_AGAIN = "pip install --force-reinstall --no-deps . in laconic's source tree"
_REMEDY = f"build it again with this torch: {_AGAIN}"


def _reason(error: ImportError) -> str:
    """What to tell of a module that cannot be loaded."""
    missing = re.search(r"(lib[^:\s]+\.so[^:\s]*): cannot open shared object file", str(error))
    if missing is None or missing[1].startswith(("libtorch", "libc10")):
        return f"laconic's module cannot be loaded beside torch {torch.__version__} ({error}); {_REMEDY}"
    package = " (Debian, Ubuntu: apt install libhwy1)" if missing[1].startswith("libhwy.") else ""
    return (
        f"laconic's module needs the library {missing[1]}, which this system does not have: install it{package}, "
        f"or build laconic again, which needs no such library any more: {_AGAIN}"
    )


try:
    from . import _core
except ImportError as error:
    raise ImportError(_reason(error)) from error

if _core.torch_version != ".".join(torch.__version__.split(".")[:2]):
    raise ImportError(f"laconic was built against torch {_core.torch_version}, this is {torch.__version__}; {_REMEDY}")
