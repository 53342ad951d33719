"""Mixed precision with a GradScaler, and the method as a conventional communication hook.

    torchrun --nproc-per-node 2 mixed_precision.py

Half precision on GPUs where each rank has one, bfloat16 on the CPU. The hook knows the scaler: it unscales gradients
before it remembers anything of them, and a step that overflows on one rank is skipped on all.
"""

import os

import torch
import torch.distributed as dist

import laconic

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
on_gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpus else torch.device("cpu")
half = torch.float16 if on_gpus else torch.bfloat16
dist.init_process_group("nccl" if on_gpus else "gloo")

torch.manual_seed(0)
teacher = torch.randn(64, 10).to(device)
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).to(device)
ddp = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device.type, init_scale=2.0**10, growth_interval=100)
state = laconic.State(ddp, "topk", keep=0.01, exclude="*.bias", scaler=scaler)
ddp.register_comm_hook(state, laconic.hook)

torch.manual_seed(1 + rank)
for step in range(250):
    inputs = torch.randn(32, 64).to(device)
    if step == 150 and rank == 1:
        inputs *= float("inf")  # one rank's bad batch: nobody takes this step, and the scale is halved
    with torch.autocast(device.type, dtype=half):
        loss = torch.nn.functional.cross_entropy(ddp(inputs), (inputs.nan_to_num() @ teacher).argmax(dim=1))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 50 == 49 and rank == 0:
        print(f"step {step + 1}: loss {loss.item():.3f}, scale {scaler.get_scale():.0f}")

if rank == 0:
    metrics = state.metrics()
    total = metrics["total"]
    dense = 2 * (ranks - 1) / ranks * total["dense_bytes"]  # what a ring of dense float32 gradients sends
    print(f"{metrics['steps']} steps, {metrics['skipped']} skipped")
    sent = total["sent_bytes"]
    print(f"sent {sent:,} bytes; dense would send {dense:,.0f}: {dense / max(sent, 1):.0f} times as many")
dist.destroy_process_group()
