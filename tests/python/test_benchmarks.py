"""The picture of a step, from a trace as torch's profiler writes it."""

import pathlib
import sys
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python" / "benchmarks"))

import step_timeline  # noqa: E402


def event(category: str, name: str, begin: float, duration: float) -> dict:
    return {"ph": "X", "cat": category, "name": name, "ts": begin, "dur": duration}


TRACE = {
    "traceEvents": [
        {"ph": "M", "name": "process_name"},
        event("user_annotation", "forward", 1000, 10),
        event("kernel", "before the step", 100, 5),
        event("kernel", "gemm", 1100, 900),
        event("kernel", "void laconic::pack", 1500, 100),
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 2100, 50),
        event("kernel", "void laconic::unpack", 2200, 100),
        event("gpu_user_annotation", "optimizer", 2310, 200),
        event("kernel", "sgd", 2320, 100),
    ]
}


class TimelineTest(unittest.TestCase):
    def test_what_is_exposed_comes_after_torchs_last_kernel_before_the_optimizer(self):
        step = step_timeline.step_of("signsgd", TRACE)
        self.assertEqual([span.row for span in step.spans], ["torch", "laconic", "copies", "laconic", "torch"])
        self.assertAlmostEqual(step.backward_end, 1.0)
        self.assertAlmostEqual(step.end, 1.42)
        self.assertAlmostEqual(step.milliseconds_of("laconic", 0, step.end), 0.2)
        self.assertAlmostEqual(step.milliseconds_of("laconic", step.backward_end, step.end), 0.1)

    def test_the_picture_has_a_panel_per_method(self):
        step = step_timeline.step_of("topk & more", TRACE)
        root = ElementTree.fromstring(step_timeline.picture([step, step], "One step <here>"))
        texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(texts.count("topk & more"), 2)
        self.assertIn("One step <here>", texts)
        bars = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if each.get("fill") == "#1f6feb"]
        self.assertEqual(len(bars), 4)


if __name__ == "__main__":
    unittest.main()
