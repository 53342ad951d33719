"""Every gradient method between the replicas of a sharded model gives the bits of the C++ method on the same shards; and
so with groups, warm-up, clipping and parameters that a step did not use."""

import math
import time
import unittest
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from networks import warned_of_copies
from probe import reference, same_bits
from ranks import run_ranks
from refusals import refused
from sharded import Odd, accumulate, attached, flat, fully_shard, local, loss_of, mesh_of, replicas_agree, sharded, train
from variations import Options, gradient_methods, is_rank_order, variations

import laconic

SHAPES = {"0": [(300,), (7,), (1,)], "1": [(64, 5), (33,)]}
STEPS = 3
Step = list[torch.Tensor]


class Part(torch.nn.Module):
    def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
        super().__init__()
        self.values = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(shape)) for shape in shapes)

    def forward(self, total: torch.Tensor, coefficients: Sequence[torch.Tensor | None]) -> torch.Tensor:
        used = [(p * c).sum() for p, c in zip(self.values, coefficients, strict=True) if c is not None]
        return total + torch.stack(used).sum() if used else total


class Parts(torch.nn.Module):
    """A model whose gradients a test chooses: coefficients of its parameters, in groups of fully_shard."""

    def __init__(self) -> None:
        super().__init__()
        self.own = torch.nn.Parameter(torch.zeros(9))
        self.parts = torch.nn.ModuleDict({name: Part(shapes) for name, shapes in SHAPES.items()})

    def forward(self, coefficients: Sequence[torch.Tensor | None]) -> torch.Tensor:
        total = (self.own * coefficients[0]).sum()
        start = 1
        for part in self.parts.values():
            end = start + len(part.values)
            total = part(total, coefficients[start:end])
            start = end
        return total


def built(mesh: Any) -> Any:
    model = Parts()
    for part in model.parts.values():
        fully_shard(part, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def coefficients(step: int, rank: int) -> Step:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    shapes = [(9,), *(shape for part in SHAPES.values() for shape in part)]
    return [torch.randn(shape, generator=generator) for shape in shapes]


def shard_gradients(step: int, replica: int, mesh: Any) -> Step:
    """What a replica has for this rank's shard, before replicas meet."""
    shards = mesh["shard"].size()
    given = [coefficients(step, replica * shards + i) for i in range(shards)]
    means = [torch.stack(each).sum(0) / shards for each in zip(*given, strict=True)]
    mine = mesh["shard"].get_local_rank()
    chunks = [torch.chunk(each, shards) for each in means]
    return [each[mine] if mine < len(each) else torch.zeros(0) for each in chunks]


def names() -> list[str]:
    return ["own", *(f"parts.{part}.values.{i}" for part, shapes in SHAPES.items() for i in range(len(shapes)))]


def of_all_replicas(mesh: Any, steps: int = STEPS) -> list[list[Step]]:
    return [[shard_gradients(step, replica, mesh) for step in range(steps)] for replica in range(mesh["replicate"].size())]


def step_of(model: Any, step: Step) -> Step:
    model.zero_grad()
    model(step).backward()
    return [local(p.grad).flatten() for p in model.parameters()]


def run(model: Any, steps: int = STEPS) -> list[Step]:
    return [step_of(model, coefficients(step, dist.get_rank())) for step in range(steps)]


def expected_of(method: str, options: Options, given: list[list[Step]], **more: Any) -> list[Step]:
    """The method alone. An aggregate is added to a zero, so that a minus zero becomes zero."""
    told = more.pop("names", names())
    return [[each + 0.0 for each in step] for step in reference(method, options, given, names=told, **more)]


def differing(model: Any, mesh: Any, method: str, options: Options) -> list[str]:
    expected = expected_of(method, options, of_all_replicas(mesh))
    with attached(model, method, min_size=0, **options):
        found = run(model)
    wrong = []
    for step, (mine, wanted) in enumerate(zip(found, expected, strict=True)):
        if is_rank_order(options):
            same = all(map(same_bits, mine, wanted))
        else:
            same = all(torch.allclose(a, b, rtol=0, atol=1e-6) for a, b in zip(mine, wanted, strict=True))
        if not same or not replicas_agree(torch.cat(mine), mesh):
            wrong.append(f"{method} {options}, step {step}")
    return wrong


def differing_methods(replicas: int, shards: int, every: int) -> list[str]:
    mesh = mesh_of(replicas, shards)
    model = built(mesh)
    tried = [(method, options) for method in gradient_methods() for options in variations(method)]
    first = {method: options for method, options in reversed(tried)}  # of each method at least one
    chosen = [each for i, each in enumerate(tried) if i % every == 0 or first[each[0]] is each[1]]
    return [wrong for method, options in chosen for wrong in differing(model, mesh, method, options)]


def groups_and_warm_up() -> None:
    mesh = mesh_of(2, 2)
    given = of_all_replicas(mesh, 5)
    model = built(mesh)
    groups = [{"params": "parts.1.*", "method": "qsgd", "bits": 4}]
    with attached(model, "topk", keep=0.1, exclude="own", min_size=5, groups=groups, warmup=2):
        found = run(model, 5)
    all_names = names()
    members = {"qsgd": [4, 5], "topk": [1, 2], "sgd": [0, 3]}  # min_size counts the whole parameter, not the shard
    dense = expected_of("sgd", {}, given)
    for step in (0, 1):
        assert all(map(same_bits, found[step], dense[step])), step
    part = [[[step[i] for i in members["topk"]] for step in steps[2:]] for steps in given]
    told = [all_names[i] for i in members["topk"]]
    expected = expected_of("topk", {"keep": 0.1}, part, names=told, first_step=2)
    for step in range(3):
        for i, wanted in zip(members["topk"], expected[step], strict=True):
            assert same_bits(found[step + 2][i], wanted), (step, i)
        for i in members["sgd"]:
            assert same_bits(found[step + 2][i], dense[step + 2][i]), (step, i)
        assert replicas_agree(torch.cat(found[step + 2]), mesh)


def clips_whole_replicas() -> None:
    """The norm is that of a replica's gradient over all shards."""
    mesh, clip = mesh_of(2, 2), 1.5
    model = built(mesh)
    given = []
    for replica in range(2):
        steps = []
        for step in range(2):
            shards = mesh["shard"].size()
            each_shard = [torch.stack(each).sum(0) / shards for each in zip(
                *(coefficients(step, replica * shards + i) for i in range(shards)), strict=True)]  # fmt: skip
            squares = 0.0
            for part in range(shards):
                norms = [torch.chunk(t, shards)[part] for t in each_shard if part < len(torch.chunk(t, shards))]
                squares += sum(n.double().square().sum().sqrt().float().double().item() ** 2 for n in norms)
            factor = torch.tensor(clip / (math.sqrt(squares) + 1e-6), dtype=torch.float32)
            assert factor < 1
            steps.append([each * factor for each in shard_gradients(step, replica, mesh)])
        given.append(steps)
    expected = expected_of("topk", {"keep": 0.1}, given)
    with attached(model, "topk", keep=0.1, clip=clip):
        found = run(model, 2)
    for mine, wanted in zip(found, expected, strict=True):
        for a, b in zip(mine, wanted, strict=True):
            assert torch.allclose(a, b, rtol=1e-6, atol=0), (a - b).abs().max()


def conserves() -> None:
    """What was applied and what is left is the sum of all gradients, also of a parameter that some steps leave out."""
    mesh = mesh_of(2, 2)
    model = built(mesh)
    sizes = [each.numel() for each in shard_gradients(0, 0, mesh)]
    applied, given = [torch.zeros(size) for size in sizes], [torch.zeros(size) for size in sizes]
    with attached(model, "topk", keep=0.05) as state:
        for step in range(8):
            unused = (2,) if step % 2 == 1 else ()
            coefficients_here = coefficients(step, dist.get_rank())
            model.zero_grad()
            model([None if i in unused else each for i, each in enumerate(coefficients_here)]).backward()
            for i, parameter in enumerate(model.parameters()):
                if i in unused:
                    assert parameter.grad is None, i
                    continue
                applied[i] += local(parameter.grad).flatten()
                for replica in range(2):
                    given[i] += shard_gradients(step, replica, mesh)[i].flatten() / 2
        left = {name.removeprefix("residual/").rsplit(".of", 1)[0]: local(each).flatten()
                for name, each in state.state_dict().items() if name.startswith("residual/")}  # fmt: skip
    for i, name in enumerate(names()):
        dist.all_reduce(left[name], group=mesh["replicate"].get_group())
        total = applied[i] + left[name] / 2
        assert torch.allclose(total, given[i], rtol=0, atol=1e-5), (name, total - given[i])
        assert i == 2 or sizes[i] < 20 or left[name].abs().sum() > 0, name


def sums_several_calls() -> None:
    """Several calls for a parameter in one backward: summed before the exchange, or in a further step if that had begun."""
    mesh = mesh_of(2, 2)
    model = built(mesh)
    with attached(model, "sgd") as state:
        host = state._host
        sizes = [each.numel() for each in shard_gradients(0, 0, mesh)]
        rank = dist.get_rank(mesh["replicate"].get_group())
        calls = [[0, 1, 1], [0, 0, 1], [0, 0, 1, 1]]  # of parameters 3 and 4; the second step does not expect two of the first
        for step, order in enumerate(calls):
            grads: list[torch.Tensor | None] = [None] * len(sizes)
            expected = {3: torch.zeros(sizes[3]), 4: torch.zeros(sizes[4])}
            for number, which in enumerate(order):
                parameter = 3 + which
                flat_values = torch.arange(1.0, sizes[parameter] + 1) * (number + 1) * (rank + 1)
                expected[parameter] += torch.arange(1.0, sizes[parameter] + 1) * (number + 1) * 1.5
                host.submit(flat_values, [(parameter, 0)], 1.0, 1.0)
                assert not flat_values.any() and host.in_step
            for parameter, values in expected.items():
                grads[parameter] = torch.zeros_like(values)
            assert host.reached == [3, 4]
            host.finish(grads)
            for parameter, values in expected.items():
                assert torch.equal(grads[parameter], values), (step, parameter)
        assert state.metrics()["steps"] == 4  # one more for the call that came late


def refuses_calls_that_differ() -> None:
    """A gradient that only one replica has, after the exchange of its parameter had begun, is an error on all ranks in this
    step, which leaves no trace. The next step has its own sum."""
    mesh = mesh_of(2, 2)
    rank = dist.get_rank(mesh["replicate"].get_group())
    sizes = [each.numel() for each in shard_gradients(0, 0, mesh)]
    for keep in (1.0, 0.25):
        for differs in ("one", "both"):
            with attached(built(mesh), "topk", keep=keep, timeout=10) as state:
                host = state._host

                def called(order: list[int], host: Any = host) -> list[torch.Tensor]:
                    for which in order:
                        host.submit(torch.full((sizes[3 + which],), rank + 1.0), [(3 + which, 0)], 1.0, 1.0)
                    grads = [torch.zeros(size) if i in (3, 4) else None for i, size in enumerate(sizes)]
                    host.finish(grads)
                    return [torch.zeros(0) if each is None else each for each in grads]

                called([0, 1])
                residual = state.metrics()["residual_norm"]
                assert (residual > 0) == (keep < 1)
                order = {"one": ([0, 1], [0, 0, 1]), "both": ([0, 0, 1], [1, 1, 0])}[differs][rank]
                without, parameter = {"one": (0, 3), "both": (0, 4)}[differs]
                words = (f"rank {without} of the replicas had no further gradient of {names()[parameter]}", "equally often")
                start = time.monotonic()
                refused(lambda called=called, order=order: called(order), *words)
                assert time.monotonic() - start < 5 and not host.in_step
                assert state.metrics()["residual_norm"] == residual and state.metrics()["skipped"] == 1
                found = called([0])
                if keep == 1.0:
                    assert torch.equal(found[3], torch.full((sizes[3],), 1.5)) and not found[4].any()
                called([0, 1])
                assert state.metrics()["steps"] == 4


def abandons_after_the_end() -> None:
    """A closed hook has no step to abandon, and says so."""
    with attached(built(mesh_of(2, 2)), "topk", keep=0.25) as state:
        state.close()
        refused(state.abandon_step, "the hook was closed")


class Slow(torch.autograd.Function):
    """Takes its time in backward."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(0.3)
        return gradient


class SlowOdd(Odd):
    def forward(self, values: torch.Tensor, skip: bool = False) -> torch.Tensor:
        values = self.blocks[0](Slow.apply(self.embed(values)))
        return self.out(self.blocks[1](values)) + self.spare


def works_during_backward() -> None:
    """While backward goes on below the blocks, their aggregates arrive: from the second step on, as the first one shows
    which calls there are."""
    mesh = mesh_of(2, 2)
    torch.manual_seed(3)
    model = sharded(SlowOdd(), mesh)
    with attached(model, "topk", keep=0.1, scope="tensor", chunk_entries=100) as state:
        early = []
        for step in range(3):
            loss_of(model, step).backward()
            early.append(state.metrics()["last"]["early_entries"])
        last_block = sum(local(each).numel() for each in model.blocks[1].parameters())
        assert min(early[1:]) >= last_block, (early, last_block)


def replicas_stay_alike() -> list[str]:
    """After each of 50 steps."""
    mesh = mesh_of(2, 2)
    wrong = []
    for method, options in (("topk", {"keep": 0.05}), ("signum", {}), ("regtopk", {"keep": 0.05}), ("qsgd", {"min_size": 0})):
        torch.manual_seed(3)
        model = sharded(Odd(), mesh)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3 if method == "signum" else 0.05)
        with attached(model, method, **options):
            for step in range(50):
                accumulate(model, step, "once", torch.Tensor.backward)
                optimizer.step()
                optimizer.zero_grad()
                if not replicas_agree(flat(model), mesh):
                    wrong.append(f"{method}, step {step}")
    return wrong


def goes_on_natively_after_close() -> None:
    mesh = mesh_of(2, 2)
    torch.manual_seed(3)
    native = sharded(Odd(), mesh)
    torch.manual_seed(3)
    other = sharded(Odd(), mesh)
    with attached(other, "sgd") as state:
        first = train(other, 1)
        figures = state.metrics()
        assert figures["steps"] == 1 and figures["total"]["inside_sent_bytes"] > 0, figures
        assert figures["total"]["sent_bytes"] > 0, figures
    state.close()
    assert torch.equal(first[-1], train(native, 1)[-1])
    assert torch.equal(train(other, 2, "no_all_reduce")[-1], train(native, 2, "no_all_reduce")[-1])


def warns_of_copies() -> list[str]:
    reasons, mesh = ("", "no kernels", "no kernels"), mesh_of(2, 1)
    return warned_of_copies("FsdpHost", reasons, lambda: laconic.attach(built(mesh), "topk", keep=0.1).close())


class MethodsTest(unittest.TestCase):
    def test_2_replicas_of_2_shards(self) -> None:
        self.assertEqual(run_ranks(4, differing_methods, 2, 2, 2, timeout=250), [[]] * 4)

    def test_3_replicas_of_2_shards(self) -> None:
        self.assertEqual(run_ranks(6, differing_methods, 3, 2, 1000, timeout=250), [[]] * 6)

    def test_groups_and_warm_up(self) -> None:
        run_ranks(4, groups_and_warm_up)

    def test_clip(self) -> None:
        run_ranks(4, clips_whole_replicas)

    def test_conserves(self) -> None:
        run_ranks(4, conserves)

    def test_works_during_backward(self) -> None:
        run_ranks(4, works_during_backward)

    def test_several_calls(self) -> None:
        run_ranks(4, sums_several_calls)
        run_ranks(4, refuses_calls_that_differ)
        run_ranks(4, abandons_after_the_end)

    def test_replicas_stay_alike(self) -> None:
        self.assertEqual(run_ranks(4, replicas_stay_alike, timeout=250), [[]] * 4)

    def test_goes_on_natively_after_close(self) -> None:
        run_ranks(4, goes_on_natively_after_close)

    def test_gradients_that_are_copied_to_the_cpu(self) -> None:
        text = "gradients on a device are copied to the CPU and compressed there: no kernels"
        self.assertEqual(run_ranks(2, warns_of_copies), [[f"test_sharded_methods.py: {text}"]] * 2)


if __name__ == "__main__":
    unittest.main()
