"""The user's settings: methods, options, and which parameters they are for. All ranks compare them before a start."""

from __future__ import annotations

import dataclasses
import datetime
import fnmatch
import json
import math
import operator
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar, cast

import torch
import torch.distributed as dist

from . import _core, _exempt, _process_groups

Texts = list[tuple[str, str]]
Patterns = str | list[str]

# The plug-in's own settings that count something: the range, and what they are.
COUNTS = {
    "warmup": (0, 2**32 - 1, "steps that travel dense"),
    "seed": (0, 2**53, "of random draws, the same on all ranks"),
    "min_size": (0, 2**63 - 1, "entries below which a tensor travels dense"),
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
            `parameters`, the method's options, each a dict with `name`, `help`, `default` (empty: none) and `range`;
            `is_sgd`, whether it is SGD with momentum itself if that is the optimizer inside; `sends_updates`, whether
            the steps of each rank's own optimizer are sent; `suits`, the optimizers with which it learns as well as
            without compression ("any", "sgd", or "vote": SGD with a learning rate like Adam's); `steps_alike`, whether
            the ranks' optimizers must have the same settings throughout, because no rank has a model of its own;
            `takes_scoring`, whether `laconic.Optimizer` takes a scoring function for it; `needs_loss`, whether every
            step needs the loss; `optimizer`, the only one it works with (empty: any); and `min_size`, the default of
            `laconic.attach`.
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
        least, most, meaning = COUNTS[name]
        if not (value is None and name in LEFT_OUT) and not _is_count(value, least, most):
            raise _core.InvalidConfig(f"{name} must be a whole number in {least}..{most}, got {value!r}: {meaning}")


def require_clip(clip: object) -> None:
    """Raises InvalidConfig for a norm that no gradient can be clipped to."""
    if clip is None:
        return
    if isinstance(clip, bool) or not isinstance(clip, (int, float)) or not 0 < clip < math.inf:
        raise _core.InvalidConfig(
            f"clip must be a number above 0, or None, got {clip!r}: the largest norm of this rank's gradient, 1.0 say"
        )


def _is_count(value: Any, least: int, most: int) -> bool:
    try:
        return least <= operator.index(value) <= most
    except TypeError:
        return False


def texts(options: Mapping[str, Any]) -> Texts:
    """Names and values as text. A name that is a keyword of Python ends with an underscore: `lambda_`, `return_`."""
    found = []
    for name, value in options.items():
        if value is None:
            continue
        text = ("on" if value else "off") if isinstance(value, bool) else str(value)
        found.append((name.rstrip("_"), text))
    return found


@dataclasses.dataclass(frozen=True)
class Selection:
    """What is compressed, as the user gave it."""

    include: str | Iterable[str] | None
    exclude: str | Iterable[str] | None
    min_size: int | None
    groups: Sequence[Mapping[str, Any]]
    warmup: int
    exempt: str | Iterable[str] | None = None

    def choice(
        self,
        model: torch.nn.Module,
        names: Sequence[str],
        parameters: Sequence[torch.Tensor],
        method: str,
        options: Mapping[str, Any],
    ) -> Choice:
        """The method of each parameter."""
        dense = _exempt.exempted(model, self.exempt)
        exempt = [i for i, parameter in enumerate(parameters) if id(parameter) in dense]
        chosen = Choice(names, [parameter.numel() for parameter in parameters], exempt)
        if isinstance(self.groups, (str, Mapping)) or not isinstance(self.groups, Iterable):
            raise _core.InvalidConfig(f"groups must be a list of dicts, got {self.groups!r}: [{{...}}] for one, [] for none")
        for each in self.groups:
            if not isinstance(each, Mapping):
                raise _core.InvalidConfig(f'a group must be a dict with "params" and "method", got {each!r}')
            chosen.add_named(each)
        include = None if self.include is None else listed("include", self.include)
        exclude = None if self.exclude is None else listed("exclude", self.exclude)
        chosen.add_rest(method, options, include, exclude, self.min_size)
        return chosen

    def require_everything(self, method: str) -> None:
        """Of a method that takes the whole model."""
        for setting in ("include", "exclude", "exempt", "min_size", "groups", "warmup"):
            if getattr(self, setting):
                raise _core.InvalidConfig(
                    f"{method} takes the whole model, and {setting} is for gradient methods, "
                    f"got {getattr(self, setting)!r}: leave it out"
                )


def face_of(method: object) -> str:
    """gradient or model. Raises InvalidConfig for an unknown name."""
    if not isinstance(method, str):
        raise _core.InvalidConfig(f"method must be a name of laconic.methods(), got {method!r}")
    return str(_core.method(method)["face"])


def require_gradient_method(name: str) -> None:
    """Raises InvalidConfig for an unknown name and for a model method."""
    if face_of(name) == "model":
        raise _core.InvalidConfig(
            f"{name} decides where the next gradient is taken, which a hook cannot: "
            f'use laconic.Optimizer(optimizer, model, method="{name}") without DistributedDataParallel'
        )


def listed(setting: str, patterns: Any) -> Patterns:
    """Patterns as a string or a list, because an iterator could be used only once."""
    if isinstance(patterns, str):
        return patterns
    found = list(patterns) if isinstance(patterns, Iterable) else [patterns]
    if not all(isinstance(each, str) for each in found):
        raise _core.InvalidConfig(f"{setting} must be a pattern of names, or a list of such, got {patterns!r}")
    return found


def matches(name: str, patterns: Patterns) -> bool:
    """Whether one of the shell patterns matches: `*.bias`, `layer?.*`."""
    each = [patterns] if isinstance(patterns, str) else patterns
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in each)


class Choice:
    """Which method each parameter gets."""

    def __init__(self, names: Sequence[str], sizes: Sequence[int], exempt: Sequence[int]) -> None:
        self._names = names
        self._sizes = sizes
        self._exempt = list(exempt)
        self._left = [i for i in range(len(names)) if i not in set(exempt)]
        self.groups: list[tuple[str, Texts, list[int]]] = []

    def add_named(self, group: Mapping[str, Any]) -> None:
        """Adds a group as the user wrote it: the parameters that its patterns match and no earlier group has."""
        options = dict(group)
        patterns = options.pop("params", None)
        method = options.pop("method", None)
        if patterns is None or method is None:
            raise _core.InvalidConfig(f'a group needs "params" (patterns of names) and "method", got {dict(group)}')
        patterns = listed("params", patterns)
        min_size = options.pop("min_size", 0)
        require_settings(nonfinite="error", scaler=None, min_size=min_size)
        fitting = [i for i in self._left if matches(self._names[i], patterns)]
        if not fitting:
            raise _core.InvalidConfig(
                f"the group with params={patterns!r} has no parameter that is not exempt or in a group before it; "
                f"names are like {', '.join(self._names[:3])}"
            )
        self._take(method, options, [i for i in fitting if self._sizes[i] >= min_size])

    def add_rest(
        self,
        method: str,
        options: Mapping[str, Any],
        include: Patterns | None,
        exclude: Patterns | None,
        min_size: int | None,
    ) -> None:
        """Adds the other parameters: the method for those that are selected, dense for the rest."""
        if exclude and not any(matches(name, exclude) for name in self._names):
            raise _core.InvalidConfig(
                f"exclude={exclude!r} fits no parameter, and what it means would be compressed: leave it out; "
                f"names are like {', '.join(self._names[:3])}"
            )
        require_gradient_method(method)
        least: int = _core.method(method)["min_size"] if min_size is None else min_size
        wanted = [
            i
            for i in self._left
            if self._sizes[i] >= least
            and (include is None or matches(self._names[i], include))
            and (exclude is None or not matches(self._names[i], exclude))
        ]
        if self._names and not wanted and not self.groups:
            raise _core.InvalidConfig(
                f"no parameter is left for {method}: include={include!r}, exclude={exclude!r}, min_size={least} "
                "(entries; min_size=0 compresses the smallest too); "
                f"names are like {', '.join(self._names[:3])}"
            )
        self._take(method, options, wanted)
        self._take(_core.dense_method, {}, sorted(self._left + self._exempt))

    def method_of(self) -> list[str]:
        """Of each parameter, with the number of its group."""
        found = [""] * len(self._names)
        for number, (method, _, members) in enumerate(self.groups):
            for i in members:
                found[i] = f"{method} of group {number}"
        return found

    def _take(self, method: str, options: Mapping[str, Any], members: list[int]) -> None:
        require_gradient_method(method)
        guard = options.get("step_guard", "off")
        if guard not in ("off", False):
            raise _core.InvalidConfig(
                f"step_guard must be off here, got {guard!r}: it undoes steps of the program laconic's own optimizer"
            )
        if not members:
            return
        _core.check_method(method, texts(options))
        taken = set(members)
        self._left = [i for i in self._left if i not in taken]
        self.groups.append((method, texts(options), members))


def named(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Parameters by their names without torch.compile, so that patterns and saved states work with it and without."""
    return [(name.replace("_orig_mod.", ""), parameter) for name, parameter in model.named_parameters()]


def described(names: Sequence[str], parameters: Sequence[torch.Tensor], by: Sequence[str]) -> dict[str, str]:
    """The parameters as texts that ranks can compare. `by`: the method of each."""
    return {
        f"parameter {i}": f"{name} ({parameter.numel()} entries, {parameter.dtype}) by {how}"
        for i, (name, parameter, how) in enumerate(zip(names, parameters, by, strict=True))
    }


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
