"""The table of methods."""

from __future__ import annotations

from typing import TypedDict, cast

from . import _core


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
    takes_scoring: bool
    needs_loss: bool
    optimizer: str  # empty: any
    min_size: int


def methods() -> list[Method]:
    """The table of methods, a dict a row. Not collective.

        for row in laconic.methods():
            print(row["name"], row["summary"], [option["name"] for option in row["parameters"]])

    Returns:
        Rows with `name`; `face`, which is "gradient" (for `laconic.attach` and `laconic.Optimizer`) or "model" (for
            `laconic.Optimizer` alone); `summary`; `paper`; `memory_bytes` that it keeps per parameter with its
            defaults and SGD with momentum, and `most_memory_bytes` with any settings and optimizer; `parameters`,
            its options, each a dict with `name`, `help`, `default` (empty: none) and `range`; `is_sgd`, if it is SGD
            with momentum itself; `takes_scoring`, if `laconic.Optimizer` takes a scoring function for it;
            `needs_loss`, if every step needs the loss; `optimizer`, the only one it works with (empty: any); and
            `min_size`, the default of `laconic.attach`.
    """
    return cast("list[Method]", _core.methods())
