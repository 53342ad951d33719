"""Distributed training that says less on the wire: methods for PyTorch's own training loops."""

from __future__ import annotations

from . import _fit  # first: loads torch and _core
from . import _core
from ._core import CorruptPayload, InvalidConfig, TransportError, methods
from ._ddp import State, attach, hook
from ._optimizer import Optimizer
from ._report import report
from ._runs import RunLog, log_to_tensorboard

__version__: str = _core.version

__all__ = [
    "CorruptPayload",
    "InvalidConfig",
    "Optimizer",
    "RunLog",
    "State",
    "TransportError",
    "attach",
    "hook",
    "log_to_tensorboard",
    "methods",
    "report",
]

del _fit
