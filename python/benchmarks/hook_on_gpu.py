"""What a hook costs where the model is on a GPU: python python/benchmarks/hook_on_gpu.py

Milliseconds of the clock from before forward to after the optimizer's last kernel, of a model with ResNet-50's tensors
(25.6 million parameters) whose gradients are given, so that nothing is computed beside them: what the steps below take
is communication and what goes with it. Each step with a hook follows one of plain DistributedDataParallel. `DDP` and
`step` are the medians of both over the steps of the slowest rank, `added` is the median of their differences, `of DDP`
the share, `ratio` the bytes of dense gradients over those that were sent. `cpu` is the processor time per step of all
threads that the hook made, its engine's as well, as Linux counts it, and includes what attaching took. `busy` is the
time per step in which the hook's thread worked, by the clock: all but its waits for buckets. Then follow the hook's own
stages. On a device these are the time of the hook's thread, which hands out work and rarely waits for it. --dtype
bfloat16 gives the model and its gradients that type.

Starts itself twice: with one rank over NCCL, where nothing is sent, and with two ranks over Gloo that share a GPU.
Under torchrun it is one such run of the ranks that torchrun made; with --backend nccl, one GPU per rank.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from hook_overhead import Chosen, resnet50_sizes, rows
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import laconic

STAGES = ("convert", "select", "encode", "exchange", "decode")
WARM_UP = 4  # steps that fill memory and rebuild the buckets
LEAST_STEPS, MOST_STEPS = 5, 30
RUNS = (("nccl", 1), ("gloo", 2))
PLAIN = "DDP alone"
HALF = "torch's fp16 hook"


def worst(seconds: float) -> float:
    """Of the slowest rank."""
    found = torch.tensor([seconds], device="cuda", dtype=torch.float64)
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return found.item()


def model_of(gradients: list[torch.Tensor]) -> Chosen:
    return Chosen([each.numel() for each in gradients]).to("cuda", gradients[0].dtype)


def one_step(ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, gradients: list[torch.Tensor]) -> float:
    optimizer.zero_grad()
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()  # NCCL's barrier is a kernel
    start = time.perf_counter()
    ddp(gradients).backward()
    optimizer.step()
    torch.cuda.synchronize()
    return time.perf_counter() - start


@dataclass
class Taken:
    """Milliseconds of the slowest rank."""

    plain: float
    step: float
    added: float


@dataclass
class Plain:
    """DistributedDataParallel without a hook, to compare with."""

    ddp: DistributedDataParallel
    gradients: list[torch.Tensor]
    seconds: float  # for a comparison

    def beside(self, ddp: DistributedDataParallel) -> Taken:
        """Steps of both in turn, as many as there is time for."""
        both = [(each, torch.optim.SGD(each.parameters(), lr=0.01)) for each in (self.ddp, ddp)]

        def pair() -> tuple[float, float]:
            first, second = (one_step(*each, self.gradients) for each in both)
            return first, second

        taken = worst(sum([pair() for _ in range(WARM_UP)][-1]))
        steps = min(max(int(self.seconds / taken), LEAST_STEPS), MOST_STEPS)
        pairs = [pair() for _ in range(steps)]
        medians = (
            statistics.median(first for first, _ in pairs),
            statistics.median(second for _, second in pairs),
            statistics.median(second - first for first, second in pairs),
        )
        return Taken(*(1000 * worst(each) for each in medians))


def processor_seconds() -> dict[str, float]:
    """For how long each thread of this process has run so far."""
    seconds = {}
    for thread in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            seconds[thread.name] = int((thread / "schedstat").read_text().split()[0]) / 1e9
    return seconds


def measured(name: str, method: str, options: dict[str, Any], plain: Plain, ours: str | None) -> tuple[Taken, str]:
    """The steps, and what the hook says of itself."""
    ddp = DistributedDataParallel(model_of(plain.gradients))
    if not method:
        if name == HALF:
            ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
        return plain.beside(ddp), ""
    others = processor_seconds()
    with laconic.attach(ddp, method, backend=ours, min_size=0, **options) as state:
        taken = plain.beside(ddp)
        metrics = state.metrics()
        processor = sum(seconds for thread, seconds in processor_seconds().items() if thread not in others)
        where = state._host.reason_for_cpu
    stages = {stage: metrics["total"].get(f"{stage}_seconds", 0.0) for stage in STAGES}
    stages["convert"] = metrics["convert_seconds"]
    times = (processor, metrics["busy_seconds"], *(stages[stage] for stage in STAGES))
    columns = "".join(f"{1000 * each / metrics['steps']:>10.2f}" for each in times)
    return taken, f"{metrics['ratio']:>9.1f}{columns}" + (f"  on the CPU: {where}" if where else "")


def table_of_ranks(given: argparse.Namespace) -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group(given.backend)
    sizes = resnet50_sizes()
    generator = torch.Generator().manual_seed(dist.get_rank())
    dtype = getattr(torch, given.dtype)
    gradients = [each.to("cuda", dtype) for each in torch.randn(sum(sizes), generator=generator).split(sizes)]
    wanted = [(PLAIN, "", {}), (HALF, "", {}), ("sgd by the engine", "sgd", {"order": "engine"}), *rows()]
    if given.methods:
        wanted = [row for row in wanted if row[0] in (PLAIN, *given.methods)]
    first = dist.get_rank() == 0
    if first:
        ranks = f"{dist.get_world_size()} rank{'s' if dist.get_world_size() > 1 else ''}"
        print(f"{torch.cuda.get_device_name()}, {ranks} over {given.backend}, ours {given.ours or 'by default'}")
        print(f"{sum(sizes)} parameters in {given.dtype}, {torch.get_num_threads()} threads per rank; ms")
        columns = "".join(f"{column:>10}" for column in ("cpu", "busy", *STAGES))
        print(f"{'method':<20}{'DDP':>9}{'step':>9}{'added':>9}{'of DDP':>9}{'ratio':>9}{columns}")
    plain = Plain(DistributedDataParallel(model_of(gradients)), gradients, given.seconds)
    for row in wanted:
        taken, told = measured(*row, plain, given.ours)
        if first:
            times = "".join(f"{each:>9.2f}" for each in (taken.plain, taken.step, taken.added, taken.step / taken.plain))
            print(f"{row[0]:<20}{times}{told}", flush=True)
    dist.destroy_process_group()


def both_runs(arguments: list[str]) -> int:
    """Each with the cores shared among its ranks."""
    failed = 0
    for backend, ranks in RUNS:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
        command += ["--master-addr", "127.0.0.1", "--master-port", "29533"]
        environment = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // ranks)), **os.environ}
        print(flush=True)
        failed |= subprocess.run([*command, __file__, "--backend", backend, *arguments], env=environment).returncode
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gloo", help="of the model's process group, under torchrun")
    parser.add_argument("--ours", default=None, help="the engine of laconic's own groups")
    parser.add_argument("--seconds", type=float, default=0.6, help="for the steps of a method")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32", help="of the model")
    parser.add_argument("--methods", nargs="*", default=[], help="titles of the rows; default: all")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("hook_on_gpu.py: PyTorch finds no GPU that it can use")
    if "LOCAL_RANK" not in os.environ:
        sys.exit(both_runs(sys.argv[1:]))
    table_of_ranks(given)


if __name__ == "__main__":
    main()
