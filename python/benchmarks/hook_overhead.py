"""What a hook adds to the time of its method: torchrun --nproc-per-node 2 python/benchmarks/hook_overhead.py

Three things in turn, on the same gradients of a model with ResNet-50's tensors (25.6 million parameters), in seconds of
the processor, which a busy machine changes less than those of the clock:
- backward with a hook that does nothing: what DistributedDataParallel takes by itself;
- backward with the method's hook;
- the method alone on a flat gradient, over a process group of its own.
`added` is the second less the other two, also as a share of the third. `own` is the share of the hook's thread, by the
clock and over all steps, that lay outside the method. Results are compared before they count.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import laconic
from laconic import _core, _groups, _options

METHODS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "bf16": {},
    "topk": {"keep": 0.01},
    "topk by tensor": {"keep": 0.01, "scope": "tensor"},
    "regtopk": {"keep": 0.01},
    "randk": {"keep": 0.01},
    "signsgd": {},
    "qsgd": {"min_size": 0},
}


STAGES = ("select", "encode", "exchange", "decode")


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


def nothing(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


nothing.__annotations__.clear()


def seconds(call: Any) -> float:
    dist.barrier()
    start = time.process_time()
    call()
    return time.process_time() - start


def measure(name: str, options: dict[str, Any], sizes: list[int], steps: int) -> dict[str, float]:
    method = name.split()[0]
    threads = torch.get_num_threads()
    generator = torch.Generator().manual_seed(dist.get_rank())
    flat = torch.randn(sum(sizes), generator=generator)
    gradients = list(flat.split(sizes))

    idle, hooked = DistributedDataParallel(Chosen(sizes)), DistributedDataParallel(Chosen(sizes))
    idle.register_comm_hook(None, nothing)
    state = laconic.attach(hooked, method, **options)
    own = {key: value for key, value in options.items() if key != "min_size"}
    names = [f"values.{i}" for i in range(len(sizes))]
    direct = _core.DirectMethod(_groups.communicator(None), threads, method, _options.texts(own), names, sizes)
    work = torch.empty_like(flat)

    def backward(model: DistributedDataParallel) -> None:
        for parameter in model.parameters():
            parameter.grad = None
        model(gradients).backward()

    times: dict[str, list[float]] = {"idle": [], "hook": [], "method": []}
    for step in range(steps + 2):  # the first fills memory, the second rebuilds the buckets
        taken = {"idle": seconds(lambda: backward(idle)), "hook": seconds(lambda: backward(hooked))}
        work.copy_(flat)
        taken["method"] = seconds(lambda step=step: direct.reduce(step, work))
        found = torch.cat([parameter.grad for parameter in hooked.module.values])
        if not torch.equal(found, work):
            raise SystemExit(f"{name}: the hook's result is not the method's")
        for key, value in taken.items():
            if step >= 2:
                times[key].append(value)
    # The least of each: other work on the machine adds to a step and never takes from it.
    least = {key: min(values) for key, values in times.items()}
    least["added"] = least["hook"] - least["idle"] - least["method"]
    metrics = state.metrics()
    least["ratio"] = metrics["last"]["ratio"]
    least["own"] = (metrics["busy_seconds"] - metrics["method_seconds"]) / metrics["busy_seconds"]
    least["busy"] = metrics["busy_seconds"] / metrics["steps"]
    for stage in STAGES:
        least[stage] = metrics["total"][f"{stage}_seconds"] / metrics["steps"]
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    given = parser.parse_args()
    dist.init_process_group("gloo")
    sizes = resnet50_sizes()
    if dist.get_rank() == 0:
        print(f"{sum(sizes)} parameters in {len(sizes)} tensors, {dist.get_world_size()} ranks, least of {given.steps} steps")
        print(f"{'method':<16}{'idle s':>9}{'hook s':>9}{'method s':>10}{'added s':>9}{'added':>8}{'own':>7}{'ratio':>8}")
    profile = []
    for name in given.methods:
        found = measure(name, METHODS[name], sizes, given.steps)
        figures = torch.tensor([found[key] for key in ("idle", "hook", "method", "added", "own")], dtype=torch.float64)
        dist.all_reduce(figures)
        idle, hook, method, added, own = (figures / dist.get_world_size()).tolist()
        profile.append(f"{name:<16}{found['busy']:>9.3f}" + "".join(f"{found[stage]:>10.3f}" for stage in STAGES))
        if dist.get_rank() == 0:
            print(
                f"{name:<16}{idle:>9.3f}{hook:>9.3f}{method:>10.3f}{added:>9.3f}{added / method:>8.1%}{own:>7.1%}"
                f"{found['ratio']:>8.1f}",
                flush=True,
            )
    if dist.get_rank() == 0:
        print("\nrank 0's thread, seconds of the clock a step; exchanges that overlap each other count in full")
        print(f"{'method':<16}{'busy':>9}" + "".join(f"{stage:>10}" for stage in STAGES))
        print(*profile, sep="\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
