"""MGRAWA: each rank trains by itself, and every 16 steps the models meet, the flatter ones with more weight.

    torchrun --nproc-per-node 2 grawa.py

Weights come from gradient norms on a batch that is the same on all ranks: the scoring function. Without one, the norms
of the local steps are taken.
"""

import torch
import torch.distributed as dist

import laconic

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
teacher = torch.randn(64, 10)
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))


def batch(generator: torch.Generator, size: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.randn(size, 64, generator=generator)
    return inputs, (inputs @ teacher).argmax(dim=1)


def score(round_number: int) -> None:
    """Leaves gradients in the model; laconic takes their norm and puts the step's own back."""
    inputs, labels = batch(torch.Generator().manual_seed(round_number), size=128)
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()


optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer = laconic.Optimizer(optimizer, model, method="mgrawa", period=16, scoring=score)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[150], gamma=0.1)

batches = torch.Generator().manual_seed(1 + rank)
for step in range(208):
    inputs, labels = batch(batches)
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()

with optimizer.read_out():  # the common model, on every rank; all ranks enter
    with torch.no_grad():
        inputs, labels = batch(torch.Generator().manual_seed(1000), size=2000)
        right = (model(inputs).argmax(dim=1) == labels).float().mean().item()

if rank == 0:
    metrics = optimizer.metrics()
    total = metrics["total"]
    dense = 2 * (ranks - 1) / ranks * total["dense_bytes"]  # what a ring of dense gradients sends
    print(f"{metrics['steps']} steps, {metrics['rounds']} rounds, {100 * right:.1f} % right")
    sent = total["sent_bytes"]
    print(f"sent {sent:,} bytes; dense would send {dense:,.0f}: {dense / max(sent, 1):.0f} times as many")
dist.destroy_process_group()
