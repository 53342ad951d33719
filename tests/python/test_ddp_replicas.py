"""Networks that train under a hook: replicas have the same bits after every step, and a method that keeps everything is
stock DistributedDataParallel."""

import unittest

import torch
import torch.distributed as dist
from device import DEVICE
from probe import connect, wrapped
from ranks import run_ranks
from variations import Options, gradient_methods, options_of, parameters_of

STEPS = 16
WAYS = ("attach", "hook")


def trained(way: str, method: str = "", steps: int = STEPS, **settings: object) -> torch.Tensor:
    """The parameters after each step, a row a step. `way` may be stock, DistributedDataParallel without a hook."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    ddp = wrapped(model.to(DEVICE), bucket_cap_mb=0.0003)
    if way != "stock":
        connect(ddp, way, method, min_size=0, **settings)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(dist.get_rank())  # every rank has data of its own
    rows = []
    for _ in range(steps):
        inputs = torch.randn(8, 8, generator=generator).to(DEVICE)
        targets = torch.randint(0, 4, (8,), generator=generator).to(DEVICE)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(ddp(inputs), targets).backward()
        optimizer.step()
        rows.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    return torch.stack(rows)


def first_difference(rows: torch.Tensor) -> int | None:
    """The first step after which another rank has other bits. Collective."""
    parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, rows)
    differ = torch.stack([part.view(torch.int32) != rows.view(torch.int32) for part in parts]).any(dim=2).any(dim=0)
    return int(differ.nonzero()[0]) if differ.any() else None


def replicas() -> dict[str, str]:
    """What is wrong, by method and way."""
    wrong = {}
    for method in gradient_methods():
        for way in WAYS:
            rows = trained(way, method, **options_of(method))
            step = first_difference(rows)
            if step is not None:
                wrong[f"{method} by {way}"] = f"differs after step {step}"
            elif not (rows[1:] != rows[:-1]).any(dim=1).all() or not rows.isfinite().all():
                wrong[f"{method} by {way}"] = "does not train"
    return wrong


def a_difference_is_seen() -> list[int | None]:
    rows = trained("attach", "sgd", steps=9)
    alike = first_difference(rows)
    if dist.get_rank() == 1:
        rows[6, 3].view(torch.int32).bitwise_xor_(1)
    return [alike, first_difference(rows)]


def keeping_methods() -> list[tuple[str, Options]]:
    """With which all is sent: what sparsifies, at keep = 1 and in either scope; and the dense ones in float32."""
    found: list[tuple[str, Options]] = []
    for method in gradient_methods():
        names = [each["name"] for each in parameters_of(method)]
        if "keep" in names:
            found += [(method, {"keep": 1.0, "scope": scope}) for scope in ("model", "tensor")]
        elif "order" in names:
            found += [(method, {"order": order}) for order in ("rank_order", "engine")]
    return found


def differences_to_stock(steps: int) -> dict[str, float]:
    """The largest after any step."""
    stock = trained("stock", steps=steps)
    return {
        f"{method} {options} by {way}": (trained(way, method, steps, **options) - stock).abs().max().item()
        for method, options in keeping_methods()
        for way in WAYS
    }


class ReplicasTest(unittest.TestCase):
    def test_2_ranks(self) -> None:
        self.assertEqual(run_ranks(2, replicas, timeout=250), [{}] * 2)

    def test_3_ranks(self) -> None:
        self.assertEqual(run_ranks(3, replicas, timeout=250), [{}] * 3)

    def test_4_ranks(self) -> None:
        self.assertEqual(run_ranks(4, replicas, timeout=250), [{}] * 4)

    def test_a_difference_is_seen(self) -> None:
        self.assertEqual(run_ranks(2, a_difference_is_seen), [[None, 6]] * 2)


class StockTest(unittest.TestCase):
    def test_methods(self) -> None:
        self.assertEqual({method for method, _ in keeping_methods()}, {"sgd", "topk", "regtopk", "randk"})

    def test_keeping_everything_is_stock(self) -> None:
        for ranks in (2, 3, 4):
            for found in run_ranks(ranks, differences_to_stock, 8, timeout=250):
                self.assertEqual(len(found), 2 * len(keeping_methods()))
                for case, difference in found.items():
                    self.assertLess(difference, 1e-6, f"{case}, {ranks} ranks")


if __name__ == "__main__":
    unittest.main()
