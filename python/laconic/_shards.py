"""A rank's shards of a sharded model: as laconic.Optimizer works on them, and as checkpoints hold them.

`Shards` gives an optimizer's host the tensors inside DTensors, with the gradients of this replica alone.

`ShardStates` saves the memory of a method as one DTensor per parameter and replica, which distributed checkpoint can
shard anew. A host's state has arrays with a value for each entry of a parameter (residual, momentum), and a rest: counts,
settings, and what depends on how entries lie in this rank's shards. The arrays are saved as DTensors,
`residual/NAME.of2.0` for replica 0 of 2. The rest is one object per replica, with a part for each shard.

- The same numbers of replicas and shards: all of it is loaded, and the run continues bit for bit.
- Another number of shards: arrays are sharded anew. Of the rest a method keeps what it keeps when ranks come and go.
- Another number of replicas: every new replica takes the mean of the old ones' arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from . import _core, _fsdp, _process_groups, _selection
from .checkpoint import Saved

Value = torch.Tensor | float | str
Entries = dict[str, Value]

_REST = "rest"
_ARRAY = re.compile(r"^(?P<array>[^/]+)/(?P<name>.+)\.of(?P<replicas>\d+)\.(?P<replica>\d+)$")
_REST_KEY = re.compile(rf"^{_REST}\.of(?P<replicas>\d+)\.(?P<replica>\d+)$")
# Of this rank and its shards, whatever run a state is from.
_OWN = ("rank", "ranks", "parameters")


class Shards:
    """The shards of the parameters that an optimizer trains.

    Hosts of C++ take plain tensors. A shard is the tensor inside a DTensor; for the time of a step it holds the DTensor's
    gradient too.
    """

    def __init__(self, model: torch.nn.Module, sharding: _fsdp.Sharding) -> None:
        self._model = model
        self.sharding = sharding
        self._parameters: list[torch.Tensor] = []

    @property
    def replicas(self) -> dist.ProcessGroup:
        return self.sharding.replicas

    @property
    def place(self) -> str:
        return place_of(self.sharding)

    def require_replicas(self, names: Sequence[str], parameters: Sequence[torch.Tensor]) -> None:
        """Raises InvalidConfig for a parameter of which other ranks have no copy: its mean would be of different shards."""
        replicated = {id(each) for each in self.sharding.parameters}
        for name, each in zip(names, parameters, strict=True):
            if id(each) in replicated:
                continue
            if id(each) in self.sharding.alone:
                raise _core.InvalidConfig(
                    f"parameter {name} is sharded over all ranks and has no replicas: leave it to an optimizer of its own, "
                    "or use laconic.attach"
                )
            raise _core.InvalidConfig(
                f"parameter {name} is not in fully_shard (ignored_params), so that its gradient is not reduced inside a "
                "replica: leave it to an optimizer of its own, or shard it"
            )

    def take(self, parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """These are trained; their shards."""
        self._parameters = list(parameters)
        return [_inner(each) for each in self._parameters]

    def open_doors(self) -> None:
        """From now on backward leaves each replica its own gradients."""
        for group in self.sharding.groups:
            group.open_door(_leave)

    def close_doors(self) -> None:
        for group in self.sharding.groups:
            group.close_door()
        self.sharding.groups = []

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
                each.grad = _like(each, grad)

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
        if self.sharding.shards is None:
            return 1.0
        grads = [_inner(each.grad) for each in self._parameters if each.grad is not None]
        finite = torch.stack([torch.isfinite(each).all() for each in grads]).all() if grads else torch.tensor(True)
        flag = finite.to(self.sharding.device(), torch.int32)
        dist.all_reduce(flag, op=dist.ReduceOp.MIN, group=self.sharding.shards)
        return 1.0 if int(flag) else float("nan")

    def mean(self, value: float) -> float:
        """Over the ranks of this replica, each of which has a batch of its own."""
        if self.sharding.shards is None:
            return value
        total = torch.tensor(value, dtype=torch.float64, device=self.sharding.device())
        dist.all_reduce(total, group=self.sharding.shards)
        return float(total) / dist.get_world_size(self.sharding.shards)

    def average(self, tensors: Sequence[torch.Tensor]) -> None:
        """Over the ranks of this replica."""
        if self.sharding.shards is None:
            return
        for each in tensors:
            dist.all_reduce(each, group=self.sharding.shards)
            each.div_(dist.get_world_size(self.sharding.shards))

    def plain_state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state of an optimizer with shards in the place of DTensors."""
        return _mapped(state, lambda _, value: _inner(value) if isinstance(value, torch.Tensor) else value)

    def sharded_state(self, state: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """And back."""
        parameters = [each for group in optimizer.param_groups for each in group["params"]]

        def wrapped(number: int, value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.shape != _inner(parameters[number]).shape or value.dim() == 0:
                return value
            return _like(parameters[number], value)

        return _mapped(state, wrapped)


def place_of(sharding: _fsdp.Sharding) -> str:
    """Which shard of how many this rank has, for keys of saved states."""
    shards = sharding.shards
    return "" if shards is None else f"shard{dist.get_rank(shards)}of{dist.get_world_size(shards)}/"


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


def _like(parameter: Any, values: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor that is sharded like the parameter."""
    if not hasattr(parameter, "_local_tensor"):
        return values
    return _dtensor(values, parameter.device_mesh, parameter.placements, parameter)


def _dtensor(values: torch.Tensor, mesh: Any, placements: Any, parameter: torch.Tensor) -> torch.Tensor:
    """A DTensor with the parameter's whole shape, of which `values` are this rank's part."""
    from torch.distributed.tensor import DTensor

    shape, stride = parameter.shape, parameter.stride()
    return DTensor.from_local(values, mesh, placements, run_check=False, shape=shape, stride=stride)


def _leave(group: _fsdp.Group, flat: torch.Tensor, factor: float, divisor: float) -> None:
    """A replica's own gradient; where sums over replicas are expected, as if all had the same."""
    if factor != 1.0:
        flat.mul_(factor)


def _inner(tensor: torch.Tensor) -> torch.Tensor:
    """The very tensor inside a DTensor: it keeps its identity and counts its changes."""
    found: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return found


def _mapped(state: Mapping[str, Any], change: Any) -> dict[str, Any]:
    found = dict(state)
    found["state"] = {
        number: {name: change(number, value) for name, value in values.items()}
        for number, values in state["state"].items()
    }
    return found


class ShardStates:
    """Converts between a host's states and entries of a checkpoint, for one rank."""

    def __init__(self, host: Any, sharding: _fsdp.Sharding, groups: _selection.Groups) -> None:
        self._host = host
        self._sharding = sharding
        self._groups = groups
        self._arrays = [_core.entries_per_value(method, texts) for method, texts, _ in self._groups]
        self._sizes = [each.numel() for each in sharding.locals()]
        self._replica, self._replicas = dist.get_rank(sharding.replicas), dist.get_world_size(sharding.replicas)
        shards = sharding.shards
        self._shard = 0 if shards is None else dist.get_rank(shards)
        self._shards = 1 if shards is None else dist.get_world_size(shards)

    def saved(self) -> dict[str, Any]:
        """Collective over the shards of a replica."""
        entries = self._folded(dict(_core.state_entries(self._host.save())))
        found: dict[str, Any] = {}
        for number, (_, _, members) in enumerate(self._groups):
            for array in self._arrays[number]:
                values = entries.pop(f"group {number}/{array}")
                assert isinstance(values, torch.Tensor)
                for index, part in zip(members, torch.split(values, [self._sizes[i] for i in members]), strict=True):
                    found[self._key(array, index)] = self._like(index, part)
        rest = _core.state_with(list(entries.items()))
        found[f"{_REST}.of{self._replicas}.{self._replica}"] = Saved({"shards": self._of_all_shards(rest)})
        return found

    def loaded(self, state_dict: Mapping[str, Any]) -> torch.Tensor:
        """The host's state from the entries of this replica. Raises InvalidConfig if one is missing."""
        return self._continued(
            self._replicas, self._replica, lambda key: state_dict.get(key), {str(each) for each in state_dict}
        )

    def redealt(self, read: Callable[[dict[str, Any]], None], keys: set[str]) -> torch.Tensor:
        """The host's state from a checkpoint with these keys of any number of replicas. `read` fills a dict in place."""
        olds = _one({int(match["replicas"]) for key in keys if (match := _REST_KEY.match(key))})
        states = []
        for old in range(olds):
            wanted: dict[str, Any] = {f"{_REST}.of{olds}.{old}": Saved({"shards": []})}
            for number, (_, _, members) in enumerate(self._groups):
                for array in self._arrays[number]:
                    for index in members:
                        key = self._key(array, index, olds, old)
                        wanted[key] = self._like(index, torch.zeros(self._sizes[index]))
            missing = sorted(wanted.keys() - keys)
            if missing:
                raise _core.InvalidConfig(_missing(missing[0], keys))
            read(wanted)
            states.append(self._continued(olds, old, wanted.get, keys))
        if olds == self._replicas:
            return states[self._replica]
        return self._dealt([dict(_core.state_entries(each)) for each in states])

    def _key(self, array: str, index: int, replicas: int | None = None, replica: int | None = None) -> str:
        of = self._replicas if replicas is None else replicas
        return f"{array}/{self._sharding.names[index]}.of{of}.{self._replica if replica is None else replica}"

    def _like(self, index: int, values: torch.Tensor) -> torch.Tensor:
        """Over the shards of one replica: every replica has its own."""
        inside = self._sharding.inside[index]
        parameter = inside.sharded_param
        values = values.reshape(_fsdp.local_of(parameter).shape)
        mesh = _fsdp.shard_mesh(inside)
        if mesh is None:
            return values
        return _dtensor(values, mesh, [parameter.placements[-1]], parameter)

    def _folded(self, entries: Entries) -> Entries:
        """Aggregates of parameters that no step has used since join the residuals: both are added to the next gradient."""
        carried, flags = entries.pop("carried", None), entries["is carried"]
        assert isinstance(flags, torch.Tensor)
        if not isinstance(carried, torch.Tensor):
            return entries
        for number, (_, _, members) in enumerate(self._groups):
            residual = entries.get(f"group {number}/residual")
            start = 0
            for index in members:
                if int(flags[index]) and isinstance(residual, torch.Tensor):
                    offset = sum(self._sizes[:index])
                    residual[start : start + self._sizes[index]] += carried[offset : offset + self._sizes[index]]
                start += self._sizes[index]
        entries["is carried"] = torch.zeros_like(flags)
        return entries

    def _of_all_shards(self, rest: torch.Tensor) -> list[torch.Tensor]:
        shards = self._sharding.shards
        if shards is None:
            return [rest]
        device = _process_groups.device_of(shards)
        length = torch.tensor([rest.numel()], device=device)
        lengths = [torch.zeros_like(length) for _ in range(self._shards)]
        dist.all_gather(lengths, length, group=shards)
        padded = torch.zeros(int(max(map(int, lengths))), dtype=torch.uint8, device=device)
        padded[: rest.numel()] = rest.to(device)
        parts = [torch.empty_like(padded) for _ in range(self._shards)]
        dist.all_gather(parts, padded, group=shards)
        return [part[: int(each)].cpu().clone() for part, each in zip(parts, lengths, strict=True)]

    def _continued(self, replicas: int, replica: int, get: Callable[[str], Any], keys: set[str]) -> torch.Tensor:
        """A state of this rank's shards, of one replica of a run."""
        key = f"{_REST}.of{replicas}.{replica}"
        saved = get(key)
        if not isinstance(saved, Saved):
            raise _core.InvalidConfig(_missing(key, keys))
        parts = saved.value["shards"]
        exact = len(parts) == self._shards
        rest = dict(_core.state_entries(parts[self._shard if exact else 0]))
        if not exact:
            rest = self._of_other_shards(rest, replicas, replica, len(parts))
        for number, (_, _, members) in enumerate(self._groups):
            for array in self._arrays[number]:
                values = []
                for index in members:
                    key = self._key(array, index, replicas, replica)
                    found = get(key)
                    if not isinstance(found, torch.Tensor):
                        raise _core.InvalidConfig(_missing(key, keys))
                    values.append(_fsdp.local_of(found).cpu().flatten())
                rest[f"group {number}/{array}"] = torch.cat(values)
        return _core.state_with(list(rest.items()))

    def _of_other_shards(self, rest: Entries, replicas: int, replica: int, shards: int) -> Entries:
        """Of a run with another number of shards: what methods keep when ranks come and go, and what is not as it was
        before the first step. `rest`: of its shard 0."""
        found: Entries = {name: value for name, value in _core.state_entries(self._host.save()) if "/" not in name}
        for name in ("seed", "step", "skipped"):
            found[name] = rest[name]
        for number, (method, texts, members) in enumerate(self._groups):
            names = [self._sharding.names[index] for index in members]
            own = [self._sizes[index] for index in members]
            fresh = dict(_core.state_entries(_core.fresh_state(method, texts, names, own, replica, replicas)))
            sizes = [self._first_shard(index, shards) for index in members]
            before = _nested(rest, number)
            for array in self._arrays[number]:
                before[array] = torch.zeros(sum(sizes))
            # What is looked for here is the same in all replicas, so this one's state stands for the others'.
            all_alike = [_core.state_with([*{**before, "rank": float(i)}.items()]) for i in range(replicas)]
            mine = _core.redealt_state(method, texts, names, sizes, all_alike, replica, replicas)
            started = dict(
                _core.state_entries(_core.fresh_state(method, texts, names, sizes, replica, replicas))
            )
            for name, value in _core.state_entries(mine):
                if name not in _OWN and not _same(value, started.get(name)) and _fits(value, fresh.get(name)):
                    fresh[name] = value
            found |= {f"group {number}/{name}": value for name, value in fresh.items()}
        return self._renamed(found, replicas, replica)

    def _first_shard(self, index: int, shards: int) -> int:
        """Entries of shard 0 of a parameter, in that number of shards."""
        parameter = self._sharding.inside[index].sharded_param
        placement = parameter.placements[-1] if hasattr(parameter, "placements") else None
        if placement is None or not placement.is_shard() or parameter.numel() == 0:
            return int(parameter.numel())
        whole = parameter.shape[placement.dim]
        return int(parameter.numel() // whole * min(whole, -(-whole // shards)))

    def _renamed(self, entries: Entries, replicas: int, replica: int) -> Entries:
        """As a state of that replica."""
        for prefix in ("", *(f"group {number}/" for number in range(len(self._groups)))):
            entries |= {f"{prefix}rank": float(replica), f"{prefix}ranks": float(replicas)}
        return entries

    def _dealt(self, states: list[Entries]) -> torch.Tensor:
        """Of all old replicas, in this rank's shards."""
        found = self._renamed({name: each for name, each in states[0].items() if "/" not in name}, 0, 0)
        for number, (method, texts, members) in enumerate(self._groups):
            old = [_core.state_with(list(_nested(each, number).items())) for each in states]
            names, sizes = [self._sharding.names[i] for i in members], [self._sizes[i] for i in members]
            mine = _core.redealt_state(method, texts, names, sizes, old, self._replica, self._replicas)
            found |= {f"group {number}/{name}": value for name, value in _core.state_entries(mine)}
        found |= {"rank": float(self._replica), "ranks": float(self._replicas)}
        return _core.state_with(list(found.items()))


def _same(value: Value, other: Value | None) -> bool:
    if isinstance(value, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(value, other)
    return value == other


def _fits(value: Value, other: Value | None) -> bool:
    if isinstance(value, torch.Tensor):
        return isinstance(other, torch.Tensor) and value.shape == other.shape
    return other is not None and not isinstance(other, torch.Tensor)


def _nested(entries: Entries, number: int) -> Entries:
    prefix = f"group {number}/"
    return {name.removeprefix(prefix): value for name, value in entries.items() if name.startswith(prefix)}


def _one(found: set[int]) -> int:
    if len(found) != 1:
        raise _core.InvalidConfig(
            f"the checkpoint has states of {len(found)} runs of laconic under this key: give the key under which one was "
            "saved"
        )
    return found.pop()


def _missing(key: str, keys: set[str]) -> str:
    runs = sorted({int(match["replicas"]) for each in keys if (match := _REST_KEY.match(each))})
    if not runs:
        return "the checkpoint has no state of laconic here: load what state_dict() gave"
    arrays = sorted({match["name"] for each in keys if (match := _ARRAY.match(each))})
    return (
        f"the state has no entry {key}: it is of {' and '.join(map(str, runs))} replicas and of parameters like "
        f"{', '.join(arrays[:3]) or 'none'}; load it with the same method, groups and number of replicas, or another "
        "number with load_checkpoint()"
    )
