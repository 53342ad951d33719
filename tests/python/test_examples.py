"""The examples run on two ranks, learn, and say what they saved, which is what the pages say that they print."""

import inspect
import json
import os
import pathlib
import re
import runpy
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from typing import Any

from networks import numpy_free_objects
from ranks import run_torchrun, start_ranks, told
from test_documents import blocks

import laconic

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "python"


def be_script(path: str, *arguments: str) -> None:
    sys.argv = [path, *arguments]
    with numpy_free_objects():
        runpy.run_path(path, run_name="__main__")


def run_example(name: str, *arguments: str, ranks: int = 2) -> str:
    """What rank 0 prints. As torchrun starts it, but on forks of this process: torch is imported once for all."""
    ended = start_ranks(ranks, be_script, str(EXAMPLES / name), *arguments, group_timeout=None, stop_early=True)
    if any(rank.status != 0 for rank in ended):
        raise AssertionError(told(ended))
    return ended[0].output


def saved(output: str) -> int:
    """How many times as many bytes dense would send."""
    found = re.search(r"sent [\d,]+ bytes; dense would send [\d,]+: (\d+) times as many", output)
    if found is None:
        raise AssertionError(f"does not say what it saved:\n{output}")
    return int(found[1])


def be_page(path: str, folder: str) -> None:
    """The blocks of a page, one after the other."""
    os.chdir(folder)
    program = "\n".join(blocks(pathlib.Path(path)))
    with numpy_free_objects():
        exec(compile(program, path, "exec"), {"__name__": "__main__"})


def public() -> Iterator[tuple[str, Any]]:
    """Names and objects of the API: what the package offers, and what its classes do."""
    for name in laconic.__all__:
        thing = getattr(laconic, name)
        yield name, thing
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            yield from ((f"{name}.{each}", member) for each, member in vars(thing).items() if each[0] != "_")


class PagesTest(unittest.TestCase):
    def test_help_tells_everything(self) -> None:
        for name, thing in public():
            text = inspect.getdoc(thing) or ""
            self.assertTrue(text, f"{name} has no docstring")
            if isinstance(thing, property) or (inspect.isclass(thing) and issubclass(thing, Exception)):
                continue
            self.assertRegex(text, "[Cc]ollective", f"{name} does not say whether it is collective")
            for parameter in inspect.signature(thing).parameters:
                if parameter not in ("self", "set_to_none", "param_group"):  # torch's own
                    self.assertRegex(text, rf"(?m)^ +{parameter}: ", f"{name} says nothing of {parameter}")

    def test_the_plug_ins_page_runs(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ranks = start_ranks(2, be_page, str(ROOT / "docs" / "pytorch.md"), folder, group_timeout=None, stop_early=True)
            self.assertTrue((pathlib.Path(folder) / "runs" / "topk" / "result.json").exists(), told(ranks))
        self.assertEqual([rank.status for rank in ranks], [0, 0], told(ranks))
        self.assertRegex(ranks[0].output, "regtopk .*; options: keep, ")

    def test_the_page_of_sharded_models_runs(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ranks = start_ranks(4, be_page, str(ROOT / "docs" / "sharded.md"), folder, group_timeout=None, stop_early=True)
        self.assertEqual([rank.status for rank in ranks], [0] * 4, told(ranks))
        self.assertRegex(ranks[0].output, r"between replicas [\d,]+ bytes, inside [\d,]+ bytes")

    def test_which_method_is_what_was_measured(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "methods.json"
            table.write_text(json.dumps(laconic.methods()))
            command = [sys.executable, ROOT / "scripts" / "which-method", "--check", "--methods", table]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


class ExamplesTest(unittest.TestCase):
    def test_minimal(self) -> None:
        output = run_torchrun(2, EXAMPLES / "minimal.py")
        losses = [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.]+)$", output, re.MULTILINE)]
        self.assertEqual(len(losses), 4, output)
        self.assertLess(losses[-1], 1.2, output)  # guessing: 2.3
        self.assertGreater(saved(output), 50)
        for page in ("README.md", "docs/first-run.md"):  # which show what it prints
            self.assertAlmostEqual(saved((ROOT / page).read_text()), saved(output), delta=3, msg=page)

    def test_gpt(self) -> None:
        """The trainer at a small size: alone, and with methods of each kind."""
        small = ("--layers", "2", "--width", "48", "--heads", "2", "--context", "32", "--batch", "8", "--warmup", "10")
        for method, most, least_saved in (
            ((), 2.3, None),
            (("--laconic", "def-topk"), 2.6, 8),
            (("--laconic", "def-topk", "--dtype", "bfloat16", "--accumulate", "2"), 2.5, 8),
            (("--laconic", "diloco", "--option", "period=10"), 2.5, 9),
            (("--laconic", "signum", "--lr", "1e-3", "--accumulate", "2"), 2.6, 10),
            (("--laconic", "block-quant"), 2.3, 4),
        ):
            with self.subTest(method=method):
                output = run_example("gpt.py", *small, "--steps", "60", "--lr", "3e-3", *method)
                losses = [float(loss) for loss in re.findall(r"^step 60: .*validation ([\d.]+)$", output, re.MULTILINE)]
                self.assertEqual(len(losses), 1, output)
                self.assertLess(losses[0], most, output)  # at first: 3.6
                if least_saved is not None:
                    self.assertGreaterEqual(saved(output), least_saved, output)

    def test_gpt_goes_on(self) -> None:
        small = ("--layers", "1", "--width", "32", "--heads", "2", "--context", "16", "--batch", "4", "--save-every", "5")
        for method in ("def-topk", "topk"):
            with self.subTest(method=method), tempfile.TemporaryDirectory() as folder:
                choice = (*small, "--laconic", method, "--warmup", "2")
                whole = run_example("gpt.py", *choice, "--steps", "10", "--folder", f"{folder}/whole")
                # Its rate of learning is that of ten steps: it is stopped, not shorter.
                pathlib.Path(f"{folder}/whole/last").write_text("5")
                second = run_example("gpt.py", *choice, "--steps", "10", "--folder", f"{folder}/whole")
                self.assertIn("steps 5 to 10", second)
                self.assertEqual(re.findall("step 10: .*", second), re.findall("step 10: .*", whole))

    def test_mixed_precision(self) -> None:
        output = run_example("mixed_precision.py")
        scales = [int(scale) for scale in re.findall(r"scale (\d+)$", output, re.MULTILINE)]
        self.assertEqual(len(scales), 5, output)
        self.assertGreater(max(scales[:3]), scales[0])  # it has grown
        self.assertLess(scales[3], scales[2])  # and was halved after the bad batch
        self.assertIn("1 skipped", output)
        self.assertGreater(saved(output), 20)

    def test_resume(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            whole = run_example("resume.py", f"{folder}/whole")
            first = run_example("resume.py", f"{folder}/halves", "--steps", "50")
            second = run_example("resume.py", f"{folder}/halves")
        self.assertIn("steps 0 to 50", first)
        self.assertIn("steps 50 to 100", second)
        self.assertEqual(re.findall("loss.*", second), re.findall("loss.*", whole))
        self.assertGreater(saved(second), 50)

    def test_grawa(self) -> None:
        output = run_example("grawa.py")
        self.assertRegex(output, r"208 steps, 13 rounds, [789]\d\.\d % right")
        self.assertGreater(saved(output), 10)

    def test_hsdp(self) -> None:
        """And goes on with other numbers of shards and replicas."""
        with tempfile.TemporaryDirectory() as folder:
            for ranks, shards, end in ((4, 2, 60), (2, 1, 80), (3, 1, 100)):
                steps = ("--steps", "60" if end == 60 else "20")
                output = run_example("hsdp.py", f"{folder}/run", "--shards", str(shards), *steps, ranks=ranks)
                losses = re.findall(rf"^step {end}: loss ([\d.]+) with {ranks // shards} replicas", output, re.MULTILINE)
                self.assertEqual(len(losses), 1, output)
                self.assertLess(float(losses[0]), 1.9, output)  # guessing: 2.3
                self.assertGreater(saved(output), 20)

    def test_def_a(self) -> None:
        output = run_example("def_a.py")
        self.assertRegex(output, r"300 steps, [789]\d\.\d % right")
        self.assertGreater(saved(output), 50)


if __name__ == "__main__":
    unittest.main()
