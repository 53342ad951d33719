"""What is refused of sharded models, in words that help; and steps that fail: an exception, a NaN, a rank that is gone."""

import copy
import datetime
import os
import time
import types
import unittest
from typing import Any

import torch
import torch.distributed as dist
from ranks import run_ranks, start_ranks, told
from refusals import refused
from sharded import Odd, attached, flat, fully_shard, local, loss_of, mesh_of, replicas_agree, sharded, train
from torch.distributed.tensor import DTensor

import laconic
from laconic import _fsdp


def odd(mesh: Any, **settings: Any) -> Any:
    torch.manual_seed(3)
    return sharded(Odd(), mesh, **settings)


def refuses_models() -> None:
    mesh = mesh_of(2, 2)
    shard = [2 * (dist.get_rank() // 2), 2 * (dist.get_rank() // 2) + 1]
    refused(lambda: laconic.attach(Odd(), "sgd"), "DistributedDataParallel or fully_shard", "Odd", "wrap it")
    refused(
        lambda: laconic.attach(odd(mesh["shard"]), "sgd"),
        f"sharded over ranks {shard}", "knows no replicas", "replicas=mesh['replicate']", "2-D mesh",
    )  # fmt: skip
    refused(lambda: laconic.attach(odd(mesh["shard"]), "sgd", replicas=mesh), "one dimension", "('replicate', 'shard')")
    refused(lambda: laconic.attach(odd(mesh["shard"]), "sgd", replicas=7), "replicas must be", "int", "mesh['replicate']")
    refused(
        lambda: laconic.attach(odd(mesh["shard"]), "sgd", replicas=mesh["shard"]),
        "copies of the same shards", str(shard), "give mesh['replicate']",
    )  # fmt: skip
    refused(
        lambda: laconic.attach(odd(mesh), "sgd", replicas=mesh["shard"]),
        "FSDPOdd is replicated over ranks", "by its own mesh", f"replicas says {shard}", "leave replicas out",
    )  # fmt: skip
    everybody = dist.device_mesh.init_device_mesh("cpu", (4,), mesh_dim_names=("shard",))
    refused(lambda: laconic.attach(odd(everybody), "sgd"), "sharded over all ranks", "nothing between replicas")
    hooked = odd(mesh["shard"])
    hooked.blocks[0].set_all_reduce_hook(lambda flat: None)
    refused(
        lambda: laconic.attach(hooked, "sgd", replicas=mesh["replicate"]),
        "blocks.0 has an all-reduce hook already", "FSDP takes one", "take that out",
    )  # fmt: skip
    twice = odd(mesh)
    with attached(twice, "sgd"):
        refused(lambda: laconic.attach(twice, "sgd"), "works between the model's replicas already", "close()")
    early = odd(mesh)
    early.out.bias.register_post_accumulate_grad_hook(lambda parameter: None)
    refused(lambda: laconic.attach(early, "sgd"), "out.bias has a hook that runs in backward", "step after backward")
    refused(lambda: laconic.attach(odd(mesh), "psync"), "psync decides where the next gradient is taken")
    refused(lambda: laconic.attach(odd(mesh), "topk", kep=0.1), "kep")
    refused(lambda: laconic.attach(odd(mesh), "topk", keep=0.1, clip=-1.0), "clip must be")
    frozen = odd(mesh)
    frozen.requires_grad_(False)
    refused(lambda: laconic.attach(frozen, "sgd"), "no parameters to train")


class FullyShardedDataParallel(torch.nn.Module):
    """Stands for torch's class of this name, which needs a GPU: it is known by its name."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.inner = module


class ManagedProcessGroup(dist.ProcessGroup):
    """Stands for torchft's class of this name."""


def refuses_versions_and_relatives() -> None:
    mesh = mesh_of(2, 2)
    refused(lambda: laconic.attach(FullyShardedDataParallel(Odd()), "sgd"), "(FSDP1)", "no place", "fully_shard")
    managed = odd(mesh)
    for group in _fsdp.found(managed).groups:
        group.inside.mesh_info.replicate_process_group = ManagedProcessGroup(0, 2)
    refused(lambda: laconic.attach(managed, "sgd"), "torchft's ManagedProcessGroup", "use a plain process group")
    for group, words in (
        (ManagedProcessGroup(0, 2), "torchft's ManagedProcessGroup"),
        (dist.ProcessGroup(0, 2), "replicas must be a process group that torch.distributed made"),
    ):
        refused(lambda group=group: laconic.attach(odd(mesh["shard"]), "sgd", replicas=group), words)


class Renamed:
    """Stands for what a later torch may make of a mesh."""


def refuses_other_insides() -> None:
    """What fully_shard does not have any more is another version, and not a model without replicas."""
    mesh = mesh_of(2, 2)
    without = odd(mesh)
    for group in _fsdp.found(without).groups:
        group.inside.mesh_info = copy.copy(group.inside.mesh_info)
        del group.inside.mesh_info.replicate_process_group
    refused(
        lambda: laconic.attach(without, "sgd"), "no attribute replicate_process_group of a mesh with replicas", "released"
    )
    for group in _fsdp.found(odd(mesh)).groups:
        group.inside.mesh_info = Renamed()
        refused(lambda group=group: _fsdp._require_known_mesh(group.inside.mesh_info), "a mesh of type Renamed", "released")
    known, model = dict(_fsdp.KNOWN), odd(mesh)
    here = ".".join(torch.__version__.split(".")[:2])
    try:
        _fsdp.KNOWN.clear()
        _fsdp.KNOWN["2.99"] = known["2.13"]
        refused(lambda: laconic.attach(model, "sgd"), f"torch {torch.__version__[:4]}", "not known", "use torch 2.99")
        _fsdp.KNOWN.clear()
        _fsdp.KNOWN[here] = {**known["2.13"], "group": ("no_such_thing",)}
        refused(lambda: laconic.attach(model, "sgd"), "no attribute no_such_thing of a group", "released torch")
        _fsdp.KNOWN[here] = {**known["2.13"], "module of collectives": ("no_such_thing",)}
        refused(lambda: laconic.attach(model, "sgd"), "no attribute no_such_thing of a module of collectives")
        _fsdp.KNOWN.update(known)
        _fsdp.KNOWN[here] = {**known["2.13"], "module": known["2.11"]["module"]}
        with attached(model, "sgd") as state:
            refused(state.abandon_step, f"fully_shard of torch {here} cannot be brought back", "start the ranks again")
    finally:
        _fsdp.KNOWN.update(known)


def recommends_what_there_is() -> None:
    """Messages name calls of fully_shard, and of ours, only with versions of torch that have them."""
    model = odd(mesh_of(2, 2))
    here, known = ".".join(torch.__version__.split(".")[:2]), dict(_fsdp.KNOWN)
    group = _fsdp.found(model).groups[0]

    def of_backward_that_did_not_end() -> None:
        with attached(model, "sgd") as state:
            host = types.SimpleNamespace(in_step=True)
            state._exchange._host = host
            loss_of(model, 0).backward()

    try:
        for version, calls in (("2.11", False), ("2.13", True), ("2.14", True)):
            # What is asked of torch itself is of the version that runs.
            _fsdp.KNOWN[here] = {**known[version], "state": known[here]["state"]}
            remedy = "call model.set_reduce_scatter_unused_params(True)" if calls else "fully_shard of torch"
            refused(lambda: group.pieces(torch.zeros(1)), f"some had no gradient; {remedy}")
            remedy = "call abandon_step() of laconic's state" if calls else "fully_shard of torch"
            refused(of_backward_that_did_not_end, f"the backward before this one did not end: {remedy}")
            _fsdp.reset(model)
    finally:
        _fsdp.KNOWN.update(known)


def finds_the_groups_of_2_11() -> None:
    group = object()
    assert _fsdp._groups_of(types.SimpleNamespace(_fsdp_param_group=None)) == []
    assert _fsdp._groups_of(types.SimpleNamespace(_fsdp_param_group=group)) == [group]
    assert _fsdp._groups_of(types.SimpleNamespace(_fsdp_param_groups=[group])) == [group]


def refuses_on_all_ranks() -> None:
    """What one rank refuses, or has differently, is an error on all ranks of the model."""
    mesh = mesh_of(2, 2)
    keep = 2.0 if dist.get_rank() == 3 else 0.1
    refused(lambda: laconic.attach(odd(mesh), "topk", keep=keep), "keep must be in (0, 1], got 2")
    seed = 1 if dist.get_rank() == 0 else 0
    refused(lambda: laconic.attach(odd(mesh), "topk", keep=0.1, seed=seed), "seed", "same settings")
    torch.manual_seed(dist.get_rank() // 2)
    apart = sharded(Odd(), mesh)
    refused(lambda: laconic.attach(apart, "sgd"), "values of embed.weight (replicas must start alike)")


def refuses_votes_of_sums() -> None:
    mesh = mesh_of(2, 2)
    model = odd(mesh)
    model.set_force_sum_reduction_for_comms(True)
    with attached(model, "signum") as state:
        refused(loss_of(model, 0).backward, "signum is a vote", "summed and divided", "reduce in float32 or bfloat16")
        state.abandon_step()


class Once(torch.autograd.Function):
    """Raises in the next backward, on the ranks that are told to."""

    armed = False

    @staticmethod
    def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        if Once.armed:
            Once.armed = False
            raise ArithmeticError("as told")
        return gradient


class Failing(Odd):
    def forward(self, values: torch.Tensor, skip: bool = False) -> torch.Tensor:
        values = self.embed(values)
        values = Once.apply(self.blocks[0](values))
        return self.out(self.blocks[1](values)) + self.spare


def failing(mesh: Any) -> Any:
    torch.manual_seed(3)
    return sharded(Failing(), mesh)


def trained(model: Any, steps: list[int], state: Any, fails_at: int | None = None, how: str = "all") -> torch.Tensor:
    """Steps of SGD; one of them fails and is tried again."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in steps:
        if step == fails_at:
            Once.armed = True
            try:
                (loss_of(model, 99) * (float("nan") if how == "nan" else 1)).backward()
            except (ArithmeticError, laconic.InvalidConfig) as error:
                Once.armed = False
                assert how == "all" and "as told" in str(error) or how == "nan" and "finite" in str(error), error
            else:
                raise AssertionError("the step did not fail")
            state.abandon_step()
            optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        optimizer.zero_grad()
    return flat(model)


def goes_on_after_an_exception(door: str) -> None:
    """In backward, between two groups: what comes then is as if the step had not been."""
    mesh = mesh_of(2, 2)
    where = {} if door == "native" else {"replicas": mesh["replicate"]}
    there = mesh if door == "native" else mesh["shard"]
    for method, options in (("sgd", {}), ("topk", {"keep": 0.05}), ("regtopk", {"keep": 0.05})):
        found = []
        for fails_at in (None, 0, 2):
            model = failing(there)
            with attached(model, method, **where, **options) as state:
                found.append(trained(model, [0, 1, 2, 3], state, fails_at))
                assert state.metrics()["steps"] == (4 if fails_at is None else 5)
        assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2]), method


def goes_on_after_a_nan() -> None:
    mesh = mesh_of(2, 2)
    found = []
    for fails_at in (None, 2):
        model = odd(mesh)
        with attached(model, "topk", keep=0.05) as state:
            found.append(trained(model, [0, 1, 2, 3], state, fails_at, "nan"))
    assert torch.equal(*found)


def drops_on_all_shards() -> None:
    """A NaN in one shard of one replica."""
    mesh = mesh_of(2, 2)
    model = odd(mesh)

    def poison(parameter: Any) -> None:
        """The first row, which is in the first shard."""
        parameter.register_hook(lambda gradient: gradient.index_fill(0, torch.tensor([0]), float("nan")))

    for policy in ("skip", "error"):
        with attached(model, "topk", keep=0.1, nonfinite=policy) as state:
            trained(model, [1], state)  # so that there is a residual
            before = memory_of(state)
            loss = loss_of(model, 0)
            if dist.get_rank() // 2 == 0:
                poison(model.out.weight)
            if policy == "skip":
                loss.backward()
                assert all(p.grad.to_local().abs().sum() == 0 for p in model.parameters())
                assert state.metrics()["skipped"] == 1
            else:
                word = "out.weight" if dist.get_rank() % 2 == 0 else "shard 0 of the model was not finite"
                refused(loss.backward, word)
                state.abandon_step()
            after = memory_of(state)
            assert before.keys() == after.keys() and any(each.abs().sum() > 0 for each in before.values())
            assert all(torch.equal(before[name], after[name]) for name in before)
        model = odd(mesh)


def memory_of(state: Any) -> dict[str, torch.Tensor]:
    """This rank's part of the residuals."""
    return {name: local(value) for name, value in state.state_dict().items() if isinstance(value, DTensor)}


def refuses_other_parameters() -> None:
    """One replica does not use a parameter. All ranks get the error in the same step, and go on as if it had not been."""
    mesh = mesh_of(2, 2)
    found = []
    for differs in (False, True):
        for policy in ("error", "skip"):
            model = odd(mesh)
            with attached(model, "topk", keep=0.1, nonfinite=policy) as state:
                trained(model, [0, 1], state)
                if differs:
                    before = memory_of(state)
                    loss = loss_of(model, 9, skip=dist.get_rank() // 2 == 1)
                    refused(loss.backward, "did not use spare", "the same parameters")
                    state.abandon_step()
                    model.zero_grad()
                    after = memory_of(state)
                    assert all(torch.equal(before[name], after[name]) for name in before)
                found.append(trained(model, [2, 3], state))
    assert all(torch.equal(found[0], each) for each in found[1:])


def abandons_after_a_skipped_step(when: str) -> None:
    """A step that all ranks skipped does not count for the next one, which a rank abandons before its backward."""
    mesh = mesh_of(2, 1)
    model = odd(mesh)
    with attached(model, "topk", keep=0.05, nonfinite="skip", timeout=6) as state:
        trained(model, [0, 1], state)
        (loss_of(model, 2) * float("nan")).backward()
        model.zero_grad()
        assert state.metrics()["skipped"] == 1
        start = time.monotonic()
        if dist.get_rank() == 0:
            if when == "after forward":
                loss_of(model, 3)
            state.abandon_step()
        else:
            refused(loss_of(model, 3).backward, "a rank abandoned this step")
            state.abandon_step()
        assert time.monotonic() - start < 5
        assert state.metrics()["skipped"] == 2
        model.zero_grad()
        trained(model, [4, 5], state)
        assert state.metrics()["steps"] == 6 and replicas_agree(flat(model), mesh)


def asks_to_abandon() -> None:
    """A step that failed and was not abandoned is not mixed with the next."""
    model = failing(mesh_of(2, 2))
    with attached(model, "topk", keep=0.05) as state:
        trained(model, [0, 1], state)
        Once.armed = True
        refused(loss_of(model, 5).backward, "as told", kind=ArithmeticError)
        Once.armed = False
        _fsdp.reset(model)
        refused(loss_of(model, 6).backward, "did not end", "abandon_step()")
        state.abandon_step()
        trained(model, [2], state)
        assert replicas_agree(flat(model), mesh_of(2, 2))


def one_rank_fails(how: str) -> tuple[str, float]:
    """The others' error, and after how many seconds it came."""
    mesh = mesh_of(4, 1)  # no shards: fully_shard itself would wait for its own timeout
    model = failing(mesh)
    nonfinite = "skip" if how == "skipped" else "error"
    state = laconic.attach(model, "topk", keep=0.05, timeout=6, nonfinite=nonfinite)
    trained(model, [0, 1], state)
    start = time.monotonic()
    try:
        if dist.get_rank() == 1:
            if how == "gone":
                time.sleep(0.5)
                os._exit(3)
            if how == "closed":
                Once.armed = True
                try:
                    loss_of(model, 2).backward()
                except ArithmeticError:
                    state.close()
                    return "closed", 0.0
            if how in ("abandoned", "skipped"):
                Once.armed = True
                try:
                    loss_of(model, 2).backward()
                except ArithmeticError:
                    state.abandon_step()
        elif how == "abandoned":
            try:
                loss_of(model, 2).backward()
            except laconic.InvalidConfig as error:
                assert "rank 1" in str(error), error
                state.abandon_step()
            model.zero_grad()
        elif how == "skipped":
            refused(loss_of(model, 2).backward, "a rank abandoned this step")
            state.abandon_step()
        if how in ("abandoned", "skipped"):
            model.zero_grad()
            trained(model, [3, 4], state)
            assert replicas_agree(flat(model), mesh)
            return "went on", time.monotonic() - start
        loss_of(model, 2).backward()
    except (RuntimeError, ValueError) as error:
        return str(error), time.monotonic() - start
    return "nothing happened", 0.0


def one_shard_fails(how: str) -> tuple[str, float]:
    """Rank 3 of 2 replicas of 2 shards ends, or stops for longer than all timeouts."""
    mesh = mesh_of(2, 2)
    # A mesh gives its groups torch's own timeout, of half an hour.
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=3), mesh["shard"].get_group())
    model = odd(mesh)
    state = laconic.attach(model, "topk", keep=0.05, timeout=2)
    trained(model, [0, 1], state)
    start = time.monotonic()
    if dist.get_rank() == 3:
        if how == "gone":
            os._exit(3)
        time.sleep(9)
        os._exit(0)
    try:
        loss_of(model, 2).backward()
    except RuntimeError as error:
        text = f"{type(error).__name__}: {error}"
        if dist.get_rank() == 1:
            state.close()  # as at the end of a rank
        return text, time.monotonic() - start
    return "nothing happened", 0.0


class RefusalsTest(unittest.TestCase):
    def test_models(self) -> None:
        run_ranks(4, refuses_models)

    def test_versions_and_relatives(self) -> None:
        run_ranks(4, refuses_versions_and_relatives)

    def test_other_insides(self) -> None:
        run_ranks(4, refuses_other_insides)
        run_ranks(4, recommends_what_there_is)
        finds_the_groups_of_2_11()

    def test_on_all_ranks(self) -> None:
        run_ranks(4, refuses_on_all_ranks)

    def test_votes_of_sums(self) -> None:
        run_ranks(4, refuses_votes_of_sums)


class FailuresTest(unittest.TestCase):
    def test_exception(self) -> None:
        run_ranks(4, goes_on_after_an_exception, "native")
        run_ranks(4, goes_on_after_an_exception, "hook")

    def test_nan(self) -> None:
        run_ranks(4, goes_on_after_a_nan)

    def test_nan_in_one_shard(self) -> None:
        run_ranks(4, drops_on_all_shards)

    def test_asks_to_abandon(self) -> None:
        run_ranks(4, asks_to_abandon)

    def test_after_a_skipped_step(self) -> None:
        for when in ("before forward", "after forward"):
            run_ranks(2, abandons_after_a_skipped_step, when)

    def test_one_rank_alone(self) -> None:
        for how, words in (("closed", "it ended its hook in the middle of a step"), ("gone", "rank 1")):
            ranks = start_ranks(4, one_rank_fails, how, timeout=40)
            for number in (0, 2, 3):
                self.assertEqual(ranks[number].status, 0, told(ranks))
                text, seconds = ranks[number].value
                self.assertIn(words, text)
                self.assertLess(seconds, 10)
        for how in ("abandoned", "skipped"):
            for text, _ in run_ranks(4, one_rank_fails, how, timeout=40):
                self.assertEqual(text, "went on")

    def test_other_parameters(self) -> None:
        run_ranks(4, refuses_other_parameters)

    def test_one_shard_alone(self) -> None:
        """Every other rank gets an error within the timeouts, of ours or of the shards' own group."""
        for how in ("gone", "stopped"):
            ranks = start_ranks(4, one_shard_fails, how, timeout=40, group_timeout=6)
            for number in (0, 1, 2):
                self.assertEqual(ranks[number].status, 0, told(ranks))
                text, seconds = ranks[number].value
                if number == 1:  # the other rank of its shard, which meets it
                    self.assertRegex(text, "TransportError: .*rank 1")
                self.assertIn("Error: ", text)
                self.assertLess(seconds, 8, text)


if __name__ == "__main__":
    unittest.main()
