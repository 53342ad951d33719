"""The picture of a step, from a trace as torch's profiler writes it."""

import pathlib
import sys
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python" / "benchmarks"))

import step_timeline  # noqa: E402

MAIN, AUTOGRAD, HOOK = 1, 2, 3  # threads


def event(category: str, name: str, begin: float, duration: float, thread: int = 7, correlation: int = 0) -> dict:
    """In a GPU's rows the thread is a stream."""
    args = {"correlation": correlation} if correlation else {}
    return {"ph": "X", "cat": category, "name": name, "ts": begin, "dur": duration, "tid": thread, "args": args}


def launched(thread: int, at: float, category: str, name: str, begin: float, duration: float) -> list[dict]:
    """A call of CUDA at some time, and what the GPU did for it."""
    number = round(at)
    call = event("cuda_runtime", "cudaLaunchKernel", at, 2, thread, number)
    return [call, event(category, name, begin, duration, correlation=number)]


FORWARD = event("user_annotation", "forward", 1000, 10, MAIN)
TRACE = {
    "traceEvents": [
        {"ph": "M", "name": "process_name"},
        event("user_annotation", "forward", 50, 10, MAIN),  # of a step before
        event("kernel", "before the step", 100, 5),
        FORWARD,
        *launched(MAIN, 1002, "kernel", "forward's gemm", 1005, 90),
        event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 1050, 100, AUTOGRAD),
        *launched(AUTOGRAD, 1060, "kernel", "gemm", 1100, 900),
        *launched(HOOK, 1110, "kernel", "void laconic::pack", 1500, 100),
        *launched(HOOK, 1112, "gpu_memcpy", "Memcpy DtoD (Device -> Device)", 1600, 10),
        *launched(HOOK, 1114, "gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 2100, 50),
        *launched(HOOK, 1116, "kernel", "void laconic::unpack", 2200, 100),
        *launched(AUTOGRAD, 2290, "kernel", "DDP's copy of a bucket", 2302, 3),  # in no function of autograd
        event("user_annotation", "optimizer", 2300, 200, MAIN),
        *launched(MAIN, 2304, "kernel", "sgd", 2320, 100),
    ]
}


class TimelineTest(unittest.TestCase):
    def test_what_is_exposed_is_between_autograds_last_kernel_and_the_optimizers_first(self):
        step = step_timeline.step_of("signsgd", TRACE)
        rows = ["torch", "torch", "laconic", "laconic", "copies", "laconic", "torch", "torch"]
        self.assertEqual([span.row for span in step.spans], rows)
        self.assertAlmostEqual(step.backward_end, 1.0)
        self.assertAlmostEqual(step.optimizer_begin, 1.32)
        self.assertAlmostEqual(step.exposed, 0.32)
        self.assertAlmostEqual(step.end, 1.42)
        self.assertAlmostEqual(step.milliseconds_of("laconic", 0, step.end), 0.21)
        self.assertAlmostEqual(step.milliseconds_of("laconic", step.backward_end, step.end), 0.1)
        self.assertIn("0.32", step_timeline.summary([step]))

    def test_calls_whose_threads_have_other_numbers_are_found_by_time(self):
        numbered = [
            each | {"tid": each["tid"] + 1000} if each.get("cat") == "cuda_runtime" else each
            for each in TRACE["traceEvents"]
        ]
        step = step_timeline.step_of("signsgd", {"traceEvents": numbered})
        self.assertAlmostEqual(step.backward_end, 1.0)
        self.assertAlmostEqual(step.optimizer_begin, 1.32)

    def test_a_trace_without_a_gpu_is_named(self):
        with self.assertRaisesRegex(SystemExit, "topk: the trace has 0 kernels of backward and 0 of the optimizer"):
            step_timeline.step_of("topk", {"traceEvents": [FORWARD]})

    def test_the_picture_has_a_panel_per_method(self):
        step = step_timeline.step_of("topk & more", TRACE)
        root = ElementTree.fromstring(step_timeline.picture([step, step], "One step <here>"))
        texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(texts.count("topk & more"), 2)
        self.assertEqual(texts.count("backward ends at 1.0 ms, exposed 0.3 ms"), 2)
        self.assertIn("One step <here>", texts)
        bars = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if each.get("fill") == "#1f6feb"]
        self.assertEqual(len(bars), 6)


if __name__ == "__main__":
    unittest.main()
