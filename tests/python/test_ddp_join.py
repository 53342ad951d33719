"""Ranks with fewer batches than others: `with ddp.join():` lets them take part with gradients of zero."""

import unittest
from typing import Any

import torch
import torch.distributed as dist
from probe import SIZES, Probe, connect, gradients, reference, same_bits, same_everywhere, wrapped
from ranks import run_ranks
from test_ddp_behaviours import WAYS
from variations import gradient_methods, options_of

STEPS = 6


def batches_of(rank: int, counts: tuple[int, ...]) -> list[list[torch.Tensor]]:
    """A rank's gradients, zero once its batches are used up: what it says while others go on."""
    nothing = [torch.zeros(size) for size in SIZES]
    return [gradients(step, rank) if step < counts[rank] else nothing for step in range(STEPS)]


def joined(counts: tuple[int, ...], method: str, way: str, divide: bool = True, **settings: Any) -> None:
    """An epoch in which ranks have so many batches, and a step of all after it. With either value of
    divide_by_initial_world_size the mean is that of all ranks: a hook, also one of torch's own, is not told how many are
    left."""
    rank, options = dist.get_rank(), options_of(method)
    ddp = wrapped(Probe(), **settings)
    connect(ddp, way, method, min_size=0, chunk_entries=50, **options)
    given = [[*batches_of(each, counts), gradients(STEPS, each)] for each in range(len(counts))]
    expected = reference(method, options, given)
    with ddp.join(divide_by_initial_world_size=divide):
        for step in range(counts[rank]):
            ddp.module.clear()
            ddp(given[rank][step]).backward()
            assert all(map(same_bits, ddp.module.grads(), expected[step])), (method, way, step)
    ddp.module.clear()
    ddp(given[rank][STEPS]).backward()
    assert all(map(same_bits, ddp.module.grads(), expected[STEPS])), (method, way, "after")


def every_method(counts: tuple[int, ...]) -> None:
    for method in gradient_methods():
        for way in WAYS:
            joined(counts, method, way)


def other_settings(counts: tuple[int, ...]) -> None:
    for method in ("sgd", "topk", "qsgd"):
        for way in WAYS:
            joined(counts, method, way, divide=False)
            joined(counts, method, way, find_unused_parameters=True)
            joined(counts, method, way, gradient_as_bucket_view=True)


def trained(method: str, way: str) -> None:
    """After the last batch of all, every rank has the same model, and has learned from every batch."""
    torch.manual_seed(1)
    model = torch.nn.Linear(6, 2)
    ddp = wrapped(model)
    connect(ddp, way, method, min_size=0, **options_of(method))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    start = model.weight.detach().clone()
    with ddp.join():
        for step in range(2 + 3 * dist.get_rank()):
            optimizer.zero_grad()
            ddp(gradients(step, dist.get_rank(), [60])[0].view(10, 6)).square().mean().backward()
            optimizer.step()
    assert same_everywhere(list(model.parameters())) and not torch.equal(start, model.weight), (method, way)


def replicas() -> None:
    for method in gradient_methods():
        for way in WAYS:
            trained(method, way)


class JoinTest(unittest.TestCase):
    def test_ranks_end_late(self) -> None:
        run_ranks(3, every_method, (6, 3, 4), timeout=250)

    def test_a_rank_ends_before_buckets_are_rebuilt(self) -> None:
        run_ranks(3, every_method, (6, 1, 4), timeout=250)

    def test_a_rank_has_nothing(self) -> None:
        run_ranks(2, every_method, (6, 0), timeout=250)

    def test_other_settings(self) -> None:
        run_ranks(3, other_settings, (2, 6, 1), timeout=250)

    def test_replicas_are_one_in_the_end(self) -> None:
        run_ranks(3, replicas, timeout=250)


if __name__ == "__main__":
    unittest.main()
