"""Warnings that name the line of the user's program, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_reasons_told: set[str] = set()


def warn(text: str, kind: type[Warning] = UserWarning) -> None:
    """Warns with the first line outside this package as the place."""
    level, frame = 1, sys._getframe()
    while _is_ours(frame) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)


def warn_of_copies(tensors: str, done: str, reason: str) -> None:
    """Warns that tensors on a device are copied to the CPU, what is done there, and why. An empty reason: they are not.

    Once per process and reason, because a program with several models would repeat itself. Every rank warns: the reason
    may be that of one rank alone.
    """
    if reason and reason not in _reasons_told:
        _reasons_told.add(reason)
        warn(f"{tensors} on a device are copied to the CPU and {done} there: {reason}")


def _is_ours(frame: FrameType) -> bool:
    return frame.f_globals.get("__package__") == __package__
