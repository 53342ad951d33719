"""DEF-A in place of SGD: one 64th of the gradient in each step, and a model that is read out to be tested and saved.

    torchrun --nproc-per-node 2 def_a.py

No DistributedDataParallel here: laconic.Optimizer makes the ranks one run.
"""

import torch
import torch.distributed as dist

import laconic

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
teacher = torch.randn(64, 10)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 512), torch.nn.BatchNorm1d(512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
optimizer = laconic.Optimizer(optimizer, model, method="def-a", ratio=64)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=300)

batches = torch.Generator().manual_seed(1 + rank)
for step in range(300):
    inputs = torch.randn(32, 64, generator=batches)
    loss = torch.nn.functional.cross_entropy(model(inputs), (inputs @ teacher).argmax(dim=1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    scheduler.step()

# Between steps the model is where the next gradient is taken. read_out gives the point to test and save; `batches`
# estimates batch norm's statistics there, and all ranks enter.
examples = [torch.randn(256, 64, generator=batches) for _ in range(8)]
with optimizer.read_out(batches=examples):
    model.eval()
    inputs = torch.randn(2000, 64, generator=torch.Generator().manual_seed(1000))
    with torch.no_grad():
        right = (model(inputs).argmax(dim=1) == (inputs @ teacher).argmax(dim=1)).float().mean().item()
    model.train()  # torch.save(model.state_dict(), ...) belongs here, too

if rank == 0:
    metrics = optimizer.metrics()
    total = metrics["total"]
    dense = 2 * (ranks - 1) / ranks * total["dense_bytes"]  # what a ring of dense gradients sends
    print(f"{metrics['steps']} steps, {100 * right:.1f} % right")
    sent = total["sent_bytes"]
    print(f"sent {sent:,} bytes; dense would send {dense:,.0f}: {dense / max(sent, 1):.0f} times as many")
dist.destroy_process_group()
