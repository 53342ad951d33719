"""What a user may choose: parameters and groups, warm-up, policy; and what metrics say."""

import unittest
import warnings
from typing import Any

import torch
import torch.distributed as dist
from networks import warned_of_copies
from probe import SIZES, Probe, connect, gradients, reference, same_bits, step_of, wrapped
from ranks import run_ranks
from refusals import refused
from test_ddp_behaviours import equal, in_turn, mine, of_all_ranks

import laconic


class Named(torch.nn.Module):
    """Parameters with the names that people's models have."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Linear(20, 30)
        self.norm = torch.nn.LayerNorm(30)
        self.fc = torch.nn.Linear(30, 10)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(self.conv(inputs)))


class Language(torch.nn.Module):
    """Two embeddings, and an output layer that may share the weight of the first."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(12, 8)
        self.places = torch.nn.Embedding(4, 8)
        self.head = torch.nn.Linear(8, 12)
        self.norm = torch.nn.LayerNorm(8)
        self.other = torch.nn.Linear(8, 8)
        if tied:
            self.head.weight = self.words.weight


def methods_of(model: torch.nn.Module | None = None, **settings: Any) -> dict[str, str]:
    """The method of each parameter."""
    ddp = wrapped(model or Named())
    names, parameters = laconic.ddp._parameters_of(ddp)
    selection = laconic._selection.Selection(
        *(settings.get(name) for name in ("include", "exclude", "min_size")),
        settings.get("groups", ()),
        0,
        settings.get("exempt"),
    )
    choice = selection.choice(ddp.module, names, parameters, settings.get("method", "topk"), {})
    return {names[i]: method for method, _, members in choice.groups for i in members}


def choices() -> None:
    everything = methods_of()
    assert set(everything.values()) == {"topk"} and len(everything) == 6, everything
    weights = methods_of(include="*.weight", exclude=["norm.*"])
    by_iterators = methods_of(include=(each for each in ["*.weight"]), exclude=iter(["norm.*"]))
    assert by_iterators == weights, by_iterators
    assert {n for n, m in weights.items() if m == "topk"} == {"conv.weight", "fc.weight"}, weights
    assert {m for n, m in weights.items() if n not in ("conv.weight", "fc.weight")} == {"sgd"}
    large = methods_of(min_size=300)
    assert {n for n, m in large.items() if m == "topk"} == {"conv.weight", "fc.weight"}, large
    groups = [{"params": "fc.*", "method": "qsgd", "bits": 6}, {"params": ["*.bias"], "method": "fp16"}]
    grouped = methods_of(groups=groups)
    assert grouped["fc.weight"] == grouped["fc.bias"] == "qsgd" and grouped["conv.bias"] == "fp16", grouped
    assert grouped["conv.weight"] == "topk"


def exempt() -> None:
    def dense(model: torch.nn.Module, **settings: Any) -> set[str]:
        return {name for name, method in methods_of(model, **settings).items() if method == "sgd"}

    vectors = {"head.bias", "norm.weight", "norm.bias", "other.bias"}
    assert dense(Language(False), exempt="vectors") == vectors
    assert dense(Language(False), exempt="embeddings") == {"words.weight", "places.weight"}
    assert dense(Language(False), exempt="output") == {"other.weight", "other.bias"}
    assert dense(Language(True), exempt="output") == {"words.weight", "head.bias"}
    assert dense(Language(True), exempt=["vectors", "output"]) == vectors | {"words.weight"}
    assert dense(Language(True), exempt=iter(["embeddings"]), exclude="other.*") == {
        "words.weight",
        "places.weight",
        "other.weight",
        "other.bias",
    }
    groups = [{"params": "*.weight", "method": "qsgd"}]
    grouped = methods_of(Language(False), exempt="embeddings", groups=groups)
    assert grouped["words.weight"] == "sgd" and grouped["head.weight"] == "qsgd", grouped
    assert grouped["head.bias"] == "topk", grouped
    assert dense(Named(), exempt=["embeddings"]) == set(), "there is none"
    words = ("exempt must be one of vectors, embeddings, output, or a list of them, got 'biases'", "exclude=")
    refused(lambda: methods_of(exempt="biases"), *words)
    refused(lambda: methods_of(exempt=3), "exempt must be one of vectors, embeddings, output", "got 3")
    refused(lambda: methods_of(torch.nn.Linear(3, 3), exempt="output"), "no parameter is left for topk")
    trained = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Linear(3, 200))
    inner = torch.optim.SGD(trained.parameters(), lr=0.1)
    optimizer = laconic.Optimizer(inner, trained, "topk", keep=0.01, exempt=["vectors", "embeddings"])
    trained(torch.tensor([1, 2])).sum().backward()
    optimizer.step()
    moved = [int((p.grad != 0).sum()) for p in trained.parameters()]
    assert moved == [6, 6, 200], moved  # the embedding's rows 1 and 2, six of 600 weights, all biases
    model = torch.nn.Linear(3, 3)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    words = ("def takes the whole model, and exempt is for gradient methods, got 'vectors': leave it out",)
    refused(lambda: laconic.Optimizer(inner, model, "def", exempt="vectors"), *words)


def optimizers_that_suit() -> None:
    """attach and Optimizer are told, or know, which optimizer follows."""

    class Derived(torch.optim.AdamW):
        """As other packages have them."""

    def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def told(make: Any, method: str, way: str, **settings: Any) -> list[str]:
        model = Named()
        inner = make(model)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            if way == "attach":
                laconic.attach(wrapped(model), method, optimizer=inner, **settings)
            else:
                laconic.Optimizer(inner, model, method, **settings)
        here = [each for each in found if each.filename == __file__]
        return [str(each.message) for each in here if "second moments" in str(each.message)]

    adaptive = (
        *(getattr(torch.optim, name) for name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax")),
        *(getattr(torch.optim, name) for name in ("Adagrad", "Adadelta", "RMSprop")),
        Derived,
    )
    for way in ("attach", "Optimizer"):
        for kind in adaptive:
            make = lambda model, kind=kind: kind(model.parameters(), lr=0.1)  # noqa: E731
            for settings in ({"method": "signum"}, {"method": "sgd", "groups": [{"params": "fc.*", "method": "signsgd"}]}):
                vote = "signum" if settings["method"] == "signum" else "signsgd"
                words = (f"{vote} is a vote", f"and {kind.__name__}, which", "use torch.optim.SGD(..., lr=5e-4, momentum=0)")
                refused(lambda make=make, settings=settings, way=way: told(make, way=way, **settings), *words)
            (text,) = told(make, "topk", way)
            assert text.startswith(f"topk with {kind.__name__}: ") and "with laconic.Optimizer def-topk" in text, text
            assert told(make, "fp16", way) == told(make, "sgd", way) == []
            assert told(make, "block-quant", way) == told(make, "qsgd", way, scope="chunk", min_size=0) == []
            assert len(told(make, "qsgd", way, min_size=0)) == len(told(make, "block-quant", way, scope="tensor")) == 1
        for method in ("signum", "topk", "qsgd"):
            assert told(sgd, method, way, min_size=0) == [], method
        (text,) = told(
            lambda model: torch.optim.Adam(model.parameters()), "topk", way, groups=[{"params": "fc.*", "method": "randk"}]
        )
        assert text.startswith("randk and topk with Adam"), text
    words = ("optimizer must be a torch.optim.Optimizer, got float",)
    refused(lambda: laconic.attach(wrapped(Named()), "topk", optimizer=0.1), *words)


def groups_and_warm_up() -> None:
    given = of_all_ranks(gradients, 6)
    ddp = wrapped(Probe())
    state = connect(
        ddp,
        "attach",
        "topk",
        keep=0.05,
        warmup=2,
        seed=5,
        exclude="values.2",
        groups=[{"params": "values.[34]", "method": "signum", "beta": 0.5}],
    )
    found = [step_of(ddp, step) for step in mine(given)]

    def part(members: list[int], method: str, options: dict[str, Any], first: int) -> list[list[torch.Tensor]]:
        chosen = [[[step[i] for i in members] for step in steps[first:]] for steps in given]
        return reference(method, options, chosen, names=[f"values.{i}" for i in members], seed=5, first_step=first)

    assert equal(found[:2], reference("sgd", {}, given)[:2])
    for members, method, options in (
        ([0, 1, 5], "topk", {"keep": 0.05}),
        ([3, 4], "signum", {"beta": 0.5}),
        ([2], "sgd", {}),
    ):
        assert equal([[s[i] for i in members] for s in found[2:]], part(members, method, options, 2)), method
    metrics = state.metrics()
    assert metrics["steps"] == 6 and metrics["skipped"] == 0, metrics
    assert metrics["total"]["dense_bytes"] == 6 * 4 * sum(SIZES)
    assert metrics["last"]["dense_bytes"] == 4 * sum(SIZES)
    assert metrics["last"]["ratio"] > metrics["total"]["ratio"] > 1.0, metrics
    assert metrics["ratio"] == metrics["total"]["ratio"]
    assert metrics["residual_norm"] > 0
    for name in ("payload_bytes", "sent_bytes", "received_bytes", "exchange_seconds", "wait_seconds"):
        assert 0 < metrics["last"][name] < metrics["total"][name], name


def groups_draw_by_themselves() -> None:
    """Two groups, each with one tensor, round the same values: by the same draws they would round them alike."""
    sizes = (500, 500, 500)
    given = of_all_ranks(lambda step, rank: [gradients(step, rank, (500,))[0]] * 3, 3)
    for method, options in (("qsgd", {"bits": 2, "min_size": 0}), ("randk", {"keep": 0.1})):
        ddp = wrapped(Probe(sizes))
        own = {name: value for name, value in options.items() if name != "min_size"}
        others = [{"params": f"values.{i}", "method": method, **options} for i in (0, 1)]
        connect(ddp, "attach", method, seed=5, groups=others, **options)
        found = [step_of(ddp, step) for step in mine(given)]
        expected = reference(method, own, [[[step[0]] for step in steps] for steps in given], names=["values.0"], seed=5)
        for step, (first,) in zip(found, expected, strict=True):
            assert same_bits(step[0], first), "the first group draws as it would alone"
            for a, b in ((0, 1), (0, 2), (1, 2)):
                assert (step[a] != step[b]).sum() > 20, (method, a, b)


def a_value_is_not_finite() -> None:
    for way in ("attach", "hook"):
        skipping, strict = wrapped(Probe()), wrapped(Probe())
        state = connect(skipping, way, "topk", keep=0.05, nonfinite="skip")
        connect(strict, way, "topk", keep=0.05)
        given = of_all_ranks(gradients, 5)
        good = [[step for i, step in enumerate(steps) if i != 2] for steps in given]
        expected = reference("topk", {"keep": 0.05}, good)
        found = []
        for number, step in enumerate(mine(given)):
            if number == 2 and dist.get_rank() == 1:
                step[4][3] = float("nan")
            result = step_of(skipping, step)
            if number == 2:
                assert all(not tensor.any() for tensor in result), "a skipped step is zero"
                for tried in ("at step 0", "at step 1"):  # it can be told again, and goes on
                    words = ("rank 1 has a NaN or an Inf", "values.4", tried, 'nonfinite="skip" in Python')
                    refused(lambda step=step: step_of(strict, step), *words, kind=RuntimeError)
            else:
                found.append(result)
        assert equal(found, expected), way
        assert equal([step_of(strict, mine(given)[0])], reference("topk", {"keep": 0.05}, [g[:1] for g in given])), way
        assert state.metrics()["skipped"] == 1


def copies_to_the_cpu() -> None:
    """Each reason is told once, however many models have it."""
    reasons = ("", "no kernels", "no kernels", "an old GPU", "", "no kernels")
    found = warned_of_copies("DdpHost", reasons, lambda: laconic.attach(wrapped(Named()), "topk"))
    text = "test_ddp_settings.py: gradients on a device are copied to the CPU and compressed there: "
    assert found == [text + reason for reason in ("no kernels", "an old GPU")], found


def copies_of_one_rank() -> list[str]:
    """Rank 1 alone has kernels, or has another reason than rank 0 for having none."""
    reasons = (("no kernels", ""), ("no kernels", "an old GPU"))
    return warned_of_copies(
        "DdpHost", [each[dist.get_rank()] for each in reasons], lambda: laconic.attach(wrapped(Named()), "topk")
    )


class SettingsTest(unittest.TestCase):
    def test_choices(self) -> None:
        run_ranks(2, in_turn, (choices, groups_and_warm_up, groups_draw_by_themselves))

    def test_words(self) -> None:
        run_ranks(1, in_turn, (exempt, optimizers_that_suit, copies_to_the_cpu))

    def test_every_rank_tells_its_own_reason(self) -> None:
        ranks = run_ranks(2, copies_of_one_rank)
        self.assertEqual([[text.rsplit(": ", 1)[1] for text in each] for each in ranks], [["no kernels"], ["an old GPU"]])

    def test_values_that_are_not_finite(self) -> None:
        run_ranks(2, a_value_is_not_finite)


if __name__ == "__main__":
    unittest.main()
