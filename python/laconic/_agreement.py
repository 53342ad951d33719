"""Ranks find out whether they mean the same before anything is made: what one of them has wrong is an error on all.

Through the group's store, so that it costs no collective of the user's group and works with every engine. Each rank but
the first posts what it has, or that it was refused; the first compares and posts a verdict, for which the others wait.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from . import _core, _groups

Fields = dict[str, str]  # what all ranks must have alike, as text
Plan = TypeVar("Plan")


def reached(
    group: dist.ProcessGroup | None, timeout: float | None, prepare: Callable[[], tuple[Fields, Plan]]
) -> Plan:
    """The plan that `prepare` made, once every rank has made one with the same fields. Collective.

    What `prepare` raises is raised here at once, and the other ranks get an InvalidConfig that says so; as they do if
    fields differ. TransportError: a rank did not come within the timeout.
    """
    users = _groups.given(group)
    try:
        store = _groups.keys_of(users)
    except RuntimeError:  # MPI's groups have no store: the hosts compare what they can
        return prepare()[1]
    comparing = "ranks could not compare their settings"
    with _groups.speaking(comparing):
        vote = _Vote(users, store)
    try:
        limit = _groups.limit_of(users, timeout)
        fields, plan = prepare()
    except Exception as error:
        with _groups.speaking(comparing):
            vote.refuse(str(error) or type(error).__name__)
        raise
    with _groups.speaking(comparing):
        vote.agree(fields, limit)
    return plan


class _Vote:
    """One vote of a group's ranks; they number their votes alike."""

    def __init__(self, users: dist.ProcessGroup, store: Any) -> None:
        self._rank = dist.get_rank(users)
        self._size = dist.get_world_size(users)
        self._store = store
        self._key = f"vote/{self._store.add(f'votes/{self._rank}', 1)}"

    def refuse(self, reason: str) -> None:
        """Waits for nobody: the verdict is clear."""
        if self._rank == 0:
            self._post("verdict", ["InvalidConfig", _refused(0, reason)])
        else:
            self._post(self._rank, {"refusal": reason})
        self._leave()

    def agree(self, fields: Fields, limit: datetime.timedelta) -> None:
        deadline = time.monotonic() + limit.total_seconds()
        if self._rank == 0:
            verdict = self._judged(fields, deadline)
            self._post("verdict", verdict)
        else:
            self._post(self._rank, fields)
            verdict = self._read("verdict", deadline)
            if verdict is None:
                verdict = ["TransportError", "rank 0 did not come to compare settings within the timeout"]
        self._leave()
        kind, text = verdict
        if text:
            raise getattr(_core, kind)(text)

    def _judged(self, expected: Fields, deadline: float) -> list[str]:
        """The kind of error and its text, which is empty where all agree."""
        for rank in range(1, self._size):
            found = self._read(rank, deadline)
            if found is None:
                return ["TransportError", f"rank {rank} did not come to compare settings within the timeout"]
            if "refusal" in found:
                return ["InvalidConfig", _refused(rank, found["refusal"])]
            if found != expected:
                return ["InvalidConfig", _difference(rank, found, expected)]
        return ["", ""]

    def _leave(self) -> None:
        """The last rank to leave removes what was posted."""
        if self._store.add(f"{self._key}/left", 1) == self._size:
            for name in ("verdict", "left", *range(1, self._size)):
                self._store.delete_key(f"{self._key}/{name}")

    def _post(self, name: object, value: object) -> None:
        self._store.set(f"{self._key}/{name}", json.dumps(value))

    def _read(self, name: object, deadline: float) -> Any:
        """None: nobody posted it in time."""
        key = f"{self._key}/{name}"
        try:
            self._store.wait([key], datetime.timedelta(seconds=max(deadline - time.monotonic(), 0.001)))
        except RuntimeError:  # of torch's, a timeout or a store that is gone
            if time.monotonic() < deadline - 0.1:
                raise
            return None
        return json.loads(self._store.get(key))


def _refused(rank: int, reason: str) -> str:
    return f"rank {rank} cannot go on, and so no rank does: {reason}"


def _difference(rank: int, found: Fields, expected: Fields) -> str:
    name = next(name for name in (*expected, *found) if expected.get(name) != found.get(name))

    def shown(fields: Fields) -> str:
        return f"{name} = {fields[name]}" if name in fields else f"no {name}"

    return f"rank {rank} has {shown(found)}, rank 0 has {shown(expected)}: start all ranks with the same settings"
