"""The user's settings: the table of methods, checks of values, and their comparison by all ranks before a start."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar, cast

import torch
import torch.distributed as dist

from . import _core, _optimizers, _process_groups, _selection, _version_check

# The plug-in's own settings that count something.
COUNTS: dict[str, _selection.Count] = {
    "warmup": (0, 2**32 - 1, "steps that travel dense"),
    "seed": (0, 2**53, "of random draws, the same on all ranks"),
    "min_size": _selection.MIN_SIZE,
    "chunk_entries": (0, 2**63 - 1, "entries that travel together, 0 for the method's own choice"),
    "threads": (1, _core.most_threads, "that kernels may use, as many as torch uses if it is left out"),
}
LEFT_OUT = ("min_size", "threads")  # None: the method's, and torch's

Fields = dict[str, str]  # what all ranks must have alike, as text
Plan = TypeVar("Plan")


class Parameter(TypedDict):
    """An option of a method."""

    name: str
    help: str
    default: str  # empty: none
    range: str


class Method(TypedDict):
    """A row of the table."""

    name: str
    face: str
    summary: str
    paper: str
    memory_bytes: float
    most_memory_bytes: float
    device_memory_bytes: float
    parameters: list[Parameter]
    is_sgd: bool
    sends_updates: bool
    suits: str  # any, sgd or vote
    steps_alike: bool
    takes_scoring: bool
    needs_loss: bool
    optimizer: str  # empty: any
    min_size: int


def methods() -> list[Method]:
    """The table of methods: a list with one dict per method. Not collective.

        for row in laconic.methods():
            print(row["name"], row["summary"], [option["name"] for option in row["parameters"]])

    Returns:
        Rows with `name`; `face`, which is "gradient" (for `laconic.attach` and `laconic.Optimizer`) or "model" (for
            `laconic.Optimizer` only); `summary`; `paper`; `memory_bytes`, the bytes kept per parameter with the
            method's defaults and SGD with momentum; `most_memory_bytes`, the same with any settings and optimizer;
            `device_memory_bytes`, the bytes per parameter on a GPU together with messages and scratch, for 8 ranks and
            the method's defaults; `parameters`, the method's options, each a dict with `name`, `help`, `default`
            (empty: none) and `range`; `is_sgd`, whether it is SGD with momentum itself if that is the optimizer inside;
            `sends_updates`, whether the steps of each rank's own optimizer are sent; `suits`, the optimizers with which
            it learns as well as without compression ("any", "sgd", or "vote": SGD with a learning rate like Adam's);
            `steps_alike`, whether the ranks' optimizers must have the same settings throughout, because no rank has a
            model of its own; `takes_scoring`, whether `laconic.Optimizer` takes a scoring function for it;
            `needs_loss`, whether every step needs the loss; `optimizer`, the only one it works with (empty: any); and
            `min_size`, the default of `laconic.attach`.
    """
    return cast("list[Method]", _core.methods())


def require_settings(*, nonfinite: object, scaler: object, **counts: object) -> None:
    """Raises InvalidConfig for a wrong value of a setting that hooks and optimizers share."""
    if nonfinite not in ("error", "skip"):
        raise _core.InvalidConfig(
            f"nonfinite must be error or skip, got {nonfinite!r}: skip drops a step with a NaN or an infinity"
        )
    if scaler is not None and not isinstance(scaler, torch.amp.GradScaler):
        raise _core.InvalidConfig(
            f"scaler must be a torch.amp.GradScaler or None, got {type(scaler).__name__}: "
            "give the one that scales the loss"
        )
    for name, value in counts.items():
        if not (value is None and name in LEFT_OUT):
            _selection.require_count(name, value, COUNTS[name])


def require_clip(clip: object) -> None:
    """Raises InvalidConfig for a norm that no gradient can be clipped to."""
    if clip is None:
        return
    if isinstance(clip, bool) or not isinstance(clip, (int, float)) or not 0 < clip < math.inf:
        raise _core.InvalidConfig(
            f"clip must be a number above 0, or None, got {clip!r}: the largest norm of this rank's gradient, 1.0 say"
        )


@dataclasses.dataclass(frozen=True)
class HookSettings:
    """What the hooks of DistributedDataParallel and of fully_shard are both given, as the user gave it."""

    selection: _selection.Selection
    options: Mapping[str, Any]
    clip: float | None
    optimizer: torch.optim.Optimizer | None
    nonfinite: str
    seed: int
    threads: int | None
    backend: str | None
    chunk_entries: int

    def require(self, scaler: object = None) -> None:
        """Raises InvalidConfig for a wrong value, whatever the model is."""
        require_settings(
            nonfinite=self.nonfinite,
            scaler=scaler,
            warmup=self.selection.warmup,
            seed=self.seed,
            min_size=self.selection.min_size,
            chunk_entries=self.chunk_entries,
            threads=self.threads,
        )
        require_clip(self.clip)
        _process_groups.require_engine(self.backend)
        _version_check.warn_once()

    def chosen(
        self, model: torch.nn.Module, names: Sequence[str], parameters: Sequence[torch.Tensor], method: str
    ) -> tuple[Fields, _selection.Groups]:
        """What all ranks must have alike, and the method of each parameter."""
        choice = self.selection.choice(model, names, parameters, method, self.options)
        if self.optimizer is not None:
            _optimizers.require_optimizer(self.optimizer)
            _optimizers.require_suiting(choice.groups, self.optimizer)
        fields = {"hook of method": method, "backend": str(self.backend), "clip": str(self.clip)}
        return fields | _selection.described(names, parameters, choice.method_of()), choice.groups

    def hook_options(self, drops_unused: bool) -> _core.HookOptions:
        return _core.HookOptions(
            seed=self.seed,
            warmup=self.selection.warmup,
            skip=self.nonfinite == "skip",
            drops_unused=drops_unused,
            chunk_entries=self.chunk_entries,
            clip=0.0 if self.clip is None else float(self.clip),
        )


def agreed(
    group: dist.ProcessGroup | None, timeout: float | None, prepare: Callable[[], tuple[Fields, Plan]]
) -> Plan:
    """Returns the plan that `prepare` made, once every rank has made one with the same fields. Collective.

    If `prepare` raises an error, it is raised here at once, and the other ranks get an InvalidConfig with its text. If
    the fields differ, all ranks get an InvalidConfig. Raises TransportError if a rank does not come within the timeout.

    Ranks compare through the group's store: this costs no collective of the user's group and works with every engine.
    Each rank but the first posts its fields or its error. The first compares them and posts a verdict for the others.
    """
    users = _process_groups.given(group)
    try:
        store = _process_groups.keys_of(users)
    except RuntimeError:  # MPI's groups have no store: the hosts compare what they can
        return prepare()[1]
    comparing = "ranks could not compare their settings"
    with _process_groups.as_transport_error(comparing):
        vote = _Vote(users, store)
    try:
        limit = _process_groups.limit_of(users, timeout)
        fields, plan = prepare()
    except Exception as error:
        with _process_groups.as_transport_error(comparing):
            vote.refuse(str(error) or type(error).__name__)
        raise
    with _process_groups.as_transport_error(comparing):
        vote.agree(fields, limit)
    return plan


class _Vote:
    """One comparison of a group's ranks. All ranks number their votes in the same order."""

    def __init__(self, users: dist.ProcessGroup, store: Any) -> None:
        self._rank = dist.get_rank(users)
        self._size = dist.get_world_size(users)
        self._store = store
        self._key = f"vote/{self._store.add(f'votes/{self._rank}', 1)}"

    def refuse(self, reason: str) -> None:
        """Does not wait for the others: one refusal decides the verdict."""
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
        """The kind of error and its text, which is empty if all agree."""
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
