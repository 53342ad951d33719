"""Process groups of our own, over the ranks of the user's group, with the engine that moves our messages."""

from __future__ import annotations

import contextlib
import copy
import datetime
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from . import _core

# An engine for devices alone ends the whole process when its own timeout has passed: ours must come first.
_ENGINE_GRACE = datetime.timedelta(seconds=30)
LONGEST = 1e9  # seconds
# That an engine of Gloo starts: it ends the process where it cannot.
_GLOO_THREADS = 3
# Where ranks that have a communicator tell of a failure (src/torch/plugin/c10d/failure_watch.cpp).
_FAILURE_KEY = "laconic/failure"
Made = TypeVar("Made")


def communicator(
    group: dist.ProcessGroup | None = None,
    *,
    backend: str | None = None,
    timeout: float | datetime.timedelta | None = None,
    staging: torch.device | None = None,
) -> _core.Communicator:
    """A communicator over the ranks of `group` (default: all ranks), on a new group of our own.

    Collective over these ranks. Its engine is the one that `group` has for CPU memory, or Gloo if it has none, as with
    NCCL. `backend` asks for another engine: with NCCL, bytes in CPU memory are copied to the current device and back,
    and those on the device are sent from there. `timeout`, in seconds, is the group's own by default. With `staging`,
    the engine gets tensors on that device, as NCCL does, although it could read CPU memory.
    """
    return opened(group, backend=backend, timeout=timeout, staging=staging)[0]


def opened(
    group: dist.ProcessGroup | None = None,
    *,
    backend: str | None = None,
    timeout: float | datetime.timedelta | None = None,
    staging: torch.device | None = None,
) -> tuple[_core.Communicator, Groups]:
    """A communicator, and the groups that it and its duplicates use. Close them when the communicators have ended."""
    users = given(group)
    limit = limit_of(users, timeout)
    require_engine(backend)
    engine = backend or _cpu_engine(users)
    groups: Groups = _GlooGroups(users, limit, staging) if engine == "gloo" else _ListedGroups(users, engine, limit)
    own = groups.make()
    made = _core.c10d_communicator(own, groups.store, groups.make, limit.total_seconds(), staging, groups.part)
    return made, groups


class Groups:
    """Makes groups of the same ranks with one engine. Each call of `make` is collective over them."""

    store: Any  # ours alone, from the first group on

    def make(self) -> dist.ProcessGroup:
        raise NotImplementedError

    def part(self, ranks: list[int]) -> Groups:
        """Groups of some of the ranks, given in the order of the new ones, this one among them."""
        raise NotImplementedError

    def connected(self) -> None:
        """Call it when this rank has made all groups. The last rank deletes the keys with which they found each other."""

    def close(self) -> None:
        """Releases the groups that do not end by themselves."""


class _GlooGroups(Groups):
    """Groups that are not in torch's list, and that end when nobody holds them. Groups in the list stay until they are
    destroyed on all ranks, and torch names groups of some ranks after the length of the list."""

    def __init__(
        self, users: dist.ProcessGroup, limit: datetime.timedelta, staging: torch.device | None = None
    ) -> None:
        self._rank, self._size, self._limit = dist.get_rank(users), dist.get_world_size(users), limit
        self._devices = {"cpu", staging.type if staging else "cpu"}  # Gloo takes both
        store = keys_of(users)
        with as_transport_error("the store of the process group does not answer"):
            number = store.add(f"groups/{self._rank}", 1)  # the same on all ranks, which make them together
        self._number = 0
        self._written: list[Any] = []  # stores with keys of this rank
        self._parts: list[_GlooGroups] = []
        self._names = list(range(self._size))  # of the ranks, in messages: a part's count otherwise
        self.store = c10d.PrefixStore(f"groups/{number}", store)
        self._failures = self.store  # where failures are told, of parts too

    def make(self) -> dist.ProcessGroup:
        self._number += 1
        keys = c10d.PrefixStore(f"group {self._number}", self.store)
        self._written.append(keys)
        try:
            self._meet(keys)
        except Exception:
            self._leave(keys)
            raise
        with self._connecting():
            made = dist.ProcessGroup(keys, self._rank, self._size)
            engine = dist.ProcessGroupGloo(keys, self._rank, self._size, self._limit)
        for device in self._devices:
            made._register_backend(torch.device(device), dist.ProcessGroup.BackendType.GLOO, engine)
        return made

    def part(self, ranks: list[int]) -> Groups:
        part = copy.copy(self)
        part._rank, part._size = ranks.index(self._rank), len(ranks)
        part._names = [self._names[rank] for rank in ranks]
        part._number, part._written, part._parts = 0, [], []
        part.store = c10d.PrefixStore(f"part {len(self._parts)} {ranks[0]}", self.store)
        self._parts.append(part)
        return part

    def connected(self) -> None:
        for part in self._parts:
            part.connected()
        while self._written:
            keys = self._written.pop()
            with contextlib.suppress(RuntimeError):  # the store may have ended, and with it all that it held
                if keys.add("connected", 1) == self._size:  # before, another rank may still read them
                    for rank in range(self._size):
                        keys.delete_key(_here(rank))
                        keys.delete_key(f"0/{rank}")  # Gloo's
                    keys.delete_key("connected")

    def close(self) -> None:
        self.connected()

    def _reserved_threads(self, keys: Any) -> _core.ReservedThreads:
        """As many as Gloo starts, held until all ranks have theirs: Gloo ends a process that it has no threads in."""
        try:
            return _core.ReservedThreads(_GLOO_THREADS, "a process group of Gloo")
        except RuntimeError as error:
            with as_transport_error("the store of the process group does not answer"):
                keys.set("refused", json.dumps([self._names[self._rank], str(error)]))
            raise

    def _connecting(self) -> contextlib.AbstractContextManager[None]:
        return as_transport_error(f"rank {self._names[self._rank]} could not connect a process group with the others")

    def _meet(self, keys: Any) -> None:
        """Returns when every rank is ready to make its part. In Gloo, ranks would wait for one that is not until the
        timeout, and not learn which rank it is or why."""
        threads = self._reserved_threads(keys)
        try:
            with self._connecting():
                self._wait_for_all(keys)
        finally:
            threads.release()

    def _wait_for_all(self, keys: Any) -> None:
        keys.set(_here(self._rank), "")
        everybody = [_here(rank) for rank in range(self._size)]
        deadline = time.monotonic() + self._limit.total_seconds()
        pause = 0.001
        while not keys.check(everybody):
            if keys.check(["refused"]):
                rank, reason = json.loads(keys.get("refused"))
                raise _core.TransportError(f"rank {rank} failed: {reason}")
            if self._failures.check([_FAILURE_KEY]):
                raise _core.TransportError(self._failures.get(_FAILURE_KEY).decode())
            if time.monotonic() > deadline:
                missing = [str(self._names[rank]) for rank, name in enumerate(everybody) if not keys.check([name])]
                raise _core.TransportError(
                    f"rank {', '.join(missing)} did not come to open a process group within "
                    f"{self._limit.total_seconds():g} s: it has ended, hangs or computes for longer; "
                    "see its output, or raise timeout="
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def _leave(self, keys: Any) -> None:
        """Called where `_meet` fails. The last rank to leave deletes what they wrote, which the others had to read."""
        with contextlib.suppress(RuntimeError):  # the store may have ended, and with it all that it held
            if keys.add("left", 1) == self._size:
                for name in ("refused", "left", *map(_here, range(self._size))):
                    keys.delete_key(name)


class _ListedGroups(Groups):
    """Groups of any engine, as torch.distributed.new_group makes them."""

    def __init__(self, users: dist.ProcessGroup, backend: str, limit: datetime.timedelta) -> None:
        self._users, self._backend, self._limit = users, backend, limit
        self._ranks = dist.get_process_group_ranks(users)
        self._everybody = len(self._ranks) == dist.get_world_size()
        self._made: list[dist.ProcessGroup] = []

    def make(self) -> dist.ProcessGroup:
        if not self._everybody:
            _require_same_count(self._users)
        on_cpu = self._backend != "nccl"
        with as_transport_error(f"a process group of {self._backend} could not be connected"):
            made: dist.ProcessGroup = dist.new_group(
                self._ranks,
                timeout=self._limit if on_cpu else self._limit + _ENGINE_GRACE,
                backend=self._backend,
                use_local_synchronization=not self._everybody,
            )
            if not on_cpu:
                # It connects at its first call, and ranks may make the first calls of several groups in different orders.
                dist.all_reduce(torch.zeros(1, device="cuda"), group=made)
        if not self._made:
            self.store = store_of(made)
        self._made.append(made)
        return made

    def part(self, ranks: list[int]) -> Groups:
        # torch names groups of some ranks after a rank's number of groups, which parts make at different times.
        raise _core.InvalidConfig(
            f"within= needs process groups of Gloo, and backend is {self._backend!r}: give backend='gloo', or leave "
            "within= out"
        )

    def close(self) -> None:
        while self._made:
            made = self._made.pop()
            if made in c10d._world.pg_map:  # else it went with the default group
                dist.destroy_process_group(made)


def _here(rank: int) -> str:
    return f"here/{rank}"


@contextlib.contextmanager
def as_transport_error(doing: str) -> Iterator[None]:
    """Turns errors of torch in the block, which have many types, into a TransportError that begins with `doing`."""
    try:
        yield
    except _core.TransportError:
        raise
    except RuntimeError as error:
        raise _core.TransportError(
            f"{doing}: {first_line(error)}; a rank, or the host of the store (rank 0 or torchrun's agent), has ended or "
            "is out of reach: see the other ranks' output"
        ) from error


def first_line(error: Exception) -> str:
    """The message of an error of torch, without its stack trace."""
    return (str(error) or type(error).__name__).partition("\n")[0]


def require_within(within: object, group: dist.ProcessGroup | None) -> str:
    """Raises InvalidConfig unless it is "host", a process group of ranks of the model's group, or None. What it is."""
    if within is None or isinstance(within, str):
        if within not in (None, "host"):
            raise _core.InvalidConfig(f"within must be 'host', a process group or None, got {within!r}")
        return str(within)
    if not isinstance(within, dist.ProcessGroup):
        raise _core.InvalidConfig(f"within must be 'host', a process group or None, got {type(within).__name__}")
    ranks = dist.get_process_group_ranks(given(group))
    outside = sorted(set(dist.get_process_group_ranks(given(within))) - set(ranks))
    if outside:
        raise _core.InvalidConfig(
            f"the group within= has rank {outside[0]}, which the model's group does not have: give one whose ranks are "
            "among the model's, with this rank in it"
        )
    return "a process group"


def hosts_of(own: _core.Communicator, within: str | dist.ProcessGroup | None) -> list[int]:
    """The number of each rank's host, for two levels. Empty: one level. Collective unless `within` is None."""
    if within is None:
        return []
    if isinstance(within, str):
        return _core.hosts_by_name(own)
    return _core.hosts_by_color(own, min(dist.get_process_group_ranks(within)))


def require_engine(backend: str | None) -> None:
    """Raises InvalidConfig for a name that torch does not know, or an engine that this torch does not have."""
    if backend is None:
        return
    if backend not in dist.Backend.backend_list:
        known = ", ".join(name for name in dist.Backend.backend_list if name != "undefined")
        raise _core.InvalidConfig(f"backend must be an engine of torch.distributed ({known}), got {backend!r}")
    if not dist.is_backend_available(backend):
        raise _core.InvalidConfig(
            f"backend={backend!r} needs a PyTorch with that engine, and torch {torch.__version__} here has none: leave "
            "backend out to use Gloo"
        )


def device_of(group: dist.ProcessGroup | None) -> torch.device:
    """Where tensors for collectives on the group must be: the host if the group has an engine for it."""
    users = c10d._get_default_group() if group is None else group
    return torch.device("cpu" if "cpu" in _engines(users) else "cuda")


def made_or_failed(own: _core.Communicator, make: Callable[[], Made]) -> Made:
    """Returns what `make` returns. If it raises, the other ranks get a TransportError and do not wait for this one."""
    try:
        return make()
    except Exception as error:
        own.fail(str(error))
        raise


def given(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """The user's group. Raises InvalidConfig if there is none, or if this rank is not in it."""
    if not dist.is_available() or not dist.is_initialized():
        raise _core.InvalidConfig("there is no process group: call torch.distributed.init_process_group first")
    users: dist.ProcessGroup = c10d._get_default_group() if group is None else group
    if dist.get_rank(users) < 0:
        raise _core.InvalidConfig("this rank is not in the process group: call this on the group's ranks alone")
    return users


def limit_of(users: dist.ProcessGroup, timeout: float | datetime.timedelta | None) -> datetime.timedelta:
    """How long ranks wait for each other. Default: the group's own timeout."""
    limit = _timeout_of(users) if timeout is None else timeout
    if not isinstance(limit, datetime.timedelta):
        if not isinstance(limit, (int, float)) or not 0 < limit <= LONGEST:
            raise _core.InvalidConfig(
                f"timeout must be in (0, {LONGEST:.0e}] seconds, got {limit!r}: leave it out for the group's own"
            )
        limit = datetime.timedelta(seconds=limit)
    return limit


def _require_same_count(users: dist.ProcessGroup) -> None:
    """Torch names a group of some ranks after its rank's number of groups: if they differ, ranks do not find each other."""
    mine = torch.tensor([len(c10d._world.pg_names)], device=device_of(users))
    others = [torch.empty_like(mine) for _ in range(dist.get_world_size(users))]
    dist.all_gather(others, mine, group=users)
    counts = [int(other) for other in others]
    if len(set(counts)) > 1:
        raise _core.InvalidConfig(
            f"the ranks of this group are in different numbers of process groups ({counts}), and torch cannot make a "
            "further group for some ranks then: make groups symmetrically, or call this before the others are made"
        )


def _engines(group: dist.ProcessGroup) -> dict[str, str]:
    """Engine per type of device, as in "cpu:gloo,cuda:nccl"."""
    return dict(each.split(":", 1) for each in dist.get_backend_config(group).split(","))


def _cpu_engine(group: dist.ProcessGroup) -> str:
    """An engine whose groups may have messages in flight at the same time. NCCL promises no progress then, and a model
    that has several methods, or two levels, has several groups."""
    found = _engines(group)
    return found.get("cpu") or ("gloo" if dist.is_gloo_available() else found["cuda"])


def _timeout_of(group: dist.ProcessGroup) -> datetime.timedelta:
    for device in ("cpu", "cuda"):
        try:
            return group._get_backend(torch.device(device)).options._timeout
        except (RuntimeError, AttributeError):
            continue
    return c10d.default_pg_timeout


def store_of(group: dist.ProcessGroup) -> Any:
    """The group's own part of the store. No other group writes to it."""
    return c10d._get_process_group_store(group)


def keys_of(group: dist.ProcessGroup) -> Any:
    """Laconic's part of the store. torchrun's store outlives its ranks, so restarted ranks get a part of their own."""
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return c10d.PrefixStore(f"laconic/{restart}", store_of(group))
