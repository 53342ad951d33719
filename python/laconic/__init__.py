"""Distributed training that says less on the wire: methods for PyTorch's own training loops.

Under DistributedDataParallel, gradient methods, one line:

    ddp = torch.nn.parallel.DistributedDataParallel(model)
    state = laconic.attach(ddp, "regtopk", keep=0.01)

Without it, every method, around a torch optimizer:

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = laconic.Optimizer(optimizer, model, method="def-a", ratio=64)
    ...
    with optimizer.read_out():      # the point to test and save
        evaluate(model)

Both need torch.distributed.init_process_group first, are made on all ranks alike, and save what they remember:

    attach, State, hook          the communication hook, in one line or the conventional way
    Optimizer                    a torch.optim.Optimizer
    methods()                    names, options, ranges, papers
    simd()                       which vector instructions the kernels use
    state.metrics()              bytes, ratio, seconds by stage, residual; of an Optimizer too
    state.state_dict()           by rank; gather_state_dict() for all; load_state_dict(); of an Optimizer too
    RunLog, report               a record of a run, and a page of charts from many
    log_to_tensorboard           the same figures as scalars
    InvalidConfig, TransportError, CorruptPayload     errors that say what to do
"""

from __future__ import annotations

from . import _version_check  # first: loads torch and _core
from . import _core
from ._core import CorruptPayload, InvalidConfig, TransportError
from ._settings import methods
from ._version_check import simd
from .ddp import State, attach, hook
from .optimizer import Optimizer
from .runs import RunLog, log_to_tensorboard, report

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
    "simd",
]
