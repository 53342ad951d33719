"""Checkpoints of a sharded state: torch.save per rank, distributed checkpoint, other numbers of shards and replicas."""

import json
import pathlib
import tempfile
import types
import unittest
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from networks import numpy_free_objects
from ranks import run_ranks
from refusals import refused
from sharded import attached, flat, local, mesh_of, replicas_agree
from test_sharded_methods import built, coefficients, names, run

import laconic
from laconic import _core

METHODS: list[tuple[str, dict[str, Any]]] = [
    ("topk", {"keep": 0.05}),
    ("regtopk", {"keep": 0.05}),
    ("signum", {}),
    ("qsgd", {"min_size": 0, "memory": "error", "rounding": "nearest"}),
    ("dqsgd", {}),
    ("sgd", {}),
]
GROUPS = [{"params": "parts.1.*", "method": "signum"}]


def steps(model: Any, first: int, last: int) -> torch.Tensor:
    """The aggregates of all steps."""
    found = []
    for step in range(first, last):
        model.zero_grad()
        model(coefficients(step, dist.get_rank())).backward()
        found += [local(p.grad).flatten() for p in model.parameters()]
    return torch.cat(found)


def resumes(folder: str) -> None:
    """The same numbers of replicas and shards: bit for bit, by each way to save."""
    mesh = mesh_of(2, 2)
    for number, (method, options) in enumerate(METHODS):
        model = built(mesh)
        groups = GROUPS if method == "topk" else []
        with attached(model, method, groups=groups, **options) as state:
            steps(model, 0, 4)
            torch.save(state.rank_state_dict(), f"{folder}/{method}{dist.get_rank()}.pt")
            dcp.save({"laconic": state}, checkpoint_id=f"{folder}/{method}")
            expected = steps(model, 4, 8)
        hook = number % 2 == 1
        model = built(mesh["shard"] if hook else mesh)
        where = {"replicas": mesh["replicate"]} if hook else {}
        for way in ("torch", "dcp", "any"):
            with attached(model, method, groups=groups, **where, **options) as state:
                if way == "torch":
                    state.load_state_dict(torch.load(f"{folder}/{method}{dist.get_rank()}.pt"))
                elif way == "dcp":
                    dcp.load({"laconic": state}, checkpoint_id=f"{folder}/{method}")
                else:
                    state.load_checkpoint(f"{folder}/{method}")
                assert torch.equal(steps(model, 4, 8), expected), (method, way)
                assert state.metrics()["steps"] == 8, (method, way)


def residuals(state: laconic.ShardedState, mesh: Any, key: str = "residual") -> dict[str, torch.Tensor]:
    """The mean over replicas, whole, by parameter. Of two replicas it is exact, whatever the number of shards. Collective."""
    found = {}
    group = mesh["replicate"].get_group()
    for name, each in state.state_dict().items():
        if name.startswith(f"{key}/"):
            whole = each.full_tensor() if hasattr(each, "full_tensor") else each
            dist.all_reduce(whole, group=group)  # every rank of a replica has it
            found[name.removeprefix(f"{key}/").rsplit(".of", 1)[0]] = whole / dist.get_world_size(group)
    return found


def save(folder: str, replicas: int, shards: int) -> dict[str, torch.Tensor]:
    mesh = mesh_of(replicas, shards)
    model = built(mesh)
    with attached(model, "topk", keep=0.05, groups=GROUPS) as state:
        steps(model, 0, 5)
        dcp.save({"laconic": state}, checkpoint_id=folder)
        return residuals(state, mesh) | {f"m {n}": v for n, v in residuals(state, mesh, "momentum").items()}


def load(folder: str, replicas: int, shards: int, plain: bool) -> dict[str, torch.Tensor]:
    mesh = mesh_of(replicas, shards)
    model = built(mesh)
    with attached(model, "topk", keep=0.05, groups=GROUPS) as state:
        if plain:
            dcp.load({"laconic": state}, checkpoint_id=folder)
        else:
            state.load_checkpoint(folder)
        found = residuals(state, mesh) | {f"m {n}": v for n, v in residuals(state, mesh, "momentum").items()}
        assert state.metrics()["steps"] == 5
        before = flat(model)
        steps(model, 5, 7)
        assert state.metrics()["steps"] == 7 and torch.equal(before, flat(model))
        return found


def save_all(folder: str) -> None:
    model = built(mesh_of(2, 2))
    for method, options in METHODS:
        with attached(model, method, **options) as state:
            steps(model, 0, 4)
            dcp.save({"laconic": state}, checkpoint_id=f"{folder}/{method}")


def load_all(folder: str, replicas: int, shards: int) -> None:
    """Every method goes on from a run with other numbers."""
    mesh = mesh_of(replicas, shards)
    model = built(mesh)
    for method, options in METHODS:
        with attached(model, method, **options) as state:
            state.load_checkpoint(f"{folder}/{method}")
            assert replicas_agree(steps(model, 4, 6), mesh), method
            assert state.metrics()["steps"] == 6, method


def quietly(function: Any, *arguments: Any) -> Any:
    with numpy_free_objects():
        return function(*arguments)


def refuses(folder: str) -> None:
    mesh = mesh_of(2, 2)
    model = built(mesh)
    with attached(model, "topk", keep=0.05) as state:
        run(model, 1)
        mine = state.rank_state_dict()
        dcp.save({"laconic": state}, checkpoint_id=f"{folder}/one")
        (key,) = mine
        refused(lambda: state.load_state_dict({"other": 1}), "no state of laconic")
        other = {key.replace("of2/shard", "of3/shard"): mine[key]}
        refused(lambda: state.load_state_dict(other), "the state has no entry", "rank_state_dict()")
        before = state.metrics()["residual_norm"]
    with attached(model, "regtopk", keep=0.05) as state:
        refused(lambda: state.load_state_dict(mine), "topk")
    with attached(model, "topk", keep=0.05, groups=GROUPS) as state:
        refused(lambda: state.load_checkpoint(f"{folder}/one"), "the state has no entry", "same method, groups")
    with attached(model, "topk", keep=0.05) as state:
        broken = dict(mine) if dist.get_rank() else {}
        words = "has no entry" if dist.get_rank() == 0 else "rank 0 refused" if dist.get_rank() == 2 else ""
        if words:
            refused(lambda: state.load_state_dict(broken or {"laconic/rank9of9/hook": mine[key]}), words)
        else:
            state.load_state_dict(broken)
            assert state.metrics()["residual_norm"] == before > 0


def keeps_what_is_carried(folder: str) -> None:
    """A parameter that the last step did not use: its part of the sum is in the checkpoint."""
    mesh = mesh_of(2, 2)
    model = built(mesh)
    given = [coefficients(step, dist.get_rank()) for step in range(2)]
    with attached(model, "topk", keep=0.05) as state:
        model(given[0]).backward()
        sent = local(model.parts["0"].values[0].grad).flatten()
        model.zero_grad()
        before = residuals(state, mesh)["parts.0.values.0"]
        model([each if i != 1 else None for i, each in enumerate(given[1])]).backward()
        assert model.parts["0"].values[0].grad is None and sent.abs().sum() > 0
        after = residuals(state, mesh)["parts.0.values.0"]
        assert torch.allclose(before, after, rtol=0, atol=1e-6), (before - after).abs().max()


def records(folder: str) -> dict[str, float]:
    """Scalars for TensorBoard, and a folder for the report."""
    model = built(mesh_of(2, 2))
    with attached(model, "topk", keep=0.05) as state:
        log = laconic.RunLog(f"{folder}/run", state, task="sharded")
        for step in range(3):
            steps(model, step, step + 1)
            log.step(loss=1.0)
        log.finish(loss=1.0)
        scalars: dict[str, float] = {}
        writer = types.SimpleNamespace(add_scalar=lambda name, value, step: scalars.update({name: value}))
        laconic.log_to_tensorboard(writer, state, 3)
        return scalars


class StateTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = str(pathlib.Path(folder.name))

    def test_resumes(self) -> None:
        run_ranks(4, quietly, resumes, self.folder, timeout=120)

    def test_other_numbers(self) -> None:
        """Of replicas and shards: the mean of what replicas hold is kept."""
        expected = run_ranks(4, quietly, save, f"{self.folder}/a", 2, 2)[0]
        self.assertEqual(sorted(expected), sorted([*names()[:4], *(f"m {each}" for each in names()[4:])]))
        self.assertGreater(max(each.abs().max().item() for each in expected.values()), 0)
        for replicas, shards, plain in ((2, 2, True), (2, 1, True), (2, 3, True), (1, 2, False), (3, 1, False), (4, 1, False)):
            found = run_ranks(replicas * shards, quietly, load, f"{self.folder}/a", replicas, shards, plain)[0]
            self.assertEqual(found.keys(), expected.keys())
            for name, each in expected.items():
                difference = (found[name] - each).abs().max().item()
                self.assertLessEqual(difference, 0.0 if replicas == 2 else 1e-6, (replicas, shards, name))

    def test_every_method_goes_on(self) -> None:
        run_ranks(4, quietly, save_all, self.folder)
        for replicas, shards in ((2, 1), (1, 2), (3, 1)):
            run_ranks(replicas * shards, quietly, load_all, self.folder, replicas, shards)

    def test_refuses(self) -> None:
        run_ranks(4, quietly, refuses, self.folder)

    def test_records(self) -> None:
        """The report knows that bytes inside are inside a replica."""
        scalars = run_ranks(4, records, self.folder)[0]
        self.assertEqual(scalars["laconic/steps"], 3)
        self.assertGreater(scalars["laconic/total/inside_sent_bytes"], 0)
        self.assertGreater(scalars["laconic/total/sent_bytes"], 0)
        (run,) = json.loads(_core.report_json([f"{self.folder}/run"]))["runs"]
        self.assertRegex(str(run["notes"]), r"goes to other replicas; .* [1-9]\d* bytes per step inside its replica")

    def test_keeps_what_is_carried(self) -> None:
        run_ranks(4, quietly, keeps_what_is_carried, self.folder)


if __name__ == "__main__":
    unittest.main()
