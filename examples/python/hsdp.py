"""A sharded model (HSDP): dense inside a box, compressed between boxes, with checkpoints that other boxes can load.

    torchrun --nproc-per-node 4 hsdp.py FOLDER                 # 2 replicas of 2 shards
    torchrun --nproc-per-node 2 hsdp.py FOLDER --shards 1      # goes on with 2 replicas of one rank
    torchrun --nproc-per-node 3 hsdp.py FOLDER --shards 1      # and with three

If there is a GPU for each rank, the model lies there. On machines with eight GPUs, `--shards 8` shards inside a
machine, and a replica is a machine.
"""

import argparse
import os
import pathlib

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import laconic

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--shards", type=int, default=2)
parser.add_argument("--steps", type=int, default=60)
arguments = parser.parse_args()

on_gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
if on_gpu:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if on_gpu else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
shape = (ranks // arguments.shards, arguments.shards)
mesh = init_device_mesh(device.type, shape, mesh_dim_names=("replicate", "shard"))

torch.manual_seed(0)
teacher = torch.randn(64, 10).to(device)
model = torch.nn.Sequential(
    torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU()), torch.nn.Linear(512, 10)
).to(device)
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
state = laconic.attach(model, "topk", keep=0.01)  # the line
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def parts() -> dict:
    """What a checkpoint has, but for laconic's state."""
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state, "step": torch.tensor(start)}


start = 0
if arguments.folder.exists():
    saved = parts()
    dcp.load(saved, checkpoint_id=arguments.folder)
    set_state_dict(model, optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
    start = int(saved["step"])
    state.load_checkpoint(arguments.folder)  # of any number of replicas and shards

for step in range(start, start + arguments.steps):
    batches = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(32, 64, generator=batches).to(device)
    loss = torch.nn.functional.cross_entropy(model(inputs), (inputs @ teacher).argmax(dim=1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
start += arguments.steps
dcp.save({**parts(), "laconic": state}, checkpoint_id=arguments.folder)

total = state.metrics()["total"]
if rank == 0:
    replicas = mesh["replicate"].size()
    dense = 2 * (replicas - 1) / replicas * total["dense_bytes"]  # what a ring of dense gradients sends
    print(f"step {start}: loss {loss.item():.3f} with {replicas} replicas of {arguments.shards} shards")
    sent = total["sent_bytes"]
    print(f"sent {sent:,} bytes; dense would send {dense:,.0f}: {dense / max(sent, 1):.0f} times as many")
dist.destroy_process_group()
