"""A small task that every rank of a test learns together: points in a plane by their quadrant."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import pickle
import unittest.mock
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from device import DEVICE
from torch.distributed import distributed_c10d as c10d

import laconic
from laconic import _core


class Copying:
    """A host that says that it copies its model's tensors to the CPU, and why."""

    def __init__(self, host: Any, reason: str) -> None:
        self._host = host
        self.reason_for_cpu = reason

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)


@contextlib.contextmanager
def copying_hosts(maker: str, reasons: Sequence[str]) -> Iterator[None]:
    """In the block, the hosts that `maker` of _core makes say that they copy for these reasons: the first host for the
    first reason, and so on. An empty reason: that host copies nothing."""
    original, left = getattr(_core, maker), iter(reasons)
    with unittest.mock.patch.object(_core, maker, lambda *given, **plan: Copying(original(*given, **plan), next(left))):
        yield


def warned_of_copies(maker: str, reasons: Sequence[str], make: Callable[[], object]) -> list[str]:
    """File and text of what users are told of copies to the CPU, by hosts with these reasons, one after another."""
    with copying_hosts(maker, reasons), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in reasons:
            make()
    texts = [f"{each.filename.rsplit('/', 1)[-1]}: {each.message}" for each in found]
    return [text for text in texts if "copied" in text]


def network(seed: int = 7, norm: bool = False) -> torch.nn.Sequential:
    """Two layers; the same start for the same seed."""
    torch.manual_seed(seed)
    middle = [torch.nn.BatchNorm1d(24)] if norm else []
    return torch.nn.Sequential(torch.nn.Linear(2, 24), *middle, torch.nn.ReLU(), torch.nn.Linear(24, 4)).to(DEVICE)


def batch(rank: int, step: int, size: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """A rank's batch of a step."""
    generator = torch.Generator().manual_seed(1_000_003 * step + rank)
    points = torch.randn(size, 2, generator=generator).to(DEVICE)
    return points, 2 * (points[:, 0] > 0).long() + (points[:, 1] > 0).long()


def loss_of(model: torch.nn.Module, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(points).float(), labels)


def test_loss(model: torch.nn.Module) -> float:
    """On points that no rank trains with."""
    mode = model.training
    model.eval()
    with torch.no_grad():
        loss = loss_of(model, *batch(10_000, 0, 512)).item()
    model.train(mode)
    return loss


def flat(model: torch.nn.Module) -> torch.Tensor:
    """All parameters, copied to the host."""
    return torch.cat([parameter.detach().float().flatten() for parameter in model.parameters()]).cpu()


def same_everywhere(values: torch.Tensor) -> bool:
    """Whether all ranks hold the same bits. Collective, on the test's own group."""
    all_values = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(all_values, values)
    return all(torch.equal(values, each) for each in all_values)


def small_options(method: str) -> dict[str, Any]:
    """Options under which a method does all that it can on a small model."""
    row = next(row for row in laconic.methods() if row["name"] == method)
    defaults = {parameter["name"]: parameter["default"] for parameter in row["parameters"]}
    found = {"keep": 0.1, "ratio": 2, "period": 4}
    options: dict[str, Any] = {name: value for name, value in found.items() if name in defaults}
    if defaults.get("keep") == "1":  # sends everything unless told otherwise
        del options["keep"]
    if method == "qsgd":
        options["min_size"] = 0
    return options


def optimizer_for(method: str, model: torch.nn.Module, **settings: Any) -> laconic.Optimizer:
    """The method around SGD with momentum, Adam where that is what it is, or AdamW if its steps are what is sent."""
    inner: torch.optim.Optimizer
    row = next(row for row in laconic.methods() if row["name"] == method)
    if row["sends_updates"] and not row["is_sgd"]:
        inner = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.1)
    elif method == "adam":
        inner = torch.optim.Adam(model.parameters(), lr=0.02)
    elif method.startswith("sign"):
        inner = torch.optim.SGD(model.parameters(), lr=0.02)
    else:
        inner = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return laconic.Optimizer(inner, model, method, **{**small_options(method), **settings})


def train(optimizer: laconic.Optimizer, first: int, last: int) -> None:
    """Steps of this rank's batches."""
    for step in range(first, last):
        optimizer.zero_grad()
        loss = loss_of(optimizer.model, *batch(dist.get_rank(), step))
        loss.backward()
        optimizer.step(loss=loss)


def message_of(action: Callable[[], Any]) -> str:
    """Of the InvalidConfig that it ends with."""
    try:
        action()
    except laconic.InvalidConfig as error:
        return str(error)
    return "nothing was refused"


@contextlib.contextmanager
def numpy_free_objects() -> Iterator[None]:
    """torch's collectives of objects, which distributed checkpoint uses, need numpy for one line; where it is missing, they
    get another line. The package itself needs neither."""
    if importlib.util.find_spec("numpy") is not None:
        yield
        return
    original = c10d._tensor_to_object

    def plain(tensor: torch.Tensor, size: int, group: Any) -> Any:
        tensor = tensor.cpu().contiguous()
        return pickle.loads(ctypes.string_at(tensor.data_ptr(), int(size)))

    c10d._tensor_to_object = plain
    try:
        yield
    finally:
        c10d._tensor_to_object = original
