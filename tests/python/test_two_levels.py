"""within=: gradients are averaged inside a host, and the method runs between hosts, as in C++, bit for bit. Four ranks
stand for two hosts of two; LACONIC_HOST or a process group says which."""

import os
import unittest
from typing import Any

import torch
import torch.distributed as dist
from probe import Probe, gradients, names_of, reference, same_bits, same_everywhere, step_of, wrapped
from ranks import run_ranks, start_ranks, told
from refusals import refused
from variations import gradient_methods

import laconic

STEPS = 3
SIZES = (301, 7, 1, 1024, 33, 64)
PAIRS = [0, 0, 1, 1]


def name_hosts(hosts: list[int]) -> None:
    os.environ["LACONIC_HOST"] = f"box{hosts[dist.get_rank()]}"


def given() -> list[list[list[torch.Tensor]]]:
    """By rank and step."""
    return [[gradients(step, rank, SIZES) for step in range(STEPS)] for rank in range(dist.get_world_size())]


def options_of(method: str) -> dict[str, Any]:
    return {"keep": 0.1} if method in ("topk", "regtopk", "randk") else {}


def steps_of(ddp: Any, steps: list[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
    return [step_of(ddp, step) for step in steps]


def require_same(found: list[list[torch.Tensor]], expected: list[list[torch.Tensor]], what: str) -> None:
    for step, (mine, wanted) in enumerate(zip(found, expected, strict=True)):
        assert all(map(same_bits, mine, wanted)), f"{what}, step {step}"
        assert same_everywhere(mine), f"{what}, step {step}: ranks differ"


def every_method(hosts: list[int]) -> dict[str, Any]:
    """Returns metrics of sgd and topk."""
    name_hosts(hosts)
    found = {}
    for method in gradient_methods():
        options = options_of(method)
        with laconic.attach(ddp := wrapped(Probe(SIZES)), method, min_size=0, within="host", **options) as state:
            mine = steps_of(ddp, given()[dist.get_rank()])
            require_same(mine, reference(method, options, given(), names=names_of(SIZES), hosts=hosts), method)
            found[method] = state.metrics()["total"]
    with laconic.attach(ddp := wrapped(Probe(SIZES)), "sgd") as state:
        steps_of(ddp, given()[dist.get_rank()])
        found["one level"] = state.metrics()["total"]
    return found


def a_group_is_a_host() -> None:
    """Every other rank; with the other way in, and settings that make several methods."""
    odd = [dist.new_group([0, 2]), dist.new_group([1, 3])][dist.get_rank() % 2]
    ddp = wrapped(Probe(SIZES))
    state = laconic.State(ddp, "topk", keep=0.1, within=odd)
    ddp.register_comm_hook(state, laconic.hook)
    expected = reference("topk", {"keep": 0.1}, given(), names=names_of(SIZES), hosts=[0, 1, 0, 1])
    require_same(steps_of(ddp, given()[dist.get_rank()]), expected, "a process group")
    state.close()
    settings = {"min_size": 10, "warmup": 1, "clip": 5.0, "groups": [{"params": "values.0", "method": "signum"}]}
    with laconic.attach(ddp := wrapped(Probe(SIZES)), "topk", keep=0.1, within=odd, **settings):
        for step in given()[dist.get_rank()]:
            assert same_everywhere(step_of(ddp, step))


def nonfinite_steps_are_dropped_everywhere() -> None:
    name_hosts(PAIRS)
    with laconic.attach(ddp := wrapped(Probe(SIZES)), "topk", keep=0.1, within="host", nonfinite="skip") as state:
        bad = gradients(0, dist.get_rank(), SIZES)
        if dist.get_rank() == 2:
            bad[3][1000] = float("nan")
        before = state.metrics()["residual_norm"]
        assert all(not tensor.any() for tensor in step_of(ddp, bad))
        assert state.metrics()["skipped"] == 1 and state.metrics()["residual_norm"] == before
        assert same_everywhere(step_of(ddp, gradients(1, dist.get_rank(), SIZES)))


def resumes_bit_for_bit() -> None:
    name_hosts(PAIRS)
    mine = given()[dist.get_rank()]
    with laconic.attach(ddp := wrapped(Probe(SIZES)), "topk", keep=0.1, within="host") as state:
        step_of(ddp, mine[0])
        saved = state.state_dict()
        straight = [step_of(ddp, step) for step in mine[1:]]
    with laconic.attach(ddp := wrapped(Probe(SIZES)), "topk", keep=0.1, within="host") as state:
        state.load_state_dict(saved)
        require_same([step_of(ddp, step) for step in mine[1:]], straight, "resumed")
    with laconic.attach(wrapped(Probe(SIZES)), "topk", keep=0.1) as state:
        refused(lambda: state.load_state_dict(saved), "was saved with hosts = 0 0 1 1, this topk has no hosts")


def refusals() -> None:
    ddp = wrapped(Probe(SIZES))

    def attach(**settings: Any) -> None:
        laconic.attach(ddp, "sgd", **settings)

    refused(lambda: attach(within="box"), "within must be 'host', a process group or None, got 'box'")
    refused(lambda: attach(within=2), "within must be 'host', a process group or None, got int")
    mixed = "host" if dist.get_rank() == 0 else None
    refused(lambda: attach(within=mixed), "within")
    name_hosts([0, 0, 0, 1])
    refused(lambda: attach(within="host"), "host 0 has 3 ranks and host 1 has 1", "same number on every host")


def a_rank_dies() -> str:
    name_hosts(PAIRS)
    ddp = wrapped(Probe(SIZES))
    laconic.attach(ddp, "topk", keep=0.1, within="host", timeout=10.0)
    for step in range(3):  # in the second, torch itself speaks to the others
        step_of(ddp, gradients(step, dist.get_rank(), SIZES))
    if dist.get_rank() == 3:
        os._exit(9)
    try:
        step_of(ddp, gradients(3, dist.get_rank(), SIZES))
    except RuntimeError as error:
        return str(error)
    return "no error"


def all_of_it() -> dict[str, Any]:
    """One start of the ranks for what needs no start of its own."""
    metrics = every_method(PAIRS)
    a_group_is_a_host()
    nonfinite_steps_are_dropped_everywhere()
    resumes_bit_for_bit()
    refusals()
    return metrics


class TwoLevelsTest(unittest.TestCase):
    def test_two_hosts_of_two(self) -> None:
        for metrics in run_ranks(4, all_of_it, timeout=240.0):
            sgd, flat = metrics["sgd"], metrics["one level"]
            # A rank of four sends 3/2 of the gradient on one level; on two, half of it leaves the host.
            self.assertAlmostEqual(sgd["sent_bytes"] / flat["sent_bytes"], 1 / 3, places=1)
            self.assertGreater(sgd["inside_sent_bytes"], 0)
            self.assertEqual(flat["inside_sent_bytes"], 0)
            self.assertLess(metrics["topk"]["sent_bytes"], sgd["sent_bytes"])

    def test_three_hosts_of_two(self) -> None:
        run_ranks(6, every_method, [0, 0, 1, 1, 2, 2], timeout=240.0)

    def test_a_dead_rank_is_named(self) -> None:
        ranks = start_ranks(4, a_rank_dies)
        for rank in ranks[:3]:
            self.assertEqual(rank.status, 0, told(ranks))
            self.assertIn("rank 3", rank.value)


if __name__ == "__main__":
    unittest.main()
