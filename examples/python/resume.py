"""Saves a run with each rank's residual and resumes it, bit for bit as if it had never stopped.

    torchrun --nproc-per-node 2 resume.py FOLDER --steps 50       # stops after 50 steps
    torchrun --nproc-per-node 2 resume.py FOLDER                  # goes on to 100

Residuals differ from rank to rank, so each rank saves a file of its own. Under `torchrun --max-restarts` the same
script goes on by itself after a rank has died.
"""

import argparse
import pathlib

import torch
import torch.distributed as dist

import laconic

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--steps", type=int, default=100)
arguments = parser.parse_args()

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
teacher = torch.randn(64, 10)
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
ddp = torch.nn.parallel.DistributedDataParallel(model)
state = laconic.attach(ddp, "regtopk", keep=0.01)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
batches = torch.Generator().manual_seed(1 + rank)


def save(step: int) -> None:
    """Every rank's file of that step; only when all are written does the name `last` point to them."""
    parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "laconic": state.state_dict()}
    arguments.folder.mkdir(parents=True, exist_ok=True)
    torch.save({**parts, "batches": batches.get_state()}, arguments.folder / f"step{step}.rank{rank}.pt")
    dist.barrier()
    if rank == 0:
        (arguments.folder / "last.part").write_text(str(step))
        (arguments.folder / "last.part").rename(arguments.folder / "last")


def load() -> int:
    """The step to go on with."""
    last = arguments.folder / "last"
    if not last.exists():
        return 0
    saved = torch.load(arguments.folder / f"step{last.read_text()}.rank{rank}.pt", weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    state.load_state_dict(saved["laconic"])
    batches.set_state(saved["batches"])
    return int(last.read_text())


start = load()
for step in range(start, arguments.steps):
    inputs = torch.randn(32, 64, generator=batches)
    loss = torch.nn.functional.cross_entropy(ddp(inputs), (inputs @ teacher).argmax(dim=1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (step + 1) % 25 == 0:
        save(step + 1)

if rank == 0:
    total = state.metrics()["total"]
    dense = 2 * (ranks - 1) / ranks * total["dense_bytes"]  # what a ring of dense gradients sends
    weights = torch.nn.utils.parameters_to_vector(model.parameters()).double()
    print(f"steps {start} to {arguments.steps}: loss {loss.item():.6f}, squared norm {weights.dot(weights).item():.9f}")
    sent = total["sent_bytes"]
    print(f"sent {sent:,} bytes; dense would send {dense:,.0f}: {dense / max(sent, 1):.0f} times as many")
dist.destroy_process_group()
