"""What a hook adds to the time of its method: torchrun --nproc-per-node 2 python/benchmarks/hook_overhead.py

Three things in every step, in turning order, on the same gradients of a model with ResNet-50's tensors (25.6 million
parameters):
- idle: backward with a hook that does nothing, which is what DistributedDataParallel takes by itself;
- hook: backward with the method's hook;
- method: the method alone on a flat gradient, over a process group of its own: its kernels and its exchange.
`added` is hook - idle - method of the same step, as a share of method; the median over the steps and the range of their
middle half, in seconds of the processor (all threads of a rank) and of the clock. Of the clock it may be negative: a hook
works while backward does. The hook's result is compared with the method's, bit for bit, before its time counts.
Methods are those of the table. --write puts the tables into docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import laconic
from laconic import _core, _process_groups, _selection

STAGES = ("select", "encode", "exchange", "decode")
PHASES = ("idle", "hook", "method")
# DistributedDataParallel rebuilds its buckets in the second step and the hook arranges them; then the allocator learns
# which blocks come back in every step. Page faults, which are counted, are none after that.
WARM_UP = 4


def resnet50_sizes() -> list[int]:
    """Entries of ResNet-50's parameters, in order."""
    sizes = [3 * 64 * 49, 64, 64]
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            sizes += [channels * width, width, width, width * width * 9, width, width]
            sizes += [width * width * 4, 4 * width, 4 * width]
            if block == 0:
                sizes += [channels * width * 4, 4 * width, 4 * width]
            channels = 4 * width
    return [*sizes, 2048 * 1000, 1000]


class Chosen(torch.nn.Module):
    """A model whose gradients are given."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.values = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(size)) for size in sizes)

    def forward(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack([(v * g).sum() for v, g in zip(self.values, gradients, strict=True)]).sum()


def rows() -> list[tuple[str, str, dict[str, Any]]]:
    """Title, method, options: every gradient method that a hook takes, also in the scope that is not its default."""
    found = []
    for row in laconic.methods():
        if row["face"] != "gradient" or row["optimizer"]:  # whose gradients are sgd's
            continue
        parameters = {each["name"]: each for each in row["parameters"]}
        options = {"keep": 0.01} if "keep" in parameters else {}
        found.append((row["name"], row["name"], options))
        if "scope" in parameters:
            scope = "tensor" if parameters["scope"]["default"] == "model" else "model"
            found.append((f"{row['name']} by {scope}", row["name"], {**options, "scope": scope}))
    return found


def nothing(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


nothing.__annotations__.clear()


def taken(call: Callable[[], None]) -> list[float]:
    """Seconds of the processor, of the clock, and page faults."""
    dist.barrier()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    wall, processor = time.perf_counter(), time.process_time()
    call()
    processor, wall = time.process_time() - processor, time.perf_counter() - wall
    return [processor, wall, float(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults)]


def measure(method: str, options: dict[str, Any], sizes: list[int], steps: int) -> tuple[torch.Tensor, dict[str, Any]]:
    """[phase, step, what taken() says], the mean of the ranks; and the hook's metrics on this rank."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    flat = torch.randn(sum(sizes), generator=generator)
    gradients = list(flat.split(sizes))
    models = {phase: DistributedDataParallel(Chosen(sizes)) for phase in ("idle", "hook")}
    models["idle"].register_comm_hook(None, nothing)
    state = laconic.attach(models["hook"], method, min_size=0, **options)
    names = [f"values.{i}" for i in range(len(sizes))]
    threads = torch.get_num_threads()
    communicator = _process_groups.communicator(None)
    direct = _core.DirectMethod(communicator, threads, method, _selection.texts(options), names, sizes)
    work = torch.empty_like(flat)

    def run(phase: str, step: int) -> None:
        if phase == "method":
            direct.reduce(step, work)
            return
        for parameter in models[phase].parameters():
            parameter.grad = None
        models[phase](gradients).backward()

    found = torch.zeros(len(PHASES), steps, 3, dtype=torch.float64)
    for step in range(WARM_UP + steps):
        work.copy_(flat)
        for turn in range(len(PHASES)):
            number = (step + turn) % len(PHASES)
            seconds = taken(lambda number=number, step=step: run(PHASES[number], step))
            if step >= WARM_UP:
                found[number, step - WARM_UP] = torch.tensor(seconds, dtype=torch.float64)
        aggregate = torch.cat([parameter.grad for parameter in models["hook"].module.values])
        if not torch.equal(aggregate.view(torch.int32), work.view(torch.int32)):
            raise SystemExit(f"{method} {options}: the hook's result is not the method's")
    dist.all_reduce(found)
    return found / dist.get_world_size(), state.metrics()


def added(found: torch.Tensor, kind: int) -> tuple[float, float, float]:
    """The median over the steps, and the borders of their middle half."""
    idle, hook, method = found[:, :, kind]
    shares = ((hook - idle - method) / method.median()).tolist()
    if len(shares) < 2:
        return shares[0], shares[0], shares[0]
    low, middle, high = statistics.quantiles(shares, n=4, method="inclusive")
    return middle, low, high


def cost_row(title: str, found: torch.Tensor, metrics: dict[str, Any]) -> list[str]:
    processor = [found[i, :, 0].median().item() for i in range(3)]
    wall = [found[i, :, 1].median().item() for i in range(3)]
    cells = [title]
    for seconds, kind in ((processor, 0), (wall, 1)):
        middle, low, high = added(found, kind)
        cells += [f"{each:.3f}" for each in seconds]
        cells.append(f"{100 * middle:.1f} % ({100 * low:.0f} … {100 * high:.0f})")
    faults = [int(found[i, :, 2].median().item()) for i in range(3)]
    outside = 1.0 - metrics["method_seconds"] / metrics["busy_seconds"]
    return [*cells, f"{100 * outside:.1f} %", " / ".join(map(str, faults)), f"{metrics['last']['ratio']:.1f}"]


def profile_row(title: str, metrics: dict[str, Any]) -> list[str]:
    stages = [metrics["total"][f"{stage}_seconds"] for stage in STAGES]
    return [title, *(f"{each / metrics['steps']:.3f}" for each in (metrics["busy_seconds"], *stages))]


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """In Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *body))


def machine(sizes: list[int], steps: int) -> str:
    """Where and how it was measured."""
    cpus = pathlib.Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return (
        f"{sum(sizes)} parameters in {len(sizes)} tensors, {dist.get_world_size()} ranks over Gloo on one machine "
        f"({names[0] if names else platform.machine()}, {os.cpu_count()} cores, a load of {os.getloadavg()[0]:.1f} at the "
        f"start), {torch.get_num_threads()} thread{'s' if torch.get_num_threads() > 1 else ''} each, torch "
        f"{torch.__version__.split('+')[0]}, {steps} steps after {WARM_UP}."
    )


def write(path: pathlib.Path, parts: dict[str, str]) -> None:
    """Between the page's marks."""
    text = path.read_text()
    for name, part in parts.items():
        start, end = f"<!-- {name} by hook_overhead.py -->\n", f"<!-- end of {name} -->"
        before, rest = text.split(start, 1)
        text = before + start + part + "\n" + end + rest.split(end, 1)[1]
    path.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=41)
    parser.add_argument("--methods", nargs="*", help="names of the table; default: all")
    parser.add_argument("--quick", action="store_true", help="a small model and few steps: only to see that it runs")
    parser.add_argument("--write", type=pathlib.Path, metavar="PAGE", help="docs/performance.md")
    given = parser.parse_args()
    dist.init_process_group("gloo")
    sizes = [1000, 10, 3000, 30, 2000] if given.quick else resnet50_sizes()
    steps = 3 if given.quick else given.steps
    where = machine(sizes, steps)
    first = dist.get_rank() == 0
    costs, profiles = [], []
    for title, method, options in rows():
        if given.methods and method not in given.methods:
            continue
        found, metrics = measure(method, options, sizes, steps)
        costs.append(cost_row(title, found, metrics))
        profiles.append(profile_row(title, metrics))
        if first:
            print("  ".join(costs[-1]), flush=True)
    head = ["method", *PHASES, "added", *PHASES, "added, by the clock", "outside", "page faults", "ratio"]
    parts = {"place": where, "costs": table(head, costs), "profile": table(["method", "busy", *STAGES], profiles)}
    if first:
        print("", *parts.values(), sep="\n")
        if given.write:
            write(given.write, parts)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
