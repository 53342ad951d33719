"""Records of runs: a folder that `laconic.report` and the program read, and scalars for TensorBoard."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import pathlib
import time
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.distributed as dist

from . import _core, _process_groups

__all__ = ["RunLog", "log_to_tensorboard", "report"]

Path = str | os.PathLike[str]

_SUMS = ("payload_bytes", "sent_bytes", "received_bytes", "sent_messages")
_SECONDS = ("select_seconds", "encode_seconds", "exchange_seconds", "decode_seconds")


def log_to_tensorboard(writer: Any, source: Any, step: int, prefix: str = "laconic") -> None:
    """Writes all metrics of a `laconic.State` or `laconic.Optimizer` as scalars to TensorBoard. Not collective.

        laconic.log_to_tensorboard(writer, state, step)

    Args:
        writer: a `torch.utils.tensorboard.SummaryWriter`, or any object with its `add_scalar`.
        source: the State or Optimizer, or what its `metrics()` returned.
        step: the step of the run.
        prefix: first part of the scalars' names: `laconic/total/sent_bytes`.
    """
    metrics = source if isinstance(source, Mapping) else source.metrics()
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            log_to_tensorboard(writer, value, step, f"{prefix}/{name}")
        else:
            writer.add_scalar(f"{prefix}/{name}", value, step)


class RunLog:
    """Records a run in the folder format of the program's `train --out`: config.json, metrics.jsonl, result.json.

        log = laconic.RunLog("runs/def-a", optimizer, task="cifar10", lr=0.1)
        for step, (inputs, labels) in enumerate(loader):
            ...
            optimizer.step()
            log.step(batch_loss=loss.item())
        log.finish(accuracy=accuracy)
        laconic.report("runs")

    Rank 0 writes; on the other ranks `step` does nothing. `finish` is collective: it collects every rank's traffic.

    Args:
        folder: where to write; it is created. The record of an earlier run there is removed. With `resume`, it is kept
            up to the source's current step.
        source: the `laconic.Optimizer` or `laconic.State` whose metrics are recorded.
        task: name of what is trained, for the title of the report.
        resume: continue the record of an interrupted run.
        settings: any other settings that distinguish this run from others. JSON has no infinities and no NaN, so they
            are recorded as text.
    """

    def __init__(
        self, folder: Path, source: Any, *, task: str = "python", resume: bool = False, **settings: Any
    ) -> None:
        self._source = source
        self._group = source._group
        self._writes = dist.get_rank(self._group) == 0
        self._before = self._figures()
        self._step = self._before["steps"]  # those of a run that was resumed count on
        self._recorded = 0
        self._clock = time.perf_counter()
        self._started = self._clock
        self._seconds = 0.0
        if not self._writes:
            return
        self._record = _core.RunRecord(os.fsencode(folder))
        self._record.remove_result()
        config = {
            "laconic": _core.version,
            "task": {"name": task},
            "method": {"name": source.method, **_recordable(getattr(source, "_options", {}))},
            "run": {"workers": dist.get_world_size(self._group), **_replicas_of(source), **_recordable(settings)},
        }
        self._record.write_config(json.dumps(config, indent=2, default=str, allow_nan=False) + "\n")
        self._record.open_metrics(self._step if resume else 0)

    def step(
        self, *, batch_loss: float | None = None, loss: float | None = None, accuracy: float | None = None
    ) -> None:
        """Records one step. Call it after the optimizer's step. Not collective.

        Args:
            batch_loss: loss of this rank's batch. A value that is not finite is recorded as unknown, here and below.
            loss: loss of an evaluation, if there was one.
            accuracy: accuracy of an evaluation, from 0 to 1.

        Raises:
            InvalidConfig: for an accuracy outside [0, 1]. Nothing is recorded.
        """
        accuracy = _share(accuracy)
        if not self._writes:
            return
        now = time.perf_counter()
        figures = self._figures()
        self._step += 1
        self._recorded += 1
        seconds = now - self._clock
        self._seconds += seconds
        line: dict[str, Any] = {"step": self._step, "batch_loss": _finite(batch_loss)}
        if loss is not None or accuracy is not None:
            line.update(loss=_finite(loss), accuracy=accuracy, residual_norm=_finite(figures["residual_norm"]))
        for name in (*_SUMS, "rounds", *_SECONDS):
            line[name] = max(figures[name] - self._before[name], 0)
        if figures["inside_sent_bytes"]:
            line["inside_sent_bytes"] = max(figures["inside_sent_bytes"] - self._before["inside_sent_bytes"], 0)
        line.update(bits=_finite(figures["bits"]), step_seconds=seconds)
        self._record.write_line(json.dumps(line, allow_nan=False))
        self._before = figures
        self._clock = time.perf_counter()

    def pause(self) -> None:
        """Excludes the time since the last step, for example of an evaluation, from the record. Not collective."""
        self._clock = time.perf_counter()

    def finish(self, *, loss: float | None = None, accuracy: float | None = None) -> None:
        """Ends the record with every rank's traffic. Collective.

        Args:
            loss: loss of the last evaluation.
            accuracy: accuracy of the last evaluation, from 0 to 1.

        Raises:
            InvalidConfig: for an accuracy outside [0, 1], on the ranks that gave it. No result is written.
        """
        figures = self._figures()
        device = _process_groups.device_of(self._group)
        sums = (*_SUMS, "inside_sent_bytes")
        mine = torch.tensor([figures["steps"], *(figures[name] for name in sums)], dtype=torch.int64, device=device)
        by_rank = [torch.empty_like(mine) for _ in range(dist.get_world_size(self._group))]
        dist.all_gather(by_rank, mine, group=self._group)
        accuracy = _share(accuracy)  # after the others were met, who may have given none
        if not self._writes:
            return
        steps, payload, sent, received, messages, inside = torch.stack(by_rank).T.tolist()
        result = {
            "method": self._source.method,
            "workers": len(by_rank),
            "loss": _finite(loss),
            "accuracy": accuracy,
            "steps_by_rank": steps,
            "rounds": figures["rounds"],
            "skipped": figures["skipped"],
            "payload_bytes": payload[0],
            "total_sent_bytes": sum(sent),
            "total_received_bytes": sum(received),
            "sent_bytes_by_rank": sent,
            "received_bytes_by_rank": received,
            "payload_bytes_by_rank": payload,
            "sent_messages_by_rank": messages,
            **({"total_inside_sent_bytes": sum(inside), "inside_sent_bytes_by_rank": inside} if any(inside) else {}),
            **{name: figures[name] for name in _SECONDS},
            "step_seconds": self._seconds / max(self._recorded, 1),
            "wall_seconds": time.perf_counter() - self._started,
        }
        self._record.write_result(json.dumps(result, indent=2, allow_nan=False) + "\n")

    def _figures(self) -> dict[str, Any]:
        """Sums so far, in the words of laconic.Optimizer's metrics."""
        metrics = self._source.metrics()
        figures = {**metrics, **metrics.get("total", {})}
        figures.setdefault("rounds", figures["steps"])
        figures.setdefault("inside_sent_bytes", 0)
        return figures


def _replicas_of(source: Any) -> dict[str, int]:
    """Of a sharded model: what is sent inside stays inside a replica, and not inside a machine."""
    return {"replicas": source._replicas} if hasattr(source, "_replicas") else {}


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _share(accuracy: float | None) -> float | None:
    """As _finite; InvalidConfig for what no report would read."""
    if accuracy is not None and not math.isnan(accuracy) and not 0 <= accuracy <= 1:
        raise _core.InvalidConfig(f"accuracy must be a share in [0, 1], got {float(accuracy):g}: divide percent by 100")
    return _finite(accuracy)


def _recordable(value: Any) -> Any:
    """Settings with text in place of infinities and NaN."""
    if isinstance(value, Mapping):
        return {name: _recordable(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_recordable(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def report(runs: Path | Iterable[Path], out: Path = "report.html", *, plotly: Path | None = None) -> pathlib.Path:
    """Writes one self-contained page with charts of the runs. Not collective: call it on one rank.

    The page opens without a network.

    Args:
        runs: folders of runs, or folders that contain them, written by `laconic.RunLog` or by the program's
            `train --out`. A run that has not ended is drawn as far as it went.
        out: path of the page.
        plotly: path of `plotly.min.js`. Default: the one that laconic was built with, or that of the Python package
            plotly.

    Returns:
        The path of the page.

    Raises:
        InvalidConfig: for a folder without a run, for files in it that are damaged or nested more than 64 deep, without
            a plotly.min.js, or if laconic was built without the report.
    """
    if not hasattr(_core, "report_json"):
        raise _core.InvalidConfig(
            "this laconic was built without the report, which needs nlohmann-json (nlohmann-json3-dev): "
            "install it and build laconic again"
        )
    folders = [runs] if isinstance(runs, (str, os.PathLike)) else list(runs)
    page = _core.report_page(
        html=(_page() / "page.html").read_text(encoding="utf-8"),
        style=(_page() / "page.css").read_text(encoding="utf-8"),
        script=(_page() / "page.js").read_text(encoding="utf-8"),
        plotly=_plotly(plotly).read_text(encoding="utf-8"),
        data=_core.report_json([os.fspath(folder) for folder in folders]),
    )
    _core.write_whole_file(os.fsencode(out), page)
    return pathlib.Path(out)


def _page() -> pathlib.Path:
    return pathlib.Path(__file__).parent / "page"


def _plotly(given: Path | None) -> pathlib.Path:
    if given is not None:
        return pathlib.Path(given)
    built_in = _page() / "plotly.min.js"
    if built_in.exists():
        return built_in
    package = importlib.util.find_spec("plotly")
    if package is not None and package.origin is not None:
        beside = pathlib.Path(package.origin).parent / "package_data" / "plotly.min.js"
        if beside.exists():
            return beside
    raise _core.InvalidConfig("the report needs plotly.min.js: pip install plotly, or give its path as plotly=")
