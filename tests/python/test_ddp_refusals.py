"""What a hook refuses, and what it says: the value, what is allowed, what to do."""

import itertools
import unittest
from typing import Any

import torch
import torch.distributed as dist
from probe import Probe, connect, wrapped
from ranks import run_ranks
from refusals import refused

import laconic

NAMES = "names are like values.0, values.1, values.2"
INSTEAD = "use laconic.Optimizer(optimizer, model, method="

# Settings, and the words of the answer.
SETTINGS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"keep": 2.0}, ("topk: keep must be in (0, 1], got 2: share of the entries that is sent, 0.01 for 1 %",)),
    ({"keep": 0}, ("keep must be in (0, 1], got 0: share",)),
    ({"keep": float("nan")}, ("keep must be in (0, 1], got nan: share",)),
    ({"keep": "much"}, ("keep must be in (0, 1], got much: share",)),
    ({"kepp": 0.1}, ("topk has no parameter kepp", "did you mean keep?", "laconic methods")),
    ({"scope": "bucket"}, ("topk: scope must be one of model | tensor | chunk, got bucket: what one selection",)),
    ({"method": "topkk"}, ("there is no method topkk", "did you mean topk?", "laconic.methods()")),
    ({"method": 3}, ("method must be a name of laconic.methods(), got 3",)),
    ({"method": "adam"}, ("adam is an optimizer", "use sgd with torch.optim.Adam")),
    ({"method": "mgrawa"}, ("mgrawa decides where the next gradient is taken", INSTEAD + '"mgrawa")')),
    ({"method": "regtopk", "step_guard": "on"}, ("step_guard must be off here, got 'on': it undoes steps",)),
    ({"method": "signum", "beta": 1.0}, ("signum: beta must be in [0, 0.999999], got 1: the worker's momentum",)),
    ({"method": "qsgd", "bits": 1, "min_size": 0}, ("qsgd: bits must be in 2..16, got 1: bits per value",)),
    ({"method": "qsgd", "bits": 3.5, "min_size": 0}, ("qsgd: bits must be in 2..16, got 3.5",)),
    ({"method": "qsgd"}, ("no parameter is left for qsgd", "min_size=10000", "min_size=0 compresses", NAMES)),
    ({"method": "qsgd", "min_size": 0, "return_": "requantized"}, ("got route = gather: set route = scatter",)),
    ({"method": "dqsgd", "tau": 1, "bit_budget": 4}, ("one of tau, kappa, error_budget, bit_budget, got 2: each",)),
    ({"method": "dqsgd", "rule": "convex"}, ("dqsgd: total_steps must be given for rule = convex, got none: set it",)),
    ({"route": "gather", "union": "keep"}, ("union = keep) needs", "got route = gather: use route = range")),
    ({"nonfinite": "ignore"}, ("nonfinite must be error or skip, got 'ignore': skip drops a step",)),
    ({"warmup": -1}, ("warmup must be a whole number in 0..4294967295, got -1: steps that travel dense",)),
    ({"warmup": 1.5}, ("warmup must be a whole number in 0..4294967295, got 1.5: steps that travel dense",)),
    ({"warmup": None}, ("warmup must be a whole number in 0..4294967295, got None: steps that travel dense",)),
    ({"seed": None}, ("seed must be a whole number", "got None: of random draws")),
    ({"groups": {"params": "*", "method": "sgd"}}, ("groups must be a list of dicts, got {", "[{...}] for one")),
    ({"groups": None}, ("groups must be a list of dicts, got None", "[] for none")),
    ({"groups": ["values.0"]}, ('a group must be a dict with "params" and "method", got \'values.0\'',)),
    ({"seed": -1}, ("seed must be a whole number in 0..9007199254740992, got -1: of random draws",)),
    ({"min_size": -1}, ("min_size must be a whole number in 0..", "got -1: entries below which a tensor travels dense")),
    ({"chunk_entries": -1}, ("chunk_entries must be a whole number in 0..", "got -1: entries that travel together")),
    ({"threads": -2}, ("threads must be a whole number in 1..1024, got -2: that kernels may use",)),
    ({"timeout": 0}, ("timeout must be in (0, 1e+09] seconds, got 0: leave it out",)),
    ({"scaler": 3}, ("scaler must be a torch.amp.GradScaler or None, got int: give the one that scales the loss",)),
    ({"include": "nothing*"}, ("no parameter is left for topk", "include='nothing*'", NAMES)),
    ({"exclude": ["*.bais"]}, ("exclude=['*.bais'] matches no parameter", "leave it out", NAMES)),
    ({"exclude": 5}, ("exclude must be a pattern of names, or a list of such, got 5",)),
    ({"exclude": "*"}, ("no parameter is left for topk", "exclude='*'", NAMES)),
    ({"groups": [{"params": "nothing*", "method": "topk"}]}, ("params='nothing*' has no parameter", NAMES)),
    ({"groups": [{"params": "*"}]}, ('a group needs "params" (patterns of names) and "method", got {',)),
    ({"groups": [{"params": "*", "method": "def-a"}]}, ("def-a decides", INSTEAD + '"def-a")')),
    ({"groups": [{"params": "*", "method": "topk", "min_size": -1}]}, ("min_size must be", "got -1")),
    ({"groups": [{"params": "*", "method": "topk", "keep": 2}]}, ("topk: keep must be in (0, 1], got 2: share",)),
]

# Settings of rank 0 and of rank 1, and the words of the answer on both.
DIFFERING: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"keep": 0.01}, {"keep": 0.02}, "rank 1 has keep = 0.02, rank 0 has keep = 0.01"),
    ({"method": "randk", "seed": 0}, {"method": "randk", "seed": 1}, "rank 1 has seed = 1, rank 0 has seed = 0"),
    ({}, {"warmup": 3}, "rank 1 has warmup = 3, rank 0 has warmup = 0"),
    ({}, {"nonfinite": "skip"}, "rank 1 has nonfinite = skip, rank 0 has nonfinite = error"),
    ({"chunk_entries": 9}, {}, "rank 1 has chunk_entries = 0, rank 0 has chunk_entries = 9"),
    ({}, {"method": "randk"}, "rank 1 has hook of method = randk, rank 0 has hook of method = topk"),
    ({}, {"exclude": "values.0"}, "rank 1 has parameter 0 = values.0 (300 entries"),
]


def wrong_settings() -> None:
    ddp = wrapped(Probe())
    for settings, words in SETTINGS:
        refused(lambda settings=settings: laconic.State(ddp, **{"method": "topk", **settings}), *words)
    connect(ddp, "attach", "sgd")  # it can still have a hook, and one alone
    refused(lambda: connect(ddp, "attach", "sgd"), "has a communication hook already, laconic sgd", "wrap the module again")


def wrong_models() -> None:
    words = ("expected a model in DistributedDataParallel or fully_shard, got Probe: wrap it, or use laconic.Optimizer",)
    refused(lambda: laconic.State(Probe(), "topk"), *words)  # type: ignore[arg-type]
    words = ("expected a model in DistributedDataParallel or fully_shard, got OptimizedModule: give the one that",)
    refused(lambda: laconic.State(torch.compile(wrapped(Probe())), "topk"), *words)  # type: ignore[arg-type]
    for freeze, unused in itertools.product((True, False), repeat=2):
        model = Probe()
        model.values[1].requires_grad_(freeze)
        wrapper = wrapped(model, find_unused_parameters=unused)
        model.values[1].requires_grad_(not freeze)
        words = (f"{5 if freeze else 6} parameters need gradients, and {6 if freeze else 5} did", "freeze and thaw first")
        refused(lambda wrapper=wrapper: laconic.attach(wrapper, "topk"), *words)
    for dtype in (torch.float64, torch.complex64):
        model = wrapped(Probe(dtype=dtype))
        words = ("parameter values.0", f"has type {dtype}", "take float32, float16 and bfloat16", "convert the model")
        refused(lambda model=model: laconic.attach(model, "sgd"), *words)
    torch._dynamo.config.optimize_ddp = "python_reducer"
    python = wrapped(Probe())
    torch._dynamo.config.optimize_ddp = True
    refused(lambda: laconic.attach(python, "sgd"), "optimize_ddp = 'python_reducer', which calls no hook", "wrap the module")
    embedding = wrapped(torch.nn.Embedding(10, 3, sparse=True))
    words = ("the gradient of weight is sparse", "need dense ones", "make it with sparse=False")
    refused(lambda: laconic.attach(embedding, "topk"), *words)


def settings_that_differ() -> None:
    """Ranks that do not mean the same are all told."""
    ddp = wrapped(Probe())
    for first, second, words in DIFFERING:
        settings = {"method": "topk", **(first if dist.get_rank() == 0 else second)}
        refused(lambda settings=settings: laconic.State(ddp, **settings), words, "start all ranks with the same")


class RefusalsTest(unittest.TestCase):
    def test_settings(self) -> None:
        run_ranks(1, wrong_settings)

    def test_models(self) -> None:
        run_ranks(1, wrong_models)

    def test_ranks_that_differ(self) -> None:
        run_ranks(2, settings_that_differ)


if __name__ == "__main__":
    unittest.main()
