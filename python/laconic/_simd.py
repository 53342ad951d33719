"""Which instructions the kernels use."""

from __future__ import annotations

import functools
import warnings

from . import _core


def simd() -> str:
    """Which SIMD level the kernels run at on this machine, and whose vectors those are: `"avx2, vectors: Highway"`.

    `reference` has no vectors and is several times slower; it runs only where LACONIC_SIMD asks for it. A build that
    found no Highway has the compiler's vectors, which take up to three times as long. Results have the same bits. Not
    collective.

    Raises:
        InvalidConfig: LACONIC_SIMD names a level that this machine or this build does not have.
    """
    return "{}, vectors: {}".format(*_core.simd())


@functools.cache
def warn_once() -> None:
    """Says once per process that kernels run without SIMD, where they do."""
    level, vectors = _core.simd()
    if vectors == "none":
        warnings.warn(
            f"laconic runs without SIMD, several times slower: LACONIC_SIMD={level} is set; unset it for the best level",
            RuntimeWarning,
            stacklevel=4,
        )
