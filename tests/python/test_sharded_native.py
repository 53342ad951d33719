"""Between the replicas of a sharded model, method sgd gives the bits of native HSDP, whatever fully_shard is told.

With three replicas native HSDP has an order of sums of its own, which `gloo_adds_in_a_ring` shows. There the same is
demanded of native HSDP whose replicas add in rank order.
"""

import contextlib
import copy
import functools
import itertools
import unittest
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from ranks import run_ranks
from sharded import (
    WIDTH,
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    Odd,
    Tied,
    accumulate,
    attached,
    flat,
    fully_shard,
    inputs,
    local,
    mesh_of,
    replicas_agree,
    sharded,
    train,
    with_experts,
)
from torch.distributed.tensor import Shard

from laconic import _fsdp

STEPS = 2
BF16, FP32, FP16 = torch.bfloat16, torch.float32, torch.float16
POLICIES = {
    "float32": MixedPrecisionPolicy(),
    "reduce bf16": MixedPrecisionPolicy(reduce_dtype=BF16),
    "param bf16": MixedPrecisionPolicy(param_dtype=BF16),
    "param bf16, reduce fp32": MixedPrecisionPolicy(param_dtype=BF16, reduce_dtype=FP32),
}
WAYS = ("once", "plain", "no_sync", "no_all_reduce")
DOORS = ("native", "hook")


def made(kind: str, **settings: Any) -> Any:
    torch.manual_seed(3)
    return Tied() if kind.startswith("tied") else Odd(**settings)


def where(door: str, mesh: Any) -> dict[str, Any]:
    """What attach needs for a model that is sharded on one dimension."""
    return {} if door == "native" else {"replicas": mesh["replicate"]}


def built(kind: str, door: str, mesh: Any, frozen: bool = False, **settings: Any) -> Any:
    model = made(kind, **({"frozen": True} if frozen else {}))
    settings["grouped"] = kind == "tied, grouped"
    return sharded(model, mesh if door == "native" else mesh["shard"], **settings)


class InRankOrder:
    """Stands where the process group of the replicas stood. Adds gradients in rank order in float32 and rounds their mean
    once, as methods do."""

    def __init__(self, users: dist.ProcessGroup) -> None:
        self._users = users

    def allreduce(self, tensors: list[torch.Tensor], options: Any) -> None:
        (flat_values,) = tensors
        parts = [torch.empty_like(flat_values) for _ in range(self._users.size())]
        dist.all_gather(parts, flat_values, group=self._users)
        total = functools.reduce(torch.Tensor.add_, (each.float() for each in parts)) / len(parts)
        flat_values.copy_(total if options.reduceOp == dist.ReduceOp.AVG else total * len(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._users, name)


def in_rank_order(model: Any) -> Any:
    """The model in native HSDP, whose replicas add in rank order. Two replicas do so anyway: a + b is b + a."""
    for group in _fsdp.found(model).groups:
        info = copy.copy(group.inside.mesh_info)
        if info.replicate_process_group.size() > 2:
            info.replicate_process_group = InRankOrder(info.replicate_process_group)
            group.inside.mesh_info = info
    return model


def combinations() -> Iterator[dict[str, Any]]:
    for policy, reshard, way in itertools.product(POLICIES, (True, False), WAYS):
        yield {"kind": "odd", "policy": policy, "reshard": reshard, "way": way}
    for kind, policy, way in itertools.product(("tied", "tied, grouped"), ("float32", "reduce bf16"), WAYS):
        yield {"kind": kind, "policy": policy, "reshard": True, "way": way}


def some_combinations() -> Iterator[dict[str, Any]]:
    """Each policy and each way twice."""
    for i, (policy, way) in enumerate(itertools.product(POLICIES, WAYS)):
        if (i // 4 + i) % 4 in (0, 2):
            yield {"kind": "odd", "policy": policy, "reshard": i % 2 == 0, "way": way}


def differing_combinations(replicas: int, shards: int, all_of_them: bool) -> list[str]:
    """Of all by the native door, of every third by the hook."""
    mesh = mesh_of(replicas, shards)
    wrong = []
    for number, each in enumerate(combinations() if all_of_them else some_combinations()):
        settings = {"mp_policy": POLICIES[each["policy"]], "reshard_after_forward": each["reshard"]}
        clip = each["way"] == "plain"
        expected = train(in_rank_order(built(each["kind"], "native", mesh, **settings)), STEPS, each["way"], clip)
        for door in DOORS if number % 3 == 0 else DOORS[:1]:
            model = built(each["kind"], door, mesh, **settings)
            with attached(model, "sgd", **where(door, mesh)):
                found = train(model, STEPS, each["way"], clip)
            if not all(map(torch.equal, expected, found)) or not replicas_agree(found[-1], mesh):
                wrong.append(f"{each} by {door}")
    return wrong


def force_sums(model: Any) -> None:
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)


def divide(model: Any) -> None:
    """As torchtitan does: sums, which the loss has divided."""
    force_sums(model)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)


def checkpointed(model: Any) -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    for i, block in enumerate(model.blocks):
        model.blocks[i] = checkpoint_wrapper(block)


def compiled(model: Any) -> None:
    for block in model.blocks:
        block.compile(backend="aot_eager")


def compiled_whole(model: Any) -> None:
    model.compile(backend="aot_eager")


def columns(parameter: torch.nn.Parameter) -> Shard | None:
    """Sharded by columns where they can be divided among two and three shards, which fully_shard demands."""
    return Shard(1) if parameter.dim() == 2 and parameter.size(1) % 6 == 0 else None


# name: settings of the model and of fully_shard, what is done to the model before fully_shard, and after it
CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "fp16": ({"mp_policy": MixedPrecisionPolicy(reduce_dtype=FP16)}, None, None),
    "forced sums": ({}, None, force_sums),
    "divide factor": ({}, None, divide),
    "divide factor, fp16": ({"mp_policy": MixedPrecisionPolicy(reduce_dtype=FP16)}, None, divide),
    "frozen": ({"frozen": True}, None, None),
    "root only": ({"root_only": True}, None, None),
    "offload": ({"offload_policy": CPUOffloadPolicy(pin_memory=False)}, None, None),
    "checkpoints": ({}, checkpointed, None),
    "columns": ({"width": 18, "shard_placement_fn": columns}, None, None),
    "compiled": ({}, None, compiled),
    "compiled as a whole": ({}, None, compiled_whole),
}


def differing_settings(replicas: int, shards: int) -> list[str]:
    """By both doors, with partial sums and clipping."""
    mesh = mesh_of(replicas, shards)
    wrong = []
    for name, (settings, before, after) in CASES.items():
        settings = dict(settings)
        own = {key: settings.pop(key) for key in ("frozen", "width") if key in settings}
        way = "once" if name.startswith("compiled") else "no_all_reduce"
        expected = None
        for door, method in (("native", None), ("native", "sgd"), ("hook", "sgd")):
            if door == "hook" and name == "fp16" and replicas * shards != 4:
                continue  # fully_shard divides by other factors for the shards alone; only powers of two are exact
            model = made("odd", **own)
            if before is not None:
                before(model)
            model = sharded(model, mesh if door == "native" else mesh["shard"], **settings)
            if after is not None:
                after(model)
            if method is None:
                expected = train(in_rank_order(model), STEPS, way, clip=True)
                continue
            with attached(model, method, **where(door, mesh)):
                found = train(model, STEPS, way, clip=True)
            if not all(map(torch.equal, expected, found)):
                wrong.append(f"{name} by {door}")
    return wrong


def twice(model: Any, step: int) -> None:
    """Two forwards and one backward."""
    first, second = (torch.randn(4, 7, generator=torch.Generator().manual_seed(step + i)) for i in (0, 1))
    (model(first + dist.get_rank()).square().mean() + model(second).square().mean()).backward()


def some(model: Any, step: int) -> None:
    """Every other step leaves a parameter without a gradient."""
    accumulate(model, step, "once", torch.Tensor.backward, skip=step % 2 == 1)


def differing_programs(replicas: int, shards: int) -> list[str]:
    mesh = mesh_of(replicas, shards)
    wrong = []
    for program in (twice, some):
        results = []
        for door, method in (("native", None), ("native", "sgd"), ("hook", "sgd")):
            model = built("odd", door, mesh) if method else in_rank_order(built("odd", door, mesh))
            with attached(model, method, **where(door, mesh)) if method else contextlib.nullcontext():
                optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
                for step in range(4):
                    program(model, step)
                    optimizer.step()
                    optimizer.zero_grad()
            results.append(flat(model))
            if not torch.equal(results[0], results[-1]):
                wrong.append(f"{program.__name__} by {door}")
    return wrong


class Headless(Odd):
    """Its head is called outside of it, for chunks of its output."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)

    def forward(self, values: torch.Tensor, skip: bool = False) -> torch.Tensor:
        return self.norm(self.blocks[1](self.blocks[0](self.embed(values)))) + self.spare.sum()


def differing_chunks(replicas: int, shards: int, grouped: bool) -> list[str]:
    """A loss in chunks, each with a backward of its own, so that a step has several calls for the head alone, which may be
    in one group with a norm that the chunks do not use."""
    mesh = mesh_of(replicas, shards)
    results = []
    for method in (None, "sgd"):
        torch.manual_seed(3)
        model = Headless()
        fully_shard([model.norm, model.out] if grouped else model.out, mesh=mesh)
        model = sharded(model, mesh)
        if method is None:
            in_rank_order(model)
        found = []
        with attached(model, method) if method else contextlib.nullcontext() as state:
            for step in range(3):
                given, wanted = inputs(model, dist.get_rank(), step)
                hidden = model(given)
                cut = hidden.detach().requires_grad_()
                for part, target in zip(cut.chunk(3), wanted.chunk(3), strict=True):
                    torch.nn.functional.mse_loss(model.out(part), target).backward()
                hidden.backward(cut.grad)
                found.append([local(p.grad) for p in model.parameters()])
                model.zero_grad()
            if state is not None and state.metrics()["steps"] != 12:
                return [f"{state.metrics()['steps']} steps"]
        results.append(found)
    return [
        f"step {step}"
        for step, (mine, other) in enumerate(zip(*results, strict=True))
        if not all(map(torch.equal, mine, other))
    ]


def other_methods_differ() -> bool:
    """That this file could see a difference: what is rounded on the way is not native."""
    mesh = mesh_of(2, 2)
    expected = train(built("odd", "native", mesh), STEPS)
    model = built("odd", "native", mesh)
    with attached(model, "bf16"):
        return not torch.equal(expected[-1], train(model, STEPS)[-1])


def gloo_adds_in_a_ring() -> None:
    """Gloo cuts a buffer into as many ranges as there are ranks, and adds the values of rank r last in range r. It rounds
    each sum to the buffer's type. So the bits of an entry depend on its place in the buffer: methods, which get shards
    without fully_shard's padding, in the order of the model and in float32, cannot have them."""
    ranks, length = dist.get_world_size(), 649
    for dtype in (torch.float32, torch.bfloat16):
        mine = torch.randn(length, generator=torch.Generator().manual_seed(dist.get_rank())).to(dtype)
        parts = [torch.empty_like(mine) for _ in range(ranks)]
        dist.all_gather(parts, mine)
        segment = -(-length // (2 * ranks))
        in_ring = torch.empty_like(mine)
        for last in range(ranks):
            here = slice(2 * last * segment, 2 * (last + 1) * segment)
            order = [parts[(last + 1 + i) % ranks][here] for i in range(ranks)]
            in_ring[here] = functools.reduce(torch.add, order) / ranks
        shifted = torch.cat([torch.zeros(100, dtype=dtype), mine])
        for values in (mine, shifted):
            dist.all_reduce(values, op=dist.ReduceOp.AVG)
        assert torch.equal(mine, in_ring), dtype
        assert not torch.equal(mine, functools.reduce(torch.add, parts) / ranks), dtype
        assert not torch.equal(mine, shifted[100:]), dtype


def differing_sums(replicas: int, shards: int, order: str) -> list[str]:
    """From Gloo's own: by rounding, if at all. SGD, because a wrong factor would hardly show in AdamW's steps."""
    sgd = functools.partial(torch.optim.SGD, momentum=0.9)
    mesh = mesh_of(replicas, shards)
    wrong = []
    for door in DOORS:
        expected = train(built("odd", "native", mesh), STEPS, "no_all_reduce", make=sgd)
        model = built("odd", door, mesh)
        with attached(model, "sgd", order=order, **where(door, mesh)):
            found = train(model, STEPS, "no_all_reduce", make=sgd)
        same = torch.equal if replicas == 2 else lambda a, b: torch.allclose(a, b, rtol=1e-5, atol=1e-7)
        if not all(map(same, expected, found)) or not replicas_agree(found[-1], mesh):
            wrong.append(door)
    return wrong


def differing_steps_of_replicate() -> list[str]:
    """replicate() has no shards."""
    from torch.distributed._composable.replicate_with_fsdp import replicate
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("replicate",))
    found = []
    for method in (None, "sgd"):
        model = made("odd")
        for block in model.blocks:
            replicate(block, mesh=mesh)
        replicate(model, mesh=mesh)
        with attached(model, method) if method else contextlib.nullcontext():
            found.append(train(model, STEPS, "plain"))
    return [f"step {i}" for i, (a, b) in enumerate(zip(*found, strict=True)) if not torch.equal(a, b)]


def differing_experts() -> list[str]:
    """A method between the replicas of all other parameters leaves those without replicas to fully_shard."""
    mesh = mesh_of(2, 2)
    results = []
    for method in (None, "sgd"):
        model = with_experts(mesh)
        with attached(model, method) if method else contextlib.nullcontext() as state:
            results.append(train(model, STEPS, "plain", clip=False))
            if state is not None and any("blocks.1.up" in name for name in state.state_dict()):
                return ["the state has the experts"]
    return [f"step {i}" for i, (a, b) in enumerate(zip(*results, strict=True)) if not torch.equal(a, b)]


class CombinationsTest(unittest.TestCase):
    def test_4_ranks(self) -> None:
        self.assertEqual(run_ranks(4, differing_combinations, 2, 2, True, timeout=250), [[]] * 4)

    def test_3_replicas(self) -> None:
        self.assertEqual(run_ranks(6, differing_combinations, 3, 2, True, timeout=250), [[]] * 6)

    def test_3_shards(self) -> None:
        self.assertEqual(run_ranks(6, differing_combinations, 2, 3, True, timeout=250), [[]] * 6)

    def test_further_settings_on_6_ranks(self) -> None:
        for replicas, shards in ((3, 2), (2, 3)):
            self.assertEqual(run_ranks(6, differing_settings, replicas, shards, timeout=250), [[]] * 6)


class NativeTest(unittest.TestCase):
    def test_some_combinations(self) -> None:
        self.assertEqual(run_ranks(4, differing_combinations, 2, 2, False, timeout=250), [[]] * 4)

    def test_further_settings(self) -> None:
        self.assertEqual(run_ranks(4, differing_settings, 2, 2, timeout=250), [[]] * 4)

    def test_other_programs(self) -> None:
        for replicas, shards in ((2, 2), (3, 2), (2, 3)):
            ranks = replicas * shards
            self.assertEqual(run_ranks(ranks, differing_programs, replicas, shards, timeout=250), [[]] * ranks)

    def test_chunks(self) -> None:
        for replicas, shards, grouped in ((2, 2, False), (2, 2, True), (3, 2, False), (2, 3, True)):
            ranks = replicas * shards
            self.assertEqual(run_ranks(ranks, differing_chunks, replicas, shards, grouped, timeout=250), [[]] * ranks)

    def test_experts(self) -> None:
        self.assertEqual(run_ranks(4, differing_experts, timeout=250), [[]] * 4)

    def test_replicate(self) -> None:
        self.assertEqual(run_ranks(2, differing_steps_of_replicate, timeout=250), [[]] * 2)

    def test_other_methods_differ(self) -> None:
        self.assertEqual(run_ranks(4, other_methods_differ, timeout=250), [True] * 4)

    def test_sums_of_gloo(self) -> None:
        run_ranks(3, gloo_adds_in_a_ring)
        for replicas, shards, order in ((3, 2, "rank_order"), (3, 2, "engine"), (2, 3, "engine")):
            self.assertEqual(run_ranks(6, differing_sums, replicas, shards, order, timeout=250), [[]] * 6)


if __name__ == "__main__":
    unittest.main()
