"""The communicator over torch.distributed: every call, beside the user's own collectives, in subgroups, when ranks fail."""

import contextlib
import datetime
import os
import signal
import threading
import unittest
from typing import Any

import torch
import torch.distributed as dist
from limits import few_threads
from networks import network
from probe import Probe, wrapped
from ranks import run_ranks, start_ranks, told
from suite import c10d_suite, wrong_checks

import laconic
from laconic import _core, _process_groups


def every_check() -> dict[str, list[str]]:
    return wrong_checks(_process_groups.communicator())


def every_check_staged() -> dict[str, list[str]]:
    """With the copies that an engine for devices alone needs; the device is the host."""
    return wrong_checks(_process_groups.communicator(staging=torch.device("cpu")))


def describe() -> tuple[int, int, str, float]:
    communicator = _process_groups.communicator()
    return communicator.rank, communicator.size, communicator.description, communicator.timeout


def subgroups() -> list[str]:
    """Ranks 1 and 2 of four make a communicator; the others make theirs, or none, meanwhile."""
    pair = dist.new_group([1, 2])
    rest = dist.new_group([0, 3])
    mine = pair if dist.get_rank() in (1, 2) else rest
    communicator = _process_groups.communicator(mine)
    found = [f"{name}: {wrong}" for name in ("all_reduce", "all_gather_varying", "duplicates", "counter")
             for wrong in c10d_suite.run_check(communicator, name)]
    found += [] if communicator.size == 2 else [f"size {communicator.size}"]
    return found


def beside_the_users_collectives() -> tuple[float, set[float]]:
    """Our sums in a thread while the user's thread sums on its own group."""
    communicator = _process_groups.communicator()
    ours: list[float] = []
    expected = float(sum(range(1, dist.get_world_size() + 1)))
    thread = threading.Thread(
        target=lambda: ours.append(c10d_suite.sum_often(communicator, 200, dist.get_rank() + 1.0, expected))
    )
    thread.start()
    theirs = set()
    for _ in range(200):
        value = torch.full((1000,), 10.0 * (dist.get_rank() + 1))
        dist.all_reduce(value)
        theirs.update(value.unique().tolist())
    thread.join()
    return ours[0], theirs


def vanish(last: str) -> str:
    """Rank 1 ends without a word; the others say what they saw, and how long it took."""
    communicator = _process_groups.communicator(timeout=20.0)
    c10d_suite.barrier_within(communicator, 10_000)
    if dist.get_rank() == 1:
        os._exit(0) if last == "exit" else os.kill(os.getpid(), signal.SIGKILL)
    try:
        c10d_suite.barrier_within(communicator, 20_000)
    except laconic.TransportError as error:
        return str(error)
    return "nothing"


def hang() -> list[str]:
    """Rank 1 does not come before the others have given up; then all are told."""
    communicator = _process_groups.communicator(timeout=20.0)
    store = dist.distributed_c10d._get_default_store()
    said = []
    if dist.get_rank() == 1:
        store.wait(["gave up 0", "gave up 2"])
    else:
        try:
            c10d_suite.barrier_within(communicator, 300)
        except laconic.TransportError as error:
            said.append(str(error))
        store.set(f"gave up {dist.get_rank()}", "")
    try:
        while True:  # the engine may still complete what the others left behind
            c10d_suite.barrier_within(communicator, 20_000)
    except laconic.TransportError as error:
        said.append(str(error))
    return said


def sleep_on() -> str:
    """Rank 2 computes while the others wait in a collective."""
    communicator = _process_groups.communicator(timeout=20.0)
    store = dist.distributed_c10d._get_default_store()
    said = ""
    if dist.get_rank() == 2:
        store.wait([f"gave up {rank}" for rank in (0, 1, 3)])
    else:
        try:
            c10d_suite.barrier_within(communicator, 1500)
        except laconic.TransportError as error:
            said = str(error)
        store.set(f"gave up {dist.get_rank()}", "")
    return said


def wrong_slots() -> int:
    group = dist.new_group()
    wrong: int = c10d_suite.wrong_slots(group, _process_groups.store_of(group))
    return wrong


def leave() -> bool | None:
    """Rank 1 comes when the other has gone, whose memory the engine may still use."""
    group = dist.new_group()
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        store.wait(["left"])
        return None
    kept: bool | None = c10d_suite.is_kept_after_leaving(group, _process_groups.store_of(group), 300)
    store.set("left", "")
    return kept


def connected() -> _core.Communicator:
    """A communicator that all ranks have used."""
    communicator = _process_groups.communicator(timeout=20.0)
    c10d_suite.barrier_within(communicator, 10_000)
    return communicator


def error_of_barriers(communicator: _core.Communicator) -> str:
    """Calls barriers until one fails, and returns its message."""
    try:
        while True:
            c10d_suite.barrier_within(communicator, 20_000)
    except laconic.TransportError as error:
        return str(error)


def fail_with_a_reason() -> str:
    communicator = connected()
    if dist.get_rank() == 0:
        communicator.fail("its gradient is not finite")
    return told_everybody(error_of_barriers(communicator))


def told_everybody(text: str) -> str:
    """The text, once every rank has one: rank 0 has the store in which its reason stands."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"has_text/{dist.get_rank()}", "yes")
    if dist.get_rank() == 0:
        store.wait([f"has_text/{rank}" for rank in range(dist.get_world_size())], datetime.timedelta(seconds=20))
    return text


def fail_without_a_thread() -> str:
    """Rank 0 fails, and no rank can start the thread that would tell or listen."""
    communicator = connected()
    with few_threads(0):
        if dist.get_rank() == 0:
            communicator.fail("its gradient is not finite")
        text = error_of_barriers(communicator)
    return told_everybody(text)


def connect_without_threads(left: int, threads: int, make: str) -> str:
    """Rank 1 has too few of them; then all is well again."""
    ddp, model = wrapped(Probe()), network()
    inner = torch.optim.SGD(model.parameters(), lr=0.1)

    def attempt() -> Any:
        if make == "attach":
            return laconic.attach(ddp, "topk", keep=0.1, threads=threads)
        return laconic.Optimizer(inner, model, "topk", keep=0.1, threads=threads)

    said = "nothing"
    with few_threads(left) if dist.get_rank() == 1 else contextlib.nullcontext():
        try:
            attempt()
        except RuntimeError as error:
            said = f"{type(error).__name__}: {error}"
    threads = 2
    dist.barrier()
    attempt().close()
    return said


def keys_after_failures() -> list[int]:
    """How many keys the store has after each of three attempts to connect that fail on rank 1."""
    found = []
    for _ in range(3):
        with few_threads(1) if dist.get_rank() == 1 else contextlib.nullcontext():
            with contextlib.suppress(RuntimeError):
                _process_groups.communicator(timeout=20.0)
        dist.barrier()
        found.append(dist.distributed_c10d._get_default_store().num_keys())
        dist.barrier()
    return found


def die_in_attach() -> str:
    """Rank 1 ends when all have agreed, before it opens its process groups; its word is missed."""
    ddp = wrapped(Probe())
    if dist.get_rank() == 1:
        _process_groups._GlooGroups.make = lambda self: os._exit(0)  # type: ignore[method-assign]
    try:
        laconic.attach(ddp, "topk", keep=0.1, timeout=2.0)
    except laconic.TransportError as error:
        return str(error)
    return "nothing"


def refusals() -> list[str]:
    said = []
    pair = dist.new_group([0, 1])
    missing = next(each for each in ("xccl", "ucc", "mpi", "nccl") if not dist.is_backend_available(each))
    for call in (
        lambda: _process_groups.communicator(timeout=-1.0),
        lambda: _process_groups.communicator(backend="glue"),
        lambda: _process_groups.communicator(backend=missing),
        lambda: _process_groups.communicator(**({"group": pair} if dist.get_rank() == 2 else {"timeout": 0.0})),
    ):
        try:
            call()
        except laconic.InvalidConfig as error:
            said.append(str(error))
    return said


def unequal_groups() -> tuple[str, int]:
    """Rank 0 is in one group more than rank 1, so torch cannot name a further group of the two; ours need no name."""
    dist.new_group([0])
    pair = dist.new_group([0, 1])
    if dist.get_rank() == 2:
        return "not asked", 2
    size = _process_groups.communicator(pair).size
    try:
        _process_groups._ListedGroups(pair, "gloo", datetime.timedelta(seconds=20)).make()
    except laconic.InvalidConfig as error:
        return str(error), size
    return "nothing", size


class C10dTest(unittest.TestCase):
    def test_every_call_for_one_to_four_ranks(self) -> None:
        for count in (1, 2, 3, 4):
            with self.subTest(ranks=count):
                self.assertEqual(run_ranks(count, every_check), [{}] * count)

    def test_every_call_by_way_of_other_memory(self) -> None:
        for count in (1, 2, 3):
            with self.subTest(ranks=count):
                self.assertEqual(run_ranks(count, every_check_staged), [{}] * count)

    def test_tells_what_it_is(self) -> None:
        expected = [(rank, 3, "c10d gloo, 3 ranks", 30.0) for rank in range(3)]
        self.assertEqual(run_ranks(3, describe), expected)

    def test_subgroups_have_their_own(self) -> None:
        self.assertEqual(run_ranks(4, subgroups), [[]] * 4)

    def test_users_collectives_do_not_meet_ours(self) -> None:
        self.assertEqual(run_ranks(3, beside_the_users_collectives), [(6.0, {60.0})] * 3)

    def test_a_rank_that_ends_is_a_transport_error(self) -> None:
        for last in ("exit", "kill"):
            with self.subTest(last=last):
                ranks = start_ranks(3, vanish, last, timeout=50.0)
                for rank in (ranks[0], ranks[2]):
                    self.assertEqual(rank.status, 0, told(ranks))
                    self.assertRegex(rank.value, r"all_reduce \(sum\) of 400000 bytes \(operation \d+\)")
                    self.assertIn("rank 1 has ended or is out of reach: ", rank.value)
                    self.assertNotIn("failed", rank.value)

    def test_a_rank_that_does_not_come_is_a_timeout(self) -> None:
        said = run_ranks(3, hang)
        for rank in (0, 2):
            self.assertIn("did not end within 300 ms on rank", said[rank][0])
        for texts in said:
            self.assertRegex(texts[-1], r"rank \d.* gave up: .*did not end within 300 ms")

    def test_a_timeout_names_who_does_not_answer(self) -> None:
        said = run_ranks(4, sleep_on)
        for rank in (0, 1, 3):
            self.assertRegex(said[rank], "did not end within 1500 ms on rank [013]: no answer from rank 2, stopped")
            self.assertIn("timeout= in Python", said[rank])

    def test_the_engine_may_use_the_memory_of_messages(self) -> None:
        for count in (1, 2, 3):
            with self.subTest(ranks=count):
                self.assertEqual(run_ranks(count, wrong_slots), [0] * count)

    def test_memory_stays_while_the_engine_may_use_it(self) -> None:
        self.assertEqual(run_ranks(2, leave), [True, None])

    def test_a_reason_reaches_everybody(self) -> None:
        said = run_ranks(3, fail_with_a_reason)
        self.assertIn("rank 0, this one, failed: its gradient is not finite", said[0])
        for text in said[1:]:
            self.assertIn("rank 0 failed: its gradient is not finite (seen in all_reduce", text)

    def test_a_reason_reaches_everybody_without_a_thread(self) -> None:
        said = run_ranks(3, fail_without_a_thread)
        for text in said[1:]:
            self.assertIn("rank 0 failed: its gradient is not finite (seen in all_reduce", text)

    def test_a_rank_without_threads_is_an_error_on_all(self) -> None:
        few = "a process group of Gloo needs 3 threads and 1 could be started ("
        many = "64 threads were asked for and "
        for make in ("attach", "Optimizer"):
            for left, threads, words in ((1, 2, few), (12, 64, many)):
                with self.subTest(make=make, left=left):
                    said = run_ranks(3, connect_without_threads, left, threads, make)
                    self.assertTrue(said[1].startswith(f"RuntimeError: {words}"), said[1])
                    for part in ("threads=", "ulimit -u"):
                        self.assertIn(part, said[1])
                    for rank in (0, 2):
                        self.assertIn(f"TransportError: rank 1 failed: {words}", said[rank])

    def test_failures_leave_nothing_in_the_store(self) -> None:
        for found in run_ranks(3, keys_after_failures):
            self.assertEqual(found, [found[0]] * 3)  # the first one leaves counters, which stay

    def test_a_rank_that_dies_in_attach_is_a_transport_error(self) -> None:
        ranks = start_ranks(3, die_in_attach, timeout=40.0)
        for rank in (ranks[0], ranks[2]):
            self.assertIn("rank 1 did not come to open a process group within 2 s", rank.value, told(ranks))

    def test_refuses_what_cannot_be(self) -> None:
        said = run_ranks(3, refusals)
        for rank, texts in enumerate(said):
            self.assertEqual(texts[0], "timeout must be in (0, 1e+09] seconds, got -1.0: leave it out for the group's own")
            self.assertIn("backend must be an engine of torch.distributed (gloo, nccl", texts[1])
            self.assertRegex(texts[2], "backend='.*' needs a PyTorch with that engine, and torch .* here has none")
            self.assertIn("not in the process group" if rank == 2 else "timeout must be in (0, 1e+09] seconds", texts[3])

    def test_refuses_groups_that_torch_cannot_name(self) -> None:
        said = run_ranks(3, unequal_groups)
        for text, size in said[:2]:
            self.assertIn("different numbers of process groups ([3, 2])", text)
            self.assertEqual(size, 2)


if __name__ == "__main__":
    unittest.main()
