"""What a GPU does in one step, as a picture: python python/benchmarks/step_timeline.py --write docs/images/timeline.svg

Two ranks share a GPU and exchange over Gloo, which works in CPU memory, so that an exchange takes time. The model is a
transformer (27 million parameters). For each method, a step is recorded by torch's profiler on rank 0. A panel has a row
for torch's kernels, one for Laconic's and one for copies between GPU and CPU; a line marks the end of backward. What is
to its right is exposed: the optimizer waits for it.
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
    end: float

    def milliseconds_of(self, row: str, begin: float, end: float) -> float:
        """How long a row was busy in an interval; its spans follow one another."""
        return sum(max(0.0, min(span.end, end) - max(span.begin, begin)) for span in self.spans if span.row == row)


def row_of(event: dict) -> str:
    if event["cat"] in ("gpu_memcpy", "gpu_memset"):
        return "copies" if "Dto" in event["name"] or "Hto" in event["name"] else "torch"
    return "laconic" if "laconic" in event["name"] else "torch"


def step_of(method: str, trace: dict) -> Step:
    """From a trace in Chrome's format, whose times are microseconds."""
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    marks = {event["name"]: event for event in events if event.get("cat") == "user_annotation"}
    begin = marks["forward"]["ts"]
    spans = [
        Span(row_of(event), (event["ts"] - begin) / 1000, (event["ts"] + event["dur"] - begin) / 1000)
        for event in events
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and event["ts"] >= begin
    ]
    # On the device, backward ends with the last of torch's kernels that were launched before the optimizer's.
    on_device = [event for event in events if event.get("cat") == "gpu_user_annotation" and event["name"] == "optimizer"]
    optimizer = min((event["ts"] - begin) / 1000 for event in on_device)
    backward_end = max(span.end for span in spans if span.row == "torch" and span.end <= optimizer)
    return Step(method, spans, backward_end, max(span.end for span in spans))


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
    x = LEFT + step.backward_end * scale
    lines.append(f'<line x1="{x:.2f}" x2="{x:.2f}" y1="{top - 4}" y2="{top + height + 4}" stroke="#c0392b"/>')
    lines.append(f'<text x="{x + 4:.2f}" y="{top - 8}" fill="#c0392b">backward ends, {step.backward_end:.1f} ms</text>')
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
    lines = [f"{'method':<12}{'step':>9}{'backward ends':>15}{'laconic':>9}{'of it after backward':>22}"]
    for step in steps:
        ours = step.milliseconds_of("laconic", 0, step.end)
        after = step.milliseconds_of("laconic", step.backward_end, step.end)
        lines.append(f"{step.method:<12}{step.end:>9.2f}{step.backward_end:>15.2f}{ours:>9.2f}{after:>22.2f}")
    return "\n".join([*lines, "milliseconds of the GPU, rank 0"])


def recorded(method: str, model: nn.Module, batch: torch.Tensor) -> Step:
    ddp = DistributedDataParallel(model)
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
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            step()
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        return step_of(method, json.loads(trace.read_text()))


def record_all(given: argparse.Namespace) -> None:
    torch.cuda.set_device(0)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    steps = []
    for method in given.methods:
        layer = nn.TransformerEncoderLayer(768, 12, 2048, dropout=0.0, batch_first=True)
        model = nn.TransformerEncoder(layer, 5, enable_nested_tensor=False).cuda()
        steps.append(recorded(method, model, torch.randn(16, 256, 768, device="cuda")))
    if dist.get_rank() == 0:
        parameters = sum(each.numel() for each in model.parameters())
        title = f"One step on {torch.cuda.get_device_name()}: {parameters / 1e6:.1f} million parameters, 2 ranks over Gloo"
        given.write.write_text(picture(steps, title))
        print(summary(steps))
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=pathlib.Path, default=pathlib.Path("timeline.svg"), help="the picture")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    given = parser.parse_args()
    if "LOCAL_RANK" in os.environ:
        return record_all(given)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-addr", "127.0.0.1", "--master-port", "29534", __file__, *sys.argv[1:]]
    sys.exit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main()
