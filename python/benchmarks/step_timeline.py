"""What a GPU does in one step, as a picture: python python/benchmarks/step_timeline.py --write docs/images/timeline.svg

Two ranks share a GPU and exchange over Gloo, which works in CPU memory, so that an exchange takes time. The model is a
transformer (27 million parameters). For each method, a step is recorded by torch's profiler on rank 0. A panel has a
row for torch's kernels, one for Laconic's and one for copies between GPU and CPU. One line marks the end of backward,
which is the end of the last kernel that autograd launched, and one the optimizer's first kernel. The time between them
is exposed: the optimizer waits for the exchange.

With --traces FOLDER the traces stay there, and --from FOLDER draws them again, without a GPU.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function

import laconic

WARM_UP = 8  # steps that fill memory and rebuild the buckets
TITLE = "title.txt"
EVALUATE = "autograd::engine::evaluate_function"  # how torch's profiler calls one function of a backward
METHODS = ("signsgd", "qsgd", "topk")
ROWS = ("torch", "laconic", "copies")
COLORS = {"torch": "#9aa5b1", "laconic": "#1f6feb", "copies": "#d9822b"}
WIDTH, LEFT, ROW, PANEL_GAP = 960, 90, 22, 44


@dataclass
class Span:
    row: str
    begin: float  # milliseconds since the step began
    end: float


@dataclass
class Step:
    method: str
    spans: list[Span]
    backward_end: float
    optimizer_begin: float
    end: float

    @property
    def exposed(self) -> float:
        return self.optimizer_begin - self.backward_end

    def milliseconds_of(self, row: str, begin: float, end: float) -> float:
        """How long a row was busy in an interval; its spans follow one another."""
        return sum(max(0.0, min(span.end, end) - max(span.begin, begin)) for span in self.spans if span.row == row)


class Trace:
    """The last step of a trace in Chrome's format, whose times are microseconds."""

    def __init__(self, trace: dict) -> None:
        events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
        self.begin = max(event["ts"] for event in of(events, "user_annotation") if event["name"] == "forward")
        events = [event for event in events if event["ts"] >= self.begin]
        self.on_device = of(events, "kernel", "gpu_memcpy", "gpu_memset")
        self.backward = [event for event in of(events, "cpu_op") if event["name"].startswith(EVALUATE)]
        self.optimizer = [event for event in of(events, "user_annotation") if event["name"] == "optimizer"]
        # A call of CUDA and the work that it launched have the same correlation.
        self._launches = {
            event["args"]["correlation"]: event
            for event in of(events, "cuda_runtime", "cuda_driver")
            if "correlation" in event.get("args", {})
        }
        self._hook_threads = {
            launch["tid"]
            for event in self.on_device
            if "laconic" in event["name"] and (launch := self.launch_of(event)) is not None
        } - {event["tid"] for event in (*self.backward, *self.optimizer)}

    def launch_of(self, event: dict) -> dict | None:
        return self._launches.get(event.get("args", {}).get("correlation"))

    def row_of(self, event: dict) -> str:
        """A kernel of torch's that the hook's thread launched is a part of Laconic's work."""
        if event["cat"] == "gpu_memcpy" and ("DtoH" in event["name"] or "HtoD" in event["name"]):
            return "copies"
        launch = self.launch_of(event)
        by_hook = launch is not None and launch["tid"] in self._hook_threads
        return "laconic" if by_hook or "laconic" in event["name"] else "torch"

    def launched_in(self, calls: list[dict]) -> list[dict]:
        """Kernels of torch that one of the calls launched, in its own thread."""
        for is_inside in (is_in_call, is_in_time):  # for the case that the profiler numbers threads in several ways
            found = [
                event
                for event in self.on_device
                if (launch := self.launch_of(event)) is not None
                and self.row_of(event) == "torch"
                and any(is_inside(launch, call) for call in calls)
            ]
            if found:
                return found
        return []

    def milliseconds(self, time: float) -> float:
        return (time - self.begin) / 1000


def of(events: list[dict], *categories: str) -> list[dict]:
    return [event for event in events if event.get("cat") in categories]


def end_of(event: dict) -> float:
    return event["ts"] + event["dur"]


def is_in_time(launch: dict, call: dict) -> bool:
    return call["ts"] <= launch["ts"] <= end_of(call)


def is_in_call(launch: dict, call: dict) -> bool:
    return launch["tid"] == call["tid"] and is_in_time(launch, call)


def step_of(method: str, trace: dict) -> Step:
    """Raises a SystemExit that says what the trace does not have."""
    found = Trace(trace)
    # DistributedDataParallel's own work after the hook's wait comes after autograd's functions, in no call of theirs.
    backward = found.launched_in(found.backward)
    optimizer = found.launched_in(found.optimizer)
    if not backward or not optimizer:
        categories = sorted({event.get("cat", "") for event in trace["traceEvents"]})
        raise SystemExit(
            f"{method}: the trace has {len(backward)} kernels of backward and {len(optimizer)} of the optimizer; "
            f"{len(found.on_device)} events of the device, {len(found.backward)} calls of autograd; {categories}"
        )
    spans = [
        Span(found.row_of(event), found.milliseconds(event["ts"]), found.milliseconds(end_of(event)))
        for event in found.on_device
    ]
    backward_end = found.milliseconds(max(end_of(event) for event in backward))
    optimizer_begin = found.milliseconds(min(event["ts"] for event in optimizer))
    return Step(method, spans, backward_end, optimizer_begin, max(span.end for span in spans))


def panel(step: Step, top: float, scale: float) -> list[str]:
    height = ROW * len(ROWS)
    lines = [f'<text x="0" y="{top - 8}" font-weight="bold">{html.escape(step.method)}</text>']
    for number, row in enumerate(ROWS):
        y = top + ROW * number
        lines.append(f'<text x="0" y="{y + 15}">{row}</text>')
        lines.append(f'<rect x="{LEFT}" y="{y + 2}" width="{WIDTH - LEFT}" height="{ROW - 4}" fill="#f2f4f6"/>')
        lines += [
            f'<rect x="{LEFT + span.begin * scale:.2f}" y="{y + 2}" height="{ROW - 4}" '
            f'width="{max((span.end - span.begin) * scale, 0.3):.2f}" fill="{COLORS[row]}"/>'
            for span in step.spans
            if span.row == row
        ]
    begin, end = (LEFT + each * scale for each in (step.backward_end, step.optimizer_begin))
    width = max(end - begin, 0.0)
    lines.append(f'<rect x="{begin:.2f}" y="{top}" width="{width:.2f}" height="{height}" fill="#c0392b" opacity="0.12"/>')
    for x in (begin, end):
        lines.append(f'<line x1="{x:.2f}" x2="{x:.2f}" y1="{top - 4}" y2="{top + height + 4}" stroke="#c0392b"/>')
    told = f"backward ends at {step.backward_end:.1f} ms, exposed {step.exposed:.1f} ms"
    before = begin > WIDTH / 2  # or the text would not fit
    anchor, x = ("end", end) if before else ("start", begin)
    lines.append(f'<text x="{x:.2f}" y="{top - 8}" text-anchor="{anchor}" fill="#c0392b">{told}</text>')
    return lines


def picture(steps: list[Step], title: str) -> str:
    longest = max(step.end for step in steps)
    scale = (WIDTH - LEFT) / longest
    each = ROW * len(ROWS) + PANEL_GAP
    height = 30 + each * len(steps) + 24
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="0" y="14">{html.escape(title)}</text>',
    ]
    for number, step in enumerate(steps):
        lines += panel(step, 30 + each * number + PANEL_GAP / 2, scale)
    ticks = max(1, round(longest / 10))
    for tick in range(0, int(longest) + 1, ticks):
        lines.append(f'<text x="{LEFT + tick * scale:.1f}" y="{height - 6}" text-anchor="middle">{tick} ms</text>')
    return "\n".join([*lines, "</svg>", ""])


def summary(steps: list[Step]) -> str:
    lines = [f"{'method':<12}{'step':>9}{'backward ends':>15}{'exposed':>9}{'laconic':>9}{'of it after backward':>22}"]
    for step in steps:
        ours = step.milliseconds_of("laconic", 0, step.end)
        after = step.milliseconds_of("laconic", step.backward_end, step.end)
        times = f"{step.end:>9.2f}{step.backward_end:>15.2f}{step.exposed:>9.2f}"
        lines.append(f"{step.method:<12}{times}{ours:>9.2f}{after:>22.2f}")
    return "\n".join([*lines, "milliseconds of the GPU, rank 0; exposed: from the end of backward to the optimizer"])


def record(method: str, model: nn.Module, batch: torch.Tensor, trace: pathlib.Path) -> None:
    """Two steps, by rank 0."""
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)  # or it copies gradients after the exchange
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.001)

    def step() -> None:
        with record_function("forward"):
            loss = ddp(batch).square().mean()
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        torch.cuda.synchronize()

    with laconic.attach(ddp, method):
        for _ in range(WARM_UP):
            step()
        dist.barrier()
        if dist.get_rank() == 0:
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
                for _ in range(2):  # in the first, the profiler's own work may take time
                    step()
            profiler.export_chrome_trace(str(trace))
        else:
            for _ in range(2):
                step()
        dist.barrier()


def record_all(given: argparse.Namespace) -> None:
    torch.cuda.set_device(0)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    for method in given.methods:
        layer = nn.TransformerEncoderLayer(768, 12, 2048, dropout=0.0, batch_first=True)
        model = nn.TransformerEncoder(layer, 5, enable_nested_tensor=False).cuda()
        record(method, model, torch.randn(16, 256, 768, device="cuda"), given.traces / f"{method}.json")
    if dist.get_rank() == 0:
        parameters = sum(each.numel() for each in model.parameters())
        title = f"One step on {torch.cuda.get_device_name()}: {parameters / 1e6:.1f} million parameters, 2 ranks over Gloo"
        (given.traces / TITLE).write_text(title)
    dist.destroy_process_group()


def draw(folder: pathlib.Path, given: argparse.Namespace) -> None:
    steps = [step_of(method, json.loads((folder / f"{method}.json").read_text())) for method in given.methods]
    given.write.parent.mkdir(parents=True, exist_ok=True)
    given.write.write_text(picture(steps, (folder / TITLE).read_text()))
    print(summary(steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=pathlib.Path, default=pathlib.Path("timeline.svg"), help="the picture")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--traces", type=pathlib.Path, help="a folder in which the traces are kept")
    parser.add_argument("--from", type=pathlib.Path, dest="source", help="a folder of traces: draw them, record nothing")
    given = parser.parse_args()
    if "LOCAL_RANK" in os.environ:
        return record_all(given)
    if given.source is not None:
        return draw(given.source, given)
    if not torch.cuda.is_available():
        sys.exit("step_timeline.py: PyTorch finds no GPU that it can use")
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.traces or pathlib.Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        command += ["--master-addr", "127.0.0.1", "--master-port", "29534", __file__]
        command += ["--traces", str(folder), "--methods", *given.methods]
        status = subprocess.run(command).returncode
        if status != 0:
            sys.exit(status)
        draw(folder, given)


if __name__ == "__main__":
    main()
