"""Loads the compiled module and checks it: it fits only the torch it was compiled against, and may run without SIMD."""

from __future__ import annotations

import functools
import re

import torch  # loads the libraries that the module needs

from . import _warning

_AGAIN = "pip install --force-reinstall --no-deps . in laconic's source tree"
_REMEDY = f"build it again with this torch: {_AGAIN}"


def _reason(error: ImportError) -> str:
    """Why the module cannot be loaded, and the remedy."""
    # The dynamic loader reports a missing library only in its text: the error has no field for it.
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


def simd() -> str:
    """The SIMD level of the kernels and who vectorised them: `"avx2, vectors: Highway"`. Not collective.

    `reference` has no vectors and is several times slower. It is used only if LACONIC_SIMD asks for it. A build without
    Highway has the compiler's vectors, which take up to three times as long. All levels give the same bits.

    Raises:
        InvalidConfig: if LACONIC_SIMD names a level that this machine or this build does not have.
    """
    return "{}, vectors: {}".format(*_core.simd())


@functools.cache
def warn_once() -> None:
    """Warns once per process if kernels run without SIMD."""
    level, vectors = _core.simd()
    if vectors == "none":
        _warning.warn(
            f"laconic runs without SIMD, several times slower: LACONIC_SIMD={level} is set; unset it for the best level",
            RuntimeWarning,
        )
