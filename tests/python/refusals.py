"""What a refusal must say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import laconic


def refused(call: Callable[[], Any], *words: str, kind: type[Exception] = laconic.InvalidConfig) -> None:
    """That the call ends with this error, and that its text has the words in this order: the value, what is allowed, what
    to do."""
    assert words, "say what the refusal must say"
    try:
        call()
    except kind as error:
        text, at = str(error), 0
        for word in words:
            found = text.find(word, at)
            assert found >= 0, f"{word!r} is not in: {text[at:]!r} of {text!r}"
            at = found + len(word)
    else:
        raise AssertionError(f"not refused: {words}")
