"""laconic.Optimizer: a run that is cut goes on, and nothing is loaded silently where it does not belong."""

import copy
import io
import pathlib
import tempfile
import unittest
import zipfile
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from networks import flat, message_of, network, numpy_free_objects, optimizer_for, same_everywhere, test_loss, train
from ranks import run_ranks

import laconic
from laconic import checkpoint

METHODS = [row["name"] for row in laconic.methods()]
NO_BYTES = torch.empty(200, dtype=torch.uint8, device="meta")


def whole(optimizer: laconic.Optimizer) -> dict[str, Any]:
    return {"model": optimizer.model.state_dict(), "optimizer": optimizer.state_dict()}


def cut_and_resumed(methods: list[str]) -> list[str]:
    """Methods whose run, cut in the middle of a period and loaded from a file, ends elsewhere."""
    wrong = []
    for method in methods:
        optimizer = optimizer_for(method, network())
        train(optimizer, 0, 6)
        file = io.BytesIO()
        torch.save(whole(optimizer), file)
        train(optimizer, 6, 12)
        file.seek(0)
        saved = torch.load(file)  # with weights only, which is the default
        resumed = optimizer_for(method, network(seed=99))
        resumed.model.load_state_dict(saved["model"])
        resumed.load_state_dict(saved["optimizer"])
        train(resumed, 6, 12)
        with optimizer.read_out(), resumed.read_out():
            same = torch.equal(flat(optimizer.model), flat(resumed.model))
        if not same or not torch.equal(flat(optimizer.model), flat(resumed.model)):
            wrong.append(method)
    return wrong


def saved_inside_read_out() -> bool:
    """A state that is taken where the model holds the point to test is that of training."""
    optimizer = optimizer_for("def", network())
    train(optimizer, 0, 4)
    with optimizer.read_out():
        state = optimizer.state_dict()
    resumed = optimizer_for("def", network())
    resumed.load_state_dict(state)
    return torch.equal(flat(optimizer.model), flat(resumed.model))


def by_distributed_checkpoint(folder: str) -> dict[str, bool]:
    found = {}
    with numpy_free_objects():
        for method in ("topk", "def", "mgrawa"):
            optimizer = optimizer_for(method, network())
            train(optimizer, 0, 6)
            dcp.save(whole(optimizer), checkpoint_id=f"{folder}/{method}")
            train(optimizer, 6, 10)
            resumed = optimizer_for(method, network())
            state = whole(resumed)  # of a run that has made no step: smaller than what was saved
            dcp.load(state, checkpoint_id=f"{folder}/{method}")
            resumed.model.load_state_dict(state["model"])
            resumed.load_state_dict(state["optimizer"])
            train(resumed, 6, 10)
            found[method] = torch.equal(flat(optimizer.model), flat(resumed.model))
    return found


def through_rank_zero(path: str) -> bool:
    """One file with everybody's state."""
    optimizer = optimizer_for("easgd", network())
    train(optimizer, 0, 6)
    states = optimizer.gather_state_dict()
    if dist.get_rank() == 0:
        torch.save(states, path)
    dist.barrier()
    train(optimizer, 6, 9)
    resumed = optimizer_for("easgd", network())
    resumed.load_state_dict(torch.load(path))
    train(resumed, 6, 9)
    return torch.equal(flat(optimizer.model), flat(resumed.model)) and len(states) == 2 * dist.get_world_size()


def on_meta(state: dict[str, Any]) -> dict[str, Any]:
    """As torch.load gives it with map_location="meta"."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    moved: dict[str, Any] = torch.load(file, map_location="meta")
    return moved


def refusals(path: str) -> dict[str, str]:
    rank, model = dist.get_rank(), network()
    turned = network()[::-1]  # as many entries, other parameters
    optimizer = optimizer_for("def", model)
    train(optimizer, 0, 3)
    optimizer_for("def", torch.compile(network())).load_state_dict(optimizer.state_dict())  # this is the same model
    mine = optimizer.state_dict()
    all_states = optimizer.gather_state_dict()
    others = {key: value for key, value in all_states.items() if key not in mine}
    found = {
        f"the state is of rank {1 - rank}, this is rank {rank} of 2: each rank loads its own": message_of(
            lambda: optimizer.load_state_dict(others)
        ),
        "of another method than psync: load it into the one that saved it": message_of(
            lambda: optimizer_for("psync", network()).load_state_dict(mine)
        ),
        "has no state of 'optimizer': load what state_dict() gave": message_of(lambda: optimizer.load_state_dict({})),
        "saved state has seed = 0, this is 5: give the seed of the run that was saved": message_of(
            lambda: optimizer_for("def", network(), seed=5).load_state_dict(mine)
        ),
        "another parameter, or another size, in the place of 2.weight with 96 entries: load it for": message_of(
            lambda: optimizer_for("def", turned).load_state_dict(mine)
        ),
        "saved by 3 ranks and cannot be loaded by 2: ": message_of(lambda: optimizer.load_state_dict(torch.load(path))),
        "lies on device meta and has no bytes: load it to the CPU or to a GPU": message_of(
            lambda: optimizer.load_state_dict(on_meta(mine))
        ),
        "saved state lies on meta; it must lie on the CPU": message_of(lambda: optimizer._host.load(NO_BYTES)),
    }
    # One rank's refusal is everybody's, and all go on as if nothing had been tried.
    train(optimizer, 3, 5)
    here = flat(model)
    refused = "rank 1 refused to load its state, and so no rank has loaded" if rank == 0 else "no state of"
    found[refused] = message_of(lambda: optimizer.load_state_dict(mine if rank == 0 else {}))
    found["kept" if torch.equal(here, flat(model)) and optimizer.metrics()["steps"] == 5 else "moved"] = "kept"
    train(optimizer, 5, 7)
    with optimizer.read_out():
        found["same" if same_everywhere(flat(model)) else "differs"] = "same"
    return found


def contents(optimizer: laconic.Optimizer) -> list[bytes]:
    """All that a run has, parameters included."""
    found = []
    for each in (flat(optimizer.model), *optimizer.state_dict().values()):
        file = io.BytesIO()
        torch.save(each, file)
        found.append(file.getvalue())
    return found


def broken_on_one_rank(method: str) -> list[str]:
    """What changed although rank 1 had a state that is damaged in one way or another."""
    optimizer = optimizer_for(method, network())
    train(optimizer, 0, 4)
    state, weights = copy.deepcopy((optimizer.state_dict(), optimizer.model.state_dict()))
    memory, inner = sorted(state, key=lambda key: key.endswith("inner"))
    train(optimizer, 4, 6)
    before = contents(optimizer)
    wrong = []
    momentum = copy.deepcopy(state[inner].value)
    momentum["state"] = {0: {"momentum_buffer": "none"}, 99: {}}
    for name, damaged in (
        ("no groups", {**state, inner: type(state[inner])({"state": {}})}),
        ("groups of nothing", {**state, inner: type(state[inner])({"state": {}, "param_groups": [7]})}),
        ("a number", {**state, inner: type(state[inner])(3)}),
        ("a state of nothing", {**state, inner: type(state[inner])({**momentum, "state": 5})}),
        ("cut bytes", {**state, memory: type(state[memory])(state[memory].value[:-9])}),
        ("no bytes", {**state, memory: None}),
    ):
        said = message_of(lambda damaged=damaged: optimizer.load_state_dict(damaged if dist.get_rank() == 1 else state))
        if said == "nothing was refused" or contents(optimizer) != before:
            wrong.append(f"{method}, {name}: {said}")
    optimizer.model.load_state_dict(weights)
    optimizer.load_state_dict(state)
    train(optimizer, 4, 6)
    if contents(optimizer) != before:
        wrong.append(f"{method} does not go on")
    return wrong


def asynchronous_refusal() -> list[bool]:
    """A run at the ranks' own pace that is given a state, which rank 1 refuses, goes on as if it had not been."""
    states: list[dict[str, Any]] = []
    holder: list[laconic.Optimizer] = []

    def keep() -> None:
        states.append(holder[0].state_dict())

    optimizer = optimizer_for("mgrawa", network(), pace="async", period=2, total_steps=12, after_round=keep)
    holder.append(optimizer)
    while not states:
        train(optimizer, 0, 1)
    train(optimizer, 0, 1)
    before = flat(optimizer.model), optimizer.metrics()["steps"], optimizer.metrics()["rounds"]
    said = message_of(lambda: optimizer.load_state_dict(states[0] if dist.get_rank() == 0 else {}))
    after = flat(optimizer.model), optimizer.metrics()["steps"], optimizer.metrics()["rounds"]
    found = [said != "nothing was refused", torch.equal(before[0], after[0]), before[1:] == after[1:]]
    while not optimizer.finished:
        train(optimizer, 0, 1)
    with optimizer.read_out():
        found.append(same_everywhere(flat(optimizer.model)))
    return [*found, optimizer.metrics()["rounds"] == len(states)]


def written_by_three(path: str) -> None:
    optimizer = optimizer_for("def", network())
    states = optimizer.gather_state_dict()
    if dist.get_rank() == 0:
        torch.save(states, path)


def written_by_three_after_steps(folder: str) -> None:
    for method in METHODS:
        optimizer = optimizer_for(method, network())
        train(optimizer, 0, 5)
        states = optimizer.gather_state_dict()
        if dist.get_rank() == 0:
            torch.save({"model": optimizer.model.state_dict(), "optimizer": states}, f"{folder}/{method}.pt")


def momenta(states: dict[str, Any]) -> list[float]:
    """What the optimizers inside remember, in brief."""
    inner = [saved.value["state"] for key, saved in sorted(states.items()) if key.endswith("/inner")]
    assert len(inner) == 3
    kept = (value for state in inner for values in state.values() for value in values.values())
    return [value.double().sum().item() for value in kept if isinstance(value, torch.Tensor)]


def dealt_anew(folder: str) -> dict[str, Any]:
    """Goes on with other ranks. What is owed to the others, by the norm of its mean, is that of the three."""
    found = {}
    for method in METHODS:
        saved = torch.load(f"{folder}/{method}.pt")
        optimizer = optimizer_for(method, network(seed=50))
        optimizer.model.load_state_dict(saved["model"])
        refused = message_of(lambda optimizer=optimizer, saved=saved: optimizer.load_state_dict(saved["optimizer"]))
        given = momenta(saved["optimizer"])
        optimizer.load_state_dict(saved["optimizer"], redeal=True)
        assert given == momenta(saved["optimizer"]), "what was given has changed"
        owed = optimizer.metrics()["residual_norm"]
        with optimizer.read_out():
            start = test_loss(optimizer.model)
        train(optimizer, 5, 45)
        with optimizer.read_out():
            same = same_everywhere(flat(optimizer.model))
            end = test_loss(optimizer.model)
        found[method] = {"same": same, "fell": end < 0.8 * start, "owed": owed, "refused": "redeal=True" in refused}
        found[method]["steps"] = optimizer.metrics()["steps"]
    return found


def owed_by_three(folder: str) -> dict[str, float]:
    """The norm of the mean of three ranks' residuals, found by going on with one rank."""
    found = {}
    for method in ("topk", "def"):
        optimizer = optimizer_for(method, network())
        optimizer.load_state_dict(torch.load(f"{folder}/{method}.pt")["optimizer"], redeal=True)
        found[method] = optimizer.metrics()["residual_norm"]
    return found


def asynchronous() -> dict[str, Any]:
    """Saved after a round, as the others; elsewhere it is refused."""
    states: list[dict[str, Any]] = []
    model = network()
    holder: list[laconic.Optimizer] = []
    optimizer = optimizer_for(
        "easgd", model, pace="async", total_steps=12, after_round=lambda: states.append(holder[0].state_dict())
    )
    holder.append(optimizer)
    elsewhere = ""
    step = 0
    while not optimizer.finished:
        train(optimizer, step, step + 1)
        step += 1
        if not elsewhere and optimizer.metrics()["rounds"] == 0:
            elsewhere = message_of(optimizer.state_dict)
    resumed = optimizer_for("easgd", network(), pace="async", total_steps=12)
    resumed.load_state_dict(states[1])
    while not resumed.finished:
        train(resumed, step, step + 1)
        step += 1
    with resumed.read_out():
        same = same_everywhere(flat(resumed.model))
    return {"same": same, "rounds": resumed.metrics()["rounds"], "states": len(states), "elsewhere": elsewhere}


def under_the_old_name(saved: bytes) -> bytes:
    """A file of torch.save as it was written when Saved was a class of laconic._optimizer_state."""
    old = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved)) as source, zipfile.ZipFile(old, "w") as target:
        for name in source.namelist():
            content = source.read(name).replace(b"laconic.checkpoint\n", b"laconic._optimizer_state\n")
            target.writestr(name, content)
    return old.getvalue()


class OldNameTest(unittest.TestCase):
    def test_a_checkpoint_that_names_the_old_module_is_loaded(self) -> None:
        file = io.BytesIO()
        torch.save({"entry": checkpoint.Saved(torch.arange(3))}, file)
        old = under_the_old_name(file.getvalue())
        self.assertIn(b"laconic._optimizer_state\n", old)
        for weights_only in (True, False):
            entry = torch.load(io.BytesIO(old), weights_only=weights_only)["entry"]
            self.assertIs(type(entry), checkpoint.Saved)
            self.assertEqual(entry.value.tolist(), [0, 1, 2])


class StateTest(unittest.TestCase):
    def test_resumes_to_the_bit(self) -> None:
        self.assertEqual(run_ranks(2, cut_and_resumed, METHODS), [[]] * 2)
        self.assertEqual(run_ranks(3, cut_and_resumed, ["regtopk", "def-a", "lgrawa"]), [[]] * 3)

    def test_a_state_taken_inside_read_out(self) -> None:
        self.assertEqual(run_ranks(2, saved_inside_read_out), [True] * 2)

    def test_distributed_checkpoint(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for found in run_ranks(2, by_distributed_checkpoint, folder):
                self.assertEqual(found, {"topk": True, "def": True, "mgrawa": True})

    def test_one_file_of_all_ranks(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run_ranks(3, through_rank_zero, str(pathlib.Path(folder) / "all.pt")), [True] * 3)

    def test_what_does_not_belong_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "three.pt")
            run_ranks(3, written_by_three, path)
            for found in run_ranks(2, refusals, path):
                for expected, text in found.items():
                    self.assertIn(expected, text)

    def test_a_state_that_one_rank_refuses_changes_nothing(self) -> None:
        for method in ("topk", "def", "psync", "mgrawa"):
            self.assertEqual(run_ranks(2, broken_on_one_rank, method), [[]] * 2)

    def test_a_refused_state_changes_no_asynchronous_run(self) -> None:
        self.assertEqual(run_ranks(2, asynchronous_refusal), [[True] * 5] * 2)

    def test_another_number_of_ranks_goes_on(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run_ranks(3, written_by_three_after_steps, folder)
            alone = run_ranks(1, owed_by_three, folder)[0]
            for ranks in (2, 4):
                for found in run_ranks(ranks, dealt_anew, folder, timeout=100):
                    for method, each in found.items():
                        with self.subTest(method=method, ranks=ranks):
                            self.assertTrue(each["same"] and each["fell"] and each["refused"], each)
                            self.assertEqual(each["steps"], 45)
                            if method in alone:
                                self.assertGreater(each["owed"], 0)
                                self.assertEqual(each["owed"], alone[method])

    def test_asynchronous_runs_are_saved_at_rounds(self) -> None:
        for found in run_ranks(2, asynchronous):
            text = found.pop("elsewhere")
            if text:
                self.assertIn("at a round only", text)
            self.assertEqual(found, {"same": True, "rounds": 3, "states": 3})


if __name__ == "__main__":
    unittest.main()
