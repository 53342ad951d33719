"""A setting that is wrong on one rank alone: that rank gets its error, and the others are told of it, without a wait."""

import os
import unittest
from typing import Any

import torch
import torch.distributed as dist
from networks import message_of, network, optimizer_for, train
from probe import Probe, wrapped
from ranks import run_ranks

import laconic

# Hours: a rank that waits for the timeout does not end within the test.
PATIENCE = {"group_timeout": 7200.0}


def hook_settings() -> list[tuple[dict[str, Any], str, str]]:
    """What the culprit has instead of topk with keep=0.1, the words it is told, and those that the others are told."""
    return [
        ({"keep": 2.0}, "keep must be in (0, 1]", "keep must be in (0, 1]"),
        ({"kepp": 0.1}, "did you mean keep", "did you mean keep"),
        ({"method": "topkk"}, "did you mean topk", "did you mean topk"),
        ({"method": "mgrawa"}, "laconic.Optimizer", "laconic.Optimizer"),
        ({"nonfinite": "ignore"}, "error or skip", "error or skip"),
        ({"warmup": -1}, "warmup must be a whole number", "got -1"),
        ({"warmup": "ten"}, "warmup must be", "got 'ten'"),
        ({"seed": 0.5}, "seed must be", "got 0.5"),
        ({"threads": 0}, "threads must be", "got 0"),
        ({"backend": "pigeon"}, "backend must be", "got 'pigeon'"),
        ({"timeout": "soon"}, "timeout must be", "got 'soon'"),
        ({"include": "nothing*"}, "no parameter is left", "no parameter is left"),
        ({"groups": [{"params": "values.0"}]}, 'needs "params"', 'needs "params"'),
        ({"groups": [{"params": "values.0", "method": "qsgd", "bits": 99}]}, "bits must be", "got 99"),
        ({"ddp": None}, "DistributedDataParallel", "DistributedDataParallel"),
        # Nothing is wrong with these but that the others have something else: all are told the same.
        ({"method": "sgd"}, "hook of method = ", "hook of method = sgd"),
        ({"keep": 0.2}, "keep = ", "keep = 0.2"),
        ({"warmup": 3}, "warmup = 3", "warmup = 3"),
        ({"exclude": "values.2"}, "values.2 (1 entries", "by sgd"),
        ({"groups": [{"params": "values.0", "method": "qsgd"}]}, "values.0 (300 entries", "by qsgd"),
        ({"scaler": torch.amp.GradScaler("cpu")}, "scaler = ", "scaler = a scaler"),
        ({"sizes": (300, 7, 1, 1024, 33)}, "no parameter 5", "no parameter 5"),
    ]


def attaching(culprit: int) -> list[str]:
    """What was not as it should be on this rank."""
    wrong = []
    mine = dist.get_rank() == culprit
    models = [wrapped(Probe()) for _ in range(2)]
    for settings, own_words, others_words in hook_settings():
        sizes = settings.pop("sizes", None)
        if sizes is not None:  # DistributedDataParallel compares sizes itself: it is told another story
            models[1]._build_params_for_reducer = lambda: fewer(models[1], len(sizes))
            models[1]._get_ddp_logging_data = lambda: {"num_parameter_tensors": len(sizes)}
        chosen = {"ddp": models[0] if sizes is None or not mine else models[1], "method": "topk", "keep": 0.1}
        if mine:
            chosen |= settings
            if "method" in settings or chosen["ddp"] is None:
                chosen.pop("keep", None)
        said = message_of(lambda chosen=chosen: laconic.State(**chosen))
        expected = own_words if mine else others_words
        who = f"rank {culprit}"
        if expected not in said or (not mine and who not in said):
            wrong.append(f"{settings}: wanted {expected!r}, got {said!r}")
    laconic.attach(wrapped(Probe()), "topk", keep=0.1)  # and nothing is left of all that
    return wrong


def fewer(ddp: Any, count: int) -> tuple[list[Any], list[bool]]:
    parameters = list(ddp.module.parameters())[:count]
    return parameters, [False] * count


def optimizers(culprit: int) -> list[str]:
    wrong = []
    mine = dist.get_rank() == culprit

    def sgd(model: torch.nn.Module, **settings: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), **{"lr": 0.1, "momentum": 0.9, **settings})

    def by_groups(model: torch.nn.Module) -> torch.optim.Optimizer:
        first, *others = model.parameters()
        return torch.optim.SGD([{"params": [first]}, {"params": others}], lr=0.1, momentum=0.9)

    for settings, own_words, others_words in (
        ({"inner": lambda model: torch.optim.Adam(model.parameters())}, "optimizer inside = ", "optimizer inside = Adam"),
        ({"inner": lambda model: sgd(model, dampening=0.5)}, "no dampening, got 0.5", "got 0.5"),
        ({"inner": lambda model: sgd(network())}, "not the model's", "not the model's"),
        ({"ratio": 0.5}, "ratio must be", "ratio must be"),
        ({"exclude": "*.bias"}, "takes the whole model", "takes the whole model"),
        ({"scoring": print}, "scoring is for", "scoring is for"),
        ({"model": wrapped(Probe())}, "reduces gradients itself", "reduces gradients itself"),
        ({"method": "sgd"}, "optimizer of method = ", "optimizer of method = sgd"),
        ({"method": "psync", "inner": by_groups}, "optimizer of method = ", "optimizer of method = psync"),
        ({"inner": by_groups}, "in group 1 of the optimizer", "in group 1 of the optimizer"),
        ({"ratio": 8}, "ratio = ", "ratio = 8"),
        ({"seed": 8}, "seed = ", "seed = 8"),
        ({"nonfinite": "skip"}, "nonfinite = ", "nonfinite = skip"),
        ({"after_round": print}, "after_round = ", "after_round = a function"),
        ({"inner": lambda model: sgd(model, lr=0.2)}, "lr of group 0 of the optimizer = ", "optimizer = 0.2"),
        ({"inner": lambda model: sgd(model, momentum=0.8)}, "momentum of group 0 of the optimizer = ", "= 0.8"),
        ({"inner": lambda model: sgd(model, nesterov=True)}, "nesterov of group 0 of the optimizer = ", "= True"),
    ):
        chosen: dict[str, Any] = {"model": network(), "method": "def", "ratio": 4, "inner": sgd}
        if mine:
            chosen |= settings
            if chosen["method"] == "sgd":
                del chosen["ratio"]
        inner = chosen.pop("inner")(chosen["model"])
        said = message_of(lambda inner=inner, chosen=chosen: laconic.Optimizer(inner, **chosen))
        expected = own_words if mine else others_words
        if expected not in said or (not mine and f"rank {culprit}" not in said):
            wrong.append(f"{settings}: wanted {expected!r}, got {said!r}")
    model = network()
    laconic.Optimizer(sgd(model), model, "def", ratio=4)
    return wrong


def learning_rates_part(method: str) -> list[str]:
    """Rank 1's scheduler goes by its own loss."""
    model = network()
    optimizer = optimizer_for(method, model)
    said = []
    for step in range(200):
        try:
            train(optimizer, step, step + 1)
        except laconic.InvalidConfig as error:
            said.append(f"step {step}: {error}")
            break
        if dist.get_rank() == 1 and step == 70:
            optimizer.param_groups[0]["lr"] = 0.005
    return said


def one_comes_late() -> str:
    """Rank 1 comes when rank 0 has given up, and learns that; the next time all is well."""
    ddp = wrapped(Probe())
    if dist.get_rank() == 1:
        dist.barrier()
    said = ""
    try:
        laconic.State(ddp, "topk", timeout=0.2 if dist.get_rank() == 0 else 60.0)
    except laconic.TransportError as error:
        said = str(error)
    if dist.get_rank() == 0:
        dist.barrier()
    laconic.State(ddp, "topk")
    return said


def started_again() -> None:
    """Rank 1 had come once more than rank 0 when torchrun started all again, with the store as it was."""
    ddp = wrapped(Probe())
    if dist.get_rank() == 1:
        message_of(lambda: laconic.State(ddp, "topkk"))
    os.environ["TORCHELASTIC_RESTART_COUNT"] = "1"
    laconic.State(ddp, "topk")


class AgreementTest(unittest.TestCase):
    def test_a_hook(self) -> None:
        for culprit in (1, 0):
            self.assertEqual(run_ranks(3, attaching, culprit, **PATIENCE), [[]] * 3)

    def test_an_optimizer(self) -> None:
        for culprit in (1, 0):
            self.assertEqual(run_ranks(2, optimizers, culprit, **PATIENCE), [[]] * 2)

    def test_learning_rates_in_steps(self) -> None:
        for method in ("topk", "def"):
            for said in run_ranks(2, learning_rates_part, method):
                expected = "step 127: rank 1 has lr of group 0 of the optimizer = 0.005, rank 0 has lr of group 0"
                self.assertTrue(said and said[0].startswith(expected), said)
        # Ranks of a round method hold models of their own, and are not interrupted.
        self.assertEqual(run_ranks(2, learning_rates_part, "localsgd"), [[], []])

    def test_one_comes_late(self) -> None:
        for said in run_ranks(2, one_comes_late):
            self.assertIn("rank 1 did not come", said)

    def test_ranks_that_were_started_again(self) -> None:
        run_ranks(2, started_again, **PATIENCE)


if __name__ == "__main__":
    unittest.main()
