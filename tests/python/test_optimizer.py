"""laconic.Optimizer: every method trains, and ranks share what their method shares."""

import unittest
from typing import Any

import torch
import torch.distributed as dist
from networks import flat, network, optimizer_for, same_everywhere, test_loss, train, warned_of_copies
from ranks import run_ranks

import laconic

FACES = {row["name"]: row["face"] for row in laconic.methods()}


def trains(steps: int) -> dict[str, dict[str, Any]]:
    """What came of each method, from starts that differ by rank."""
    found = {}
    for method, face in FACES.items():
        model = network(seed=dist.get_rank())
        optimizer = optimizer_for(method, model)
        before = test_loss(model)
        same = same_everywhere(flat(model))
        for step in range(0, steps, 10):
            train(optimizer, step, step + 10)
            if face == "gradient":
                same = same and same_everywhere(flat(model))
        kept = flat(model)
        with optimizer.read_out():
            same = same and same_everywhere(flat(model))
            after = test_loss(model)
        metrics = optimizer.metrics()
        found[method] = {
            "same": same,
            "restored": torch.equal(kept, flat(model)),
            "before": before,
            "after": after,
            "metrics": metrics,
        }
    return found


def differing_starts_are_told() -> str:
    model = network() if dist.get_rank() == 0 else torch.nn.Linear(3, 3)
    try:
        laconic.Optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model, "sgd")
    except laconic.InvalidConfig as error:
        return str(error)
    return ""


def warnings_of(method: str) -> list[str]:
    """Of optimizers that work on their parameters where they are, and of some that cannot."""
    make = "model_host" if FACES[method] == "model" else "reducing_host"
    reasons = ("", "no kernels", "no kernels")
    return warned_of_copies(make, reasons, lambda: optimizer_for(method, network().to("cpu")))


class WarningsTest(unittest.TestCase):
    def test_parameters_that_are_copied_to_the_cpu(self) -> None:
        text = "networks.py: parameters on a device are copied to the CPU and worked on there: no kernels"
        for method in ("topk", "def"):
            self.assertEqual(run_ranks(1, warnings_of, method), [[text]])


class MethodsTest(unittest.TestCase):
    def test_every_method_trains_and_replicas_stay_identical(self) -> None:
        for ranks, steps in ((2, 20), (3, 50), (4, 20)):
            for found in run_ranks(ranks, trains, steps, timeout=100):
                self.assertEqual(sorted(found), sorted(FACES))
                for method, each in found.items():
                    with self.subTest(method=method, ranks=ranks):
                        self.assertTrue(each["same"])
                        self.assertTrue(each["restored"])
                        self.assertLess(each["after"], (0.7 if steps == 50 else 1.0) * each["before"])
                        metrics = each["metrics"]
                        self.assertEqual((metrics["steps"], metrics["skipped"]), (steps, 0))
                        self.assertGreater(metrics["total"]["sent_bytes"], 0)
                        self.assertGreater(metrics["ratio"], 0.5)

    def test_models_that_differ_are_told_on_all_ranks(self) -> None:
        for text in run_ranks(2, differing_starts_are_told):
            self.assertIn("rank 1", text)


if __name__ == "__main__":
    unittest.main()
