"""A training script with DistributedDataParallel, and the one line that compresses its gradients.

    torchrun --nproc-per-node 2 minimal.py
"""

import torch
import torch.distributed as dist

import laconic

dist.init_process_group("gloo")
torch.manual_seed(0)
teacher = torch.randn(64, 10)  # the network learns which of ten directions an input lies in
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
ddp = torch.nn.parallel.DistributedDataParallel(model)
state = laconic.attach(ddp, "regtopk", keep=0.01)  # the line
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())  # each rank draws its own batches
for step in range(400):
    inputs = torch.randn(32, 64)
    loss = torch.nn.functional.cross_entropy(ddp(inputs), (inputs @ teacher).argmax(dim=1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99 and dist.get_rank() == 0:
        print(f"step {step + 1}: loss {loss.item():.3f}")
if dist.get_rank() == 0:
    total, ranks = state.metrics()["total"], dist.get_world_size()
    dense = 2 * (ranks - 1) / ranks * total["dense_bytes"]  # what a ring of dense gradients sends
    sent = total["sent_bytes"]
    print(f"sent {sent:,} bytes; dense would send {dense:,.0f}: {dense / max(sent, 1):.0f} times as many")
dist.destroy_process_group()
