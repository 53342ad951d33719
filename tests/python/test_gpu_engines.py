"""Engines for tensors on a GPU: the copies that NCCL needs, over Gloo with several ranks and over NCCL with as many as there
are GPUs, for it takes one rank a GPU; and SyncBatchNorm beside a hook."""

import datetime
import functools
import os
import unittest
import unittest.mock
from typing import Any

import torch
import torch.distributed as dist
from device import DEVICE, ON_GPU
from networks import batch, flat, loss_of, network, optimizer_for, train
from probe import Probe, connect, gradients, reference, same_bits, same_everywhere, step_of, wrapped
from ranks import run_ranks
from suite import c10d_suite, wrong_checks
from variations import options_of

from laconic import _process_groups

METHODS = ("topk", "signum", "qsgd", "sgd", "fp16")


def start(backend: str) -> None:
    """A process group of an engine, a GPU a rank."""
    if ON_GPU:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=40))


def on_my_device(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """With several GPUs each rank has its own."""
    return [each.to(torch.cuda.current_device()) for each in tensors] if ON_GPU else tensors


def staged_over_gloo() -> dict[str, list[str]]:
    """Every call by way of the device: Gloo stands for NCCL, which would refuse two ranks of one GPU."""
    return wrong_checks(_process_groups.communicator(staging=DEVICE))


def on_the_device_over_gloo() -> int:
    """Calls on memory of the device, of every kind: how much came out wrong. Gloo stands for NCCL again."""
    group = dist.new_group()
    store = _process_groups.store_of(group)
    wrong: int = c10d_suite.wrong_slots(group, store, DEVICE)
    group = dist.new_group()
    wrong += c10d_suite.wrong_values_on_device(group, _process_groups.store_of(group), DEVICE)
    return wrong


def hooks_over_a_device_engine() -> list[str]:
    """Hooks whose messages stay on the device until the engine has them."""
    opened = functools.partial(_process_groups.opened, staging=DEVICE)
    with unittest.mock.patch.object(_process_groups, "opened", opened):
        return hooks_equal_the_method()


def hooks_equal_the_method(on_gpu: bool = ON_GPU, **settings: Any) -> list[str]:
    wrong = []
    ranks = dist.get_world_size()
    given = [[gradients(step, rank) for step in range(4)] for rank in range(ranks)]
    for method in METHODS:
        expected = reference(method, options_of(method), given)
        for way in ("attach", "hook"):
            model = Probe()
            ddp = wrapped(model.to(torch.cuda.current_device()) if on_gpu else model)
            connect(ddp, way, method, min_size=0, **options_of(method), **settings)
            for step in range(4):
                mine = given[dist.get_rank()][step]
                found = step_of(ddp, on_my_device(mine) if on_gpu else mine)
                if not all(map(same_bits, found, expected[step])):
                    wrong.append(f"{method} by {way}, step {step}, {settings}")
    return wrong


def every_other_rank_has_a_gpu() -> dict[str, Any]:
    """Ranks whose model is on a GPU beside ranks whose model is on the CPU: hooks, and models that are averaged."""
    start("gloo")
    on_gpu = dist.get_rank() % 2 == 0
    found: dict[str, Any] = {"hooks": hooks_equal_the_method(on_gpu)}
    device = torch.cuda.current_device() if on_gpu else torch.device("cpu")
    model = network().to(device)
    optimizer = optimizer_for("def-topk", model)
    for step in range(6):
        optimizer.zero_grad()
        loss_of(model, *(each.to(device) for each in batch(dist.get_rank(), step))).backward()
        optimizer.step()
    with optimizer.read_out():
        found["models"] = same_everywhere([flat(model)])
    return found


def over(users: str, ours: str | None) -> dict[str, Any]:
    """What a group of the user's engine and one of our own give together."""
    start(users)
    communicator = _process_groups.communicator(backend=ours)
    checks = wrong_checks(communicator, without=("split",) if ours == "nccl" else ())  # which within= refuses
    found = {
        "description": communicator.description,
        "checks": checks,
        "hooks": hooks_equal_the_method(backend=ours),
    }

    model = Probe()
    state = connect(wrapped(model.to(torch.cuda.current_device()) if ON_GPU else model), "attach", "topk", backend=ours)
    found["states"] = sorted(state.gather_state_dict())

    runs = []
    for _ in range(2):
        trained = network()
        if ON_GPU:
            trained = trained.to(torch.cuda.current_device())
        optimizer = optimizer_for("def-a", trained, backend=ours)
        if torch.cuda.device_count() < 2:
            train(optimizer, 0, 6)
        with optimizer.read_out():
            runs.append(flat(trained))
    found["repeats"] = torch.equal(*runs)
    return found


def normalised(method: str, steps: int, **settings: Any) -> torch.Tensor:
    """Parameters of a convolution with SyncBatchNorm, which speaks on the user's group in forward and in backward."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(32),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 64, 10),
    )
    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model).to(torch.cuda.current_device())
    ddp = wrapped(model)
    if method != "stock":
        connect(ddp, "attach", method, min_size=0, **settings)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.02, momentum=0.9)
    rank = dist.get_rank()
    for step in range(steps):
        generator = torch.Generator().manual_seed(10 * step + rank)
        inputs = torch.randn(4 + rank, 3, 8, 8, generator=generator).to(torch.cuda.current_device())
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(ddp(inputs), inputs[:, 0, 0, :].argmax(dim=1)).backward()
        optimizer.step()
    assert same_everywhere(list(model.parameters())), method
    return flat(model)


def synchronised_norms(backend: str, steps: int) -> dict[str, float]:
    """How far a hook that keeps everything is from stock DistributedDataParallel; and others, which only must agree."""
    start(backend)
    stock = normalised("stock", steps)
    found = {}
    for method, settings in (("sgd", {"chunk_entries": 500}), ("topk", {"keep": 1.0})):
        found[method] = (normalised(method, steps, **settings) - stock).abs().max().item()
    for method, settings in (("regtopk", {"keep": 0.05}), ("qsgd", {"chunk_entries": 500}), ("signum", {})):
        assert normalised(method, steps, **settings).isfinite().all()
    return found


class StagingTest(unittest.TestCase):
    def test_every_call_over_gloo(self) -> None:
        for count in (1, 2, 3):
            with self.subTest(ranks=count):
                self.assertEqual(run_ranks(count, staged_over_gloo), [{}] * count)

    @unittest.skipUnless(ON_GPU and c10d_suite.has_cuda, "memory on a device needs a GPU and a build with CUDA")
    def test_memory_of_the_device_over_gloo(self) -> None:
        for count in (1, 2, 3):
            with self.subTest(ranks=count):
                self.assertEqual(run_ranks(count, on_the_device_over_gloo), [0] * count)

    def test_hooks_over_a_device_engine(self) -> None:
        self.assertEqual(run_ranks(2, hooks_over_a_device_engine), [[], []])


class EnginesTest(unittest.TestCase):
    def require(self, ranks: int, users: str, ours: str | None, engine: str) -> None:
        for found in run_ranks(ranks, over, users, ours, group_timeout=None, timeout=90):
            counted = "1 rank" if ranks == 1 else f"{ranks} ranks"
            self.assertEqual(found.pop("description"), f"c10d {engine}, {counted}")
            self.assertEqual(found.pop("states"), [f"laconic/rank{rank}of{ranks}/hook" for rank in range(ranks)])
            self.assertEqual(found, {"checks": {}, "hooks": [], "repeats": True})

    def test_gloo(self) -> None:
        self.require(2, "gloo", None, "gloo")

    @unittest.skipUnless(ON_GPU, "without a GPU all models are on the CPU")
    def test_gloo_between_a_gpu_and_a_cpu(self) -> None:
        for count in (2, 3):
            for found in run_ranks(count, every_other_rank_has_a_gpu, group_timeout=None, timeout=90):
                self.assertEqual(found, {"hooks": [], "models": True})

    @unittest.skipUnless(ON_GPU and dist.is_nccl_available(), "NCCL needs a GPU")
    def test_one_rank_of_nccl(self) -> None:
        self.require(1, "nccl", None, "gloo")

    @unittest.skipUnless(ON_GPU and dist.is_nccl_available(), "NCCL needs a GPU")
    def test_one_rank_of_nccl_alone(self) -> None:
        self.require(1, "nccl", "nccl", "nccl")

    @unittest.skipUnless(ON_GPU and dist.is_nccl_available(), "NCCL needs a GPU")
    def test_one_rank_of_two_engines(self) -> None:
        self.require(1, "cpu:gloo,cuda:nccl", None, "gloo")

    @unittest.skipUnless(ON_GPU and torch.cuda.device_count() >= 2, "NCCL with two ranks needs two GPUs")
    def test_two_ranks_of_nccl(self) -> None:
        self.require(2, "nccl", None, "gloo")
        self.require(2, "nccl", "nccl", "nccl")


@unittest.skipUnless(ON_GPU, "SyncBatchNorm refuses tensors on the CPU")
class NormsTest(unittest.TestCase):
    def require(self, found: dict[str, float]) -> None:
        for method, difference in found.items():
            self.assertLess(difference, 1e-4, method)

    def test_two_ranks_of_gloo(self) -> None:
        for found in run_ranks(2, synchronised_norms, "gloo", 8, group_timeout=None):
            self.require(found)

    def test_one_rank_of_nccl(self) -> None:
        for found in run_ranks(1, synchronised_norms, "nccl", 8, group_timeout=None):
            self.require(found)


if __name__ == "__main__":
    unittest.main()
