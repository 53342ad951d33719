"""Loads the module, or says why it does not fit: it fits only the torch that it was compiled against."""

from __future__ import annotations

import torch  # loads the libraries that the module needs

_REMEDY = "build it again with this torch: pip install --force-reinstall --no-deps . in laconic's source tree"

try:
    from . import _core
except ImportError as error:
    raise ImportError(f"laconic's module cannot be loaded beside torch {torch.__version__} ({error}); {_REMEDY}") from error

if _core.torch_version != ".".join(torch.__version__.split(".")[:2]):
    raise ImportError(f"laconic was built against torch {_core.torch_version}, this is {torch.__version__}; {_REMEDY}")
