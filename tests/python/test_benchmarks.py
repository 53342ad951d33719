"""The picture of a step, from a trace as torch's profiler writes it, and the model of def-topk's variants."""

import contextlib
import io
import json
import math
import pathlib
import random
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import torch
import torch.nn.functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python" / "benchmarks"))

import step_timeline  # noqa: E402
import update_variants  # noqa: E402

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


class UpdateVariantsTest(unittest.TestCase):
    """The PyTorch model of def-topk and its variants, at a size that takes seconds."""

    SIZE = ("--small", "--workers", "2", "--batch", "4", "--device", "cpu")

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.text = pathlib.Path(cls.folder.name) / "text.txt"
        words = ["the ", "cat ", "sat ", "upon ", "a ", "mat.\n", "Who ", "saw ", "it? "]
        draw = random.Random(1)
        cls.text.write_text("".join(draw.choice(words) for _ in range(2000)))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_with(self, *flags: str) -> update_variants.Run:
        return update_variants.Run(update_variants.parsed(["--text", str(self.text), *self.SIZE, *flags]))

    def plain_loss(self, run: update_variants.Run, parameters: list[torch.Tensor], windows: torch.Tensor):
        """One worker's network with PyTorch's usual functions, and attention written out."""
        size, length = run.network.size, windows.shape[1] - 1
        rest = iter(parameters)
        embedding, positions = next(rest), next(rest)
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        values = embedding[windows[:, :-1]] + positions
        for _ in range(size.layers):
            normed = F.layer_norm(values, (size.width,), next(rest))
            heads = [
                part.unflatten(2, (size.heads, -1)).transpose(1, 2)
                for part in F.linear(normed, next(rest)).split(size.width, 2)
            ]
            scores = heads[0] @ heads[1].transpose(2, 3) / (size.width / size.heads) ** 0.5
            mixed = scores.masked_fill(hidden, float("-inf")).softmax(3) @ heads[2]
            values = values + F.linear(mixed.transpose(1, 2).flatten(2), next(rest))
            normed = F.layer_norm(values, (size.width,), next(rest))
            values = values + F.linear(F.gelu(F.linear(normed, next(rest))), next(rest))
        logits = F.linear(F.layer_norm(values, (size.width,), next(rest)), embedding)
        return F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())

    def after_adamw(self, run: update_variants.Run, windows: torch.Tensor) -> torch.Tensor:
        """One worker's parameters after one step of torch.optim.AdamW."""
        parameters = [view[0].clone().requires_grad_() for view in run.network.views(run.x[None])]
        groups = [
            {"params": [each for each in parameters if each.ndim == 2], "weight_decay": 0.1},
            {"params": [each for each in parameters if each.ndim == 1], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=run.learning_rate(0), betas=(0.9, 0.99))
        self.plain_loss(run, parameters, windows).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return torch.cat([each.detach().flatten() for each in parameters])

    def test_a_step_is_the_mean_of_the_workers_own_steps(self):
        """What x - mean of e is after one step does not depend on what was sent."""
        for keep, values in (("1", "f32"), ("1", "sign"), ("0.02", "sign")):
            with self.subTest(keep=keep, values=values):
                run = self.run_with("--lam", "0", "--keep", keep, "--values", values)
                before, state = run.x.clone(), run.draws.get_state()
                windows = run.text.draw(2, 2, run.draws)
                run.draws.set_state(state)
                expected = torch.stack([self.after_adamw(run, each) for each in windows]).mean(0)
                run.step(0)
                moved = run.read() - before
                # Where a gradient is near zero, Adam divides rounding errors by their own size.
                far = (moved - (expected - before)).abs() > 1e-3 * run.learning_rate(0)
                self.assertLess(far.float().mean().item(), 1e-3)
                if keep == "1" and values == "f32":
                    self.assertEqual(run.e.abs().max().item(), 0.0)
                if keep == "0.02":
                    self.assertTrue(0.0199 < run.came.item() < 0.0401, run.came)  # 0.02 to 0.04 by two workers

    def test_steps_are_those_of_a_plain_loop_over_workers(self):
        run = self.run_with("--decay", "0.9", "--steps", "5", "--lr", "0.01", "--gain", "2")
        run.e.normal_(std=0.01)  # in Adam's first step all entries have the same size, so that top-k may take any
        run.detach()
        x, residuals, entries = run.x.clone(), list(run.e.clone()), run.network.entries
        first, second = torch.zeros(2, 2, entries)
        matrices = torch.cat([torch.full((math.prod(each),), float(len(each) == 2)) for each in run.network.shapes])
        draws = torch.Generator().manual_seed(1)
        for step in range(5):
            rate, delta = run.learning_rate(step), torch.zeros(entries)
            for k, windows in enumerate(run.text.draw(2, 2, draws)):
                y = x - 0.5 * residuals[k]
                parameters = [view[0].clone().requires_grad_() for view in run.network.views(y[None])]
                self.plain_loss(run, parameters, windows).backward()
                torch.nn.utils.clip_grad_norm_(parameters, 1.0)
                gradient = torch.cat([each.grad.flatten() for each in parameters])
                first[k] = 0.9 * first[k] + 0.1 * gradient
                second[k] = 0.99 * second[k] + 0.01 * gradient**2
                root = (second[k] / (1 - 0.99 ** (step + 1))).sqrt() + 1e-8
                p = residuals[k] + 2 * rate * first[k] / (1 - 0.9 ** (step + 1)) / root
                indices = p.abs().topk(round(0.02 * entries)).indices
                c = torch.zeros(entries).index_copy_(0, indices, p[indices].sign() * p[indices].abs().mean())
                residuals[k] = 0.9 * (p - c)
                delta += c / 2
            x = x * (1 - 0.1 * rate * matrices) - delta
            run.step(step)
            self.assertLess((run.x - x).norm() / delta.norm(), 0.1)  # a few entries at the threshold may differ

    def test_every_variant_learns(self):
        variants = [
            ["--moment", "local"],
            *(["--moment", moment] for moment in update_variants.SHARED),
            ["--direction", "sign"],
            ["--lam", "optimal"],
            ["--keep-schedule", "rising"],
            ["--keep-schedule", "falling", "--values", "f32"],
            ["--decay", "0.9"],
        ]
        first = self.run_with().validation_loss()
        for flags in variants:
            with self.subTest(flags=flags):
                rate = "0.005" if "sign" in flags else "0.02"
                arguments = ["--text", str(self.text), *self.SIZE, "--steps", "60", "--lr", rate, *flags]
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    found = update_variants.train(update_variants.parsed(arguments))
                self.assertIn("step 60: loss", printed.getvalue())
                self.assertLess(found["loss"], first - 0.3)
                json.dumps(found)


if __name__ == "__main__":
    unittest.main()
