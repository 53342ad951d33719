"""Between the replicas of a sharded model, method sgd gives the bits of native HSDP, whatever fully_shard is told."""

import contextlib
import itertools
import unittest
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from ranks import run_ranks
from sharded import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    Odd,
    Tied,
    accumulate,
    attached,
    flat,
    mesh_of,
    sharded,
    train,
)

STEPS = 3
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


def pair(kind: str, door: str, mesh: Any, frozen: bool = False, **settings: Any) -> tuple[Any, Any, dict[str, Any]]:
    """A model in native HSDP, the same for a method, and what attach needs for it."""
    settings["grouped"] = kind == "tied, grouped"
    extra = {"frozen": True} if frozen else {}
    native = sharded(made(kind, **extra), mesh, **settings)
    other = sharded(made(kind, **extra), mesh if door == "native" else mesh["shard"], **settings)
    return native, other, {} if door == "native" else {"replicas": mesh["replicate"]}


def differs(kind: str, door: str, mesh: Any, way: str, clip: bool, **settings: Any) -> bool:
    native, other, where = pair(kind, door, mesh, **settings)
    expected = train(native, STEPS, way, clip)
    with attached(other, "sgd", **where):
        found = train(other, STEPS, way, clip)
    return not all(map(torch.equal, expected, found))


def combinations() -> Iterator[dict[str, Any]]:
    for policy, reshard, way in itertools.product(POLICIES, (True, False), WAYS):
        yield {"kind": "odd", "policy": policy, "reshard": reshard, "way": way}
    for kind, policy, way in itertools.product(("tied", "tied, grouped"), ("float32", "reduce bf16"), WAYS):
        yield {"kind": kind, "policy": policy, "reshard": True, "way": way}


def compare_combinations(replicas: int, shards: int, doors: tuple[str, ...] = DOORS, every: int = 1) -> list[str]:
    mesh = mesh_of(replicas, shards)
    wrong = []
    for each, door in itertools.product(list(combinations())[::every], doors):
        settings = {"mp_policy": POLICIES[each["policy"]], "reshard_after_forward": each["reshard"]}
        if differs(each["kind"], door, mesh, each["way"], each["way"] == "plain", **settings):
            wrong.append(f"{each} by {door}")
    return wrong


def fp16(model: Any) -> None:
    """Its settings are those of fully_shard."""


def force_sums(model: Any) -> None:
    model.set_force_sum_reduction_for_comms(True)


def divide(model: Any) -> None:
    """As torchtitan does: sums, which the loss has divided."""
    model.set_force_sum_reduction_for_comms(True)
    model.set_gradient_divide_factor(1.0)


def checkpointed(model: Any) -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    for i, block in enumerate(model.blocks):
        model.blocks[i] = checkpoint_wrapper(block)


def compiled(model: Any) -> None:
    for block in model.blocks:
        block.compile(backend="aot_eager")


# name: settings of fully_shard, what is done to the model before fully_shard, and after it
CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "fp16": ({"mp_policy": MixedPrecisionPolicy(reduce_dtype=FP16)}, None, None),
    "forced sums": ({}, None, force_sums),
    "divide factor": ({}, None, divide),
    "divide factor, fp16": ({"mp_policy": MixedPrecisionPolicy(reduce_dtype=FP16)}, None, divide),
    "frozen": ({"frozen": True}, None, None),
    "root only": ({"root_only": True}, None, None),
    "offload": ({"offload_policy": CPUOffloadPolicy(pin_memory=False)}, None, None),
    "checkpoints": ({}, checkpointed, None),
    "compiled": ({}, None, compiled),
}


def compare_cases(replicas: int, shards: int) -> list[str]:
    """Further settings, by both doors and with and without accumulation."""
    mesh = mesh_of(replicas, shards)
    wrong = []
    for (name, (settings, before, after)), door in itertools.product(CASES.items(), DOORS):
        settings = dict(settings)
        frozen = {"frozen": True} if settings.pop("frozen", False) else {}
        models = []
        for each in ("native", door):
            model = made("odd", **frozen)
            if before is not None:
                before(model)
            model = sharded(model, mesh if each == "native" else mesh["shard"], **settings)
            if after is not None:
                after(model)
            models.append(model)
        native, other = models
        way = "once" if name == "compiled" else "no_all_reduce"
        expected = train(native, STEPS, way, clip=True)
        with attached(other, "sgd", **({} if door == "native" else {"replicas": mesh["replicate"]})):
            found = train(other, STEPS, way, clip=True)
        if not all(map(torch.equal, expected, found)):
            wrong.append(f"{name} by {door}: {max((a - b).abs().max().item() for a, b in zip(expected, found))}")
    return wrong


def twice(model: Any, step: int) -> None:
    """Two forwards and one backward."""
    first, second = (torch.randn(4, 7, generator=torch.Generator().manual_seed(step + i)) for i in (0, 1))
    (model(first + dist.get_rank()).square().mean() + model(second).square().mean()).backward()


def some(model: Any, step: int) -> None:
    """Every other step leaves a parameter without a gradient."""
    accumulate(model, step, "once", torch.Tensor.backward, skip=step % 2 == 1)


def compare_programs(replicas: int, shards: int) -> list[str]:
    mesh = mesh_of(replicas, shards)
    wrong = []
    for program, door in itertools.product((twice, some), DOORS):
        native, other, where = pair("odd", door, mesh)
        results = []
        for model in (native, other):
            with attached(model, "sgd", **where) if model is other else contextlib.nullcontext():
                optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
                for step in range(4):
                    program(model, step)
                    optimizer.step()
                    optimizer.zero_grad()
            results.append(flat(model))
        if not torch.equal(*results):
            wrong.append(f"{program.__name__} by {door}")
    return wrong


def compare_replicate() -> list[str]:
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


class NativeTest(unittest.TestCase):
    def test_2_replicas_of_2_shards(self) -> None:
        self.assertEqual(run_ranks(4, compare_combinations, 2, 2, timeout=250), [[]] * 4)

    def test_further_settings(self) -> None:
        self.assertEqual(run_ranks(4, compare_cases, 2, 2, timeout=250), [[]] * 4)

    def test_other_programs(self) -> None:
        self.assertEqual(run_ranks(4, compare_programs, 2, 2, timeout=250), [[]] * 4)

    def test_replicate(self) -> None:
        self.assertEqual(run_ranks(2, compare_replicate, timeout=250), [[]] * 2)


if __name__ == "__main__":
    unittest.main()
