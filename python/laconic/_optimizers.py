"""What is known of torch's optimizers: which of them suit a method, and how they decay weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from . import _core

Group = tuple[str, Sequence[tuple[str, str]], Any]  # a method, its options, its parameters

# Classes that divide a step by the root of a second moment, or by something like it. Other packages derive from them or
# use their names.
ADAPTIVE = (
    "Adam",
    "AdamW",
    "NAdam",
    "RAdam",
    "Adamax",
    "SparseAdam",
    "Adafactor",
    "Adagrad",
    "Adadelta",
    "RMSprop",
)
# What such optimizers call it in their state: those that have made a step are known by it, whatever their class is.
SECOND_MOMENTS = {"exp_avg_sq", "exp_inf", "square_avg", "row_var"}
# Classes of torch.optim whose step multiplies the parameters by 1 - lr * weight_decay if a group asks for it.
DECOUPLED = ("Adam", "AdamW", "NAdam", "RAdam")


def is_adaptive(optimizer: torch.optim.Optimizer) -> bool:
    names = {each.__name__ for each in type(optimizer).__mro__}
    if not names.isdisjoint(ADAPTIVE):
        return True
    return any(not SECOND_MOMENTS.isdisjoint(state) for state in optimizer.state.values() if isinstance(state, dict))


def require_optimizer(optimizer: object) -> None:
    """Raises InvalidConfig if it is none of torch's."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise _core.InvalidConfig(f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")


def require_suiting(groups: Iterable[Group], optimizer: torch.optim.Optimizer) -> None:
    """Raises InvalidConfig for a vote before an optimizer like Adam. Warns of methods that compress gradients so that it
    learns less."""
    if not is_adaptive(optimizer):
        return
    kind = type(optimizer).__name__
    methods_of: dict[str, list[str]] = {"any": [], "sgd": [], "vote": []}
    for method, options, _ in groups:
        methods_of[_core.suits(method, options)].append(method)
    for vote in methods_of["vote"]:
        raise _core.InvalidConfig(
            f"{vote} is a vote: every entry of the aggregate is -1 or 1, and {kind}, which divides by a second moment, "
            "learns little from it: use torch.optim.SGD(..., lr=5e-4, momentum=0), whose step is then the vote "
            f"(`laconic methods {vote}` shows more)"
        )
    if methods_of["sgd"]:
        warnings.warn(
            f"{' and '.join(dict.fromkeys(methods_of['sgd']))} with {kind}: an entry that is sent rarely or rounded "
            "coarsely makes second moments wrong, and the model learns less than without compression. Use "
            f"{_alternatives()}, or torch.optim.SGD",
            stacklevel=6,  # whoever calls attach or Optimizer: this runs in the ranks' comparison of settings
        )


def _alternatives() -> str:
    """The methods of the table that compress and suit any optimizer."""
    rows = [row for row in _core.methods() if row["suits"] == "any" and not row["optimizer"]]
    gradients = [row["name"] for row in rows if row["face"] == "gradient" and row["name"] != _core.dense_method]
    updates = [row["name"] for row in rows if row["sends_updates"] and not row["is_sgd"]]
    return f"{', '.join(gradients)}, or with laconic.Optimizer {', '.join(updates)}"


def shrink_factors(optimizer: torch.optim.Optimizer) -> list[float]:
    """The factor of each group's parameters in the next step: decoupled weight decay, or 1 if it is not known."""
    known = any(type(optimizer).step is getattr(torch.optim, name).step for name in DECOUPLED)
    always = isinstance(optimizer, torch.optim.AdamW)
    return [
        1.0 - float(group["lr"]) * float(group["weight_decay"])
        if known and group.get("decoupled_weight_decay", always)
        else 1.0
        for group in optimizer.param_groups
    ]
