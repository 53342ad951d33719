"""What DistributedDataParallel does with buckets and gradients, each with a hook behind it."""

import copy
import ctypes
import gc
import os
import signal
import unittest
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from device import DEVICE, ON_GPU
from networks import batch, flat, loss_of, network
from probe import (
    SIZES,
    Probe,
    connect,
    gradients,
    reference,
    same_bits,
    step_of,
    wrapped,
)
from ranks import run_ranks
from refusals import refused
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from variations import options_of

import laconic

Step = list[torch.Tensor]
WAYS = ("attach", "hook")
LARGE = 20_000_000  # entries
M_MMAP_THRESHOLD = -3  # of malloc.h


def equal(found: list[Step], expected: list[Step]) -> bool:
    return all(same_bits(a, b) for x, y in zip(found, expected, strict=True) for a, b in zip(x, y, strict=True))


def of_all_ranks(make: Callable[[int, int], Step], steps: int) -> list[list[Step]]:
    return [[make(step, rank) for step in range(steps)] for rank in range(dist.get_world_size())]


def mine(given: list[list[Step]]) -> list[Step]:
    return given[dist.get_rank()]


def buckets_are_rebuilt() -> None:
    """Gradients come in another order than parameters were registered, so buckets change after the first step."""

    class Shuffled(Probe):
        def forward(self, coefficients: Any) -> torch.Tensor:
            total = torch.zeros(())
            for i in (2, 5, 0, 3, 1, 4):
                total = total + (self.values[i] * coefficients[i]).sum()
            return total

    for view in (False, True):
        ddp = wrapped(Shuffled(), gradient_as_bucket_view=view)
        connect(ddp, "attach", "regtopk", keep=0.05, arrange_buckets=False)
        given = of_all_ranks(gradients, 5)
        found = [step_of(ddp, step) for step in mine(given)]
        data = ddp._get_ddp_logging_data()
        assert data["has_rebuilt_buckets"], data
        assert data["rebuilt_per_bucket_param_indices"].replace(",", "").split() == ["4", "1", "3", "0", "5", "2"], data
        assert equal(found, reference("regtopk", {"keep": 0.05}, given))


def buckets_are_arranged() -> None:
    """After the rebuild a method finds its tensors one after another: in one bucket, or in stretches if it streams."""
    for view in (False, True):
        for method, settings, groups in (
            ("topk", {"keep": 0.05}, [[0, 1, 2, 3, 4, 5]]),
            ("sgd", {"chunk_entries": 50}, [[3, 4, 5], [0, 1, 2]]),
            ("topk", {"keep": 0.05, "exclude": "values.[24]"}, [[2, 4], [0, 1, 3, 5]]),
        ):
            ddp = wrapped(Probe(), bucket_cap_mb=0.0003, gradient_as_bucket_view=view)
            connect(ddp, "attach", method, **settings)
            given = of_all_ranks(gradients, 4)
            for step in mine(given):
                step_of(ddp, step)
            index = {id(p): i for i, p in enumerate(ddp.module.values)}
            found = [[index[id(p)] for p in b.parameters()] for b in ddp.reducer._get_zeros_like_grad_buckets()]
            assert found == groups, (method, found)


def gradients_are_accumulated() -> None:
    """Two backwards without communication, then one with it: their sum is what is sent."""
    for way in WAYS:
        ddp = wrapped(Probe())
        connect(ddp, way, "topk", keep=0.05)
        parts = of_all_ranks(gradients, 9)
        found = []
        for step in range(3):
            ddp.module.clear()
            with ddp.no_sync():
                ddp(mine(parts)[3 * step]).backward()
                ddp(mine(parts)[3 * step + 1]).backward()
            ddp(mine(parts)[3 * step + 2]).backward()
            found.append(ddp.module.grads())
        sums = [[[a + b + c for a, b, c in zip(*r[3 * s : 3 * s + 3], strict=True)] for s in range(3)] for r in parts]
        assert equal(found, reference("topk", {"keep": 0.05}, sums))


def graph_is_static() -> None:
    ddp = wrapped(Probe(), static_graph=True)
    connect(ddp, "attach", "topk", keep=0.05)
    given = of_all_ranks(gradients, 4)
    assert equal([step_of(ddp, step) for step in mine(given)], reference("topk", {"keep": 0.05}, given))


def gradients_have_16_bits() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        for method in ("topk", "sgd", "signum", "qsgd"):
            options = options_of(method)
            ddp = wrapped(Probe(dtype=dtype))
            connect(ddp, "attach", method, min_size=0, **options)
            given = of_all_ranks(lambda step, rank, dtype=dtype: gradients(step, rank, dtype=dtype), 4)
            expected = [[t.to(dtype) for t in step] for step in reference(method, options, given)]
            found = [step_of(ddp, step) for step in mine(given)]
            assert found[0][0].dtype == dtype
            assert equal(found, expected), (dtype, method)


def types_are_mixed() -> None:
    """Parameters of two types lie in buckets of their own."""
    types = [torch.float32, torch.bfloat16] * 3
    model = Probe()
    for i, dtype in enumerate(types):
        model.values[i] = torch.nn.Parameter(torch.zeros(SIZES[i], dtype=dtype, device=DEVICE))

    def make(step: int, rank: int) -> Step:
        return [t.to(dtype) for t, dtype in zip(gradients(step, rank), types, strict=True)]

    ddp = wrapped(model)
    connect(ddp, "attach", "topk", keep=0.05)
    given = of_all_ranks(make, 4)
    expected = [[t.to(d) for t, d in zip(s, types, strict=True)] for s in reference("topk", {"keep": 0.05}, given)]
    assert equal([step_of(ddp, step) for step in mine(given)], expected)


def parameters_are_shared() -> None:
    class Tied(Probe):
        """Parameter 0 under two names; a frozen one, which is not reduced."""

        def __init__(self) -> None:
            super().__init__()
            self.again = self.values[0]
            self.frozen = torch.nn.Parameter(torch.ones(5, device=DEVICE), requires_grad=False)

        def forward(self, coefficients: Any) -> torch.Tensor:
            return super().forward(coefficients) + (self.again * coefficients[0]).sum() + self.frozen.sum()

    ddp = wrapped(Tied())
    connect(ddp, "attach", "topk", keep=0.05)
    given = of_all_ranks(gradients, 4)
    found = [step_of(ddp, step) for step in mine(given)]
    doubled = [[[step[0] + step[0], *step[1:]] for step in steps] for steps in given]
    # `again` is registered before the list, so the shared parameter has that name and the first place.
    names = [name for name, _ in ddp.module.named_parameters() if name != "frozen"]
    order = [0 if name == "again" else int(name.split(".")[1]) for name in names]
    ordered = [[[step[i] for i in order] for step in steps] for steps in doubled]
    expected = [[step[order.index(i)] for i in range(len(SIZES))] for step in reference(
        "topk", {"keep": 0.05}, ordered, names=names)]
    assert equal(found, expected), order


def there_are_several_models() -> None:
    """Two models whose losses are one, so that their buckets alternate; and a third that steps now and then."""
    first, second, third = wrapped(Probe()), wrapped(Probe()), wrapped(Probe())
    connect(first, "attach", "regtopk", keep=0.05)
    connect(second, "hook", "qsgd", min_size=0)
    connect(third, "attach", "signsgd")
    given = of_all_ranks(gradients, 6)
    other = of_all_ranks(lambda step, rank: gradients(step + 50, rank), 6)
    found: list[list[Step]] = [[], [], []]
    for step in range(6):
        for each in (first, second, third):
            each.module.clear()
        (first(mine(given)[step]) + second(mine(other)[step])).backward()
        found[0].append(first.module.grads())
        found[1].append(second.module.grads())
        if step % 2 == 1:
            third(mine(given)[step]).backward()
            found[2].append(third.module.grads())
    assert equal(found[0], reference("regtopk", {"keep": 0.05}, given))
    assert equal(found[1], reference("qsgd", {}, other))
    assert equal(found[2], reference("signsgd", {}, [steps[1::2] for steps in given]))


def unused_parameters_keep_what_they_are_owed(way: str, to_none: bool) -> None:
    """Parameter 3 is used by all, by one rank or by none; in the end all that was given has been applied. Gradients that
    are set to zero, not to None, do not count as used either."""
    ddp = wrapped(Probe(), find_unused_parameters=True)
    connect(ddp, way, "topk", keep=0.02)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    given, applied = torch.zeros(2, SIZES[3], device=DEVICE)
    dropped = 0
    for step in range(120):
        coefficients: list[torch.Tensor | None] = list(gradients(step, rank))
        if step >= 20:
            coefficients = [torch.zeros(size, device=DEVICE) for size in SIZES]
        elif step % 3 == 1 or (step % 3 == 2 and rank != 1):
            coefficients[3] = None
        if coefficients[3] is not None:
            given += coefficients[3]
        ddp.zero_grad(set_to_none=to_none)
        ddp(coefficients).backward()
        grad = ddp.module.values[3].grad
        unused = step < 20 and step % 3 == 1
        if to_none:
            assert (grad is None) == unused, step
        elif unused:
            assert not grad.any(), step
        dropped += unused
        if grad is not None:
            applied += grad
    assert dropped == 7, dropped
    dist.all_reduce(given)
    assert given.norm() > 1
    assert torch.allclose(applied, given / ranks, atol=1e-4), (applied - given / ranks).abs().max()


def unused_parameters_in_16_bits() -> None:
    """The bits of a model in float32 with the same gradients, rounded: what waits until a parameter is used again is not
    rounded before. Parameter 3 is used by all, by one rank or by none, and parameter 1 in other steps."""
    rank = dist.get_rank()
    for dtype in (torch.bfloat16, torch.float16):
        for method in ("topk", "regtopk", "qsgd", "sgd"):
            models = [wrapped(Probe(dtype=each), find_unused_parameters=True) for each in (dtype, torch.float32)]
            for ddp in models:
                connect(ddp, "attach", method, min_size=0, **options_of(method))
            for step in range(12):
                given: list[torch.Tensor | None] = list(gradients(step, rank, dtype=dtype))
                for number, turn in ((3, step % 4), (1, (step + 1) % 5)):
                    if turn in (1, 2) or (turn == 3 and rank != 1):
                        given[number] = None
                for ddp in models:
                    ddp.module.clear()
                    own = next(ddp.parameters()).dtype
                    ddp([None if each is None else each.to(own) for each in given]).backward()
                pairs = zip(*(ddp.module.values for ddp in models), strict=True)
                for number, (found, expected) in enumerate(pairs):
                    what = (dtype, method, step, number)
                    assert (found.grad is None) == (expected.grad is None), what
                    assert found.grad is None or same_bits(found.grad, expected.grad.to(dtype)), what


def memory_of_16_bits(settings: dict[str, Any]) -> int:
    """Bytes that are occupied after some steps of a large model in bfloat16 whose parameters are all used. On a GPU
    these are torch's own, without aggregates that wait."""
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 20)  # so that memory which is freed goes back at once
    ddp = wrapped(Probe([LARGE], dtype=torch.bfloat16), **settings)
    state = connect(ddp, "attach", "topk", keep=0.001)
    given = gradients(0, 0, [LARGE], dtype=torch.bfloat16)
    for _ in range(3):
        ddp.module.clear()
        ddp(given).backward()
    assert state.metrics()["steps"] == 3  # and the hook's thread has let go of the last one
    if ON_GPU:
        return torch.cuda.memory_allocated()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Rerun(torch.nn.Module):
    """Forgets what is between input and output, and computes it again in backward."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.network, self.reentrant = network(), reentrant

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.network, points.clone().requires_grad_(self.reentrant), use_reentrant=self.reentrant)


def trained(ddp: DistributedDataParallel, runs: torch.nn.Module | None = None) -> torch.Tensor:
    """The parameters after some steps with a hook; `runs` is called in the model's place."""
    connect(ddp, "attach", "topk", keep=0.1)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        loss_of(ddp if runs is None else runs, *batch(dist.get_rank(), step)).backward()
        optimizer.step()
    return flat(ddp)


def activations_are_computed_again() -> None:
    expected = trained(wrapped(network()))
    for reentrant, settings in ((False, {}), (True, {}), (False, {"find_unused_parameters": True})):
        found = trained(wrapped(Rerun(reentrant), **settings))
        assert torch.equal(found, expected), (reentrant, settings)
    assert torch.equal(trained(wrapped(Rerun(True), static_graph=True)), expected)


def models_are_compiled() -> None:
    """The module, or all of it; names are as ever."""
    expected = trained(DistributedDataParallel(network()))
    inside = DistributedDataParallel(torch.compile(network(), backend="eager"))
    assert torch.equal(trained(inside), expected)
    assert laconic._selection.named(inside.module)[0][0] == "0.weight"
    for mode in ("ddp_optimizer", "no_optimization"):
        torch._dynamo.reset()
        with torch._dynamo.config.patch(optimize_ddp=mode):
            ddp = DistributedDataParallel(network())
            assert torch.equal(trained(ddp, torch.compile(ddp, backend="eager")), expected), mode


def groups_of_some_ranks() -> None:
    """DistributedDataParallel over half of the ranks."""
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    half = dist.get_rank() // 2
    ddp = wrapped(Probe(), process_group=halves[half])
    connect(ddp, "attach", "topk", keep=0.05)
    given = of_all_ranks(gradients, 4)
    found = [step_of(ddp, step) for step in mine(given)]
    assert equal(found, reference("topk", {"keep": 0.05}, given[2 * half : 2 * half + 2]))


def the_module_was_copied() -> None:
    """A teacher, made from the module after attach, runs between the student's forward and backward."""
    ddp = wrapped(Probe())
    connect(ddp, "attach", "topk", keep=0.05)
    teacher = copy.deepcopy(ddp.module)
    given = of_all_ranks(gradients, 5)
    found = []
    for step in mine(given):
        ddp.module.clear()
        loss = ddp(step)
        teacher(step)
        loss.backward()
        found.append(ddp.module.grads())
    assert equal(found, reference("topk", {"keep": 0.05}, given))
    assert not teacher._forward_pre_hooks and not ddp.module._forward_pre_hooks


def a_fork_drops_the_state() -> None:
    """The hook's thread is not in a fork, which must not wait for it."""
    ddp = wrapped(Probe())
    state = connect(ddp, "hook", "topk", keep=0.05)
    step_of(ddp, gradients(0, dist.get_rank()))
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        del state
        ddp.reducer = None
        del ddp
        gc.collect()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    step_of(ddp, gradients(1, dist.get_rank()))


def a_hook_is_registered_once() -> None:
    ddp: DistributedDataParallel = wrapped(Probe())
    connect(ddp, "attach", "sgd")
    refused(lambda: connect(ddp, "attach", "sgd"), "has a communication hook already, laconic sgd", "wrap the module again")
    # Where it is not in torch's log, the reducer refuses, and what was made for ours is gone again.
    ddp._get_ddp_logging_data = lambda: {"num_parameter_tensors": len(SIZES)}
    refused(lambda: connect(ddp, "attach", "sgd"), "can only be called once", kind=RuntimeError)
    assert len(ddp.module._forward_pre_hooks) == 1  # the first one's
    step_of(ddp, gradients(0, dist.get_rank()))


BUCKETS = (
    buckets_are_rebuilt,
    buckets_are_arranged,
    graph_is_static,
    gradients_are_accumulated,
    the_module_was_copied,
    a_hook_is_registered_once,
    *(() if ON_GPU else (a_fork_drops_the_state,)),  # CUDA does not survive a fork anyway
)


class BehavioursTest(unittest.TestCase):
    def test_buckets(self) -> None:
        run_ranks(2, in_turn, BUCKETS)

    def test_parameters(self) -> None:
        run_ranks(2, in_turn, (gradients_have_16_bits, types_are_mixed, parameters_are_shared, there_are_several_models))

    def test_unused_parameters(self) -> None:
        run_ranks(3, unused_parameters_keep_what_they_are_owed, "attach", True)
        run_ranks(3, unused_parameters_keep_what_they_are_owed, "hook", True)
        run_ranks(2, unused_parameters_keep_what_they_are_owed, "attach", False)

    def test_unused_parameters_in_16_bits(self) -> None:
        run_ranks(3, unused_parameters_in_16_bits)

    def test_16_bits_are_not_copied_for_parameters_that_are_used(self) -> None:
        """Aggregates that may have to wait take 4 bytes per parameter, and a copy of the gradients 4 more."""
        (plain,) = run_ranks(1, memory_of_16_bits, {})
        for name in ("find_unused_parameters", "static_graph"):
            (found,) = run_ranks(1, memory_of_16_bits, {name: True})
            self.assertLess(found - plain, (2 if ON_GPU else 6) * LARGE, name)

    def test_graphs(self) -> None:
        run_ranks(2, in_turn, (activations_are_computed_again, models_are_compiled))

    def test_groups_of_some_ranks(self) -> None:
        run_ranks(4, groups_of_some_ranks)


def in_turn(cases: tuple[Callable[[], None], ...]) -> None:
    for case in cases:
        print(case.__name__, flush=True)
        case()


if __name__ == "__main__":
    unittest.main()
