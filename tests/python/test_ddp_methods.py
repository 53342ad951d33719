"""Every gradient method, through both ways in, gives the bits of the C++ method on the same gradients."""

import unittest
from typing import Any

import torch
import torch.distributed as dist
from probe import (
    Probe,
    connect,
    gradient_methods,
    gradients,
    options_of,
    reference,
    same_everywhere,
    step_of,
    wrapped,
)
from ranks import run_ranks


def compare_with_reference(steps: int) -> list[str]:
    """Which cases differ."""
    wrong = []
    ranks = dist.get_world_size()
    given = [[gradients(step, rank) for step in range(steps)] for rank in range(ranks)]
    for method in gradient_methods():
        options = options_of(method)
        expected = reference(method, options, given)
        for way in ("attach", "hook"):
            ddp = wrapped(Probe())
            connect(ddp, way, method, min_size=0, **options)
            for step in range(steps):
                found = step_of(ddp, given[dist.get_rank()][step])
                if not all(torch.equal(a, b) for a, b in zip(found, expected[step], strict=True)):
                    wrong.append(f"{method} by {way}, step {step}")
    return wrong


def train(way: str, method: str, steps: int, **settings: Any) -> tuple[bool, list[torch.Tensor]]:
    """A small network; whether the replicas are the same, and its parameters."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.ReLU(), torch.nn.Linear(24, 4))
    ddp = wrapped(model)
    if way != "stock":
        connect(ddp, way, method, **settings)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    same = True
    for step in range(steps):
        generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
        inputs = torch.randn(8, 16, generator=generator)
        targets = torch.randint(0, 4, (8,), generator=generator)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(ddp(inputs), targets).backward()
        optimizer.step()
    same = same_everywhere(list(model.parameters()))
    return same, [parameter.detach() for parameter in model.parameters()]


def replicas_stay_identical(steps: int) -> list[str]:
    return [method for method in gradient_methods() if not train("attach", method, steps, min_size=0, **options_of(method))[0]]


def keeps_everything(steps: int) -> dict[str, float]:
    """The largest difference to stock DistributedDataParallel, by method."""
    stock = train("stock", "", steps)[1]
    found = {}
    for method in ("sgd", "topk", "regtopk", "randk"):
        options = {} if method == "sgd" else {"keep": 1.0}
        mine = train("hook", method, steps, **options)[1]
        found[method] = max((a - b).abs().max().item() for a, b in zip(mine, stock, strict=True))
    return found


class MethodsTest(unittest.TestCase):
    def test_equals_the_method_bit_for_bit(self) -> None:
        for ranks, steps in ((2, 6), (3, 4), (4, 4)):
            self.assertEqual(run_ranks(ranks, compare_with_reference, steps), [[]] * ranks)

    def test_replicas_stay_identical_for_50_steps(self) -> None:
        self.assertEqual(run_ranks(3, replicas_stay_identical, 50), [[]] * 3)

    def test_keeping_everything_is_stock_ddp(self) -> None:
        for found in run_ranks(2, keeps_everything, 20):
            for method, difference in found.items():
                self.assertLess(difference, 1e-6, method)


if __name__ == "__main__":
    unittest.main()
