"""Error feedback and top-k by PyTorch's own operators on a GPU: python python/benchmarks/topk_by_torch.py [ENTRIES...]

The operators are add, topk of the magnitudes, gather, and zeros in the residual at the selected entries, 1 % of all.
Prints the median of the repetitions by device events, and that of the stream torch.add(g, e, out=a) beside it.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

import torch

REPETITIONS = 11
KEEP = 0.01


def milliseconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(REPETITIONS + 2):  # the first two warm up
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end))
    return statistics.median(taken[2:])


def measure(entries: int) -> None:
    gradient, residual = torch.randn(2, entries, device="cuda")
    total = torch.empty_like(gradient)
    keep = max(1, int(KEEP * entries))

    def select() -> tuple[torch.Tensor, torch.Tensor]:
        torch.add(gradient, residual, out=total)
        indices = total.abs().topk(keep, sorted=False).indices
        values = total.gather(0, indices)
        total.index_fill_(0, indices, 0.0)
        return indices, values

    stream = milliseconds(lambda: torch.add(gradient, residual, out=total))
    own = milliseconds(select)
    print(f"{entries:>12} floats: stream {stream:.3f} ms, torch's top-k {own:.3f} ms, {own / stream:.1f} times the stream")


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("topk_by_torch.py: PyTorch finds no GPU that it can use")
    for given in sys.argv[1:] or ["25600000", "1000000000"]:
        measure(int(float(given)))
