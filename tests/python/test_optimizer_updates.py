"""Compressed updates around any optimizer of torch, beside a plain model of the algorithm with all workers in one place."""

import io
import math
import unittest
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from device import DEVICE
from networks import batch, flat, loss_of, message_of, network, same_everywhere, test_loss
from ranks import run_ranks

import laconic

Inner = Callable[[torch.nn.Module], torch.optim.Optimizer]
STEPS = 13  # the rounds of three and of four steps are cut at the end


def by_decay(model: torch.nn.Module) -> list[dict[str, Any]]:
    """As GPT trainers do: matrices decay, vectors do not; and they have other learning rates."""
    matrices = [each for each in model.parameters() if each.dim() > 1]
    vectors = [each for each in model.parameters() if each.dim() == 1]
    return [{"params": matrices, "weight_decay": 0.9}, {"params": vectors, "weight_decay": 0.0, "lr": 0.005}]


def made(kind: str, **settings: Any) -> Inner:
    return lambda model: getattr(torch.optim, kind)(by_decay(model), **{"lr": 0.01, **settings})


class Own(torch.optim.Optimizer):
    """One that nobody knows: sign descent."""

    def __init__(self, parameters: Any, lr: float = 0.002) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for each in group["params"]:
                if each.grad is not None:
                    each -= group["lr"] * each.grad.sign()


# Optimizers, and whether their weight decay is decoupled, so that it does not travel.
INNER: dict[str, tuple[Inner, bool]] = {
    "AdamW": (made("AdamW"), True),
    "NAdam": (made("NAdam", decoupled_weight_decay=True), True),
    "RAdam": (made("RAdam", decoupled_weight_decay=True), True),
    "Adam": (made("Adam"), False),
    "RMSprop": (made("RMSprop"), False),
    "SGD": (made("SGD", momentum=0.9), False),
    "Own": (lambda model: Own(model.parameters()), False),
}

# Rows with their numbers: options, H, lambda, rho, alpha, mu, whether the mean error is subtracted.
ROWS: list[tuple[str, dict[str, Any], tuple[int, float, float, float, float, bool]]] = [
    ("def-topk", {"keep": 0.1, "values": "f32"}, (1, 0.5, 1.0, 1.0, 0.0, True)),
    ("def-topk", {"keep": 0.1, "values": "sign", "period": 3, "lambda_": 1.0}, (3, 1.0, 1.0, 1.0, 0.0, True)),
    ("diloco", {"period": 4}, (4, 0.0, 1.0, 0.7, 0.9, False)),
    ("sparseloco", {"keep": 0.1, "chunk": 64, "values": "two", "period": 3}, (3, 0.0, 0.95, 1.0, 0.0, False)),
]


def coded(chosen: torch.Tensor, values: str) -> torch.Tensor:
    """What the others get: the values, or their signs times the mean magnitude of all or of each half."""
    if values == "f32":
        return chosen
    magnitude = chosen.abs()
    parts = [torch.ones_like(chosen, dtype=torch.bool)]
    if values == "two":
        parts = [magnitude > magnitude.mean(), magnitude <= magnitude.mean()]
    found = torch.zeros_like(chosen)
    for part in parts:
        if part.any():
            found[part] = chosen[part].sign() * magnitude[part].mean()
    return found


def compressed(values: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    """The largest entries of each scope, ties by lowest index. Without `keep`, all."""
    if "keep" not in options:
        return values
    found = torch.zeros_like(values)
    size = options.get("chunk", values.numel())
    for begin in range(0, values.numel(), size):
        part = values[begin : begin + size]
        count = max(1, math.floor(options["keep"] * part.numel()))
        order = torch.argsort(part.abs(), descending=True, stable=True)[:count]
        found[begin + order] = coded(part[order], options["values"])
    return found


def put(model: torch.nn.Module, values: torch.Tensor) -> None:
    with torch.no_grad():
        torch.nn.utils.vector_to_parameters(values.to(DEVICE, copy=True), model.parameters())


class Workers:
    """All workers of a run, by the page's steps in float32. What they hold after each step."""

    def __init__(self, count: int, inner: Inner, decoupled: bool, options: dict[str, Any], numbers: tuple[Any, ...]) -> None:
        self.period, self.detached, self.rho, self.alpha, self.mu, self.subtracts = numbers
        self.options = options
        self.models = [network() for _ in range(count)]
        self.optimizers = [inner(model) for model in self.models]
        self.decoupled = decoupled
        self.x = flat(network())
        self.s = [self.x.clone() for _ in range(count)]
        self.e = [torch.zeros_like(self.x) for _ in range(count)]
        self.u = torch.zeros_like(self.x)

    def shrink(self) -> torch.Tensor:
        """1 - lr * weight decay of each entry."""
        factor_of = {}
        for group in self.optimizers[0].param_groups:
            factor = 1.0 - group["lr"] * group["weight_decay"] if self.decoupled else 1.0
            factor_of |= {id(each): factor for each in group["params"]}
        return torch.cat([torch.full((each.numel(),), factor_of[id(each)]) for each in self.models[0].parameters()])

    def step(self, number: int) -> list[torch.Tensor]:
        factors = self.shrink()
        for rank, (model, optimizer) in enumerate(zip(self.models, self.optimizers, strict=True)):
            optimizer.zero_grad()
            loss_of(model, *batch(rank, number)).backward()
            optimizer.step()
            self.s[rank] = self.s[rank] * factors
        self.x = self.x * factors
        if (number + 1) % self.period == 0:
            self.meet()
        return [flat(model) for model in self.models]

    def meet(self) -> None:
        p = [(s - flat(model)) + e for s, model, e in zip(self.s, self.models, self.e, strict=True)]
        c = [compressed(each, self.options) for each in p]
        self.e = [self.rho * (a - b) for a, b in zip(p, c, strict=True)]
        total = c[0]
        for each in c[1:]:
            total = total + each
        delta = total / len(c)
        self.u = self.mu * self.u + delta
        self.x = self.x - self.alpha * (delta + self.mu * self.u)
        self.s = [self.x - self.detached * e for e in self.e]
        for model, s in zip(self.models, self.s, strict=True):
            put(model, s)

    def read_out(self) -> torch.Tensor:
        if not self.subtracts:
            return self.x
        owed = [e + (s - flat(model)) for e, s, model in zip(self.e, self.s, self.models, strict=True)]
        return self.x - sum(owed[1:], owed[0]) / len(owed)


def follows_the_page(names: list[str]) -> list[str]:
    """Runs that are elsewhere than the model of all workers, and by how much."""
    wrong = []
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for name in names:
        inner, decoupled = INNER[name]
        for method, options, numbers in ROWS:
            model = network()
            optimizer = laconic.Optimizer(inner(model), model, method, **options)
            workers = Workers(ranks, inner, decoupled, options, numbers)
            worst = 0.0
            for step in range(STEPS):
                optimizer.zero_grad()
                loss_of(model, *batch(rank, step)).backward()
                optimizer.step()
                expected = workers.step(step)[rank]
                worst = max(worst, (flat(model) - expected).abs().max().item())
            with optimizer.read_out():
                worst = max(worst, (flat(model) - workers.read_out()).abs().max().item())
                alike = same_everywhere(flat(model))
            # Sums are made in another order here, by an ulp or two a step; a wrong lambda, say, shows at once.
            if worst > 2e-6 or not alike:
                wrong.append(f"{name} {method} {options} by {worst}, alike {alike}")
    return wrong


def weight_decay_does_not_travel() -> list[float]:
    """Without a gradient AdamW only decays: nothing is to be sent, and all models shrink by the same factors."""
    found = []
    for method, options in (("def-topk", {"keep": 0.1}), ("diloco", {"period": 2}), ("def", {"ratio": 4})):
        model = network()
        before = flat(model)
        inner = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
        optimizer = laconic.Optimizer(inner, model, method, **options)
        for _ in range(4):
            optimizer.zero_grad()  # no gradient at all: zeros
            optimizer.step()
        assert optimizer.metrics()["residual_norm"] == 0.0, method
        with optimizer.read_out():
            found.append((flat(model) - before * (1 - 0.1 * 0.5) ** 4).abs().max().item())
    return found


def blocks_over_any_optimizer() -> dict[str, Any]:
    """def's rows, whose blocks are drawn: with ratio 1 all is sent; otherwise a run learns, and ranks agree."""
    found: dict[str, Any] = {}
    for method in ("def", "def-a", "ef-rbgs"):
        inner, decoupled = INNER["AdamW"]
        model = network()
        optimizer = laconic.Optimizer(inner(model), model, method, ratio=1)
        detached = 0.0 if method == "ef-rbgs" else 0.3
        workers = Workers(dist.get_world_size(), inner, decoupled, {}, (1, detached, 1.0, 1.0, 0.0, method == "def"))
        worst = 0.0
        for step in range(6):
            optimizer.zero_grad()
            loss_of(model, *batch(dist.get_rank(), step)).backward()
            optimizer.step()
            worst = max(worst, (flat(model) - workers.step(step)[dist.get_rank()]).abs().max().item())
        model = network()
        optimizer = laconic.Optimizer(made("AdamW", lr=0.02)(model), model, method, ratio=8)
        before = test_loss(model)
        for step in range(60):
            optimizer.zero_grad()
            loss_of(model, *batch(dist.get_rank(), step)).backward()
            optimizer.step()
        with optimizer.read_out():
            found[method] = (worst <= 2e-6, test_loss(model) < 0.7 * before, same_everywhere(flat(model)))
    return found


def cut_and_resumed() -> list[str]:
    """Methods with optimizers whose run, cut in the middle of a round, ends elsewhere."""
    wrong = []
    for name in ("AdamW", "RAdam", "SGD"):
        for method, options in (*((row[0], row[1]) for row in ROWS), ("def-a", {"ratio": 4})):

            def begun(name: str = name, method: str = method, options: dict[str, Any] = options) -> laconic.Optimizer:
                model = network()
                return laconic.Optimizer(INNER[name][0](model), model, method, **options)

            def train(optimizer: laconic.Optimizer, first: int, last: int) -> None:
                for step in range(first, last):
                    optimizer.zero_grad()
                    loss_of(optimizer.model, *batch(dist.get_rank(), step)).backward()
                    optimizer.step()

            whole = begun()
            train(whole, 0, 5)
            file = io.BytesIO()
            torch.save({"model": whole.model.state_dict(), "optimizer": whole.state_dict()}, file)
            train(whole, 5, 11)
            file.seek(0)
            saved = torch.load(file)
            resumed = begun()
            resumed.model.load_state_dict(saved["model"])
            resumed.load_state_dict(saved["optimizer"])
            train(resumed, 5, 11)
            if not torch.equal(flat(whole.model), flat(resumed.model)):
                wrong.append(f"{name} {method} {options}")
    return wrong


def dropped() -> dict[str, Any]:
    """An infinity on one rank. Where ranks meet the step is dropped on all; alone, that rank's own step is."""
    found: dict[str, Any] = {}
    for method, options, bad in (("def-topk", {"keep": 0.1}, 2), ("diloco", {"period": 3}, 2), ("diloco", {"period": 3}, 1)):
        model = network()
        optimizer = laconic.Optimizer(INNER["AdamW"][0](model), model, method, nonfinite="skip", **options)
        moments = []
        for step in range(6):
            optimizer.zero_grad()
            loss_of(model, *batch(dist.get_rank(), step)).backward()
            if step == bad and dist.get_rank() == 1:
                model[0].weight.grad[0, 0] = float("inf")
            before = [state["exp_avg_sq"].clone() for state in optimizer.state.values()]
            optimizer.step()
            after = [state["exp_avg_sq"] for state in optimizer.state.values()]
            moments.append(bool(before) and all(map(torch.equal, before, after)))
        alone = bad == 1
        kept = [i for i, same in enumerate(moments) if same]
        expected = [bad] if dist.get_rank() == 1 or not alone else []
        with optimizer.read_out():
            alike = same_everywhere(flat(model)) and bool(torch.isfinite(flat(model)).all())
        found[f"{method} {bad}"] = kept == expected and alike and optimizer.metrics()["skipped"] == len(expected)
    return found


def some_have_no_gradient() -> bool:
    """A parameter that one rank did not use: to an optimizer that skips it there, x would part."""
    model = network()
    optimizer = laconic.Optimizer(INNER["AdamW"][0](model), model, "def-topk", keep=0.1)
    for step in range(4):
        optimizer.zero_grad()
        loss_of(model, *batch(dist.get_rank(), step)).backward()
        if dist.get_rank() == 1:
            model[0].weight.grad = None
        optimizer.step()
    with optimizer.read_out():
        return same_everywhere(flat(model))


def changed_by_others() -> str:
    model = network()
    optimizer = laconic.Optimizer(INNER["AdamW"][0](model), model, "diloco", period=2)
    with torch.no_grad():
        model[0].weight.add_(1.0)
    loss_of(model, *batch(0, 0)).backward()
    return message_of(optimizer.step)


class UpdatesTest(unittest.TestCase):
    def test_follows_the_page(self) -> None:
        for found in run_ranks(2, follows_the_page, list(INNER), timeout=100):
            self.assertEqual(found, [])
        for found in run_ranks(3, follows_the_page, ["AdamW"]):
            self.assertEqual(found, [])

    def test_weight_decay_does_not_travel(self) -> None:
        for found in run_ranks(2, weight_decay_does_not_travel):
            self.assertLess(max(found), 1e-6)

    def test_blocks_over_any_optimizer(self) -> None:
        for found in run_ranks(2, blocks_over_any_optimizer):
            self.assertEqual(found, dict.fromkeys(("def", "def-a", "ef-rbgs"), (True, True, True)))

    def test_resumes_to_the_bit(self) -> None:
        self.assertEqual(run_ranks(2, cut_and_resumed), [[]] * 2)

    def test_a_step_that_is_not_finite(self) -> None:
        for found in run_ranks(2, dropped):
            self.assertEqual(found, dict.fromkeys(found, True))

    def test_gradients_that_some_do_not_have(self) -> None:
        self.assertEqual(run_ranks(2, some_have_no_gradient), [True, True])

    def test_parameters_that_others_change(self) -> None:
        words = "parameter 0.weight was changed since the last step, but diloco keeps the point itself"
        self.assertIn(words, run_ranks(1, changed_by_others)[0])


if __name__ == "__main__":
    unittest.main()
