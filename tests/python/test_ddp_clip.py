"""clip=: each rank's own gradient is clipped before the method remembers or sends anything of it."""

import math
import unittest
from typing import Any

import torch
import torch.distributed as dist
from device import DEVICE
from probe import SIZES, Probe, connect, gradients, reference, same_bits, step_of, wrapped
from ranks import run_ranks
from refusals import refused
from test_ddp_behaviours import WAYS, Step, equal, in_turn, mine, of_all_ranks

import laconic

CLIP = 1.5
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {}),
    ("topk", {"keep": 0.05}),
    ("regtopk", {"keep": 0.05, "scope": "tensor"}),
    ("signum", {}),
    ("qsgd", {}),
]


def some_small(step: int, rank: int, sizes: tuple[int, ...] = SIZES, dtype: torch.dtype = torch.float32) -> Step:
    """Gradients of norm 38, and in every third step of norm 0.4, which is left as it is."""
    factor = 0.01 if (step + rank) % 3 == 2 else 1.0
    return [each * factor for each in gradients(step, rank, sizes, dtype)]


def clipped(step: Step, clip: float = CLIP) -> Step:
    """By hand: norms of tensors in float64, rounded once, and the norm of these."""
    norms = [each.double().square().sum().sqrt().float().double().item() for each in step]
    norm = math.sqrt(sum(each * each for each in norms))
    factor = clip / (norm + 1e-6)
    if factor >= 1.0:
        return [each.float() for each in step]
    return [each.float() * torch.tensor(factor, dtype=torch.float32, device=each.device) for each in step]


def all_clipped(given: list[list[Step]]) -> list[list[Step]]:
    return [[clipped(step) for step in steps] for steps in given]


def equals_clipping_by_hand() -> None:
    given = of_all_ranks(some_small, 7)
    assert sum(same_bits(a[3], b[3]) for a, b in zip(mine(given), mine(all_clipped(given)), strict=True)) in (2, 3)
    for method, options in METHODS:
        expected = reference(method, options, all_clipped(given))
        for way in WAYS:
            for bucket in (0.001, 25):
                ddp = wrapped(Probe(), bucket_cap_mb=bucket)
                connect(ddp, way, method, clip=CLIP, min_size=0, **options)
                assert equal([step_of(ddp, step) for step in mine(given)], expected), (method, way, bucket)


def is_the_factor_of_torch() -> None:
    """One rank, dense: what is left is what clip_grad_norm_ would make of it, but for rounding."""
    ddp, plain = wrapped(Probe()), Probe()
    connect(ddp, "attach", "sgd", clip=CLIP)
    for number in range(4):
        step = some_small(number, 0)
        found = step_of(ddp, step)
        plain.clear()
        plain(step).backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), CLIP)
        for a, b in zip(found, plain.grads(), strict=True):
            assert (a - b).abs().max() <= 1e-6 * b.abs().max(), number


def with_groups_and_warm_up() -> None:
    """One norm over all parameters, whatever method they have; steps of the warm-up are clipped too."""
    given = of_all_ranks(some_small, 5)
    ddp = wrapped(Probe())
    connect(
        ddp,
        "attach",
        "topk",
        keep=0.05,
        clip=CLIP,
        warmup=1,
        seed=5,
        exclude="values.2",
        groups=[{"params": "values.[34]", "method": "signum", "beta": 0.5}],
    )
    found = [step_of(ddp, step) for step in mine(given)]
    hand_made = all_clipped(given)
    assert equal(found[:1], reference("sgd", {}, hand_made)[:1])
    for members, method, options in (([0, 1, 5], "topk", {"keep": 0.05}), ([3, 4], "signum", {"beta": 0.5}), ([2], "sgd", {})):
        part = [[[step[i] for i in members] for step in steps[1:]] for steps in hand_made]
        names = [f"values.{i}" for i in members]
        expected = reference(method, options, part, names=names, seed=5, first_step=1)
        assert equal([[step[i] for i in members] for step in found[1:]], expected), method


def with_a_scaler() -> None:
    """The gradient without its scale is clipped; an infinity on one rank drops the step on all."""
    given = of_all_ranks(some_small, 6)
    good = [[step for i, step in enumerate(steps) if i != 3] for steps in given]
    for way in WAYS:
        scaler = torch.amp.GradScaler(DEVICE.type, init_scale=1024.0)
        ddp = wrapped(Probe())
        state = connect(ddp, way, "topk", keep=0.05, clip=CLIP, scaler=scaler)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=1.0)
        expected = iter(reference("topk", {"keep": 0.05}, all_clipped(good)))
        for number, step in enumerate(mine(given)):
            if number == 3 and dist.get_rank() == 1:
                step = [each.clone() for each in step]
                step[1][2] = float("inf")
            optimizer.zero_grad()
            scaler.scale(ddp(step)).backward()
            if number == 3:
                assert all(torch.isinf(p.grad).all() for p in ddp.module.values), way
            else:
                scaler.unscale_(optimizer)
                assert equal([ddp.module.grads()], [next(expected)]), (way, number)
            scaler.step(optimizer)
            scaler.update()
        assert state.metrics()["skipped"] == 1


def not_finite() -> None:
    """A norm that is not finite clips nothing: the policy acts as without clipping."""
    skipping, strict = wrapped(Probe()), wrapped(Probe())
    connect(skipping, "attach", "topk", keep=0.05, clip=CLIP, nonfinite="skip")
    connect(strict, "attach", "topk", keep=0.05, clip=CLIP)
    given = of_all_ranks(some_small, 4)
    good = [[step for i, step in enumerate(steps) if i != 1] for steps in given]
    expected = iter(reference("topk", {"keep": 0.05}, all_clipped(good)))
    for number, step in enumerate(mine(given)):
        if number == 1 and dist.get_rank() == 1:
            step = [each.clone() for each in step]
            step[4][3] = float("nan")
        found = step_of(skipping, step)
        if number == 1:
            assert all(not tensor.any() for tensor in found), "a skipped step is zero"
            words = ("rank 1 has a NaN or an Inf", "values.4")
            refused(lambda step=step: step_of(strict, step), *words, kind=RuntimeError)
        else:
            assert equal([found], [next(expected)]), number


def in_sixteen_bits() -> None:
    given = of_all_ranks(lambda step, rank: some_small(step, rank, dtype=torch.bfloat16), 4)
    ddp = wrapped(Probe(dtype=torch.bfloat16))
    connect(ddp, "attach", "topk", keep=0.05, clip=CLIP)
    expected = reference("topk", {"keep": 0.05}, all_clipped(given))
    rounded = [[tensor.to(torch.bfloat16) for tensor in step] for step in expected]
    assert equal([step_of(ddp, step) for step in mine(given)], rounded)


def accumulated() -> None:
    """Under no_sync: the sum of several backwards is clipped."""
    given = of_all_ranks(some_small, 6)
    ddp = wrapped(Probe())
    connect(ddp, "attach", "sgd", clip=CLIP)
    found = []
    for first, second in zip(mine(given)[::2], mine(given)[1::2], strict=True):
        ddp.module.clear()
        with ddp.no_sync():
            ddp(first).backward()
        ddp(second).backward()
        found.append(ddp.module.grads())
    pairs = [[[a + b for a, b in zip(*pair, strict=True)] for pair in zip(s[::2], s[1::2], strict=True)] for s in given]
    assert equal(found, reference("sgd", {}, all_clipped(pairs)))


def wrong_values() -> None:
    ddp = wrapped(Probe())
    for value in (0, -1.0, float("nan"), float("inf"), "1", True):
        words = (f"clip must be a number above 0, or None, got {value!r}", "the largest norm of this rank's gradient")
        refused(lambda value=value: laconic.attach(ddp, "sgd", clip=value), *words)
    laconic.attach(ddp, "sgd", clip=None)


def values_that_differ() -> None:
    ddp = wrapped(Probe())
    words = ("rank 1 has clip = 2.0, rank 0 has clip = 1.0", "start all ranks with the same settings")
    refused(lambda: laconic.attach(ddp, "sgd", clip=1.0 + dist.get_rank()), *words)


class ClipTest(unittest.TestCase):
    def test_equals_clipping_by_hand(self) -> None:
        run_ranks(3, equals_clipping_by_hand, timeout=100)

    def test_is_the_factor_of_torch(self) -> None:
        run_ranks(1, in_turn, (is_the_factor_of_torch, wrong_values))

    def test_with_other_settings(self) -> None:
        run_ranks(2, in_turn, (with_groups_and_warm_up, in_sixteen_bits, accumulated, values_that_differ))

    def test_with_a_scaler(self) -> None:
        run_ranks(2, with_a_scaler)

    def test_values_that_are_not_finite(self) -> None:
        run_ranks(2, not_finite)


if __name__ == "__main__":
    unittest.main()
