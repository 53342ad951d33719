"""Every gradient method with every option that it has, from the table of methods: a method or an option that is new is
tried, or the tests say that they do not know how."""

from __future__ import annotations

import itertools
from typing import Any

import laconic

Options = dict[str, Any]

# adam's gradients are sgd's, and a hook refuses it.
REFUSED = ("adam",)

# What decides how messages travel is tried in all combinations; the other options one by one.
TRAVEL = ("order", "scope", "route", "return", "union")

# What a method refuses: options that do not go together, or that need a model, which a hook has not.
CONFLICTS: list[Options] = [
    {"route": "gather", "union": "keep"},
    {"route": "gather", "return": "coded"},
    {"return": "exact", "union": "keep"},
    {"route": "gather", "return": "requantized"},
    {"step_guard": "on"},
]

# Values of options that are numbers, with what they need beside them.
_CONVEX: Options = {
    "rule": "convex", "kappa": 5.0, "smoothness": 1.0, "convexity": 0.5, "step_size": 0.1, "total_steps": 50
}  # fmt: skip
NUMBERS: dict[str, list[Options]] = {
    "keep": [{"keep": 0.3}],
    "mu": [{"mu": 0.5}],
    "abstain": [{"abstain": 0.4}],
    "beta": [{"beta": 0.5}],
    "early_sign": [{"early_sign": 2}],
    "turns": [{"turns": 3}],
    "bits": [{"bits": 2}, {"bits": 7}],
    "chunk": [{"scope": "chunk", "chunk": 64}],
    "tau": [{"tau": 0.7}],
    "error_budget": [{"error_budget": 0.5, "smoothness": 1.0, "step_size": 0.1}],
    "bit_budget": [{"bit_budget": 5}],
    "window": [{"window": 2}],
    **{name: [_CONVEX] for name in ("kappa", "smoothness", "convexity", "step_size", "total_steps")},
}
WORDS_NEED: dict[tuple[str, str], Options] = {
    ("rule", "convex"): _CONVEX,
    ("rounding", "nearest"): {"memory": "error"},
    ("memory", "none"): {"rounding": "stochastic"},
}


def gradient_methods() -> list[str]:
    return [row["name"] for row in laconic.methods() if row["face"] == "gradient" and row["name"] not in REFUSED]


def parameters_of(method: str) -> list[Any]:
    return next(row["parameters"] for row in laconic.methods() if row["name"] == method)


def words_of(parameter: Any) -> list[str]:
    """The values of an option that is a word; none for a number."""
    return parameter["range"].split(" | ") if "|" in parameter["range"] else []


def options_of(method: str) -> Options:
    """Under which a method does its work on a small model."""
    return {"keep": 0.05} if any(each["name"] == "keep" for each in parameters_of(method)) else {}


def ways_to_travel(method: str) -> list[Options]:
    """All combinations of the options that decide what is sent to whom."""
    deciding = [each for each in parameters_of(method) if each["name"] in TRAVEL]
    choices = [[(each["name"], word) for word in words_of(each)] for each in deciding]
    found = [{**options_of(method), **dict(chosen)} for chosen in itertools.product(*choices)]
    return [options for options in found if not is_refused(options)]


def is_refused(options: Options) -> bool:
    return any(conflict.items() <= options.items() for conflict in CONFLICTS)


def variations(method: str) -> list[Options]:
    """As it is, each way to travel, and each other option at another value than its default."""
    found = [options_of(method), *ways_to_travel(method)]
    for each in parameters_of(method):
        name = each["name"]
        if name in TRAVEL:
            continue
        if words_of(each):
            others = [word for word in words_of(each) if word != each["default"]]
            found += [{**options_of(method), **WORDS_NEED.get((name, word), {}), name: word} for word in others]
        else:
            found += [{**options_of(method), **tried} for tried in NUMBERS[name]]
    complete = [{**{each["name"]: each["default"] for each in parameters_of(method)}, **options} for options in found]
    return [options for i, options in enumerate(found) if not (is_refused(options) or complete[i] in complete[:i])]


def is_rank_order(options: Options) -> bool:
    """Sums in the order of ranks; else in the engine's own, whose bits nobody knows beforehand."""
    return options.get("order") != "engine"
