"""Models on a GPU that all ranks share, over Gloo: streams, mixed precision, states, laconic.Optimizer. The tests of hooks
and optimizers run there too, by themselves (device.py)."""

import contextlib
import io
import unittest
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from device import DEVICE, ON_GPU
from networks import flat, network, optimizer_for, small_options
from places import has_kernels, require_place
from probe import SIZES, Probe, connect, gradients, reference, same_bits, same_everywhere, step_of, wrapped
from ranks import run_ranks
from traces import copies_of, require_small_copies
from variations import gradient_methods, options_of

import laconic

WAYS = ("attach", "hook")
LARGE = 1_000_000  # entries of a parameter; a payload of top-k has a hundredth of them
# After these steps DistributedDataParallel has rebuilt its buckets, for which ranks exchange tensors on the GPU, and no
# longer times every step, for which it waits for events of the GPU.
STEPS_OF_TORCH = 12
SLEEP_CYCLES = 40_000_000  # some hundredths of a second of the GPU's clock


def sleep() -> None:
    """Keeps the current stream busy."""
    if ON_GPU:
        torch.cuda._sleep(SLEEP_CYCLES)


class Late(torch.autograd.Function):
    """Nothing; but its gradient comes late: the host runs far ahead of the stream."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        sleep()
        return gradient.clone()


class LateProbe(Probe):
    """Parameter 3 gets its gradient late."""

    def forward(self, coefficients: Sequence[torch.Tensor | None]) -> torch.Tensor:
        used = []
        for number, (value, coefficient) in enumerate(zip(self.values, coefficients, strict=True)):
            used.append(((Late.apply(value) if number == 3 else value) * coefficient).sum())
        return torch.stack(used).sum()


def given_to(steps: int, sizes: Sequence[int] = SIZES) -> list[list[list[torch.Tensor]]]:
    """All ranks' gradients."""
    return [[gradients(step, rank, sizes) for step in range(steps)] for rank in range(dist.get_world_size())]


def require_same(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], what: object) -> None:
    differing = [i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if not same_bits(a.cpu(), b.cpu())]
    assert not differing, (what, "tensors", differing)


def late_gradients(methods: list[str]) -> None:
    """A bucket is read when its gradients are there, not when the hook is called. Those of other steps differ."""
    given = given_to(4)
    for method in methods:
        expected = reference(method, options_of(method), given)
        for way in WAYS:
            ddp = wrapped(LateProbe())
            connect(ddp, way, method, min_size=0, **options_of(method))
            for step in range(4):
                found = step_of(ddp, given[dist.get_rank()][step])
                require_same(found, expected[step], (method, way, step))


def large_results() -> None:
    """The optimizer's kernels start when the aggregate is there: its copy takes milliseconds."""
    sizes = [1000, 12_000_000]
    given = given_to(3, sizes)
    expected = reference("sgd", {}, given)
    for way in WAYS:
        ddp = wrapped(Probe(sizes), bucket_cap_mb=100)
        connect(ddp, way, "sgd")
        optimizer = torch.optim.SGD(ddp.parameters(), lr=1.0)
        for step in range(3):
            for value in ddp.module.values:
                value.data.zero_()
            optimizer.zero_grad()
            ddp(given[dist.get_rank()][step]).backward()
            optimizer.step()
            require_same([-value.detach() for value in ddp.module.values], expected[step], (way, step))


def other_streams() -> None:
    """Two models, each trained on a stream of its own, their backwards one after another and late."""
    given = given_to(4)
    streams = [torch.cuda.Stream() for _ in range(2)] if ON_GPU else [None, None]
    models = []
    for stream, method in zip(streams, ("topk", "qsgd"), strict=True):
        with torch.cuda.stream(stream) if stream else contextlib.nullcontext():
            ddp = wrapped(LateProbe())
            connect(ddp, "attach", method, min_size=0, **options_of(method))
            models.append((ddp, stream, reference(method, options_of(method), given)))
    if ON_GPU:
        torch.cuda.synchronize()
    for step in range(4):
        for ddp, stream, expected in models:
            with torch.cuda.stream(stream) if stream else contextlib.nullcontext():
                found = step_of(ddp, given[dist.get_rank()][step])
            require_same(found, expected[step], step)


def gradients_of_16_bits() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        for method in ("topk", "signsgd", "qsgd", "sgd", "fp16"):
            ddp = wrapped(Probe(dtype=dtype))
            connect(ddp, "attach", method, min_size=0, **options_of(method))
            ranks = range(dist.get_world_size())
            given = [[gradients(step, rank, dtype=dtype) for step in range(4)] for rank in ranks]
            expected = reference(method, options_of(method), given)
            for step in range(4):
                found = step_of(ddp, given[dist.get_rank()][step])
                require_same(found, [each.to(dtype) for each in expected[step]], (dtype, method, step))


@contextlib.contextmanager
def waits_refused() -> Iterator[None]:
    """In the block, an operation of torch that makes the CPU wait for the GPU raises an error, in every thread."""
    if not ON_GPU:
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def requires_refusals() -> None:
    """That the mode notices a wait, or the steps in it would show nothing."""
    if not ON_GPU:
        return
    value = torch.ones(1, device=DEVICE)
    with waits_refused():
        try:
            value.item()
        except RuntimeError:
            return
    raise AssertionError("a read of the GPU's memory was not refused")


def steps_without_waits(way: str) -> None:
    """Forward, backward and the optimizer's step, with and without a GradScaler, whose own step reads from the GPU. An
    error in the hook's thread would arrive in backward."""
    requires_refusals()
    given = gradients(0, dist.get_rank())
    for method in ("topk", "signum", "qsgd", "sgd"):
        for scaled in (False, True):
            scaler = torch.amp.GradScaler(DEVICE.type, init_scale=256.0, enabled=scaled)
            ddp = wrapped(LateProbe())
            state = connect(ddp, way, method, min_size=0, scaler=scaler, **options_of(method))
            optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
            for step in range(STEPS_OF_TORCH + 3):
                with waits_refused() if step >= STEPS_OF_TORCH else contextlib.nullcontext():
                    optimizer.zero_grad()
                    scaler.scale(ddp(given)).backward()
                    if not scaled:
                        optimizer.step()
                if scaled:
                    scaler.step(optimizer)
                    scaler.update()
            assert state.metrics()["steps"] == STEPS_OF_TORCH + 3, (method, scaled)
            assert same_everywhere(list(ddp.parameters())), (method, scaled)


def watched_hook(
    watched: tuple[laconic.State, list[bool]], bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """laconic.hook; and whether the GPU was still at work on the bucket's gradients when it returned."""
    state, busy = watched
    computed = torch.cuda.Event()
    computed.record()
    future = laconic.hook(state, bucket)
    busy.append(not computed.query())
    return future


def calls_return_at_once() -> dict[str, list[bool]]:
    """By method: of each bucket of some steps, whether the hook's call returned while the GPU was busy."""
    found = {}
    for method in ("topk", "signum", "qsgd", "sgd"):
        ddp = wrapped(LateProbe())
        busy: list[bool] = []
        state = laconic.State(ddp, method, min_size=0, arrange_buckets=False, **options_of(method))
        require_place(state, DEVICE)
        ddp.register_comm_hook((state, busy), watched_hook)
        for step in range(6):
            if step == 2:
                busy.clear()  # CUDA loads kernels when they are first launched, and may wait for the GPU then
            step_of(ddp, gradients(step, dist.get_rank()))
        found[method] = busy
    return found


def copies_of_a_step(way: str) -> dict[str, Any]:
    """Of a step with top-k, and of one after which the gradient is read on the CPU; and the bytes of its payloads."""
    ddp = wrapped(Probe([LARGE]))
    state = connect(ddp, way, "topk", keep=0.01)
    given = gradients(0, dist.get_rank(), [LARGE])

    def step() -> None:
        ddp.module.clear()
        ddp(given).backward()

    for _ in range(3):
        step()
    found = copies_of(step, ddp.module.grads)
    return {**found, "payloads": state.metrics()["last"]["payload_bytes"]}


def autocast_with_a_scaler(way: str) -> dict[str, Any]:
    """float16 as people use it: overflows on one rank lower the scale and drop the step on all."""
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).to(DEVICE)
    ddp = wrapped(model)
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=256.0, growth_interval=4)
    state = connect(ddp, way, "topk", keep=0.1, scaler=scaler)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    scales, losses, types = [], [], set()
    for step in range(40):
        generator = torch.Generator().manual_seed(step)
        inputs = torch.randn(64, 32, generator=generator)[dist.get_rank() :: dist.get_world_size()].to(DEVICE)
        labels = inputs[:, :10].argmax(dim=1)
        if step == 20 and dist.get_rank() == 1:
            inputs = inputs * 1e6  # beyond float16
        optimizer.zero_grad()
        with torch.autocast(DEVICE.type, dtype=torch.float16):
            outputs = ddp(inputs)
            types.add(outputs.dtype)
            loss = torch.nn.functional.cross_entropy(outputs.float(), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        losses.append(loss.item())
    return {
        "same": same_everywhere(list(model.parameters())),
        "finite": all(bool(p.isfinite().all()) for p in model.parameters()),
        "scales": scales,
        "types": [str(each) for each in types],
        "skipped": state.metrics()["skipped"],
        "fell": sum(losses[-5:]) < 0.7 * sum(losses[:5]),
    }


def states_go_round() -> None:
    """Saved in the middle and loaded anew, also from tensors that lie on the device."""
    given = given_to(6)
    for way, place in (("attach", "cpu"), ("hook", str(DEVICE))):
        ddp = wrapped(Probe())
        state = connect(ddp, way, "regtopk", keep=0.05)
        mine = given[dist.get_rank()]
        for step in mine[:3]:
            step_of(ddp, step)
        file = io.BytesIO()
        torch.save({"mine": state.state_dict(), "all": state.gather_state_dict()}, file)
        expected = [step_of(ddp, step) for step in mine[3:]]
        for source in ("mine", "all"):
            file.seek(0)
            saved = torch.load(file, map_location=place, weights_only=True)[source]
            other = wrapped(Probe())
            resumed = connect(other, way, "regtopk", keep=0.05)
            resumed.load_state_dict(saved)
            for step, wanted in zip(mine[3:], expected, strict=True):
                require_same(step_of(other, step), wanted, (way, source))


def step_with(optimizer: laconic.Optimizer, step: int) -> None:
    """Along gradients that are drawn, the same whatever the device."""
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    for parameter in optimizer.model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.device, parameter.dtype)
    optimizer.step(loss=0.0)


def exact_optimizer(method: str, model: torch.nn.Module) -> laconic.Optimizer:
    """Around SGD whose products are exact: a GPU, which fuses product and sum, then rounds as the host does."""
    if method == "adam":
        return optimizer_for(method, model)
    inner = torch.optim.SGD(model.parameters(), lr=0.0625, momentum=0.5)
    return laconic.Optimizer(inner, model, method, **small_options(method))


def run_of(method: str, device: torch.device, stream: Any = None) -> torch.Tensor:
    """The point to test after some steps, worked out on a stream of the device that is late."""
    with torch.cuda.stream(stream) if stream else contextlib.nullcontext():
        optimizer = exact_optimizer(method, network().to(device))
        require_place(optimizer, device)
        for step in range(9):
            if stream:
                sleep()
            step_with(optimizer, step)
        with optimizer.read_out():
            return flat(optimizer.model)


def optimizers() -> dict[str, float]:
    """The largest difference between a run on the device and one on the host with the same gradients."""
    host = torch.device("cpu")
    return {
        row["name"]: (run_of(row["name"], DEVICE) - run_of(row["name"], host)).abs().max().item()
        for row in laconic.methods()
    }


def optimizers_on_a_stream() -> list[str]:
    """Methods whose run on a stream of the caller's own differs: they did not wait for it, or it did not for them."""
    stream = torch.cuda.Stream() if ON_GPU else None
    names = ("sgd", "topk", "qsgd", "def-a", "psync", "mgrawa")
    return [name for name in names if not torch.equal(run_of(name, DEVICE, stream), run_of(name, torch.device("cpu")))]


def optimizers_go_on() -> list[str]:
    """Methods whose run, saved and loaded with all tensors on the device, ends elsewhere."""
    wrong = []
    for method in ("sgd", "topk", "def-a", "mgrawa"):
        optimizer = optimizer_for(method, network())
        for step in range(5):
            step_with(optimizer, step)
        file = io.BytesIO()
        torch.save({"model": optimizer.model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.seek(0)
        saved = torch.load(file, map_location=DEVICE, weights_only=True)
        resumed = optimizer_for(method, network(seed=3))
        resumed.model.load_state_dict(saved["model"])
        resumed.load_state_dict(saved["optimizer"])
        for each in (optimizer, resumed):
            for step in range(5, 9):
                step_with(each, step)
        with optimizer.read_out(), resumed.read_out():
            if not torch.equal(flat(optimizer.model), flat(resumed.model)):
                wrong.append(method)
    return wrong


def optimizer_in_16_bits() -> bool:
    model = network().to(torch.bfloat16)
    optimizer = laconic.Optimizer(torch.optim.SGD(model.parameters(), lr=0.05), model, "topk", **small_options("topk"))
    for step in range(5):
        step_with(optimizer, step)
    return same_everywhere(list(model.parameters()))


class HookTest(unittest.TestCase):
    def test_late_gradients_of_two_ranks(self) -> None:
        run_ranks(2, late_gradients, gradient_methods())

    def test_late_gradients_of_three_ranks(self) -> None:
        run_ranks(3, late_gradients, ["topk", "signum", "qsgd", "sgd", "fp16"])

    def test_large_results(self) -> None:
        run_ranks(2, large_results)

    def test_other_streams(self) -> None:
        run_ranks(2, other_streams)

    def test_gradients_of_16_bits(self) -> None:
        run_ranks(2, gradients_of_16_bits)

    @unittest.skipUnless(has_kernels(DEVICE), "this build has no kernels for the device")
    def test_nothing_waits_for_the_gpu(self) -> None:
        for way in WAYS:
            run_ranks(2, steps_without_waits, way)

    @unittest.skipUnless(ON_GPU and has_kernels(DEVICE), "on the CPU gradients are there when the hook is called")
    def test_calls_return_at_once(self) -> None:
        for found in run_ranks(2, calls_return_at_once):
            for method, busy in found.items():
                self.assertTrue(any(busy), (method, busy))

    @unittest.skipUnless(has_kernels(DEVICE), "this build has no kernels for the device")
    def test_gradients_stay_on_the_device(self) -> None:
        for way in WAYS:
            for found in run_ranks(2, copies_of_a_step, way):
                require_small_copies(self, found, gradient=4 * LARGE, most=2 * found["payloads"])

    def test_states_go_round(self) -> None:
        run_ranks(2, states_go_round)

    def test_autocast_with_a_scaler(self) -> None:
        for way in WAYS:
            ranks = run_ranks(2, autocast_with_a_scaler, way)
            self.assertEqual(ranks[0]["scales"], ranks[1]["scales"])
            for found in ranks:
                self.assertTrue(found["same"] and found["finite"] and found["fell"], found)
                self.assertEqual(found["types"], ["torch.float16"])
                self.assertGreaterEqual(found["skipped"], 1)
                self.assertLess(found["scales"][20], found["scales"][19])
                self.assertGreater(max(found["scales"]), 256.0)


class OptimizerTest(unittest.TestCase):
    def test_equals_the_run_on_the_host(self) -> None:
        for count in (1, 2):
            for found in run_ranks(count, optimizers, timeout=120):
                for method, difference in found.items():
                    # torch's own Adam rounds otherwise on a GPU.
                    self.assertLessEqual(difference, 1e-5 if method == "adam" else 0.0, (count, method))

    def test_on_a_stream(self) -> None:
        self.assertEqual(run_ranks(2, optimizers_on_a_stream), [[], []])

    def test_goes_on(self) -> None:
        self.assertEqual(run_ranks(2, optimizers_go_on), [[], []])

    def test_16_bits(self) -> None:
        self.assertEqual(run_ranks(2, optimizer_in_16_bits), [True, True])


if __name__ == "__main__":
    unittest.main()
