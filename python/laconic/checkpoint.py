"""How states are saved and loaded.

Call the methods of `laconic.State` and `laconic.Optimizer`:

    torch.save(state.state_dict(), f"rank{rank}.pt")      # each rank its own file, or distributed checkpoint
    states = state.gather_state_dict()                    # all ranks' entries, for one file. Collective
    state.load_state_dict(torch.load(f"rank{rank}.pt"))   # either of them. Collective
    optimizer.load_state_dict(states, redeal=True)        # for another number of ranks: Optimizer only

A state dict has an entry per rank and object, and its key carries the rank: `laconic/rank0of4/hook`. Distributed
checkpoint keeps one copy of a plain tensor that several ranks save under the same key, so keys must differ. A rank
loads only what the same rank of the same number of ranks saved, unless states are dealt anew. A hook has one entry, a
tensor of bytes. An optimizer has two: the method's memory, and the state of the torch optimizer inside, each a `Saved`.

`Saved` is the only name here for users: torch.load with weights_only=True knows it once laconic is imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from . import _core, _process_groups
from ._core import InvalidConfig

if TYPE_CHECKING:
    from . import _shards  # which saves with this module

__all__ = ["Saved"]

HOOK = "hook"
MEMORY = "optimizer"  # the method's
INNER = "inner"  # the torch optimizer's
_KEY = re.compile(r"^laconic/rank(\d+)of(\d+)/(.+)$")


class Saved:
    """A rank's part of an optimizer's checkpoint: `value` is what was saved.

    Distributed checkpoint loads a tensor only into one of the same size, and a method's memory grows during the first
    steps of a run. It loads any other object as it was saved.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return Saved, (self.value,)


# Earlier checkpoints name this class laconic._optimizer_state.Saved.
sys.modules[f"{__package__}._optimizer_state"] = sys.modules[__name__]
torch.serialization.add_safe_globals([Saved, (Saved, "laconic._optimizer_state.Saved")])


class _OtherRankCount(InvalidConfig):
    """The state was saved by another number of ranks."""


def save_hook(host: _core.DdpHost, rank: int, size: int) -> dict[str, torch.Tensor]:
    return {_key(HOOK, rank, size): host.save()}


def load_hook(host: _core.DdpHost, state_dict: Mapping[str, Any], rank: int, size: int) -> None:
    """Loads this rank's part on all ranks, or raises InvalidConfig on all of them."""
    refusal = ""
    saved = torch.empty(0, dtype=torch.uint8)
    try:
        saved = _cpu_bytes(_entry(HOOK, state_dict, rank, size), _key(HOOK, rank, size))
    except Exception as error:
        refusal = _refusal(error)
    host.load(saved, refusal)  # raises the refusal here, and reports it to the other ranks


def load_shard(host: _core.FsdpHost, state_dict: Mapping[str, Any], key: str) -> None:
    """Loads this rank's part on all ranks that hold the same shards, or raises InvalidConfig on all of them."""

    def found() -> torch.Tensor:
        if key not in state_dict:
            own = [each for each in map(str, state_dict) if _KEY.match(each)]
            raise InvalidConfig(
                f"the state has no entry {key}, it has {', '.join(own) or 'none of laconic'}: load what "
                "rank_state_dict() gave on this rank, with the same numbers of replicas and shards"
            )
        return _cpu_bytes(state_dict[key], key)

    load_bytes(host, found)


def load_bytes(host: _core.FsdpHost, make: Callable[[], torch.Tensor]) -> None:
    """Loads what `make` returns on all replicas, or raises InvalidConfig on all of them."""
    refusal = ""
    saved = torch.empty(0, dtype=torch.uint8)
    try:
        saved = make()
    except Exception as error:
        refusal = _refusal(error)
    host.load(saved, refusal)  # raises the refusal here, and reports it to the other ranks


def gather(state_dict: Mapping[str, torch.Tensor], group: dist.ProcessGroup | None = None) -> dict[str, torch.Tensor]:
    """All ranks' entries of bytes together, on every rank. Collective over the user's group."""
    size = dist.get_world_size(group)
    device = _process_groups.device_of(group)
    merged: dict[str, torch.Tensor] = {}
    for each in sorted(state_dict):
        match = _KEY.match(each)
        if match is None:
            raise InvalidConfig(f"entry {each} is not one that state_dict() gives")
        mine = state_dict[each].to(device)
        lengths = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(size)]
        dist.all_gather(lengths, torch.tensor([mine.numel()], device=device), group=group)
        longest = int(max(length.item() for length in lengths))
        padded = torch.zeros(longest, dtype=torch.uint8, device=device)
        padded[: mine.numel()] = mine
        parts = [torch.empty_like(padded) for _ in range(size)]
        dist.all_gather(parts, padded, group=group)
        for rank, (part, length) in enumerate(zip(parts, lengths, strict=True)):
            merged[_key(match[3], rank, size)] = part[: int(length.item())].cpu().clone()
    return merged


def save_optimizer(
    host: _core.OptimizerHost, inner: torch.optim.Optimizer, shards: _shards.Shards | None = None
) -> dict[str, Any]:
    place, state = "", inner.state_dict()
    if shards is not None:
        place, state = shards.place, shards.plain_state(state)
    return {
        _key(place + MEMORY, host.rank, host.ranks): Saved(host.save()),
        _key(place + INNER, host.rank, host.ranks): Saved(state),
    }


def gather_optimizer(state_dict: Mapping[str, Any], group: dist.ProcessGroup | None) -> dict[str, Any]:
    """As `gather`, for the entries of an optimizer. Collective over the user's group."""
    as_bytes = {key: _to_bytes(saved) for key, saved in state_dict.items()}
    return {key: _from_bytes(data) for key, data in gather(as_bytes, group).items()}


def load_optimizer(
    host: _core.OptimizerHost,
    inner: torch.optim.Optimizer,
    state_dict: Mapping[str, Any],
    shards: _shards.Shards | None = None,
) -> None:
    """Loads this rank's part on all ranks, or raises InvalidConfig on all of them."""
    refusal = ""
    memory = torch.empty(0, dtype=torch.uint8)
    kept = None
    place = "" if shards is None else shards.place
    try:
        memory = _memory(state_dict, host.rank, host.ranks, place)
        kept = _replaced(inner, _part(place + INNER, state_dict, host.rank, host.ranks), shards)
    except _OtherRankCount as error:
        refusal = f"{error}; load_state_dict(states, redeal=True) deals the states of all these ranks anew"
    except Exception as error:
        refusal = _refusal(error)
    with _restored_on_error(inner, kept):
        host.load(memory, refusal)  # raises the refusal here, and reports it to the other ranks


def redeal_optimizer(
    host: _core.OptimizerHost,
    inner: torch.optim.Optimizer,
    state_dict: Mapping[str, Any],
    memory: str,
    shards: _shards.Shards | None = None,
) -> None:
    """As `load_optimizer`, from the parts of all ranks of a run with any number of ranks.

    `memory` of the optimizers inside: "first" if it is the same on all ranks; "mean" loads the ranks' mean; "own" leaves
    each rank its own and gives a new rank none.
    """
    refusal = ""
    memories: list[torch.Tensor] = []
    kept = None
    place = "" if shards is None else shards.place
    try:
        ranks = _saved_ranks(state_dict, place)
        memories = [_memory(state_dict, rank, ranks, place) for rank in range(ranks)]
        states = [_part(place + INNER, state_dict, rank, ranks) for rank in range(ranks)]
        for each in states:
            _require_same_groups(each, inner)
        kept = _replaced(inner, _dealt(states, memory, host.rank), shards)
    except Exception as error:
        refusal = _refusal(error)
    with _restored_on_error(inner, kept):
        host.redeal(memories, refusal)


def _key(name: str, rank: int, size: int) -> str:
    return f"laconic/rank{rank}of{size}/{name}"


def _keys_of(name: str, state_dict: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Rank and number of ranks of every entry of that name."""
    matches = (_KEY.match(str(each)) for each in state_dict)
    return [(int(match[1]), int(match[2])) for match in matches if match and match[3] == name]


def _entry(name: str, state_dict: Mapping[str, Any], rank: int, size: int) -> Any:
    """This rank's entry. Entries of other ranks may be in the dict too. InvalidConfig: there is none."""
    found = state_dict.get(_key(name, rank, size))
    if found is not None:
        return found
    saved_by = sorted(_keys_of(name, state_dict))
    if not saved_by:
        names = sorted({match[3] for match in (_KEY.match(str(each)) for each in state_dict) if match})
        others = f", only of {', '.join(names)}" if names else ""
        raise InvalidConfig(f"the state dict has no state of {name!r}{others}: load what state_dict() gave")
    sizes = sorted({saved_size for _, saved_size in saved_by})
    if size not in sizes:
        raise _OtherRankCount(
            f"the state was saved by {sizes[0]} ranks and cannot be loaded by {size}: "
            f"start {sizes[0]} ranks, or leave the state out and start with empty residuals"
        )
    ranks = ", ".join(str(saved_rank) for saved_rank, saved_size in saved_by if saved_size == size)
    raise InvalidConfig(
        f"the state is of rank {ranks}, this is rank {rank} of {size}: "
        "each rank loads its own; gather_state_dict() puts all ranks' into one"
    )


def _part(name: str, state_dict: Mapping[str, Any], rank: int, size: int) -> Any:
    saved = _entry(name, state_dict, rank, size)
    if not isinstance(saved, Saved):
        raise InvalidConfig(f"the state of {name} is a {type(saved).__name__}: load what state_dict() gave")
    return saved.value


def _memory(state_dict: Mapping[str, Any], rank: int, size: int, place: str = "") -> torch.Tensor:
    return _cpu_bytes(_part(place + MEMORY, state_dict, rank, size), _key(place + MEMORY, rank, size))


def _cpu_bytes(found: Any, entry: str) -> torch.Tensor:
    """Saved bytes in CPU memory: torch.load may have put them on a device."""
    if not isinstance(found, torch.Tensor) or found.dtype != torch.uint8:
        raise InvalidConfig(f"entry {entry} is no tensor of bytes: load what state_dict() gave")
    if found.is_meta:
        raise InvalidConfig(f"entry {entry} lies on device meta and has no bytes: load it to the CPU or to a GPU")
    return found.detach().cpu().contiguous()


def _saved_ranks(state_dict: Mapping[str, Any], place: str = "") -> int:
    """How many ranks saved this."""
    sizes = {size for _, size in _keys_of(place + MEMORY, state_dict)}
    if len(sizes) != 1:
        raise InvalidConfig(
            f"to deal states anew there must be those of all ranks of one run, got those of {len(sizes)} runs: "
            "give what gather_state_dict() gave"
        )
    return sizes.pop()


def _refusal(error: Exception) -> str:
    """Why a state cannot be loaded. The other ranks get this text too, whatever kind of error this rank met."""
    if isinstance(error, InvalidConfig):
        return str(error)
    return f"the state cannot be read ({error!r}): load what state_dict() gave"


def _replaced(
    inner: torch.optim.Optimizer, state: Mapping[str, Any], shards: _shards.Shards | None = None
) -> dict[str, Any]:
    """Loads the state and returns what the optimizer had before. If it raises, nothing has changed: torch's
    load_state_dict makes state and groups anew and assigns them last of all."""
    _require_same_groups(state, inner)
    kept = {"state": inner.state, "param_groups": inner.param_groups}
    inner.load_state_dict(dict(state) if shards is None else shards.sharded_state(state, inner))
    return kept


@contextlib.contextmanager
def _restored_on_error(inner: torch.optim.Optimizer, kept: dict[str, Any] | None) -> Iterator[None]:
    """If the block raises, the optimizer gets back what it had."""
    try:
        yield
    except BaseException:
        if kept is not None:
            inner.__dict__.update(kept)
        raise


def _require_same_groups(state: Mapping[str, Any], inner: torch.optim.Optimizer) -> None:
    try:
        sizes = [len(group["params"]) for group in state["param_groups"]]
    except (KeyError, TypeError):
        raise InvalidConfig(
            "the state of the optimizer inside has no groups of parameters: load what state_dict() gave"
        ) from None
    own = [len(group["params"]) for group in inner.param_groups]
    if sizes != own:
        raise InvalidConfig(
            f"the state has groups of {sizes} parameters, this optimizer of {own}: make it as it was when it was saved"
        )


def _dealt(states: list[Any], memory: str, rank: int) -> Any:
    if memory == "mean":
        return _mean_of(states)
    if memory == "first":
        return states[0]
    return states[rank] if rank < len(states) else {**states[0], "state": {}}


def _mean_of(states: list[Any]) -> Any:
    """A copy of the first state, with momenta and similar tensors replaced by their mean over the ranks."""
    merged = {**states[0], "state": {key: dict(values) for key, values in states[0]["state"].items()}}
    for parameter, values in merged["state"].items():
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() > 0:
                others = [each["state"][parameter][name].float() for each in states]
                values[name] = (sum(others[1:], others[0]) / len(others)).to(value.dtype)
    return merged


def _to_bytes(saved: Saved) -> torch.Tensor:
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def _from_bytes(data: torch.Tensor) -> Saved:
    data = data.contiguous()
    # To the host: another rank's tensors would be loaded to that rank's device.
    file = io.BytesIO(ctypes.string_at(data.data_ptr(), data.numel()))
    saved: Saved = torch.load(file, map_location="cpu", weights_only=True)
    return saved
