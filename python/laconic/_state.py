"""Saved state as entries of a state dict: one uint8 tensor a rank, under a key that carries the rank.

Distributed checkpoint keeps one copy of a plain tensor that several ranks save under the same key, so the key must
differ from rank to rank: ``laconic/rank0of4/hook``. What a rank saved is loaded by the same rank of as many ranks, and
refused otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from laconic import _groups
from laconic._core import InvalidConfig

_KEY = re.compile(r"^laconic/rank(\d+)of(\d+)/(.+)$")


def key(name: str, rank: int, size: int) -> str:
    """Where the rank's state of that name stands."""
    return f"laconic/rank{rank}of{size}/{name}"


def pack(name: str, data: torch.Tensor, rank: int, size: int) -> dict[str, torch.Tensor]:
    """A state dict with one entry: bytes as the module gives them."""
    return {key(name, rank, size): data}


def unpack(name: str, state_dict: Mapping[str, Any], rank: int, size: int) -> torch.Tensor:
    """This rank's bytes. Entries of others may stand beside them, as gather puts them there."""
    found = state_dict.get(key(name, rank, size))
    if found is None:
        raise InvalidConfig(_why_not(name, state_dict, rank, size))
    return host_bytes(found, key(name, rank, size))


def host_bytes(found: Any, entry: str) -> torch.Tensor:
    """Saved bytes where the host can read them: torch.load may have put them on a device."""
    if not isinstance(found, torch.Tensor) or found.dtype != torch.uint8:
        raise InvalidConfig(f"entry {entry} is no tensor of bytes: load what state_dict() gave")
    if found.is_meta:
        raise InvalidConfig(f"entry {entry} lies on device meta and has no bytes: load it to the CPU or to a GPU")
    return found.detach().cpu().contiguous()


def refusal_of(error: Exception) -> str:
    """Why a state was refused, for the other ranks too: they are not to wait for one that met something odd."""
    if isinstance(error, InvalidConfig):
        return str(error)
    return f"the state cannot be read ({error!r}): load what state_dict() gave"


def gather(state_dict: Mapping[str, torch.Tensor], group: dist.ProcessGroup | None = None) -> dict[str, torch.Tensor]:
    """All ranks' entries together, on every rank, for those who save from one. Collective, over the user's group."""
    size = dist.get_world_size(group)
    device = _groups.device_of(group)
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
            merged[key(match[3], rank, size)] = part[: int(length.item())].cpu().clone()
    return merged


def saved_sizes(name: str, state_dict: Mapping[str, Any]) -> list[int]:
    """How many ranks saved what stands there under that name; several where runs were mixed."""
    matches = (_KEY.match(str(each)) for each in state_dict)
    return sorted({int(match[2]) for match in matches if match and match[3] == name})


def _why_not(name: str, state_dict: Mapping[str, Any], rank: int, size: int) -> str:
    """What stands there instead."""
    matches = [match for match in (_KEY.match(str(each)) for each in state_dict) if match and match[3] == name]
    if not matches:
        names = sorted({match[3] for match in (_KEY.match(str(each)) for each in state_dict) if match})
        others = f", only of {', '.join(names)}" if names else ""
        return f"the state dict has no state of {name!r}{others}: load what state_dict() gave"
    sizes = saved_sizes(name, state_dict)
    if size not in sizes:
        return (
            f"the state was saved by {sizes[0]} ranks and cannot be loaded by {size}: "
            f"start {sizes[0]} ranks, or leave the state out and start with empty residuals"
        )
    ranks = sorted(int(match[1]) for match in matches if int(match[2]) == size)
    return (
        f"the state is of rank {', '.join(map(str, ranks))}, this is rank {rank} of {size}: "
        "each rank loads its own; gather_state_dict() puts all ranks' into one"
    )
