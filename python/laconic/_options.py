"""A method's options as Python gives them: keywords, in the words of the table of methods."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _core

Texts = list[tuple[str, str]]

# Where a paper leaves small tensors, and with them biases and norms, out of its compression: QSGD quantizes no tensor of
# fewer than 10,000 entries. The other papers compress everything.
MIN_SIZE = {"qsgd": 10_000}


def texts(options: Mapping[str, Any]) -> Texts:
    """Names and values as text. A name that is a word of Python has an underscore behind it: `lambda_`, `return_`."""
    found = []
    for name, value in options.items():
        if value is None:
            continue
        text = ("on" if value else "off") if isinstance(value, bool) else str(value)
        found.append((name.rstrip("_"), text))
    return found


def require_gradient_method(name: str) -> None:
    """InvalidConfig for a name that is none, or a method that needs the model."""
    rows = {row["name"]: row["face"] for row in _core.methods()}
    if rows.get(name) == "model":
        raise _core.InvalidConfig(
            f"{name} decides where the next gradient is taken, which a hook cannot: "
            f'use laconic.Optimizer(optimizer, model, method="{name}") without DistributedDataParallel'
        )


def matches(name: str, patterns: str | Iterable[str]) -> bool:
    """Whether one of the shell patterns fits: `*.bias`, `layer?.*`."""
    each = [patterns] if isinstance(patterns, str) else list(patterns)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in each)


class Choice:
    """Which method each parameter gets."""

    def __init__(self, names: Sequence[str], sizes: Sequence[int]) -> None:
        self._names = names
        self._sizes = sizes
        self._left = list(range(len(names)))
        self.groups: list[tuple[str, Texts, list[int]]] = []

    def add_named(self, group: Mapping[str, Any]) -> None:
        """A group as the user wrote it: what its patterns fit of that which no group before it has."""
        options = dict(group)
        patterns = options.pop("params", None)
        method = options.pop("method", None)
        if patterns is None or method is None:
            raise _core.InvalidConfig(f'a group needs "params" (patterns of names) and "method", got {dict(group)}')
        min_size = options.pop("min_size", 0)
        fitting = [i for i in self._left if matches(self._names[i], patterns)]
        if not fitting:
            raise _core.InvalidConfig(
                f"the group with params={patterns!r} has no parameter that is not in a group before it; "
                f"names are like {', '.join(self._names[:3])}"
            )
        self._take(method, options, [i for i in fitting if self._sizes[i] >= min_size])

    def add_rest(
        self,
        method: str,
        options: Mapping[str, Any],
        include: str | Iterable[str] | None,
        exclude: str | Iterable[str] | None,
        min_size: int | None,
    ) -> None:
        """All others: the method where it is wanted, and dense what is left."""
        least = MIN_SIZE.get(method, 0) if min_size is None else min_size
        wanted = [
            i
            for i in self._left
            if self._sizes[i] >= least
            and (include is None or matches(self._names[i], include))
            and (exclude is None or not matches(self._names[i], exclude))
        ]
        if self._left and not wanted and not self.groups:
            raise _core.InvalidConfig(
                f"no parameter is left for {method}: include={include!r}, exclude={exclude!r}, min_size={least} "
                "(entries; min_size=0 compresses the smallest too); "
                f"names are like {', '.join(self._names[:3])}"
            )
        self._take(method, options, wanted)
        self._take("sgd", {}, list(self._left))

    def _take(self, method: str, options: Mapping[str, Any], members: list[int]) -> None:
        if not isinstance(method, str):
            raise _core.InvalidConfig(f"method must be a name of the table, got {method!r}")
        require_gradient_method(method)
        if not members:
            return
        self._left = [i for i in self._left if i not in set(members)]
        self.groups.append((method, texts(options), members))
