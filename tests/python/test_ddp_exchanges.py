"""Every exchange with more than ten buckets, so that several stages of several buckets are on their way at once; and so
beside collectives of the user's own, in forward, in backward and between steps."""

import itertools
import unittest
from typing import Any

import torch
import torch.distributed as dist
from probe import Probe, connect, gradients, names_of, reference, same_bits, same_everywhere, step_of, wrapped
from ranks import run_ranks
from variations import Options, gradient_methods, is_rank_order, ways_to_travel

SIZES = [400 + 7 * i for i in range(14)]
STEPS = 3
NUMBERS = itertools.count()


def exchanges() -> list[tuple[str, Options]]:
    """All ways to travel, and what adds a stage."""
    found = [(method, options) for method in gradient_methods() for options in ways_to_travel(method)]
    return [*found, ("signsgd", {"abstain": 0.1}), ("signum", {"abstain": 0.1}), ("dqsgd", {"norm_source": "exact"})]


def speak(entries: int) -> None:
    """A sum of the user's own, over the group that DistributedDataParallel has too, whose result no other sum has."""
    number = next(NUMBERS) % 1000
    total = torch.full((entries,), float(number + dist.get_rank()))
    dist.all_reduce(total)
    ranks = dist.get_world_size()
    assert torch.equal(total, torch.full((entries,), float(number * ranks + ranks * (ranks - 1) // 2))), number


class Told(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
        speak(100)
        return value.clone()

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> torch.Tensor:
        speak(1000)
        return grad


class Talking(Probe):
    def forward(self, coefficients: Any) -> torch.Tensor:
        values = [Told.apply(value) for value in self.values]
        return torch.stack([(v * c).sum() for v, c in zip(values, coefficients, strict=True)]).sum()


def compare(way: str, talking: bool, every: int = 1) -> list[str]:
    """Which exchanges differ from the method alone."""
    wrong = []
    given = [[gradients(step, rank, SIZES) for step in range(STEPS)] for rank in range(dist.get_world_size())]
    for method, options in exchanges()[::every]:
        ddp = wrapped(Talking(SIZES) if talking else Probe(SIZES), bucket_cap_mb=0.0016)
        connect(ddp, way, method, min_size=0, chunk_entries=500, arrange_buckets=False, **options)
        found = []
        for step in given[dist.get_rank()]:
            found.append(step_of(ddp, step))
            if talking:
                speak(1)
        count = len(ddp._get_ddp_logging_data()["rebuilt_bucket_sizes"].split(","))
        assert count >= 10, count
        expected = reference(method, options, given, names=names_of(SIZES))
        for mine, wanted in zip(found, expected, strict=True):
            same = all(map(same_bits, mine, wanted)) if is_rank_order(options) else same_everywhere(mine)
            if not same:
                wrong.append(f"{method} {options}")
    return wrong


class ExchangesTest(unittest.TestCase):
    def test_all_are_there(self) -> None:
        texts = {f"{method} {' '.join(map(str, options.values()))}" for method, options in exchanges()}
        for each in (
            "topk 0.05 model range coded keep",
            "topk 0.05 chunk range coded sum",
            "regtopk 0.05 tensor gather exact",
            "qsgd tensor scatter requantized",
            "bf16 ",
        ):
            self.assertIn(each, texts)
        self.assertGreaterEqual(len(texts), 40)

    def test_many_buckets(self) -> None:
        self.assertEqual(run_ranks(3, compare, "attach", False, timeout=250), [[]] * 3)
        self.assertEqual(run_ranks(2, compare, "hook", False, timeout=250), [[]] * 2)


class OwnCollectivesTest(unittest.TestCase):
    def test_beside_the_users_own(self) -> None:
        self.assertEqual(run_ranks(2, compare, "attach", True, timeout=250), [[]] * 2)
        self.assertEqual(run_ranks(3, compare, "hook", True, 2, timeout=250), [[]] * 3)


if __name__ == "__main__":
    unittest.main()
