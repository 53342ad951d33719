"""The state of laconic.Optimizer as entries of a state dict, under keys that carry the rank."""

from __future__ import annotations

import contextlib
import ctypes
import io
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist

from . import _core, _state

MEMORY = "optimizer"  # the method's
INNER = "inner"  # the torch optimizer's


class Saved:
    """A rank's part of a checkpoint. Distributed checkpoint loads a tensor only into one of its size, and sizes grow with
    a run's first steps; what is no tensor it takes as it comes."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return Saved, (self.value,)


torch.serialization.add_safe_globals([Saved])


def pack(host: _core.OptimizerHost, inner: torch.optim.Optimizer) -> dict[str, Any]:
    return {
        _state.key(MEMORY, host.rank, host.ranks): Saved(host.save()),
        _state.key(INNER, host.rank, host.ranks): Saved(inner.state_dict()),
    }


def gather(state_dict: Mapping[str, Any], group: dist.ProcessGroup | None) -> dict[str, Any]:
    """All ranks' entries together, on every rank. Collective."""
    as_bytes = {key: _to_bytes(saved) for key, saved in state_dict.items()}
    return {key: _from_bytes(data) for key, data in _state.gather(as_bytes, group).items()}


def load(host: _core.OptimizerHost, inner: torch.optim.Optimizer, state_dict: Mapping[str, Any]) -> None:
    """This rank's part, or why there is none: all ranks load, or all refuse."""
    refusal = ""
    memory = torch.empty(0, dtype=torch.uint8)
    kept = None
    try:
        memory = _memory(state_dict, host.rank, host.ranks)
        settings = _part(INNER, state_dict, host.rank, host.ranks)
        kept = _taken(inner, settings)
    except Exception as error:
        refusal = _state.refusal_of(error)
        if "cannot be loaded by" in refusal:
            refusal += "; load_state_dict(states, redeal=True) deals the states of all these ranks anew"
    with _given_back(inner, kept):
        host.load(memory, refusal)  # raises the refusal here, and that there was one on the other ranks


def redeal(
    host: _core.OptimizerHost, inner: torch.optim.Optimizer, state_dict: Mapping[str, Any], own_steps: bool
) -> None:
    """From the parts of all ranks that there were. `own_steps`: the optimizers inside remember what differs by rank."""
    refusal = ""
    memories: list[torch.Tensor] = []
    settings: list[Any] = []
    kept = None
    try:
        ranks = _saved_ranks(state_dict)
        memories = [_memory(state_dict, rank, ranks) for rank in range(ranks)]
        settings = [_part(INNER, state_dict, rank, ranks) for rank in range(ranks)]
        for each in settings:
            _require_same_groups(each, inner)
        kept = _taken(inner, _mean_of(settings) if own_steps else settings[0])
    except Exception as error:
        refusal = _state.refusal_of(error)
    with _given_back(inner, kept):
        host.redeal(memories, refusal)


def _taken(inner: torch.optim.Optimizer, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the optimizer had until it took this, or InvalidConfig and nothing has changed: torch's load_state_dict makes
    state and groups anew and puts them in the old ones' place last of all."""
    _require_same_groups(settings, inner)
    kept = {"state": inner.state, "param_groups": inner.param_groups}
    inner.load_state_dict(dict(settings))
    return kept


@contextlib.contextmanager
def _given_back(inner: torch.optim.Optimizer, kept: dict[str, Any] | None) -> Iterator[None]:
    """If what happens meanwhile fails, the optimizer has what it had."""
    try:
        yield
    except BaseException:
        if kept is not None:
            inner.__dict__.update(kept)
        raise


def _require_same_groups(settings: Mapping[str, Any], inner: torch.optim.Optimizer) -> None:
    try:
        sizes = [len(group["params"]) for group in settings["param_groups"]]
    except (KeyError, TypeError):
        raise _core.InvalidConfig(
            "the state of the optimizer inside has no groups of parameters: load what state_dict() gave"
        ) from None
    own = [len(group["params"]) for group in inner.param_groups]
    if sizes != own:
        raise _core.InvalidConfig(
            f"the state has groups of {sizes} parameters, this optimizer of {own}: make it as it was when it was saved"
        )


def _mean_of(settings: list[Any]) -> Any:
    """A copy of the first, with momenta and their like replaced by their mean over the ranks."""
    merged = {**settings[0], "state": {key: dict(values) for key, values in settings[0]["state"].items()}}
    for parameter, values in merged["state"].items():
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() > 0:
                others = [each["state"][parameter][name].float() for each in settings]
                values[name] = (sum(others[1:], others[0]) / len(others)).to(value.dtype)
    return merged


def _part(name: str, state_dict: Mapping[str, Any], rank: int, ranks: int) -> Any:
    saved = state_dict.get(_state.key(name, rank, ranks))
    if saved is None:
        _state.unpack(name, state_dict, rank, ranks)  # says whose state stands there instead
    if not isinstance(saved, Saved):
        raise _core.InvalidConfig(f"the state of {name} is a {type(saved).__name__}: load what state_dict() gave")
    return saved.value


def _memory(state_dict: Mapping[str, Any], rank: int, ranks: int) -> torch.Tensor:
    return _state.host_bytes(_part(MEMORY, state_dict, rank, ranks), _state.key(MEMORY, rank, ranks))


def _saved_ranks(state_dict: Mapping[str, Any]) -> int:
    """How many ranks saved this."""
    sizes = _state.saved_sizes(MEMORY, state_dict)
    if len(sizes) != 1:
        raise _core.InvalidConfig(
            f"to deal states anew there must be those of all ranks of one run, got those of {len(sizes)} runs: "
            "give what gather_state_dict() gave"
        )
    return sizes[0]


def _to_bytes(saved: Saved) -> torch.Tensor:
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def _from_bytes(data: torch.Tensor) -> Saved:
    data = data.contiguous()
    # To the host: another rank's tensors would come to that rank's device.
    file = io.BytesIO(ctypes.string_at(data.data_ptr(), data.numel()))
    saved: Saved = torch.load(file, map_location="cpu", weights_only=True)
    return saved
