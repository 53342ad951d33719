"""A process that the system starts no more threads for, as in a container with few processes."""

from __future__ import annotations

import contextlib
import pathlib
import resource
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def few_threads(left: int) -> Iterator[None]:
    """Only so many threads can be started meanwhile. By a limit of addresses, which binds root too: threads of the test's
    own take what it leaves for stacks, and some of them end again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (2 << 30), hard))
    ends: list[threading.Event] = []
    threads: list[threading.Thread] = []
    try:
        with contextlib.suppress(RuntimeError, MemoryError):
            for _ in range(1000):
                end = threading.Event()
                thread = threading.Thread(target=end.wait)
                thread.start()
                threads.append(thread)
                ends.append(end)
        assert left < len(threads) < 1000, f"{len(threads)} threads"
        _end(threads, ends, left)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        _end(threads, ends, len(threads))


def _end(threads: list[threading.Thread], ends: list[threading.Event], count: int) -> None:
    for _ in range(count):
        ends.pop().set()
        threads.pop().join()
