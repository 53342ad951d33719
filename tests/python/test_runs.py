"""Runs of Python leave folders that the program and laconic.report read, and figures for TensorBoard."""

import json
import math
import os
import pathlib
import tempfile
import unittest
from typing import Any

import torch
import torch.distributed as dist
from networks import batch, loss_of, network, optimizer_for, test_loss
from ranks import run_ranks
from torch.nn.parallel import DistributedDataParallel

import laconic
from laconic import _core

STEPS = 6


class Writer:
    """As much of a SummaryWriter as is used."""

    def __init__(self) -> None:
        self.scalars: dict[str, Any] = {}

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars[name] = (value, step)


def record(folder: str, method: str) -> dict[str, Any]:
    model = network()
    optimizer = optimizer_for(method, model)
    log = laconic.RunLog(f"{folder}/{method}", optimizer, task="quadrants", lr=0.05)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, *batch(dist.get_rank(), step))
        loss.backward()
        optimizer.step(loss=loss)
        if step % 3 == 2:
            with optimizer.read_out():
                log.step(batch_loss=loss.item(), loss=test_loss(model), accuracy=0.5)
            log.pause()
        else:
            log.step(batch_loss=loss.item())
    log.finish(loss=test_loss(model), accuracy=0.75)
    writer = Writer()
    laconic.log_to_tensorboard(writer, optimizer, STEPS)
    return {**writer.scalars, "metrics": optimizer.metrics()}


def record_all(folder: str) -> list[dict[str, Any]]:
    return [record(folder, method) for method in ("def-a", "mgrawa")]


def record_hook(folder: str) -> dict[str, Any]:
    ddp = DistributedDataParallel(network())
    state = laconic.attach(ddp, "topk", keep=0.1)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    cut = pathlib.Path(folder) / "topk" / "metrics.jsonl"
    for resume in (False, True):
        log = laconic.RunLog(f"{folder}/topk", state, task="quadrants", resume=resume)
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(ddp, *batch(dist.get_rank(), step)).backward()
            optimizer.step()
            log.step(loss=1.0)
        if not resume and dist.get_rank() == 0:
            with open(cut, "a", encoding="utf-8") as file:
                file.write('{"step": 7}\n{"step": 8, "ba')  # steps that the state does not know
    log.finish()
    writer = Writer()
    laconic.log_to_tensorboard(writer, state.metrics(), STEPS)
    return writer.scalars


def record_what_json_has_not(folder: str) -> list[str]:
    """What was refused, after every figure and setting that JSON has no number for."""
    optimizer = optimizer_for("def-a", network())
    log = laconic.RunLog(f"{folder}/odd", optimizer, clip=math.inf, limits={"low": -math.inf, "all": [1.0, math.nan]})
    refused = []
    for accuracy in (87.5, -0.5, math.inf):
        try:
            log.step(loss=1.0, accuracy=accuracy)
        except laconic.InvalidConfig as error:
            refused.append(str(error))
    log.step(batch_loss=math.inf, loss=math.nan, accuracy=math.nan)
    log.step(loss=-math.inf, accuracy=1)
    try:
        log.finish(accuracy=1.5 if dist.get_rank() == 0 else None)
    except laconic.InvalidConfig as error:
        refused.append(str(error))
    log.finish(loss=math.inf, accuracy=0)
    return refused


def write_whole(path: pathlib.Path, text: str) -> None:
    _core.write_whole_file(os.fsencode(path), text)


class RunsTest(unittest.TestCase):
    def test_folders_and_page(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for found in run_ranks(2, record_all, name):
                for each in found:
                    metrics = each["metrics"]
                    self.assertEqual(each["laconic/total/sent_bytes"], (metrics["total"]["sent_bytes"], STEPS))
                    self.assertIn("laconic/last/exchange_seconds", each)
                    self.assertIn("laconic/residual_norm", each)
            lines = [json.loads(line) for line in (folder / "def-a" / "metrics.jsonl").read_text().splitlines()]
            result = json.loads((folder / "def-a" / "result.json").read_text())
            self.assertEqual([line["step"] for line in lines], list(range(1, STEPS + 1)))
            self.assertEqual(sum(line["sent_bytes"] for line in lines), result["sent_bytes_by_rank"][0])
            self.assertEqual(result["steps_by_rank"], [STEPS, STEPS])
            self.assertGreater(lines[-1]["residual_norm"], 0)
            if not hasattr(_core, "report_json"):
                self.skipTest("built without nlohmann-json")
            (folder / "plotly.min.js").write_text("/* charts */")
            page = laconic.report(folder, folder / "report.html", plotly=folder / "plotly.min.js").read_text()
            self.assertIn("/* charts */", page)
            self.assertNotIn("{{", page.split("</style>")[0])
            data = page.split('<script id="data" type="application/json">')[1].split("</script>")[0]
            runs = json.loads(data)["runs"]
            self.assertEqual([run["label"] for run in runs], ["def-a", "mgrawa"])

    def test_a_hook_that_was_cut(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            for found in run_ranks(2, record_hook, name):
                self.assertIn("laconic/total/sent_bytes", found)
            lines = [json.loads(line) for line in (pathlib.Path(name) / "topk" / "metrics.jsonl").read_text().splitlines()]
            self.assertEqual([line["step"] for line in lines], list(range(1, 2 * STEPS + 1)))
            self.assertTrue(all(line["sent_bytes"] > 0 for line in lines))

    def test_what_json_has_not_is_refused_or_recorded_otherwise(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            first, second = run_ranks(2, record_what_json_has_not, name)
            self.assertEqual(first[0], "accuracy must be a share in [0, 1], got 87.5: divide percent by 100")
            self.assertEqual((len(first), len(second)), (4, 3), f"{first} {second}")
            refuse = self.fail  # what json.loads would take, and no other reader
            config = json.loads((folder / "odd" / "config.json").read_text(), parse_constant=refuse)
            self.assertEqual(config["run"]["clip"], "inf")
            self.assertEqual(config["run"]["limits"], {"low": "-inf", "all": [1.0, "nan"]})
            text = (folder / "odd" / "metrics.jsonl").read_text()
            lines = [json.loads(line, parse_constant=refuse) for line in text.splitlines()]
            self.assertEqual([line["accuracy"] for line in lines], [None, 1])
            self.assertEqual([lines[0]["batch_loss"], lines[0]["loss"], lines[1]["loss"]], [None, None, None])
            if not hasattr(_core, "report_json"):
                self.skipTest("built without nlohmann-json")
            run = json.loads(_core.report_json([name]))["runs"][0]
            self.assertEqual((run["end"]["finished"], run["end"]["accuracy"], run["end"]["loss"]), (True, 0, None))

    def test_deep_nesting_and_odd_names_are_told_in_a_line(self) -> None:
        if not hasattr(_core, "report_json"):
            self.skipTest("built without nlohmann-json")
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name) / "a\x1b[31m"
            folder.mkdir()
            (folder / "config.json").write_text('{"method": {"name": "topk"}, "run": ' + "[" * 100_000)
            with self.assertRaisesRegex(laconic.InvalidConfig, "nested more than 64 deep") as raised:
                _core.report_json([name])
            self.assertTrue(str(raised.exception).isprintable(), repr(str(raised.exception)))

    def test_what_is_missing_is_named(self) -> None:
        if not hasattr(_core, "report_json"):
            self.skipTest("built without nlohmann-json")
        with tempfile.TemporaryDirectory() as name, self.assertRaisesRegex(laconic.InvalidConfig, "is no run"):
            (pathlib.Path(name) / "p.js").write_text("")
            laconic.report(name, plotly=pathlib.Path(name) / "p.js")


class FilesTest(unittest.TestCase):
    def setUp(self) -> None:
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)

    def test_links_and_pipes_that_are_named_stay_what_they_are(self) -> None:
        target, link, pipe = (self.folder / name for name in ("target", "link", "pipe"))
        target.write_text("a longer text")
        link.symlink_to(target)
        write_whole(link, "short")
        self.assertTrue(link.is_symlink())
        self.assertEqual(target.read_text(), "short")
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        write_whole(pipe, "some text")
        self.assertEqual(os.read(reader, 100), b"some text")
        self.assertTrue(pipe.is_fifo())

    def test_what_fails_leaves_nothing_behind(self) -> None:
        (self.folder / "taken").mkdir()
        with self.assertRaises(OSError) as raised:
            write_whole(self.folder / "taken", "text")
        self.assertEqual(raised.exception.filename, str(self.folder / "taken"))
        self.assertEqual([each.name for each in self.folder.iterdir()], ["taken"])
        with self.assertRaises(FileNotFoundError):
            write_whole(self.folder / "none" / "file", "text")


if __name__ == "__main__":
    unittest.main()
