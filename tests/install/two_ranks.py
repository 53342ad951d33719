"""Two ranks of an installed laconic train a model alike."""

import pathlib
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import laconic

assert pathlib.Path(laconic.__file__).is_relative_to(sys.prefix), laconic.__file__
dist.init_process_group("gloo")
torch.manual_seed(0)
ddp = DistributedDataParallel(torch.nn.Linear(100, 10))
laconic.attach(ddp, "topk", keep=0.1)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
losses = []
for _ in range(20):
    inputs = torch.randn(32, 100)
    loss = torch.nn.functional.mse_loss(ddp(inputs), inputs[:, :10])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
weight = ddp.module.weight.detach()
others = [torch.empty_like(weight) for _ in range(2)]
dist.all_gather(others, weight)
assert torch.equal(others[0], others[1]), "the replicas differ"
assert losses[-1] < losses[0], losses
print(f"rank {dist.get_rank()} trained: loss {losses[0]:.3f} to {losses[-1]:.3f}", flush=True)
dist.destroy_process_group()
