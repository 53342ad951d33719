"""laconic.Optimizer with a GradScaler: gradients are unscaled where they are, and ranks drop a step together."""

import unittest
import unittest.mock
from typing import Any

import torch
import torch.distributed as dist
from device import DEVICE
from networks import batch, flat, loss_of, network, same_everywhere
from ranks import run_ranks

import laconic


def sgd(model: torch.nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def scaled_run(method: str, explicit: bool, overflow: bool) -> tuple[torch.Tensor, list[float], dict[str, Any]]:
    """Parameters, the scale after each step and the metrics of a run with a GradScaler that grows every 4 steps."""
    model = network()
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=1024.0, growth_interval=4)
    options = {"ratio": 2} if method in ("def", "psync") else {}
    optimizer = laconic.Optimizer(sgd(model), model, method, scaler=scaler, **options)
    scales = []
    for step in range(12):
        optimizer.zero_grad()
        loss = loss_of(model, *batch(dist.get_rank(), step))
        scaler.scale(loss).backward()
        if overflow and step == 6 and dist.get_rank() == 1:
            model[0].bias.grad[3] = float("inf")  # one step, one rank
        if explicit:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 100.0)
        scaler.step(optimizer, loss=loss)
        scaler.update()
        scales.append(scaler.get_scale())
    with optimizer.read_out():
        return flat(model), scales, optimizer.metrics()


def scales() -> dict[str, Any]:
    found = {}
    for method in ("sgd", "def", "psync"):
        runs = [scaled_run(method, explicit, True) for explicit in (False, True)]
        plain = scaled_run(method, False, False)
        found[method] = {
            "equal": torch.equal(runs[0][0], runs[1][0]),
            "same": same_everywhere(runs[0][0]),
            "scales": runs[0][1],
            "plain": plain[1],
            "skipped": [run[2]["skipped"] for run in (*runs, plain)],
        }
    return found


def hidden_infinities() -> dict[str, tuple[bool, int, float]]:
    """What clipping by value makes of an infinity is finite; the scaler saw it, and the step is dropped on all ranks."""
    found = {}
    for method in ("sgd", "def"):
        model = network()
        scaler = torch.amp.GradScaler(DEVICE.type, init_scale=1024.0)
        optimizer = laconic.Optimizer(sgd(model), model, method, scaler=scaler, **({"ratio": 2} if method == "def" else {}))
        scaler.scale(loss_of(model, *batch(dist.get_rank(), 0))).backward()
        if dist.get_rank() == 1:
            model[0].bias.grad[3] = float("inf")
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.1)
        before = flat(model)
        scaler.step(optimizer)
        scaler.update()
        found[method] = (torch.equal(before, flat(model)), optimizer.metrics()["skipped"], scaler.get_scale())
    return found


def unread_scale() -> dict[str, int]:
    """How many numbers a step reads in Python: of a tensor on a device, each would make the caller wait."""
    found = {}
    for method, options in (("sgd", {}), ("def", {"ratio": 2}), ("psync", {"ratio": 2})):
        model = network()
        scaler = torch.amp.GradScaler(DEVICE.type, init_scale=1024.0)
        optimizer = laconic.Optimizer(sgd(model), model, method, scaler=scaler, **options)
        scaler.scale(loss_of(model, *batch(dist.get_rank(), 0))).backward()
        with (
            unittest.mock.patch.object(torch.Tensor, "__float__", return_value=1.0) as numbers,
            unittest.mock.patch.object(torch.Tensor, "__bool__", return_value=False) as answers,
            unittest.mock.patch.object(torch.Tensor, "item", return_value=1.0) as items,
        ):
            scaler.step(optimizer)
        found[method] = numbers.call_count + answers.call_count + items.call_count
    return found


def unscaled_half() -> dict[str, bool]:
    """Gradients of 16 bits are unscaled in float32: a factor of a third is not rounded to 16 bits before."""
    found = {}
    for method in ("sgd", "psync"):
        model = torch.nn.Linear(3, 2).to(DEVICE, torch.float16)
        optimizer = laconic.Optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model, method)
        for each in model.parameters():
            each.grad = torch.full_like(each, 7.0)
        optimizer.grad_scale = torch.tensor(3.0, device=DEVICE)  # as GradScaler does
        optimizer.found_inf = torch.tensor(0.0, device=DEVICE)
        optimizer.step()
        expected = torch.tensor(7.0 / 3.0).to(torch.float16)
        found[method] = all(bool((each.grad.cpu() == expected).all()) for each in model.parameters())
    return found


class ScalerTest(unittest.TestCase):
    def test_loss_scaling(self) -> None:
        for found in run_ranks(2, scales):
            for method, each in found.items():
                with self.subTest(method=method):
                    self.assertTrue(each["equal"] and each["same"], each)
                    self.assertEqual(each["plain"], [1024.0] * 3 + [2048.0] * 4 + [4096.0] * 4 + [8192.0])
                    # Back off in step 6, on both ranks, and four good steps to grow again.
                    self.assertEqual(each["scales"], [1024.0] * 3 + [2048.0] * 3 + [1024.0] * 4 + [2048.0] * 2)
                    self.assertEqual(each["skipped"], [1, 1, 0])

    def test_infinities_that_clipping_hid(self) -> None:
        for found in run_ranks(2, hidden_infinities):
            self.assertEqual(found, dict.fromkeys(("sgd", "def"), (True, 1, 512.0)))

    def test_the_scale_is_not_read(self) -> None:
        for found in run_ranks(2, unread_scale):
            self.assertEqual(found, dict.fromkeys(found, 0))

    def test_gradients_of_16_bits(self) -> None:
        for found in run_ranks(2, unscaled_half):
            self.assertEqual(found, dict.fromkeys(found, True))


if __name__ == "__main__":
    unittest.main()
