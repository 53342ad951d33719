"""Batch norm's running statistics at a point that no rank trained: averaged over ranks, or estimated from batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase

from . import _core


class Statistics:
    """The running statistics of a model's batch norms. `restore` sets them back to what they are now."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._norms = [
            module
            for module in model.modules()
            if isinstance(module, _NormBase) and module.running_mean is not None and module.running_var is not None
        ]
        both = (each for norm in self._norms for each in (norm.running_mean, norm.running_var))
        self.tensors: list[torch.Tensor] = [each for each in both if each is not None]
        counts = [norm.num_batches_tracked for norm in self._norms if norm.num_batches_tracked is not None]
        self._kept = [(each, each.detach().clone()) for each in (*self.tensors, *counts)]

    def restore(self) -> None:
        with torch.no_grad():
            for tensor, kept in self._kept:
                tensor.copy_(kept)

    def estimate(
        self, model: torch.nn.Module, batches: Iterable[Any], forward: Callable[[Any], Any] | None = None
    ) -> None:
        """Sets the statistics to their mean over the batches. Modes, momenta and torch's generators are restored."""
        used = 0
        run = forward or (lambda batch: model(batch[0] if isinstance(batch, (tuple, list)) else batch))
        modes = [(module, module.training) for module in model.modules()]
        momenta = [norm.momentum for norm in self._norms]
        try:
            for norm in self._norms:
                norm.reset_running_stats()
                norm.momentum = None  # a cumulative mean
            model.train()
            with torch.no_grad(), torch.random.fork_rng():
                for batch in batches:
                    run(batch)
                    used += 1
            if self._norms and used == 0:
                raise _core.InvalidConfig("read_out(batches=...) had no batch: an iterator can be gone through but once")
        finally:
            for norm, momentum in zip(self._norms, momenta, strict=True):
                norm.momentum = momentum
            for module, mode in modes:
                module.training = mode
