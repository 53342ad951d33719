"""Sharded models on a GPU that two ranks share, over Gloo: native HSDP's bits, the CPU's bits, streams, and no gradient that
goes through the CPU. There the same tests run but for the profiler's trace (LACONIC_TEST_DEVICE, device.py)."""

import unittest
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from device import DEVICE, ON_GPU
from places import has_kernels, require_place
from probe import reference, same_bits
from ranks import run_ranks
from sharded import FSDPModule, MixedPrecisionPolicy, Odd, attached, fully_shard, local, mesh_of, replicas_agree, train
from test_gpu import Late
from traces import copies_of, require_small_copies
from variations import options_of

KINDS = ("hsdp", "replicate")
POLICIES = {
    "float32": {},
    "param bf16, reduce fp32": {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32},
}
METHODS = ("topk", "regtopk", "signum", "qsgd", "sgd")
SIZES = (300_000, 7, 20_011)
LARGE = 1_000_000  # entries of a parameter; a message of top-k has a hundredth of them
STEPS = 3


def use_device() -> None:
    """Before a mesh is made, which would take the GPU with the rank's number."""
    if ON_GPU:
        torch.cuda.init()
        torch.cuda.set_device(DEVICE)


def wrapped(model: Any, parts: Sequence[Any], kind: str, **policy: Any) -> Any:
    """The model on two replicas of one rank each: in fully_shard, whose shards are whole then, or in replicate()."""
    settings = {"mp_policy": MixedPrecisionPolicy(**policy)} if policy else {}
    model.to(DEVICE)
    if kind == "hsdp":
        mesh = mesh_of(2, 1)
        wrap = fully_shard
    else:
        from torch.distributed._composable.replicate_with_fsdp import replicate
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh(DEVICE.type, (2,), mesh_dim_names=("replicate",))
        wrap = replicate
    for part in parts:
        wrap(part, mesh=mesh, **settings)
    wrap(model, mesh=mesh, **settings)
    return model


def odd(kind: str, sums: bool, **policy: Any) -> Any:
    torch.manual_seed(3)
    model = Odd()
    model = wrapped(model, model.blocks, kind, **policy)
    for module in model.modules():
        if sums and isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)
    return model


def momentum(parameters: Any, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


def natively(kind: str, way: str, policy: dict[str, Any]) -> tuple[list[torch.Tensor], bool]:
    """Native steps, and whether sums were forced: Gloo of some versions has no mean for tensors of a GPU."""
    try:
        return train(odd(kind, False, **policy), STEPS, way, make=momentum), False
    except (RuntimeError, ValueError) as error:
        if "ReduceOp" not in str(error):
            raise
        print(f"forced sums: {error}", flush=True)
    return train(odd(kind, True, **policy), STEPS, way, make=momentum), True


def differing_from_native() -> list[str]:
    use_device()
    wrong = []
    for kind in KINDS:
        for name, policy in POLICIES.items():
            for way in ("once", "no_all_reduce"):
                expected, sums = natively(kind, way, policy)
                model = odd(kind, sums, **policy)
                with attached(model, "sgd") as state:
                    require_place(state, DEVICE)
                    found = train(model, STEPS, way, make=momentum)
                differences = [(a - b).abs().max().item() for a, b in zip(expected, found, strict=True)]
                if any(differences):
                    wrong.append(f"{kind}, {name}, {way}, sums {sums}: {differences}")
    return wrong


class Part(torch.nn.Module):
    """Its gradients are the coefficients, and those of the first parameter come late."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.values = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(size)) for size in sizes)

    def forward(self, total: torch.Tensor, coefficients: Sequence[torch.Tensor]) -> torch.Tensor:
        for number, (value, coefficient) in enumerate(zip(self.values, coefficients, strict=True)):
            total = total + ((Late.apply(value) if number == 0 else value) * coefficient).sum()
        return total


class Parts(torch.nn.Module):
    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList(Part(sizes) for _ in range(2))

    def forward(self, coefficients: Sequence[torch.Tensor]) -> torch.Tensor:
        total = torch.zeros((), device=DEVICE)
        each = len(coefficients) // len(self.parts)
        for number, part in enumerate(self.parts):
            total = part(total, coefficients[number * each : (number + 1) * each])
        return total


def built(kind: str, sizes: Sequence[int]) -> Any:
    model = Parts(sizes)
    return wrapped(model, model.parts, kind)


def coefficients(step: int, rank: int, sizes: Sequence[int]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return [torch.randn(size, generator=generator) for size in (*sizes, *sizes)]


def step_of(model: Any, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    model.zero_grad()
    model([each.to(DEVICE) for each in given]).backward()
    return [local(parameter.grad).cpu() for parameter in model.parameters()]


def differing_from_cpu() -> list[str]:
    """Bits of the method on the CPU, with the same gradients."""
    use_device()
    given = [[coefficients(step, rank, SIZES) for step in range(STEPS)] for rank in range(2)]
    wrong = []
    for kind in KINDS:
        model = built(kind, SIZES)
        names = [name for name, _ in model.named_parameters()]
        for method in METHODS:
            expected = reference(method, options_of(method), given, names=names)
            with attached(model, method, min_size=0, **options_of(method)) as state:
                require_place(state, DEVICE)
                for step in range(STEPS):
                    found = step_of(model, given[dist.get_rank()][step])
                    # An aggregate is added to a zero, so that a minus zero becomes zero.
                    bad = [n for n, a, b in zip(names, found, expected[step], strict=True) if not same_bits(a, b + 0.0)]
                    if bad:
                        wrong.append(f"{kind}, {method}, step {step}: {bad}")
                if state.metrics()["steps"] != STEPS:
                    wrong.append(f"{kind}, {method}: {state.metrics()['steps']} steps")
    return wrong


def replicas_train_alike() -> list[float]:
    """Losses of a run with top-k, after which replicas are the same."""
    use_device()
    model = odd("hsdp", False)
    with attached(model, "topk", keep=0.05) as state:
        found = train(model, 10)
        assert replicas_agree(found[-1], mesh_of(2, 1))
        metrics = state.metrics()
    assert metrics["steps"] == 10 and metrics["skipped"] == 0, metrics
    assert torch.isfinite(found[-1]).all()
    return [float((b - a).abs().sum()) for a, b in zip(found[:-1], found[1:], strict=True)]


def copies_of_a_step() -> dict[str, Any]:
    """Of a step with top-k, and of one after which a gradient is read on the CPU."""
    use_device()
    model = built("hsdp", [LARGE])
    given = [each.to(DEVICE) for each in coefficients(0, dist.get_rank(), [LARGE])]

    def step() -> None:
        model.zero_grad()
        model(given).backward()

    with attached(model, "topk", keep=0.01) as state:
        require_place(state, DEVICE)
        for _ in range(2):
            step()
        return copies_of(step, lambda: local(model.parts[0].values[0].grad).cpu())


class ShardedTest(unittest.TestCase):
    def test_sgd_equals_native(self) -> None:
        self.assertEqual(run_ranks(2, differing_from_native, timeout=150), [[], []])

    def test_methods_equal_the_cpu(self) -> None:
        self.assertEqual(run_ranks(2, differing_from_cpu, timeout=150), [[], []])

    def test_replicas_train_alike(self) -> None:
        for moved in run_ranks(2, replicas_train_alike, timeout=150):
            self.assertGreater(min(moved), 0)

    @unittest.skipUnless(has_kernels(DEVICE), "this build has no kernels for the device")
    def test_gradients_stay_on_the_device(self) -> None:
        shard = 4 * LARGE
        for found in run_ranks(2, copies_of_a_step, timeout=150):
            require_small_copies(self, found, gradient=shard, most=shard // 4)


if __name__ == "__main__":
    unittest.main()
