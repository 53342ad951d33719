"""A sharded model as laconic.Optimizer sees it: this rank's shards, with the gradients of this replica alone."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from . import _core, _fsdp


class Shards:
    """The shards of the parameters that an optimizer trains.

    Hosts of C++ take plain tensors. A shard is the tensor inside a DTensor; for the time of a step it holds the DTensor's
    gradient too.
    """

    def __init__(self, model: torch.nn.Module, sharding: _fsdp.Sharding) -> None:
        self._model = model
        self._sharding = sharding
        self._parameters: list[torch.Tensor] = []

    @property
    def replicas(self) -> dist.ProcessGroup:
        return self._sharding.replicas

    @property
    def sharding(self) -> _fsdp.Sharding:
        return self._sharding

    @property
    def place(self) -> str:
        """For keys of saved states."""
        shards = self._sharding.shards
        return "" if shards is None else f"shard{dist.get_rank(shards)}of{dist.get_world_size(shards)}/"

    def take(self, parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """These are trained; their shards."""
        self._parameters = list(parameters)
        return [_inner(each) for each in self._parameters]

    def open_doors(self) -> None:
        """From now on backward leaves each replica its own gradients."""
        for group in self._sharding.groups:
            group.open_door(_leave)

    def close_doors(self) -> None:
        for group in self._sharding.groups:
            group.close_door()
        self._sharding.groups = []

    def reshard(self) -> None:
        """fully_shard may hold whole parameters from before the shards were changed."""
        _fsdp.reshard(self._model)

    @contextmanager
    def opened(self, host: Any) -> Iterator[None]:
        """Gives the shards to a host for a step."""
        self.reshard()
        host.follow([_inner(each) for each in self._parameters], [each.requires_grad for each in self._parameters])
        for each in self._parameters:
            _inner(each).grad = None if each.grad is None else _inner(each.grad)
        try:
            yield
        finally:
            self.give_gradients()
            for each in self._parameters:
                _inner(each).grad = None

    @torch.no_grad()
    def give_gradients(self) -> None:
        """The parameters get the gradients that the host has made or taken away."""
        for each in self._parameters:
            grad = _inner(each).grad
            if grad is None:
                each.grad = None
            elif each.grad is None or _inner(each.grad) is not grad:
                each.grad = like(each, grad)

    @contextmanager
    def scored(self) -> Iterator[None]:
        """Gradients of the block are the shards' own; afterwards the parameters have theirs back."""
        own = [each.grad for each in self._parameters]
        for each in self._parameters:
            each.grad = None
        try:
            yield
            for each in self._parameters:
                _inner(each).grad = None if each.grad is None else _inner(each.grad)
        finally:
            for each, grad in zip(self._parameters, own, strict=True):
                each.grad = grad

    def finite_factor(self) -> float:
        """1 if all gradients of this replica are finite, else NaN: shards of a replica drop a step together."""
        if self._sharding.shards is None:
            return 1.0
        grads = [_inner(each.grad) for each in self._parameters if each.grad is not None]
        finite = torch.stack([torch.isfinite(each).all() for each in grads]).all() if grads else torch.tensor(True)
        flag = finite.to(self._sharding.device(), torch.int32)
        dist.all_reduce(flag, op=dist.ReduceOp.MIN, group=self._sharding.shards)
        return 1.0 if int(flag) else float("nan")

    def mean(self, value: float) -> float:
        """Over the ranks of this replica, each of which has a batch of its own."""
        if self._sharding.shards is None:
            return value
        total = torch.tensor(value, dtype=torch.float64, device=self._sharding.device())
        dist.all_reduce(total, group=self._sharding.shards)
        return float(total) / dist.get_world_size(self._sharding.shards)

    def average(self, tensors: Sequence[torch.Tensor]) -> None:
        """Over the ranks of this replica."""
        if self._sharding.shards is None:
            return
        for each in tensors:
            dist.all_reduce(each, group=self._sharding.shards)
            each.div_(dist.get_world_size(self._sharding.shards))

    def plain_state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state of an optimizer with shards in the place of DTensors."""
        return _mapped(state, lambda _, value: _inner(value) if isinstance(value, torch.Tensor) else value)

    def sharded_state(self, state: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """And back."""
        parameters = [each for group in optimizer.param_groups for each in group["params"]]

        def wrapped(number: int, value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.shape != _inner(parameters[number]).shape or value.dim() == 0:
                return value
            return like(parameters[number], value)

        return _mapped(state, wrapped)


def shards_of(model: Any, replicas: Any, group: Any) -> Shards | None:
    """None for a model that is not sharded."""
    if not _fsdp.is_sharded(model):
        if replicas is not None:
            raise _core.InvalidConfig("replicas is for a model in fully_shard: leave it out, or give group=")
        return None
    if group is not None:
        raise _core.InvalidConfig(
            "group is for a model that is not sharded: leave it out; the mesh knows the replicas, or give replicas="
        )
    _fsdp.reshard(model)
    return Shards(model, _fsdp.found(model, replicas))


def require_lockstep(options: Mapping[str, Any]) -> None:
    if options.get("pace") == "async":
        raise _core.InvalidConfig(
            "pace must be lockstep for a sharded model, got 'async': the shards of a replica would meet in other rounds"
        )


def like(parameter: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor that is sharded like the parameter."""
    if not hasattr(parameter, "_local_tensor"):
        return values
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        values,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def _leave(group: _fsdp.Group, flat: torch.Tensor, factor: float, divisor: float) -> None:
    """A replica's own gradient; where sums over replicas are expected, as if all had the same."""
    if factor != 1.0:
        flat.mul_(factor)


def _inner(tensor: torch.Tensor) -> torch.Tensor:
    """The very tensor inside a DTensor: it keeps its identity and counts its changes."""
    found: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return found


def _mapped(state: Mapping[str, Any], change: Any) -> dict[str, Any]:
    found = copy.copy(dict(state))
    found["state"] = {
        number: {name: change(number, value) for name, value in values.items()}
        for number, values in state["state"].items()
    }
    return found
