"""Saved state: a run that loads it goes on bit for bit; what is not its own is refused on all ranks."""

import tempfile
import unittest

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from networks import numpy_free_objects
from probe import SIZES, Probe, connect, gradients, step_of, wrapped
from ranks import run_ranks, start_ranks, told
from refusals import refused
from test_ddp_behaviours import equal, in_turn, mine, of_all_ranks
from variations import gradient_methods, options_of

import laconic


def resumes_bit_for_bit(folder: str) -> None:
    """By torch.save a rank, by a gathered state dict from rank 0, and by distributed checkpoint."""
    given = of_all_ranks(gradients, 6)
    rank = dist.get_rank()
    for method in gradient_methods():
        options = {"min_size": 0, "seed": 3, **options_of(method)}
        if method in ("topk", "regtopk"):
            options["scope"] = "tensor"
        ddp = wrapped(Probe())
        state = connect(ddp, "attach", method, **options)
        fresh_size = next(iter(state.state_dict().values())).numel()
        for step in mine(given)[:3]:
            step_of(ddp, step)
        saved = state.state_dict()
        assert list(saved) == [f"laconic/rank{rank}of{dist.get_world_size()}/hook"], list(saved)
        assert next(iter(saved.values())).numel() == fresh_size, method
        torch.save(saved, f"{folder}/{method}.{rank}")
        gathered = state.gather_state_dict()
        if rank == 0:
            torch.save(gathered, f"{folder}/{method}.all")
        sources = ["rank", "all"]
        if method in ("regtopk", "signum", "dqsgd"):
            sources.append("dcp")
            with numpy_free_objects():
                dcp.save({"hook": saved}, checkpoint_id=f"{folder}/{method}.dcp")
        expected = [step_of(ddp, step) for step in mine(given)[3:]]

        for source in sources:
            other = wrapped(Probe())
            # The size of chunks may be another one, as on another kind of device.
            chunks = {} if source == "rank" else {"chunk_entries": 50}
            resumed = connect(other, "hook", method, **options, **chunks)
            if source == "dcp":
                into = {"hook": resumed.state_dict()}
                with numpy_free_objects():
                    dcp.load(into, checkpoint_id=f"{folder}/{method}.dcp")
                resumed.load_state_dict(into["hook"])
            else:
                name = str(rank) if source == "rank" else "all"
                resumed.load_state_dict(torch.load(f"{folder}/{method}.{name}", weights_only=True))
            assert equal([step_of(other, step) for step in mine(given)[3:]], expected), (method, source)
            assert resumed.metrics()["steps"] == 6


def foreign_state_is_refused() -> None:
    given = of_all_ranks(gradients, 2)
    ddp = wrapped(Probe())
    state = connect(ddp, "attach", "topk", keep=0.05)
    step_of(ddp, mine(given)[0])
    saved, every = state.state_dict(), state.gather_state_dict()
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def fresh(method: str = "topk", **settings: object) -> laconic.State:
        return connect(wrapped(Probe()), "attach", method, **{"keep": 0.05, **settings})

    none = "the state dict has no state of 'hook': load what state_dict() gave"
    # What a rank that could load says where another refused.
    elsewhere = f"rank 1 refused to load its state, and so no rank has loaded: {none}" if rank == 0 else none

    others = {key: value for key, value in every.items() if f"rank{rank}of" not in key}
    of = ", ".join(str(other) for other in range(ranks) if other != rank)
    words = (f"is of rank {of}, this is rank {rank} of 3", "each rank loads its own")
    refused(lambda: fresh().load_state_dict(others), *words)
    renamed = {f"laconic/rank{rank}of{ranks}/hook": next(iter(others.values()))}
    other = 1 if rank == 0 else 0
    refused(lambda: fresh().load_state_dict(renamed), f"has rank = {other}, this is {rank}: each rank loads its own")
    more = {key.replace(f"of{ranks}", f"of{ranks + 1}"): value for key, value in every.items()}
    words = ("saved by 4 ranks", "cannot be loaded by 3", "start 4 ranks, or leave the state out")
    refused(lambda: fresh().load_state_dict(more), *words)
    refused(lambda: fresh().load_state_dict({}), none)
    words = ("is of another method than regtopk", "load it into the method that saved it")
    refused(lambda: fresh("regtopk").load_state_dict(saved), *words)
    words = ("was saved with keep = 0.05, this topk has keep = 0.1", "with the settings of the run that was saved")
    refused(lambda: fresh(keep=0.1).load_state_dict(saved), *words)
    words = ("other parameters in group 0", "attach with the groups of the run that was saved")
    refused(lambda: fresh(exclude="values.0").load_state_dict(saved), *words)
    # As many entries in all, but not the same parameters.
    turned = connect(wrapped(Probe((*SIZES[1:], SIZES[0]))), "attach", "topk", keep=0.05)
    words = ("has another parameter, or another size, in the place of values.0 with 7 entries", "for the same model")
    refused(lambda: turned.load_state_dict(saved), *words)
    refused(lambda: fresh(seed=4).load_state_dict(saved), "seed = 0, this is 4", "attach with the seed of the run")
    dropping = connect(wrapped(Probe(), find_unused_parameters=True), "attach", "topk", keep=0.05)
    words = ("a run with find_unused_parameters=True", "wrap the model in the same way")
    refused(lambda: fresh().load_state_dict(dropping.state_dict()), *words)
    damaged = {key: value.clone() for key, value in saved.items()}
    next(iter(damaged.values()))[100] ^= 1
    cut = {key: value[:-1].clone() for key, value in saved.items()}
    for wrong in (damaged, cut):
        words = ("saved state is damaged", "checksum does not match", "Load an older checkpoint")
        refused(lambda wrong=wrong: fresh().load_state_dict(wrong), *words)
    floats = {key: value.float() for key, value in saved.items()}
    refused(lambda: fresh().load_state_dict(floats), "is no tensor of bytes: load what state_dict() gave")
    nowhere = {key: value.to("meta") for key, value in saved.items()}
    refused(lambda: fresh().load_state_dict(nowhere), "lies on device meta and has no bytes", "load it to the CPU")
    no_bytes = torch.empty(200, dtype=torch.uint8, device="meta")
    refused(lambda: fresh()._host.load(no_bytes), "saved state lies on meta", "must lie on the CPU")
    # One rank alone has nothing to load: the others do not go on without it.
    refused(lambda: fresh().load_state_dict(saved if rank == 0 else {}), elsewhere)
    # Nor without one that was given no dict at all.
    words = ("the state cannot be read", "load what state_dict() gave")
    words = ("rank 1 refused to load its state", *words) if rank == 0 else words
    refused(lambda: fresh().load_state_dict(saved if rank == 0 else 7), *words)
    # Ranks of different steps.
    step_of(ddp, mine(given)[1])
    words = ("rank 1 was given a state of step 2, rank 0 one of step 1: load what all ranks saved together",)
    refused(lambda: fresh().load_state_dict(saved if rank == 0 else state.state_dict()), *words)
    # After a refusal all is as it was.
    left = fresh()
    refused(lambda: left.load_state_dict({}), none)
    left.load_state_dict(saved)
    # So on a rank whose own state fitted.
    before = state.state_dict()
    refused(lambda: state.load_state_dict(saved if rank == 0 else {}), elsewhere)
    assert all(torch.equal(value, before[key]) for key, value in state.state_dict().items())
    assert state.metrics()["steps"] == 2


def a_rank_dies(way: str) -> str:
    """The others' backward ends with an error that says so, soon, and so does every later call."""
    ddp = wrapped(Probe())
    state = connect(ddp, way, "topk", keep=0.05)
    given = of_all_ranks(gradients, 3)
    for step in mine(given)[:2]:  # the second rebuilds the buckets, for which DistributedDataParallel speaks itself
        step_of(ddp, step)
    if dist.get_rank() == 1:
        raise SystemExit(0)
    words = ("rank 1 has ended or is out of reach", "broke on rank")
    refused(lambda: step_of(ddp, mine(given)[2]), *words, kind=RuntimeError)
    refused(state.state_dict, *words, kind=laconic.TransportError)
    return "told"


class StateTest(unittest.TestCase):
    def test_resumes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run_ranks(2, resumes_bit_for_bit, folder)

    def test_foreign_state(self) -> None:
        run_ranks(3, in_turn, (foreign_state_is_refused,))

    def test_a_rank_dies(self) -> None:
        for way in ("attach", "hook"):
            ranks = start_ranks(3, a_rank_dies, way, group_timeout=20.0)
            self.assertEqual([rank.value for rank in ranks], ["told", None, "told"], told(ranks))


if __name__ == "__main__":
    unittest.main()
