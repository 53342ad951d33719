"""Distributed training that sends less: communication-efficient methods for PyTorch's own training loops.

With DistributedDataParallel, one line adds a gradient method:

    ddp = torch.nn.parallel.DistributedDataParallel(model)
    state = laconic.attach(ddp, "regtopk", keep=0.01)

Without it, every method works around a torch optimizer:

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = laconic.Optimizer(optimizer, model, method="def-a", ratio=64)
    ...
    with optimizer.read_out():      # the point to test and save
        evaluate(model)

Call torch.distributed.init_process_group first. Create both in the same way on all ranks.

    attach, State, hook          a communication hook of DistributedDataParallel (laconic.ddp)
    ShardedState                 what attach returns for a model in fully_shard (laconic.sharded)
    Optimizer                    a torch.optim.Optimizer (laconic.optimizer)
    methods()                    the table of methods: names, options, ranges, papers
    simd()                       the vector instructions that the kernels use
    RunLog, report               a record of a run, and a page of charts from many (laconic.runs)
    log_to_tensorboard           the same figures as scalars
    InvalidConfig, TransportError, CorruptPayload     errors, with the remedy in their messages

A State and an Optimizer have metrics() (bytes, ratio, seconds by stage, residual) and save their memory with
state_dict(), gather_state_dict() and load_state_dict() (laconic.checkpoint).
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
from .sharded import ShardedState

__version__: str = _core.version

__all__ = [
    "CorruptPayload",
    "InvalidConfig",
    "Optimizer",
    "RunLog",
    "ShardedState",
    "State",
    "TransportError",
    "attach",
    "hook",
    "log_to_tensorboard",
    "methods",
    "report",
    "simd",
]
