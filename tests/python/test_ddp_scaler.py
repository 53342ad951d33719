"""A hook beside a GradScaler: memory knows nothing of the scale, and an infinity anywhere drops the step everywhere."""

import math
import struct
import unittest
from typing import Any

import torch
import torch.distributed as dist
from device import DEVICE
from probe import Probe, connect, gradients, reference, same_bits, step_of, wrapped
from ranks import run_ranks
from test_ddp_behaviours import WAYS, mine, of_all_ranks
from variations import gradient_methods, options_of

import laconic

STEPS = 12
BAD = (5, 9)  # steps with an infinity on one rank
# Scales, and how far the optimizer's gradients may be from those of a run without a scale.
# A product with a power of two is exact. With another scale s each gradient is rounded when the loss is scaled, again
# when it is unscaled, and 1/s is rounded: 3 roundings of 2^-24 in, and 3 out. A residual collects those of at most STEPS
# steps, whose values stay below 6 here: (3 * STEPS + 3) * 2^-24 * 6 = 1.4e-5.
SCALES = (
    ({"init_scale": 1024.0, "growth_factor": 4.0, "backoff_factor": 0.5}, 0.0),
    ({"init_scale": 1000.0, "growth_factor": 3.0, "backoff_factor": 0.3}, 1.4e-5),
)


def entries(saved: bytes) -> dict[str, bytes]:
    """What stands in saved state, by name."""
    found: dict[str, bytes] = {}
    count, at = struct.unpack_from("<I", saved, 4)[0], 8
    for _ in range(count):
        length = struct.unpack_from("<I", saved, at)[0]
        name = saved[at + 4 : at + 4 + length].decode()
        size = struct.unpack_from("<Q", saved, at + 5 + length)[0]
        at += 13 + length
        found[name] = saved[at : at + size]
        at += size
    return found


def memory(state: laconic.State) -> dict[str, bytes]:
    """What a method remembers; the steps that were counted are none of it."""
    found = entries(bytes(next(iter(state.state_dict().values())).tolist()))
    return {name: value for name, value in found.items() if name not in ("step", "skipped")}


def scaled_steps(way: str, method: str, settings: dict[str, Any], tolerance: float) -> None:
    """Across a growth and a back-off of the scale: what the optimizer sees is what it would see without a scale."""
    scaler = torch.amp.GradScaler(DEVICE.type, growth_interval=3, **settings)
    ddp = wrapped(Probe())
    options = {"ties": "plus"} if method == "signum" else options_of(method)  # what is drawn, is drawn by step
    state = connect(ddp, way, method, scaler=scaler, **options)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1.0)
    given = of_all_ranks(gradients, STEPS)
    good = [[step for i, step in enumerate(steps) if i not in BAD] for steps in given]
    expected = iter(reference(method, options, good))
    scales = []
    for number, step in enumerate(mine(given)):
        if number in BAD and dist.get_rank() == number % dist.get_world_size():
            step[3][number] = float("inf")
        optimizer.zero_grad()
        scales.append(scaler.get_scale())
        scaler.scale(ddp(step)).backward()
        before = [p.detach().clone() for p in ddp.module.values]
        if number in BAD:
            assert all(torch.isinf(p.grad).all() for p in ddp.module.values), "infinity on every rank"
        scaler.unscale_(optimizer)
        if number not in BAD:
            for found, wanted in zip(ddp.module.grads(), next(expected), strict=True):
                near = (found - wanted).abs().max().item() <= tolerance if tolerance else same_bits(found, wanted)
                assert near, (method, number, (found - wanted).abs().max().item())
        scaler.step(optimizer)
        scaler.update()
        moved = any(not torch.equal(a, b) for a, b in zip(before, ddp.module.values, strict=True))
        assert moved == (number not in BAD), number
    first, growth, fall = (float(settings[name]) for name in ("init_scale", "growth_factor", "backoff_factor"))
    wanted_scales = [first] * 3 + [first * growth] * 3 + [first * growth * fall] * 3
    wanted_scales += [first * growth * fall * growth] + [first * growth * fall * growth * fall] * 2
    assert all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(scales, wanted_scales, strict=True)), scales
    assert state.metrics()["skipped"] == len(BAD)


def scaled_runs() -> None:
    for method in ("sgd", "topk", "signum"):
        for settings, tolerance in SCALES:
            for way in WAYS:
                scaled_steps(way, method, settings, tolerance)


def memory_is_untouched() -> dict[str, list[str]]:
    """Every method, an infinity on one rank: no bit of any rank's memory changes. What changed in the step before."""
    remembered = {}
    for method in gradient_methods():
        for way in WAYS:
            scaler = torch.amp.GradScaler(DEVICE.type, init_scale=1000.0)
            ddp = wrapped(Probe())
            state = connect(ddp, way, method, scaler=scaler, min_size=0, **options_of(method))
            changes = []
            for number in range(4):
                step = gradients(number, dist.get_rank())
                if number == 3 and dist.get_rank() == 1:
                    step[3][5] = float("inf")
                kept, norm = memory(state), state.metrics()["residual_norm"]
                ddp.module.clear()
                scaler.scale(ddp(step)).backward()
                changes.append([name for name, value in memory(state).items() if value != kept[name]])
            assert not changes[3], (method, way, changes[3])
            assert state.metrics()["residual_norm"] == norm, (method, way)
            remembered[method] = changes[2]
    return remembered


def a_scaler_may_be_off() -> None:
    for way in WAYS:
        ddp = wrapped(Probe())
        connect(ddp, way, "sgd", scaler=torch.amp.GradScaler(DEVICE.type, enabled=False))
        given = of_all_ranks(gradients, 1)
        found, wanted = step_of(ddp, mine(given)[0]), reference("sgd", {}, given)[0]
        assert all(map(same_bits, found, wanted))


class ScalerTest(unittest.TestCase):
    def test_growth_and_back_off(self) -> None:
        run_ranks(2, scaled_runs, timeout=250)
        run_ranks(3, scaled_runs, timeout=250)

    def test_memory_is_untouched(self) -> None:
        for remembered in run_ranks(3, memory_is_untouched, timeout=250):
            for method in ("topk", "regtopk", "randk"):
                self.assertIn("group 0/residual", remembered[method])
            self.assertIn("group 0/momentum", remembered["signum"])
            self.assertEqual(list(remembered), gradient_methods())

    def test_a_scaler_that_is_off(self) -> None:
        run_ranks(2, a_scaler_may_be_off)


if __name__ == "__main__":
    unittest.main()
