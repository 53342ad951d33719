"""A model whose gradients a test chooses: the loss is a sum of parameters times coefficients, which are the gradients."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from device import DEVICE
from places import require_place
from torch.nn.parallel import DistributedDataParallel

import laconic
from laconic import _core, _selection

# DistributedDataParallel imports it, which takes seconds: once, before ranks fork.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch._dynamo  # noqa: F401

SIZES = (300, 7, 1, 1024, 33, 64)


class Probe(torch.nn.Module):
    """forward(coefficients) -> the loss whose gradient they are; None: the parameter is not used."""

    def __init__(self, sizes: Sequence[int] = SIZES, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        zeros = (torch.zeros(size, dtype=dtype, device=DEVICE) for size in sizes)
        self.values = torch.nn.ParameterList(torch.nn.Parameter(each) for each in zeros)

    def forward(self, coefficients: Sequence[torch.Tensor | None]) -> torch.Tensor:
        used = [(p * c).sum() for p, c in zip(self.values, coefficients, strict=True) if c is not None]
        return torch.stack(used).sum()

    def grads(self) -> list[torch.Tensor]:
        return [p.grad.detach().to("cpu", copy=True) for p in self.values]

    def clear(self) -> None:
        for p in self.values:
            p.grad = None


def gradients(
    step: int, rank: int, sizes: Sequence[int] = SIZES, dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    """A rank's gradients at a step, known to all ranks."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return [torch.randn(size, generator=generator).to(DEVICE, dtype) for size in sizes]


def wrapped(model: torch.nn.Module, **settings: Any) -> DistributedDataParallel:
    """In DistributedDataParallel with buckets of about a tensor each, so that there are several."""
    return DistributedDataParallel(model, bucket_cap_mb=settings.pop("bucket_cap_mb", 0.001), **settings)


def connect(ddp: DistributedDataParallel, way: str, method: str, **settings: Any) -> laconic.State:
    """By one of the two ways in. The hook must work where the model is."""
    if way == "attach":
        state = laconic.attach(ddp, method, **settings)
    else:
        state = laconic.State(ddp, method, **settings)
        ddp.register_comm_hook(state, laconic.hook)
    require_place(state, next(ddp.parameters()).device)
    return state


def names_of(sizes: Sequence[int]) -> list[str]:
    return [f"values.{i}" for i in range(len(sizes))]


def reference(
    method: str,
    options: Mapping[str, Any],
    gradients_of: Sequence[Sequence[Sequence[torch.Tensor]]],
    *,
    names: Sequence[str] | None = None,
    seed: int = 0,
    first_step: int = 0,
    hosts: Sequence[int] = (),
) -> list[list[torch.Tensor]]:
    """The C++ method alone on gradients_of[rank][step][tensor]; the aggregates [step][tensor], the same on all ranks.
    On two levels, if the host of each rank is given."""
    sizes = [tensor.numel() for tensor in gradients_of[0][0]]
    flat = [[torch.cat([t.float().flatten() for t in step]).cpu() for step in steps] for steps in gradients_of]
    told = list(names) if names is not None else names_of(sizes)
    _core.reduce_on_threads(method, _selection.texts(options), told, sizes, seed, first_step, flat, list(hosts))
    for other in flat[1:]:
        for mine, theirs in zip(flat[0], other, strict=True):
            assert torch.equal(mine, theirs)
    return [list(torch.split(step, sizes)) for step in flat[0]]


def step_of(ddp: DistributedDataParallel, coefficients: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    """One backward; the gradients that DistributedDataParallel leaves."""
    ddp.module.clear()
    ddp(coefficients).backward()
    return ddp.module.grads()


def same_bits(mine: torch.Tensor, other: torch.Tensor) -> bool:
    """Unlike torch.equal: zero and minus zero differ, a NaN is itself."""
    words = {4: torch.int32, 2: torch.int16}[mine.element_size()]
    return mine.dtype == other.dtype and torch.equal(mine.contiguous().view(words), other.contiguous().view(words))


def same_everywhere(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether all ranks have the same bits. Collective."""
    flat = torch.cat([tensor.detach().flatten().float() for tensor in tensors])
    parts = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, flat)
    return all(torch.equal(flat.view(torch.int32), part.view(torch.int32)) for part in parts)
