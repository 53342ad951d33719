"""Distributed training that says less on the wire: methods for PyTorch's own training loops."""

from __future__ import annotations

from . import _fit  # first: loads torch and _core
from . import _core
from ._core import CorruptPayload, InvalidConfig, TransportError, methods
from ._ddp import State, attach, hook
from ._optimizer import Optimizer

__version__: str = _core.version

__all__ = ["CorruptPayload", "InvalidConfig", "Optimizer", "State", "TransportError", "attach", "hook", "methods"]

del _fit
