"""Saved state: a run that loads it goes on bit for bit; what is not its own is refused on all ranks."""

import importlib.util
import pickle
import tempfile
import unittest

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from probe import Probe, connect, gradients, step_of, wrapped
from ranks import run_ranks, start_ranks, told
from test_ddp_behaviours import equal, in_turn, mine, of_all_ranks
from test_ddp_settings import refused
from variations import gradient_methods, options_of

import laconic


def objects_without_numpy() -> None:
    """Torch's collectives of objects, which distributed checkpoint uses, need numpy; the package and its tests do not."""

    def read(tensor: torch.Tensor, size: int, group: object) -> object:
        return pickle.loads(bytes(tensor.tolist()[:size]))

    if importlib.util.find_spec("numpy") is None:
        torch.distributed.distributed_c10d._tensor_to_object = read  # type: ignore[assignment]


def resumes_bit_for_bit(folder: str) -> None:
    """By torch.save a rank, by a gathered state dict from rank 0, and by distributed checkpoint."""
    objects_without_numpy()
    given = of_all_ranks(gradients, 6)
    rank = dist.get_rank()
    for method in gradient_methods():
        options = {"min_size": 0, "seed": 3, **options_of(method)}
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
            dcp.save({"hook": saved}, checkpoint_id=f"{folder}/{method}.dcp")
        expected = [step_of(ddp, step) for step in mine(given)[3:]]

        for source in sources:
            other = wrapped(Probe())
            resumed = connect(other, "hook", method, **options)
            if source == "dcp":
                into = {"hook": resumed.state_dict()}
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

    others = {key: value for key, value in every.items() if f"rank{rank}of" not in key}
    refused(lambda: fresh().load_state_dict(others), "each rank loads its own")
    renamed = {f"laconic/rank{rank}of{ranks}/hook": next(iter(others.values()))}
    refused(lambda: fresh().load_state_dict(renamed), "each rank loads its own")
    more = {key.replace(f"of{ranks}", f"of{ranks + 1}"): value for key, value in every.items()}
    refused(lambda: fresh().load_state_dict(more), f"saved by {ranks + 1} ranks")
    refused(lambda: fresh().load_state_dict({}), "no state")
    refused(lambda: fresh("regtopk").load_state_dict(saved), "another method")
    refused(lambda: fresh(exclude="values.0").load_state_dict(saved), "group")
    dropping = connect(wrapped(Probe(), find_unused_parameters=True), "attach", "topk", keep=0.05)
    refused(lambda: fresh().load_state_dict(dropping.state_dict()), "find_unused_parameters")
    damaged = {key: value.clone() for key, value in saved.items()}
    next(iter(damaged.values()))[100] ^= 1
    refused(lambda: fresh().load_state_dict(damaged), "")
    # One rank alone has nothing to load: the others do not go on without it.
    refused(lambda: fresh().load_state_dict(saved if rank == 0 else {}), "")
    # Ranks of different steps.
    step_of(ddp, mine(given)[1])
    refused(lambda: fresh().load_state_dict(saved if rank == 0 else state.state_dict()), "step")
    # After a refusal all is as it was.
    left = fresh()
    refused(lambda: left.load_state_dict({}), "no state")
    left.load_state_dict(saved)
    # So on a rank whose own state fitted.
    before = state.state_dict()
    refused(lambda: state.load_state_dict(saved if rank == 0 else {}), "")
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
    refused(lambda: step_of(ddp, mine(given)[2]), "", RuntimeError)
    refused(state.state_dict, "", RuntimeError)
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
