"""The helpers of tests on a GPU notice what they are for, shown on the CPU with hosts and traces that are made up."""

import unittest
from typing import Any

import torch
from networks import copying_hosts
from places import has_kernels, require_place
from probe import Probe, connect, wrapped
from ranks import run_ranks
from refusals import refused
from traces import copies_to_cpu, require_small_copies

GRADIENT = 4000


class State:
    """As much of a State as require_place looks at."""

    def __init__(self, reason: str) -> None:
        self._host = self
        self.reason_for_cpu = reason


def hooks_that_copy() -> None:
    """By each way in, a hook on the CPU path does not pass for one that works where its model is."""
    for way in ("attach", "hook"):
        with copying_hosts("DdpHost", ["no kernels"]):
            words = ("on cpu: no kernels",)
            refused(lambda way=way: connect(wrapped(Probe()), way, "topk", keep=0.1), *words, kind=AssertionError)
    connect(wrapped(Probe()), "attach", "topk", keep=0.1)


def copy(name: str, size: int) -> dict[str, Any]:
    return {"name": name, "cat": "gpu_memcpy", "args": {"bytes": size}}


class PlaceTest(unittest.TestCase):
    def test_a_host_that_copies_is_noticed(self) -> None:
        cpu = torch.device("cpu")
        require_place(State(""), cpu)
        refused(lambda: require_place(State("no kernels"), cpu), "on cpu: no kernels", kind=AssertionError)

    def test_a_host_that_does_not_copy_what_it_must_is_noticed(self) -> None:
        nowhere = torch.device("meta")
        self.assertFalse(has_kernels(nowhere))
        require_place(State("no kernels"), nowhere)
        refused(lambda: require_place(State(""), nowhere), "on meta: nothing is copied", kind=AssertionError)

    def test_every_hook_is_looked_at(self) -> None:
        run_ranks(1, hooks_that_copy)


class TraceTest(unittest.TestCase):
    def require(self, step: list[int], control: list[int], kernels: int = 3) -> None:
        found = {"kernels": kernels, "step": step, "control": control}
        require_small_copies(self, found, gradient=GRADIENT, most=100)

    def test_only_copies_to_the_cpu_count(self) -> None:
        names = ("Memcpy DtoH (Device -> Pinned)", "Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pinned -> Device)")
        events = [copy(name, size) for size, name in enumerate((*names, "Memcpy DtoD (Device -> Device)"), start=1)]
        self.assertEqual(copies_to_cpu([*events, {"name": "aten::copy_"}, {}]), [1, 2])

    def test_a_large_copy_is_noticed(self) -> None:
        self.require([], [GRADIENT])
        self.require([8, 100], [8, GRADIENT])
        with self.assertRaises(AssertionError):
            self.require([8, 101], [GRADIENT])

    def test_a_trace_that_shows_too_little_proves_nothing(self) -> None:
        for kernels, control in ((0, [GRADIENT]), (3, [])):
            with self.assertRaises(AssertionError):
                self.require([], control, kernels)
        with self.assertRaises(AssertionError):
            self.require([], [GRADIENT - 1])


if __name__ == "__main__":
    unittest.main()
