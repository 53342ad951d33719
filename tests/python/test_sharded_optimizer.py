"""laconic.Optimizer on a sharded model: every method gives what the C++ method gives on the same shards, and more."""

import tempfile
import unittest
import warnings
from typing import Any

import torch
import torch.distributed as dist
from networks import small_options
from ranks import run_ranks
from refusals import refused
from sharded import Odd, flat, fully_shard, local, loss_of, mesh_of, replicas_agree, sharded, train, with_experts
from test_sharded_methods import built, coefficients, names, of_all_replicas

import laconic
from laconic import _core, _selection

SGD_METHODS = ("ef-rbgs", "def", "def-a")
UPDATES = ("def-topk", "diloco", "sparseloco")
STEPS = 5


def odd(mesh: Any) -> Any:
    torch.manual_seed(3)
    return sharded(Odd(), mesh)


def locals_of(model: Any) -> torch.Tensor:
    return torch.cat([each.to_local().detach().flatten() for each in model.parameters()])


def differing_methods(door: str) -> list[str]:
    """From the C++ method on the same gradients and shards."""
    mesh = mesh_of(2, 2)
    where = {} if door == "native" else {"replicas": mesh["replicate"]}
    given = of_all_replicas(mesh, STEPS)
    flat_given = [[torch.cat([each.flatten() for each in step]) for step in steps] for steps in given]
    sizes = [each.numel() for each in given[0][0]]
    wrong = []
    for row in laconic.methods():
        method = row["name"]
        if method == "adam" or (door == "hook" and method not in ("topk", "def-a", "localsgd")):
            continue
        model = built(mesh if door == "native" else mesh["shard"])
        nesterov = method != "ef-rbgs"
        inner = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=nesterov)
        own = small_options(method)
        made = []
        with laconic.Optimizer(inner, model, method, seed=3, threads=1, **where, **own) as optimizer:
            for step in range(STEPS):
                optimizer.zero_grad()
                loss = model(coefficients(step, dist.get_rank()))
                loss.backward()
                optimizer.step(loss=0.0)
                made.append(torch.cat([each.grad.to_local().flatten() for each in model.parameters()]))
        options = _selection.texts({name: value for name, value in own.items() if name != "min_size"})
        if row["takes_scoring"]:
            options.append(("score", "local"))
        steps = [[each.clone() for each in each_rank] for each_rank in flat_given]
        if row["face"] == "gradient":
            _core.reduce_on_threads(method, options, names(), sizes, 3, 0, steps)
            difference = max((a - b).abs().max().item() for a, b in zip(made, steps[0], strict=True))
        else:
            sgd = (0.05, 0.9, nesterov, 0.01)
            start = torch.zeros(sum(sizes))
            models = _core.step_on_threads(method, options, sgd, names(), sizes, 3, start, steps)
            difference = (locals_of(model) - models[mesh["replicate"].get_local_rank()]).abs().max().item()
        if difference > (0.0 if row["face"] == "gradient" or method in SGD_METHODS else 1e-5):
            wrong.append(f"{method} by {difference}")
    return wrong


def equals_native_hsdp() -> None:
    mesh = mesh_of(2, 2)
    expected = train(odd(mesh), 3, "no_all_reduce")
    for door in ("native", "hook"):
        model = odd(mesh if door == "native" else mesh["shard"])
        inner = torch.optim.AdamW(model.parameters(), lr=0.01)
        where = {} if door == "native" else {"replicas": mesh["replicate"]}
        with laconic.Optimizer(inner, model, "sgd", **where) as optimizer:
            for step in range(3):
                for i in range(3):
                    model.set_requires_all_reduce(i == 2)
                    model.set_is_last_backward(i == 2)
                    (loss_of(model, 10 * step + i) / 3).backward()
                optimizer.step()
                optimizer.zero_grad()
        assert torch.equal(flat(model), expected[-1]), door


def wrapped(model: Any, method: str) -> laconic.Optimizer:
    inner = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    return laconic.Optimizer(inner, model, method, seed=1, **small_options(method))


def steps(optimizer: laconic.Optimizer, first: int, last: int) -> None:
    for step in range(first, last):
        optimizer.zero_grad()
        loss_of(optimizer.model, step).backward()
        optimizer.step()


def agree_and_resume(folder: str) -> None:
    """Replicas read out the same model, and a resumed run has the same bits."""
    mesh = mesh_of(2, 2)
    for method in (*UPDATES, "localsgd", "topk"):
        model = odd(mesh)
        optimizer = wrapped(model, method)
        steps(optimizer, 0, 6)
        torch.save(optimizer.state_dict(), f"{folder}/{dist.get_rank()}.pt")
        saved = {name: each.clone() for name, each in model.state_dict().items()}
        steps(optimizer, 6, 12)
        expected = flat(model)
        with optimizer.read_out():
            assert replicas_agree(flat(model), mesh), method
        assert torch.equal(flat(model), expected), method
        optimizer.close()
        again = odd(mesh)
        other = wrapped(again, method)
        again.load_state_dict(saved)
        other.load_state_dict(torch.load(f"{folder}/{dist.get_rank()}.pt"))
        steps(other, 6, 12)
        assert torch.equal(flat(again), expected), method
        other.close()


def reads_out_whole_models() -> None:
    """fully_shard keeps whole parameters of the root after a forward: they are not those of the point read out."""
    mesh = mesh_of(2, 2)
    model = odd(mesh)
    with wrapped(model, "diloco") as optimizer:
        steps(optimizer, 0, 6)
        with torch.no_grad():
            before = loss_of(model, 50).item()
        with optimizer.read_out(), torch.no_grad():
            inside = loss_of(model, 50).item()
        with torch.no_grad():
            after = loss_of(model, 50).item()
        assert before == after != inside, (before, inside, after)


def drops_together() -> None:
    """A gradient that is not finite in one shard of one replica drops the step in the others too."""
    mesh = mesh_of(2, 2)
    for method in ("topk", "def-topk"):
        model = odd(mesh)
        inner = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0)
        with laconic.Optimizer(inner, model, method, nonfinite="skip", **small_options(method)) as optimizer:
            steps(optimizer, 0, 2)
            before = flat(model)
            optimizer.zero_grad()
            loss_of(model, 2).backward()
            if dist.get_rank() == 1:
                model.out.weight.grad.to_local()[0] = float("nan")
            optimizer.step()
            # Who sends its own steps skips alone, with all of its shards; gradients are dropped by all.
            drops = method == "topk" or dist.get_rank() < 2
            assert optimizer.metrics()["skipped"] == (1 if drops else 0), method
            assert torch.equal(flat(model), before) == drops, method
            steps(optimizer, 3, 5)
            with optimizer.read_out():
                assert replicas_agree(flat(model), mesh), method
                assert torch.isfinite(flat(model)).all(), method


def refuses() -> None:
    mesh = mesh_of(2, 2)
    model = odd(mesh)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    refused(lambda: laconic.Optimizer(inner, model, "topk", group=dist.group.WORLD), "group is for", "leave it out")
    refused(lambda: laconic.Optimizer(inner, model, "localsgd", pace="async"), "pace must be lockstep", "got 'async'")
    plain = torch.nn.Linear(2, 2)
    other = torch.optim.SGD(plain.parameters(), lr=0.1)
    refused(lambda: laconic.Optimizer(other, plain, "topk", replicas=mesh["replicate"]), "replicas is for", "fully_shard")
    alone = odd(mesh["shard"])
    third = torch.optim.SGD(alone.parameters(), lr=0.1)
    refused(lambda: laconic.Optimizer(third, alone, "topk"), "knows no replicas")


def leaves_experts_alone() -> None:
    """Parameters without replicas: refused, and left as they are if another optimizer has them."""
    mesh = mesh_of(2, 2)
    model = with_experts(mesh)
    everything = torch.optim.SGD(model.parameters(), lr=0.05)
    refused(
        lambda: laconic.Optimizer(everything, model, "topk", keep=0.1),
        "parameter blocks.1.up.weight is sharded over all ranks and has no replicas", "an optimizer of its own", "attach",
    )  # fmt: skip
    experts = list(model.blocks[1].up.parameters())
    for frozen in (False, True):
        for each in experts:
            each.requires_grad_(not frozen)
        before = [local(each) for each in experts]
        others = [each for each in model.parameters() if all(each is not expert for expert in experts)]
        inner = torch.optim.SGD([*others, *(experts if frozen else ())], lr=0.05)
        own = torch.optim.SGD(experts, lr=0.05)
        for method in ("topk", "localsgd"):
            with laconic.Optimizer(inner, model, method, **small_options(method)) as optimizer:
                assert all(map(torch.equal, before, map(local, experts))), method
                for step in range(3):
                    optimizer.zero_grad()
                    own.zero_grad()
                    loss_of(model, step).backward()
                    optimizer.step()
                assert all(map(torch.equal, before, map(local, experts))), method
                with optimizer.read_out():
                    assert all(map(torch.equal, before, map(local, experts))), method
        own.step()
        assert frozen == all(map(torch.equal, before, map(local, experts)))


def refuses_what_is_not_sharded() -> None:
    mesh = mesh_of(2, 2)
    torch.manual_seed(3)
    model = Odd()
    fully_shard(model, mesh=mesh, ignored_params={model.spare})
    inner = torch.optim.SGD(model.parameters(), lr=0.05)
    refused(lambda: laconic.Optimizer(inner, model, "topk"), "parameter spare is not in fully_shard", "of its own")


def warns_of_optimizers() -> None:
    """A warning of a method that does not suit the optimizer names the line that made the state, once."""

    def attach(mesh: Any) -> None:
        model = odd(mesh)
        laconic.attach(model, "topk", keep=0.1, optimizer=torch.optim.AdamW(model.parameters())).close()

    def attach_to_shards(mesh: Any) -> None:
        model = odd(mesh["shard"])
        inner = torch.optim.AdamW(model.parameters())
        laconic.attach(model, "topk", keep=0.1, optimizer=inner, replicas=mesh["replicate"]).close()

    def state(mesh: Any) -> None:
        model = odd(mesh)
        laconic.ShardedState(model, "topk", keep=0.1, optimizer=torch.optim.AdamW(model.parameters())).close()

    def optimizer(mesh: Any) -> None:
        model = odd(mesh)
        laconic.Optimizer(torch.optim.AdamW(model.parameters()), model, "topk", keep=0.1).close()

    for mesh in (mesh_of(2, 2), mesh_of(4, 1)):
        for make in (attach, attach_to_shards, state, optimizer):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                make(mesh)
            places = [(each.filename, each.lineno) for each in found if "second moments" in str(each.message)]
            first = make.__code__.co_firstlineno
            assert len(places) == 1 and places[0][0] == __file__, (make.__name__, places)
            assert first < places[0][1] <= first + 3, (make.__name__, places)


class OptimizerTest(unittest.TestCase):
    def test_methods(self) -> None:
        self.assertEqual(run_ranks(4, differing_methods, "native", timeout=120), [[]] * 4)
        self.assertEqual(run_ranks(4, differing_methods, "hook", timeout=120), [[]] * 4)

    def test_equals_native_hsdp(self) -> None:
        run_ranks(4, equals_native_hsdp)

    def test_agrees_and_resumes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run_ranks(4, agree_and_resume, folder, timeout=120)

    def test_reads_out_whole_models(self) -> None:
        run_ranks(4, reads_out_whole_models)

    def test_drops_together(self) -> None:
        run_ranks(4, drops_together)

    def test_leaves_experts_alone(self) -> None:
        run_ranks(4, leaves_experts_alone)

    def test_warns_of_optimizers(self) -> None:
        run_ranks(4, warns_of_optimizers)

    def test_refuses(self) -> None:
        run_ranks(4, refuses)
        run_ranks(4, refuses_what_is_not_sharded)


if __name__ == "__main__":
    unittest.main()
