"""laconic.Optimizer inside training loops as people write them."""

import unittest
from typing import Any

import torch
import torch.distributed as dist
from device import DEVICE
from networks import batch, flat, loss_of, message_of, network, optimizer_for, same_everywhere, small_options, train
from ranks import run_ranks, start_ranks, told
from torch.nn.parallel import DistributedDataParallel

import laconic


def sgd(model: torch.nn.Module, **settings: Any) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), **{"lr": 0.05, "momentum": 0.9, **settings})


# Schedulers, clipping, groups


def with_schedule(method: str, around: str) -> torch.Tensor:
    model = network()
    inner = sgd(model)
    optimizer = laconic.Optimizer(inner, model, method, **({"ratio": 2} if method == "def" else {}))
    seen: torch.optim.Optimizer = optimizer if around == "outer" else inner
    scheduler = torch.optim.lr_scheduler.OneCycleLR(seen, max_lr=0.1, total_steps=20)  # changes momentum too
    for step in range(12):
        optimizer.zero_grad()
        loss_of(model, *batch(dist.get_rank(), step)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
    with optimizer.read_out():
        return flat(model)


def follows_schedules() -> list[bool]:
    found = []
    for method in ("sgd", "def"):
        outer, inner = with_schedule(method, "outer"), with_schedule(method, "inner")
        found += [torch.equal(outer, inner), same_everywhere(outer)]
    return found


def groups_and_formula(method: str, nesterov: bool) -> float:
    """The largest difference between a run whose ratio is 1, so that nothing is left out, and torch's own SGD on the mean
    gradient. Two groups with a schedule of their own; bias without decay."""
    models = [network(), network()]
    runs = []
    for model in models:
        groups = [
            {"params": [model[0].weight, model[2].weight], "weight_decay": 0.01, "lr": 0.05},
            {"params": [model[0].bias, model[2].bias], "momentum": 0.5, "lr": 0.1},
        ]
        runs.append(torch.optim.SGD(groups, lr=0.05, momentum=0.9, nesterov=nesterov))
    optimizer = laconic.Optimizer(runs[0], models[0], method, ratio=1)
    for step in range(10):
        for run in runs:
            run.param_groups[1]["lr"] = 0.1 / (step + 1)
            run.param_groups[0]["momentum"] = 0.9 if step < 5 else 0.0
            run.param_groups[1]["nesterov"] = nesterov or step > 5
            run.zero_grad()
        for rank in range(dist.get_world_size()):
            (loss_of(models[1], *batch(rank, step)) / dist.get_world_size()).backward()
        runs[1].step()
        loss_of(models[0], *batch(dist.get_rank(), step)).backward()
        optimizer.step()
    return (flat(models[0]) - flat(models[1])).abs().max().item()


def by_groups() -> dict[str, float]:
    return {
        f"{method}, nesterov {nesterov}": groups_and_formula(method, nesterov)
        for method in ("def", "def-a", "ef-rbgs")
        for nesterov in (False, True)
    }


# Values that are not finite


def nonfinite_is_named() -> dict[str, str]:
    found = {}
    for method in ("topk", "def"):
        model = network()
        optimizer = optimizer_for(method, model)
        loss_of(model, *batch(dist.get_rank(), 0)).backward()
        if dist.get_rank() == 1:
            model[2].weight.grad[0, 0] = float("nan")
        found[method] = message_of(optimizer.step)
    return found


# Gradients that are missing, parameters of 16 bits


def odd_gradients() -> dict[str, Any]:
    rank = dist.get_rank()
    model = network()
    model.unused = torch.nn.Linear(2, 2).to(DEVICE)
    optimizer = laconic.Optimizer(sgd(model), model, "sgd")
    before = model.unused.weight.detach().clone()
    loss_of(model[:3], *batch(rank, 0)).backward()
    if rank == 0:
        model.unused.weight.grad = torch.ones(2, 2, device=DEVICE)
    optimizer.step()
    moved = torch.allclose(model.unused.weight, before - 0.05 / dist.get_world_size())

    frozen = network()
    frozen[0].weight.requires_grad_(False)
    kept = frozen[0].weight.detach().clone()
    decayed = laconic.Optimizer(sgd(frozen, weight_decay=0.1), frozen, "def", ratio=2)
    train(decayed, 0, 3)
    stays = torch.equal(kept, frozen[0].weight)
    frozen[0].weight.requires_grad_(True)
    loss_of(frozen, *batch(rank, 0)).backward()
    thawed = message_of(decayed.step)

    sparse = torch.nn.Embedding(10, 4, sparse=True)
    embedding = laconic.Optimizer(torch.optim.SGD(sparse.parameters(), lr=0.1), sparse, "sgd")
    sparse(torch.tensor([1, 2])).sum().backward()
    refused = message_of(embedding.step)
    return {"moved": moved, "stays": stays, "thawed": thawed, "sparse": refused}


def frozen_meanwhile() -> dict[str, bool]:
    """A parameter that is frozen after some steps stays where it is, momentum and weight decay or not, and goes on later."""
    found = {}
    for method in ("sgd", "topk", "def", "localsgd"):
        model = network()
        inner: torch.optim.Optimizer = sgd(model, momentum=0.9, weight_decay=0.1)
        if method == "topk":
            inner = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
        optimizer = laconic.Optimizer(inner, model, method, **small_options(method))
        train(optimizer, 0, 4)
        model[0].weight.requires_grad_(False)
        optimizer.zero_grad()
        train(optimizer, 4, 8)  # def pays here what it owes
        with optimizer.read_out():
            kept = model[0].weight.detach().clone()
            others = model[2].weight.detach().clone()
        train(optimizer, 8, 12)
        with optimizer.read_out():
            stays = torch.equal(kept, model[0].weight)
            moves = not torch.equal(others, model[2].weight)
            alike = same_everywhere(flat(model))
        model[0].weight.requires_grad_(True)
        train(optimizer, 12, 16)
        with optimizer.read_out():
            goes_on = not torch.equal(kept, model[0].weight) and same_everywhere(flat(model))
        found[method] = stays and moves and alike and goes_on
    return found


def added_inside(method: str) -> str:
    """The optimizer inside is given a further parameter, which no other rank would hear of."""
    model = network()
    head = model[2]
    inner = torch.optim.SGD(model[0].parameters(), lr=0.1)
    optimizer = laconic.Optimizer(inner, model, method, **small_options(method))
    train(optimizer, 0, 2)
    inner.add_param_group({"params": list(head.parameters())})
    loss_of(model, *batch(dist.get_rank(), 2)).backward()
    return message_of(optimizer.step) if dist.get_rank() == 0 else ""


def sixteen_bits() -> dict[str, float]:
    """Test loss before and after, of models in bfloat16."""
    found = {}
    for method in ("topk", "def", "mgrawa"):
        model = network().to(torch.bfloat16)
        optimizer = optimizer_for(method, model)
        losses = []
        for step in range(60):
            points, labels = batch(dist.get_rank(), step)
            optimizer.zero_grad()
            loss = loss_of(model, points.to(torch.bfloat16), labels)
            loss.backward()
            optimizer.step(loss=loss)
            losses.append(loss.item())
        with optimizer.read_out():
            if not same_everywhere(flat(model)):
                losses.append(100.0)
        found[method] = sum(losses[-10:]) / sum(losses[:10])
    return found


# Layouts, groups of ranks, several models


def layouts() -> dict[str, float]:
    """The largest difference between convolutions whose parameters lie otherwise in memory on one rank."""
    found = {}
    for method in ("topk", "def"):
        models = []
        for differs in (False, True):
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(16, 4))
            if differs and dist.get_rank() == 1:
                model = model.to(memory_format=torch.channels_last)
            optimizer = optimizer_for(method, model)
            for step in range(4):
                generator = torch.Generator().manual_seed(10 * step + dist.get_rank())
                optimizer.zero_grad()
                model(torch.randn(2, 3, 4, 4, generator=generator)).square().mean().backward()
                optimizer.step()
            models.append(flat(model))
        found[method] = (models[0] - models[1]).abs().max().item()
    return found


def some_ranks() -> dict[str, Any]:
    """Pairs of ranks train a model each, and one model of all ranks beside it."""
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = pairs[dist.get_rank() // 2]
    calls = []
    everybody, pair = network(), network()
    of_all = laconic.Optimizer(sgd(everybody), everybody, "topk", keep=0.1)
    of_pair = laconic.Optimizer(sgd(pair), pair, "def", ratio=2, group=mine)
    of_pair.register_step_post_hook(lambda *_: calls.append(1))
    train(of_all, 0, 4)
    train(of_pair, 0, 4)
    train(of_all, 4, 6)
    with of_pair.read_out():
        points = [torch.empty_like(flat(pair)) for _ in range(4)]
        dist.all_gather(points, flat(pair))
    return {
        "is one": isinstance(of_all, torch.optim.Optimizer) and of_all.param_groups is of_all.inner.param_groups,
        "all": same_everywhere(flat(everybody)),
        "pairs": torch.equal(points[0], points[1]) and torch.equal(points[2], points[3]),
        "apart": not torch.equal(points[0], points[2]),
        "hooks": len(calls) == 4,
    }


# What is refused


class FullyShardedDataParallel(torch.nn.Module):
    """torch's own wants a GPU."""


def refusals() -> dict[str, str]:
    model = network()
    make = lambda inner, method="sgd", **settings: message_of(lambda: laconic.Optimizer(inner, model, method, **settings))  # noqa: E731
    other = network()
    optimizer = laconic.Optimizer(sgd(model), model, "lsgd", period=2)
    def_run = laconic.Optimizer(sgd(other), other, "def", ratio=2)
    loss_of(other, *batch(0, 0)).backward()
    found = {
        "signum is a vote: every entry of the aggregate is -1 or 1, and Adam, which divides by": make(
            torch.optim.Adam(model.parameters()), "signum"
        ),
        "def reads weight_decay from the optimizer's groups: set it there": make(
            torch.optim.Adam(model.parameters()), "def", ratio=4, weight_decay=0.5
        ),
        "ef-rbgs has no dampening, got 0.1 in group 0: set it to 0": make(
            sgd(model, dampening=0.1), "ef-rbgs", ratio=4
        ),
        "def has no maximize, and group 0 does: set it to False": make(sgd(model, maximize=True), "def", ratio=4),
        "def reads momentum from the optimizer's groups: set it there": make(sgd(model), "def", ratio=4, momentum=0.5),
        "LBFGS evaluates the model several times per step, each rank by its own loss: use another": make(
            torch.optim.LBFGS(model.parameters())
        ),
        "there is no method topkk; did you mean topk? (laconic.methods()": make(sgd(model), "topkk"),
        "adam is torch.optim.Adam on sgd's mean, got SGD: use method sgd, or torch.optim.Adam": make(
            sgd(model), "adam"
        ),
        "scoring is for mgrawa and lgrawa, got it for sgd: leave it out": make(sgd(model), "sgd", scoring=print),
        "score = shared and a scoring function go together, got score = shared without one": make(
            sgd(model), "mgrawa", score="shared"
        ),
        "has 4 parameters that are not the model's: make it with model.parameters()": make(sgd(network())),
        "def takes the whole model, and exclude is for gradient methods, got '*.bias': leave it out": make(
            sgd(model), "def", ratio=4, exclude="*.bias"
        ),
        "def has no parameter keep; there are ratio, scope, values,": make(sgd(model), "def", keep=0.1),
        "the optimizer is a laconic.Optimizer already: give it the one inside": make(optimizer),
        "warmup must be a whole number in 0..4294967295, got -1: steps that travel dense": make(sgd(model), warmup=-1),
        "seed must be a whole number in 0..9007199254740992, got 0.5: of random draws": make(sgd(model), seed=0.5),
        "nonfinite must be error or skip, got 'no': skip drops a step": make(sgd(model), nonfinite="no"),
        "step_guard must be off here, got True: it undoes": make(sgd(model), "regtopk", step_guard=True),
        "keep must be in (0, 1], got 7: share of the entries": make(sgd(model), "topk", keep=7),
        "ratio must be in": make(sgd(model), "def-a", ratio=0),
        "lsgd elects its leader by the loss: call step(loss=loss), or step(closure)": message_of(optimizer.step),
        "add the group to the optimizer inside first and make a new laconic.Optimizer": message_of(
            lambda: optimizer.add_param_group({"params": [torch.zeros(1)]})
        ),
    }
    for wrapper, words in (
        (torch.compile(DistributedDataParallel(network())), "the model is in DistributedDataParallel, which reduces"),
        (torch.nn.Sequential(FullyShardedDataParallel()), "in FullyShardedDataParallel (FSDP1), which has no place"),
    ):
        found[words] = message_of(lambda model=wrapper: laconic.Optimizer(sgd(network()), model, "topk"))
    with torch.no_grad():
        other[0].weight.add_(1.0)
    found["parameter 0.weight was changed since the last step, but def keeps the point itself: load"] = message_of(
        def_run.step
    )
    return found


class LoopTest(unittest.TestCase):
    def test_schedulers_and_clipping(self) -> None:
        for found in run_ranks(2, follows_schedules):
            self.assertEqual(found, [True] * 4)

    def test_groups_of_their_own(self) -> None:
        for found in run_ranks(3, by_groups):
            for method, difference in found.items():
                self.assertLess(difference, 1e-5, method)

    def test_a_value_that_is_not_finite_is_named(self) -> None:
        for found in run_ranks(2, nonfinite_is_named):
            for text in found.values():
                self.assertIn("rank 1 has a NaN or an Inf in the gradient of tensor 2.weight at step 0", text)
                self.assertIn('nonfinite="skip" in Python', text)

    def test_missing_frozen_and_sparse(self) -> None:
        ranks = start_ranks(2, odd_gradients)
        self.assertEqual([rank.status for rank in ranks], [0, 0], told(ranks))
        for rank in ranks:
            self.assertTrue(rank.value["moved"] and rank.value["stays"], rank.value)
            self.assertIn("0.weight was frozen when the optimizer was made and has a gradient", rank.value["thawed"])
            self.assertIn("make a new optimizer", rank.value["thawed"])
        self.assertIn("the gradient of parameter weight is sparse; methods take dense", ranks[0].value["sparse"])
        self.assertIn("make the embedding with sparse=False", ranks[0].value["sparse"])

    def test_frozen_meanwhile(self) -> None:
        for found in run_ranks(2, frozen_meanwhile):
            self.assertEqual(found, dict.fromkeys(found, True))

    def test_parameters_that_are_added_inside(self) -> None:
        for method in ("sgd", "def", "localsgd"):
            said = run_ranks(2, added_inside, method)[0]
            self.assertIn("has 4 parameters and had 2 when this was made: close this and make a new", said)

    def test_bfloat16(self) -> None:
        for found in run_ranks(2, sixteen_bits):
            for method, ratio in found.items():
                self.assertLess(ratio, 0.6, method)

    def test_other_layouts(self) -> None:
        for found in run_ranks(2, layouts):
            for method, difference in found.items():
                self.assertLess(difference, 1e-5, method)

    def test_groups_of_ranks_and_several_models(self) -> None:
        for found in run_ranks(4, some_ranks):
            self.assertEqual(found, dict.fromkeys(found, True))

    def test_refusals(self) -> None:
        for found in run_ranks(1, refusals):
            for expected, text in found.items():
                self.assertIn(expected, text)


if __name__ == "__main__":
    unittest.main()
