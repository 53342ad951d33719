"""Warnings that name the line of the user's program, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings
from types import FrameType


def warn(text: str, kind: type[Warning] = UserWarning) -> None:
    """Warns with the first line outside this package as the place."""
    level, frame = 1, sys._getframe()
    while _is_ours(frame) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    return frame.f_globals.get("__package__") == __package__
