"""Which ranks are the replicas of a sharded model: those of its mesh, or those that the user names.

Nothing here is private to torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch.distributed as dist

from . import _core


def ranks_of(group: Any) -> list[int]:
    return list(dist.get_process_group_ranks(group))


def given(replicas: Any) -> dist.ProcessGroup | None:
    """The process group that the user means. Raises InvalidConfig for what is neither a group nor a dimension of a mesh."""
    if replicas is None:
        return None
    if isinstance(replicas, dist.ProcessGroup):
        _require_listed(replicas)
        return replicas
    names = getattr(replicas, "mesh_dim_names", None)
    if not hasattr(replicas, "get_group"):
        raise _core.InvalidConfig(
            f"replicas must be a process group or one dimension of a mesh, got {type(replicas).__name__}: "
            "give mesh['replicate']"
        )
    if replicas.ndim != 1:
        raise _core.InvalidConfig(f"replicas must be one dimension of a mesh, got {names}: give mesh['replicate']")
    group: dist.ProcessGroup = replicas.get_group()
    _require_listed(group)
    return group


def _require_listed(group: dist.ProcessGroup) -> None:
    """That torch knows the group's ranks, and that they stay."""
    if "ManagedProcessGroup" in (each.__name__ for each in type(group).__mro__):
        raise _core.InvalidConfig(
            "the replicas are connected by torchft's ManagedProcessGroup, whose ranks come and go while the model trains, "
            "and residuals cannot follow them: use a plain process group"
        )
    try:
        ranks_of(group)
    except (KeyError, ValueError):
        raise _core.InvalidConfig(
            f"replicas must be a process group that torch.distributed made, got a {type(group).__name__} that it does not "
            "list: give mesh['replicate'], or what torch.distributed.new_group returned"
        ) from None


def fit(replicas: dist.ProcessGroup, shards: Sequence[int]) -> bool:
    """Whether these ranks hold copies of this rank's shard, and not other shards, which `shards` hold."""
    return set(ranks_of(replicas)) & set(shards) == {dist.get_rank()}


def none_found(shards: Iterable[Sequence[int]], given: dist.ProcessGroup | None) -> str:
    """Why there are no replicas, and what to do. `shards`: the ranks over which each group of parameters is sharded."""
    ranks = max(shards, key=len)
    if given is not None:
        return (
            f"replicas are the ranks that hold copies of the same shards, and of {ranks_of(given)} some hold other shards "
            f"(the model is sharded over ranks {ranks}): give mesh['replicate']"
        )
    if len(ranks) < dist.get_world_size():
        return (
            f"the model is sharded over ranks {ranks} and fully_shard knows no replicas: give "
            "replicas=mesh['replicate'], or shard it on a 2-D mesh"
        )
    return (
        "every parameter is sharded over all ranks, so there is nothing between replicas to compress: make a mesh "
        "(replicas, shards) first"
    )


def common(
    of_meshes: Iterable[dist.ProcessGroup | None], given: dist.ProcessGroup | None, model: str
) -> dist.ProcessGroup:
    """The replicas' process group, which all groups of parameters have in common. None: a group's mesh has no replicas."""
    known = [group for group in of_meshes if group is not None]
    between = known[0] if known else given
    assert between is not None
    _require_listed(between)
    for group in known:
        if given is not None and ranks_of(group) != ranks_of(given):
            raise _core.InvalidConfig(
                f"{model} is replicated over ranks {ranks_of(group)} by its own mesh, and replicas says "
                f"{ranks_of(given)}: leave replicas out"
            )
        if ranks_of(group) != ranks_of(between):
            raise _core.InvalidConfig(
                f"parts of the model are replicated over ranks {ranks_of(between)} and others over {ranks_of(group)}: "
                "methods take one set of replicas"
            )
    return between
