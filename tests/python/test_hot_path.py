"""What Python does in a step, counted and not timed: nothing under `attach`, one call a bucket under `hook`, however many
tensors there are. And the benchmark of hooks runs."""

import pathlib
import sys
import tempfile
import unittest
from types import FrameType
from typing import Any

import laconic
from probe import Probe, connect, gradients, wrapped
from ranks import run_ranks, run_torchrun
from variations import gradient_methods, options_of

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
        with Calls() as calls:
            ddp(given).backward()
    return len(ddp.reducer._get_zeros_like_grad_buckets()), calls.names


def counted() -> list[str]:
    """What is wrong."""
    wrong = []
    for method in gradient_methods():
        for tensors in (4, 40):
            calls = calls_in_a_step("attach", method, tensors)[1]
            if calls:
                wrong.append(f"{method} by attach, {tensors} tensors: {calls}")
            buckets, calls = calls_in_a_step("hook", method, tensors)
            if sorted(calls) != sorted(["hook", "submit"] * buckets):
                wrong.append(f"{method} by hook, {tensors} tensors in {buckets} buckets: {calls}")
    return wrong


class HotPathTest(unittest.TestCase):
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
            self.assertEqual(titles(written), titles(PAGE.read_text()))
            self.assertLessEqual(set(gradient_methods()), set(titles(written)))


def titles(page: str) -> list[str]:
    """The first cells of the table of costs."""
    table = page.split("<!-- costs by hook_overhead.py -->\n")[1].split("<!-- end of costs -->")[0]
    return [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()]


if __name__ == "__main__":
    unittest.main()
