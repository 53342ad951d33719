"""Which method each parameter gets: what the user selects by patterns, groups, sizes and words.

`Selection` holds the settings as they were given, `Choice` what becomes of them for the parameters of a model.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from . import _core

Texts = list[tuple[str, str]]
Patterns = str | list[str]
Groups = list[tuple[str, Texts, list[int]]]  # a method, its options, the numbers of its parameters
Count = tuple[int, int, str]  # the range of a setting that counts something, and what it counts

MIN_SIZE: Count = (0, 2**63 - 1, "entries below which a tensor travels dense")


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
        dense = _exempted(model, self.exempt)
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


class Choice:
    """Which method each parameter gets."""

    def __init__(self, names: Sequence[str], sizes: Sequence[int], exempt: Sequence[int]) -> None:
        self._names = names
        self._sizes = sizes
        self._exempt = list(exempt)
        self._left = [i for i in range(len(names)) if i not in set(exempt)]
        self.groups: Groups = []

    def add_named(self, group: Mapping[str, Any]) -> None:
        """Adds a group as the user wrote it: the parameters that its patterns match and no earlier group has."""
        options = dict(group)
        patterns = options.pop("params", None)
        method = options.pop("method", None)
        if patterns is None or method is None:
            raise _core.InvalidConfig(f'a group needs "params" (patterns of names) and "method", got {dict(group)}')
        patterns = listed("params", patterns)
        min_size = options.pop("min_size", 0)
        require_count("min_size", min_size, MIN_SIZE)
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
                f"exclude={exclude!r} matches no parameter, so it would send none of them dense: correct the pattern, or "
                f"leave it out; names are like {', '.join(self._names[:3])}"
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


def texts(options: Mapping[str, Any]) -> Texts:
    """Names and values as text. A name that is a keyword of Python ends with an underscore: `lambda_`, `return_`."""
    found = []
    for name, value in options.items():
        if value is None:
            continue
        text = ("on" if value else "off") if isinstance(value, bool) else str(value)
        found.append((name.rstrip("_"), text))
    return found


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


def require_count(name: str, value: Any, count: Count) -> None:
    """Raises InvalidConfig for what is not a whole number in the range."""
    least, most, meaning = count
    if not _is_count(value, least, most):
        raise _core.InvalidConfig(f"{name} must be a whole number in {least}..{most}, got {value!r}: {meaning}")


def _is_count(value: Any, least: int, most: int) -> bool:
    try:
        return least <= operator.index(value) <= most
    except TypeError:
        return False


def named(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Parameters by their names without torch.compile, so that patterns and saved states work with it and without."""
    return [(name.replace("_orig_mod.", ""), parameter) for name, parameter in model.named_parameters()]


def described(names: Sequence[str], parameters: Sequence[torch.Tensor], by: Sequence[str]) -> dict[str, str]:
    """The parameters as texts that ranks can compare. `by`: the method of each."""
    return {
        f"parameter {i}": f"{name} ({parameter.numel()} entries, {parameter.dtype}) by {how}"
        for i, (name, parameter, how) in enumerate(zip(names, parameters, by, strict=True))
    }


def _vectors(model: torch.nn.Module) -> Iterable[torch.Tensor]:
    return [parameter for parameter in model.parameters() if parameter.dim() <= 1]


def _embeddings(model: torch.nn.Module) -> Iterable[torch.Tensor]:
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return [parameter for module in model.modules() if isinstance(module, kinds) for parameter in module.parameters()]


def _output(model: torch.nn.Module) -> Iterable[torch.Tensor]:
    """Of the linear layer that shares its weight with an embedding, or else of the last one."""
    layers = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    embedded = {id(parameter) for parameter in _embeddings(model)}
    tied = [layer for layer in layers if id(layer.weight) in embedded]
    return [parameter for layer in tied or layers[-1:] for parameter in layer.parameters()]


WORDS: dict[str, Callable[[torch.nn.Module], Iterable[torch.Tensor]]] = {
    "vectors": _vectors,
    "embeddings": _embeddings,
    "output": _output,
}


def _exempted(model: torch.nn.Module, exempt: str | Iterable[str] | None) -> set[int]:
    """The ids of the parameters that the words name. Raises InvalidConfig for another word."""
    if exempt is None:
        return set()
    words = [exempt] if isinstance(exempt, str) else list(exempt) if isinstance(exempt, Iterable) else [exempt]
    for word in words:
        if word not in WORDS:
            raise _core.InvalidConfig(
                f"exempt must be one of {', '.join(WORDS)}, or a list of them, got {word!r}: "
                "exclude= takes patterns of names"
            )
    return {id(parameter) for word in words for parameter in WORDS[word](model)}
