"""What a hook costs where the model is on a GPU: torchrun --nproc-per-node 2 python/benchmarks/hook_on_gpu.py

Milliseconds of the clock from before forward to after the optimizer's last kernel, of a model with ResNet-50's tensors
(25.6 million parameters) whose gradients are given, so that nothing is computed beside them: what the steps below take is
communication and what goes with it. All ranks share the GPU where there is one. With --backend nccl, start one rank a GPU.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import torch
import torch.distributed as dist
from hook_overhead import Chosen, resnet50_sizes
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import laconic

METHODS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "sgd by the engine": {"order": "engine"},
    "fp16": {},
    "topk": {"keep": 0.01},
    "topk by tensor": {"keep": 0.01, "scope": "tensor"},
    "regtopk": {"keep": 0.01},
    "randk": {"keep": 0.01},
    "signsgd": {},
    "qsgd": {"min_size": 0},
}
STAGES = ("convert", "select", "encode", "exchange", "decode")


def milliseconds(ddp: DistributedDataParallel, gradients: list[torch.Tensor], steps: int) -> float:
    """Of the fastest step, on the slowest rank."""
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    times = []
    for step in range(steps + 3):  # the first fill memory and rebuild the buckets
        optimizer.zero_grad()
        torch.cuda.synchronize()
        dist.barrier()
        start = time.perf_counter()
        ddp(gradients).backward()
        optimizer.step()
        torch.cuda.synchronize()
        if step >= 3:
            times.append(time.perf_counter() - start)
    least = torch.tensor([min(times)], device="cuda")
    dist.all_reduce(least, op=dist.ReduceOp.MAX)
    return 1000 * least.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--ours", default=None, help="the engine of laconic's own groups")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    given = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group(given.backend)
    sizes = resnet50_sizes()
    generator = torch.Generator().manual_seed(dist.get_rank())
    gradients = [each.cuda() for each in torch.randn(sum(sizes), generator=generator).split(sizes)]
    rows = []
    for name in ("stock", "torch's fp16 hook", *given.methods):
        ddp = DistributedDataParallel(Chosen(sizes).cuda())
        state = None
        if name == "torch's fp16 hook":
            ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif name != "stock":
            state = laconic.attach(ddp, name.split()[0], backend=given.ours, **METHODS[name])
        row = f"{name:<18}{milliseconds(ddp, gradients, given.steps):>9.1f}"
        if state is not None:
            metrics = state.metrics()
            taken = {stage: metrics["total"].get(f"{stage}_seconds", 0.0) for stage in STAGES}
            taken["convert"] = metrics["convert_seconds"]
            row += f"{metrics['ratio']:>9.1f}" + "".join(f"{1000 * taken[s] / metrics['steps']:>10.1f}" for s in STAGES)
        rows.append(row)
        del ddp, state
    if dist.get_rank() == 0:
        print(f"{torch.cuda.get_device_name()}, {dist.get_world_size()} ranks, {given.backend}, ours {given.ours or 'default'},")
        print(f"{sum(sizes)} parameters, {torch.get_num_threads()} threads a rank; ms a step, least of {given.steps}")
        print(f"{'method':<18}{'step':>9}{'ratio':>9}" + "".join(f"{stage:>10}" for stage in STAGES))
        print(*rows, sep="\n", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
