"""What Python does in a step, counted and not timed: nothing under `attach`, one call a bucket under `hook`, however many
tensors there are. And the benchmark of hooks runs."""

import ctypes
import gc
import pathlib
import sys
import tempfile
import threading
import time
import unittest
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from probe import Probe, connect, gradients, reference, wrapped
from ranks import run_ranks, run_torchrun
from variations import gradient_methods, options_of

import laconic

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = str(pathlib.Path(laconic.__file__).parent)
PAGE = ROOT / "docs" / "performance.md"


class Calls:
    """Counts functions of the package and of its module that are called, on this thread, while it is open."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            self.names.append(frame.f_code.co_name)
        if event == "c_call" and frame.f_code.co_filename.startswith(PACKAGE):
            self.names.append(argument.__name__)

    def __enter__(self) -> "Calls":
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


def calls_in_a_step(way: str, method: str, tensors: int) -> tuple[int, list[str]]:
    """Buckets of a step, and what of ours Python called in its forward and backward, once buckets are settled."""
    sizes = [1200 // tensors] * tensors
    ddp = wrapped(Probe(sizes), bucket_cap_mb=0.002)
    connect(ddp, way, method, min_size=0, **options_of(method))
    for number in range(4):
        given = gradients(number, 0, sizes)
        ddp.module.clear()
        gc.collect()  # what earlier models left is not this step's
        with Calls() as calls:
            ddp(given).backward()
    return len(ddp.reducer._get_zeros_like_grad_buckets()), calls.names


def counted() -> list[str]:
    """What is wrong."""
    gc.freeze()  # what was imported: every collection would look at all of it
    wrong = []
    for method in gradient_methods():
        for tensors in (4, 40):
            calls = calls_in_a_step("attach", method, tensors)[1]
            if calls:
                wrong.append(f"{method} by attach, {tensors} tensors: {calls}")
            buckets, calls = calls_in_a_step("hook", method, tensors)
            # Not every version of Python reports the call of C, `submit`.
            if [name for name in calls if name != "submit"] != ["hook"] * buckets:
                wrong.append(f"{method} by hook, {tensors} tensors in {buckets} buckets: {calls}")
    return wrong


def ends_without_the_lock(way: str, method: str, patience: float) -> bool:
    """Whether a step's aggregate appears in memory while another thread of Python's never gives the interpreter's lock
    away: it looks at the place where the aggregate will be, so long as `patience` lasts."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    ddp = wrapped(Probe(), gradient_as_bucket_view=True)  # so that gradients stay where they are
    connect(ddp, way, method, min_size=0, **options_of(method))
    given = [[gradients(step, each) for step in range(4)] for each in range(ranks)]
    expected = reference(method, options_of(method), given)[3][0]
    for step in given[rank][:3]:
        ddp(step).backward()
        ddp.zero_grad(set_to_none=False)
    entry = int((expected != given[rank][3][0]).nonzero()[0])
    place = ctypes.c_float.from_address(ddp.module.values[0].grad.data_ptr() + 4 * entry)
    wanted, seen, start = expected[entry].item(), [], threading.Lock()

    def look() -> None:
        start.acquire()
        end = time.monotonic() + patience
        while time.monotonic() < end and not seen:
            if place.value == wanted:
                seen.append(True)

    # What was computed last comes first in backward: a long product, in which the other thread takes the lock.
    loss = ddp(given[rank][3]) + 0.0 * torch.ones(1000, 1000, requires_grad=True).mm(torch.ones(1000, 1000)).sum()
    backward, one = torch.autograd.Variable._execution_engine.run_backward, torch.ones(())
    start.acquire()
    thread = threading.Thread(target=look)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)  # nobody is asked to give the lock away
    start.release()
    # Gives it away itself, once, and does not get it back before the other has ended. (loss.backward() makes a tensor
    # before, for which it gives it away too.) A graph that is freed would ask for it: autograd then lets go of tensors
    # that Python has as well, so this one is retained.
    backward((loss,), (one,), True, False, (), allow_unreachable=True, accumulate_grad=True)
    thread.join()
    sys.setswitchinterval(interval)
    return bool(seen)


def hook_needs_the_lock() -> bool:
    """Tried a few times: on a busy machine the other thread may come too late."""
    tries = [ends_without_the_lock("hook", "sgd", 0.3) for _ in range(5)]
    return not all(tries)


def locks() -> list[str]:
    return [method for method in gradient_methods() if not ends_without_the_lock("attach", method, 30.0)]


class HotPathTest(unittest.TestCase):
    maxDiff = None

    def test_attach_needs_no_lock(self) -> None:
        self.assertEqual(run_ranks(2, locks), [[]] * 2)
        # The conventional hook is a function of Python's: this sees that the test would notice.
        self.assertTrue(any(run_ranks(2, hook_needs_the_lock)))

    def test_python_has_no_loop_over_tensors(self) -> None:
        self.assertEqual(run_ranks(1, counted), [[]])
        self.assertEqual(run_ranks(2, calls_in_a_step, "attach", "topk", 40), [(1, [])] * 2)


class BenchmarkTest(unittest.TestCase):
    def test_it_runs_and_writes_its_page(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text(PAGE.read_text())
            script = ROOT / "python" / "benchmarks" / "hook_overhead.py"
            run_torchrun(2, script, "--quick", "--write", str(page))
            written = page.read_text()
            self.assertIn("6040 parameters in 5 tensors, 2 ranks over Gloo", written)
            # A method that came after the page was measured has its row when the page is written next.
            measured = titles(PAGE.read_text())
            self.assertEqual([title for title in titles(written) if title in measured], measured)
            self.assertLessEqual(set(gradient_methods()), set(titles(written)))


def titles(page: str) -> list[str]:
    """The first cells of the table of costs."""
    table = page.split("<!-- costs by hook_overhead.py -->\n")[1].split("<!-- end of costs -->")[0]
    return [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()]


if __name__ == "__main__":
    unittest.main()
