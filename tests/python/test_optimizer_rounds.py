"""laconic.Optimizer: the point to test and save, and methods that meet in rounds."""

import copy
import time
import unittest
from typing import Any

import torch
import torch.distributed as dist
from networks import batch, flat, loss_of, message_of, network, optimizer_for, same_everywhere, train
from ranks import run_ranks

import laconic


def statistics() -> dict[str, Any]:
    """What batch norm has inside and after read_out."""
    rank = dist.get_rank()
    model = network(norm=True)
    optimizer = optimizer_for("mgrawa", model)
    train(optimizer, 0, 5)
    own = model[1].running_mean.clone()
    own_count = int(model[1].num_batches_tracked)
    all_own = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(all_own, own)
    with optimizer.read_out():
        averaged = torch.allclose(model[1].running_mean, sum(all_own) / len(all_own), atol=1e-6)
    model.eval()
    generator = torch.get_rng_state()
    with optimizer.read_out(batches=[batch(rank, 100), batch(rank, 101)]) as inside:
        with torch.no_grad():
            seen = [inside[0](batch(each, step)[0]).mean(0) for each in range(len(all_own)) for step in (100, 101)]
        estimated = torch.allclose(inside[1].running_mean, sum(seen) / len(seen), atol=1e-5)
        evaluates = not inside[1].training
    kept = torch.equal(own, model[1].running_mean) and own_count == int(model[1].num_batches_tracked)
    return {
        "averaged": averaged,
        "estimated": estimated,
        "evaluates": evaluates,
        "kept": kept and model[1].momentum == 0.1,
        "generator": torch.equal(generator, torch.get_rng_state()),
        "nested": message_of(lambda: nested(optimizer)),
        "no batch": message_of(lambda: laconic._batch_norm.Statistics(model).estimate(model, iter([]))),
    }


def nested(optimizer: laconic.Optimizer) -> None:
    with optimizer.read_out():
        optimizer.step(loss=0.0)


def reads_alone(method: str) -> float:
    """Seconds until rank 0, which reads out alone, is told so."""
    model = network()
    optimizer = optimizer_for(method, model, timeout=1.0)
    train(optimizer, 0, 2)
    kept = flat(model)
    if dist.get_rank() != 0:
        time.sleep(4)  # alive, and elsewhere
        return 0.0
    start = time.monotonic()
    try:
        with optimizer.read_out():
            return -1.0
    except laconic.TransportError:
        return time.monotonic() - start if torch.equal(kept, flat(model)) else -2.0


def scored() -> dict[str, Any]:
    model = network(norm=True)
    rounds = []

    def score(number: int) -> None:
        rounds.append(number)
        assert all(parameter.grad is None for parameter in model.parameters())
        loss_of(model, *batch(5000, number)).backward()

    optimizer = optimizer_for("lgrawa", model, scoring=score)
    train(optimizer, 0, 8)
    gradient = model[0].weight.grad.clone()
    loss_of(model, *batch(dist.get_rank(), 7))
    with optimizer.read_out():
        same = same_everywhere(flat(model))
    return {"rounds": rounds, "same": same, "has gradient": bool(gradient.abs().sum() > 0)}


def scoring_fails() -> str:
    """What each rank is told when the scoring function of one raises."""
    model = network()

    def score(number: int) -> None:
        if dist.get_rank() == 1:
            raise LookupError("no shared batch here")
        loss_of(model, *batch(5000, number)).backward()

    optimizer = optimizer_for("mgrawa", model, scoring=score)
    try:
        train(optimizer, 0, 4)
    except (LookupError, laconic.TransportError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def asynchronous(method: str) -> dict[str, Any]:
    """Workers at their own pace: rank 0 is slow."""
    model = network()
    saves = []
    optimizer = optimizer_for(method, model, pace="async", total_steps=20, after_round=lambda: saves.append(1))
    steps = 0
    while not optimizer.finished:
        if dist.get_rank() == 0:
            time.sleep(0.01)
        train(optimizer, steps, steps + 1)
        steps += 1
    with optimizer.read_out():
        same = same_everywhere(flat(model))
    counted = torch.tensor([steps])
    dist.all_reduce(counted)
    after = message_of(lambda: train(optimizer, steps, steps + 1)) if dist.get_rank() == 0 else ""
    return {"same": same, "all": counted.item(), "rounds": optimizer.metrics()["rounds"], "saves": len(saves), "after": after}


def compressed(method: str) -> dict[str, Any]:
    """Rounds that send signs: bytes, what is owed, and a run that is taken up."""
    bits = {"keep": 0.25, "values": "sign"}
    sent = []
    for settings in ({}, bits):
        torch.manual_seed(1)
        model = network()
        optimizer = optimizer_for(method, model, **settings)
        train(optimizer, 0, 8)
        sent.append(optimizer.metrics()["total"]["sent_bytes"])
    state = copy.deepcopy(optimizer.state_dict())
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    train(optimizer, 8, 12)
    straight = flat(model)
    resumed = network()
    resumed.load_state_dict(weights)
    other = optimizer_for(method, resumed, **bits)
    other.load_state_dict(state)
    train(other, 8, 12)
    with other.read_out():
        same = same_everywhere(flat(resumed))
    return {"sent": sent, "resumes": torch.equal(straight, flat(resumed)), "same": same}


class ReadOutTest(unittest.TestCase):
    def test_statistics(self) -> None:
        for found in run_ranks(3, statistics):
            self.assertIn("had no batch: an iterator can be gone through but once", found.pop("no batch"))
            text = found.pop("nested")
            self.assertIn("inside read_out", text)
            self.assertEqual(found, dict.fromkeys(found, True))

    def test_who_reads_alone_is_told(self) -> None:
        for method in ("sgd", "def"):
            seconds = run_ranks(2, reads_alone, method)[0]
            self.assertGreaterEqual(seconds, 0.8)
            self.assertLess(seconds, 3.9)


class RoundsTest(unittest.TestCase):
    def test_scoring(self) -> None:
        for found in run_ranks(2, scored):
            self.assertEqual(found, {"rounds": [0, 1], "same": True, "has gradient": True})

    def test_a_scoring_function_that_fails(self) -> None:
        told = run_ranks(2, scoring_fails)
        self.assertIn("TransportError", told[0])
        self.assertIn("no shared batch here", told[0])
        self.assertTrue(told[1].startswith("LookupError: no shared batch here"), told[1])

    def test_compressed(self) -> None:
        for method in ("localsgd", "lsgd"):
            for found in run_ranks(2, compressed, method):
                self.assertTrue(found["resumes"] and found["same"], found)
                whole, signs = found["sent"]
                self.assertLess(signs, whole / 3, found)

    def test_asynchronous(self) -> None:
        for method in ("mgrawa", "lsgd"):
            for number, found in enumerate(run_ranks(3, asynchronous, method)):
                self.assertTrue(found["same"])
                self.assertEqual((found["all"], found["rounds"], found["saves"]), (60, 5, 5))
                if number == 0:
                    self.assertIn("total_steps", found["after"])


if __name__ == "__main__":
    unittest.main()
