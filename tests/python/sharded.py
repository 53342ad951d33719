"""Sharded models for tests: small networks with odd sizes in fully_shard, and a run of steps with them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from device import DEVICE
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor

import laconic

WIDTH = 17


class Block(torch.nn.Module):
    """A residual block with a parameter of its own, which fully_shard puts behind those of its children."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(1))  # one entry: the second shard of it is empty
        self.up = torch.nn.Linear(width, 2 * width + 1)
        self.down = torch.nn.Linear(2 * width + 1, width)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values + self.gain * self.down(torch.relu(self.up(values)))


class Odd(torch.nn.Module):
    """Residual blocks between two linear layers. `skip` leaves the parameter `spare` without a gradient."""

    def __init__(self, blocks: int = 2, frozen: bool = False, width: int = WIDTH) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(7, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(blocks))
        self.out = torch.nn.Linear(width, 5)
        self.spare = torch.nn.Parameter(torch.zeros(5))
        if frozen:
            self.blocks[0].up.bias.requires_grad_(False)

    def forward(self, values: torch.Tensor, skip: bool = False) -> torch.Tensor:
        values = self.embed(values)
        for block in self.blocks:
            values = block(values)
        values = self.out(values)
        return values if skip else values + self.spare


class Tied(torch.nn.Module):
    """An embedding that is the head's weight too."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = torch.nn.Embedding(11, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, 11, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        values = self.emb(tokens)
        for block in self.blocks:
            values = block(values)
        return self.head(self.norm(values))


def mesh_of(replicas: int, shards: int) -> DeviceMesh:
    return init_device_mesh(DEVICE.type, (replicas, shards), mesh_dim_names=("replicate", "shard"))


def sharded(model: Any, mesh: DeviceMesh, *, root_only: bool = False, grouped: bool = False, **settings: Any) -> Any:
    """The model in fully_shard: a group for each block and one for the rest."""
    if not root_only:
        for block in model.blocks:
            fully_shard(block, mesh=mesh, **settings)
    if grouped:
        fully_shard([model.emb, model.norm, model.head], mesh=mesh, **settings)
    return fully_shard(model, mesh=mesh, **settings)


def with_experts(mesh: DeviceMesh) -> Any:
    """A model of which one layer is sharded over all ranks, as experts are, and has no replicas."""
    torch.manual_seed(3)
    model = Odd()
    everybody = init_device_mesh(DEVICE.type, (dist.get_world_size(),), mesh_dim_names=("experts",))
    fully_shard(model.blocks[1].up, mesh=everybody)
    return sharded(model, mesh)


def inputs(model: Any, rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1_000_003 * step + rank)
    if isinstance(model, Tied):
        tokens = torch.randint(11, (6, 4), generator=generator)
        return tokens, tokens.flip(1)
    return torch.randn(6, 7, generator=generator), torch.randn(6, 5, generator=generator)


def loss_of(model: Any, step: int, **arguments: Any) -> torch.Tensor:
    given, wanted = (each.to(DEVICE) for each in inputs(model, dist.get_rank(), step))
    found = model(given, **arguments).float()
    if isinstance(model, Tied):
        return torch.nn.functional.cross_entropy(found.flatten(0, 1), wanted.flatten())
    return torch.nn.functional.mse_loss(found, wanted)


def flat(model: torch.nn.Module) -> torch.Tensor:
    """This rank's shards, one after another."""
    return torch.cat([local(p).flatten().float() for p in model.parameters()])


def local(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach().clone()


def gradients(model: torch.nn.Module) -> list[torch.Tensor | None]:
    return [None if p.grad is None else local(p.grad) for p in model.parameters()]


def accumulate(model: Any, step: int, way: str, backward: Callable[[torch.Tensor], None], **arguments: Any) -> None:
    """One step's backward passes: once, or three in one of the ways that fully_shard has."""
    count = 1 if way == "once" else 3
    for i in range(count):
        last = i == count - 1
        if way == "no_sync":
            model.set_requires_gradient_sync(last)
            model.set_is_last_backward(last)
        if way == "no_all_reduce":
            model.set_requires_all_reduce(last)
            model.set_is_last_backward(last)
        backward(loss_of(model, 10 * step + i, **arguments) / count)


def train(
    model: Any, steps: int, way: str = "once", clip: bool = False, first: int = 0, make: Any = torch.optim.AdamW
) -> list[torch.Tensor]:
    """Steps of AdamW or another optimizer; this rank's shards after each."""
    optimizer = make(model.parameters(), lr=0.01)
    found = []
    for step in range(first, first + steps):
        accumulate(model, step, way, torch.Tensor.backward)
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        found.append(flat(model))
    return found


def replicas_agree(values: torch.Tensor, mesh: DeviceMesh) -> bool:
    """Whether the replicas of this rank's shard have the same bits. Collective over them."""
    group = mesh["replicate"].get_group()
    parts = [torch.empty_like(values) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, values.contiguous(), group=group)
    return all(torch.equal(parts[0].view(torch.int32), part.view(torch.int32)) for part in parts)


@contextlib.contextmanager
def attached(model: Any, method: str, **settings: Any) -> Iterator[laconic.ShardedState]:
    state = laconic.attach(model, method, **settings)
    assert isinstance(state, laconic.ShardedState)
    try:
        yield state
    finally:
        state.close()


__all__ = [
    "WIDTH", "CPUOffloadPolicy", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "Block", "Odd", "Tied", "accumulate",
    "attached", "flat", "fully_shard", "gradients", "inputs", "local", "loss_of", "mesh_of", "replicas_agree", "sharded",
    "train", "with_experts",
]  # fmt: skip
