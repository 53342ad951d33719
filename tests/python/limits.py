"""A process that the system gives no more of: threads, as in a container with few processes, or memory."""

from __future__ import annotations

import contextlib
import pathlib
import resource
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def few_bytes(left: int) -> Iterator[None]:
    """Only so many bytes of addresses can be had meanwhile; a limit of these binds root too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def few_threads(left: int) -> Iterator[None]:
    """Only so many threads can be started meanwhile: threads of the test's own take what a limit of addresses leaves for
    stacks, and some of them end again."""
    ends: list[threading.Event] = []
    threads: list[threading.Thread] = []
    with few_bytes(2 << 30):
        with contextlib.suppress(RuntimeError, MemoryError):
            for _ in range(1000):
                end = threading.Event()
                thread = threading.Thread(target=end.wait)
                thread.start()
                threads.append(thread)
                ends.append(end)
        try:
            assert left < len(threads) < 1000, f"{len(threads)} threads"
            _end(threads, ends, left)
            yield
        finally:
            _end(threads, ends, len(threads))


def _end(threads: list[threading.Thread], ends: list[threading.Event], count: int) -> None:
    for _ in range(count):
        ends.pop().set()
        threads.pop().join()
