"""Process groups of our own beside the user's: the same ranks, the same engine, nobody else's collectives."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from . import _core


def communicator(
    group: dist.ProcessGroup | None = None,
    *,
    backend: str | None = None,
    timeout: float | datetime.timedelta | None = None,
) -> _core.Communicator:
    """A communicator over the ranks of `group` (default: all ranks), on a new group with the same engine.

    Collective over these ranks. `backend` asks for another engine (gloo beside nccl, say); `timeout`, in seconds, is the
    group's own if it is not given.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise _core.InvalidConfig("there is no process group: call torch.distributed.init_process_group first")
    users = c10d._get_default_group() if group is None else group
    if dist.get_rank(users) < 0:
        raise _core.InvalidConfig("this rank is not in the process group: call this on the group's ranks alone")
    limit = _timeout_of(users) if timeout is None else timeout
    if not isinstance(limit, datetime.timedelta):
        limit = datetime.timedelta(seconds=limit)
    if limit <= datetime.timedelta(0):
        raise _core.InvalidConfig(f"timeout must be positive, got {limit.total_seconds()} seconds")
    make = _maker(users, backend or _backend_of(users), limit)
    own = make()
    return _core.c10d_communicator(own, _store_of(own), make, limit.total_seconds())


def _maker(users: dist.ProcessGroup, backend: str, limit: datetime.timedelta) -> Callable[[], dist.ProcessGroup]:
    """A callable that makes a group of the same ranks. Each call is collective over them."""
    ranks = dist.get_process_group_ranks(users)
    everybody = len(ranks) == dist.get_world_size()

    def make() -> dist.ProcessGroup:
        if not everybody:
            _require_same_count(users)
        made: dist.ProcessGroup = dist.new_group(
            ranks, timeout=limit, backend=backend, use_local_synchronization=not everybody
        )
        return made

    return make


def _require_same_count(users: dist.ProcessGroup) -> None:
    """torch names a group of some ranks after the number of groups that its ranks have: they would miss each other."""
    device = "cpu" if "cpu" in _backend_of(users) else "cuda"
    mine = torch.tensor([len(c10d._world.pg_names)], device=device)
    others = [torch.empty_like(mine) for _ in range(dist.get_world_size(users))]
    dist.all_gather(others, mine, group=users)
    counts = [int(other) for other in others]
    if len(set(counts)) > 1:
        raise _core.InvalidConfig(
            f"the ranks of this group are in different numbers of process groups ({counts}), and torch cannot make a "
            "further group for some ranks then: make groups symmetrically, or call this before the others are made"
        )


def _backend_of(group: dist.ProcessGroup) -> str:
    """As new_group takes it: "gloo", or "cpu:gloo,cuda:nccl" where devices differ."""
    return dist.get_backend_config(group)


def _timeout_of(group: dist.ProcessGroup) -> datetime.timedelta:
    for device in ("cpu", "cuda"):
        try:
            return group._get_backend(torch.device(device)).options._timeout
        except (RuntimeError, AttributeError):
            continue
    return c10d.default_pg_timeout


def _store_of(group: dist.ProcessGroup) -> Any:
    """The group's own part of the store, which no other group writes to."""
    return c10d._get_process_group_store(group)
