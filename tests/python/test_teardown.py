"""What hooks and optimizers take of a process they give back: when they are closed, dropped, or the interpreter ends."""

import gc
import os
import re
import signal
import subprocess
import sys
import unittest
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from networks import batch, flat, loss_of, message_of, network, optimizer_for, same_everywhere, train
from probe import Probe, gradients, step_of, wrapped
from ranks import run_ranks
from torch.distributed import distributed_c10d as c10d

import laconic
from laconic import _process_groups


def held() -> dict[str, int]:
    """What this process holds of the system, and all ranks of the store."""
    return {
        "keys": dist.distributed_c10d._get_default_store().num_keys(),
        "groups": len(c10d._world.pg_names),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


def hook(way: str, close: bool) -> None:
    ddp = wrapped(Probe())
    if way == "attach":
        state = laconic.attach(ddp, "topk", keep=0.1)
    else:
        state = laconic.State(ddp, "qsgd", min_size=0)
        ddp.register_comm_hook(state, laconic.hook)
    step_of(ddp, gradients(0, dist.get_rank()))
    if close:
        state.close()


def optimizer(method: str, close: bool) -> None:
    made = optimizer_for(method, network())
    train(made, 0, 2)
    if close:
        made.close()


def asynchronous(close: bool) -> None:
    """With a counter that all ranks share."""
    made = optimizer_for("localsgd", network(), pace="async", total_steps=8)
    if close:
        made.close()
    dist.barrier()


def many_times(make: Callable[..., None], *arguments: Any) -> list[dict[str, int]]:
    """What is held after 5 and after 20 of them."""
    found = []
    gc.freeze()  # torch's own objects, which take half a second to go through
    for count in range(1, 21):
        make(*arguments)
        gc.collect()
        if count in (5, 20):
            dist.barrier()  # the others' ends of the connections are gone too
            found.append(held())
            dist.barrier()  # and no key of the next one is there yet
    return found


def dropped_before_a_step() -> list[dict[str, int]]:
    """What is held before and after hooks were made, and dropped, for a model that lives on; and one that was wrapped."""
    ddp, module = wrapped(Probe()), Probe()
    laconic.State(ddp, "topk", keep=0.1)  # ranks count those in the store
    found = []
    for _ in range(2):
        gc.collect()
        dist.barrier()
        found.append(held())
        dist.barrier()
        for _ in range(3):
            laconic.State(ddp, "topk", keep=0.1)
            laconic.attach(wrapped(module), "topk", keep=0.1)
            gc.collect()
    module(gradients(0, 0))
    assert not module._forward_pre_hooks
    step_of(ddp, gradients(0, dist.get_rank()))
    return found


def calls_back() -> bool:
    """Whether a model lives on because a call of the loop's own refers to its optimizer."""

    def made() -> weakref.ref[torch.nn.Module]:
        model = network()
        inner = torch.optim.SGD(model.parameters(), lr=0.1)
        rounds = []
        optimizer = laconic.Optimizer(
            inner,
            model,
            "mgrawa",
            period=2,
            scoring=lambda number: loss_of(optimizer.model, *batch(9, number)).backward(),
            after_round=lambda: rounds.append(optimizer.metrics()["rounds"]),
        )
        train(optimizer, 0, 4)
        assert rounds == [1, 2], rounds
        return weakref.ref(model)

    model = made()
    gc.collect()
    return model() is not None


def closed() -> list[str]:
    """What is not as it should be after close()."""
    wrong = []
    ddp = wrapped(Probe())
    with laconic.attach(ddp, "topk", keep=0.1) as state:
        step_of(ddp, gradients(0, dist.get_rank()))
    state.close()
    for call in (state.metrics, state.state_dict):
        if "was closed" not in message_of(call):
            wrong.append(f"{call}: {message_of(call)}")
    try:
        step_of(ddp, gradients(1, dist.get_rank()))
        wrong.append("a step after close()")
    except RuntimeError as error:
        if "was closed" not in str(error):
            wrong.append(str(error))
    model = network()
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    with laconic.Optimizer(inner, model, "def", ratio=4) as outer:
        loss_of(model, *batch(dist.get_rank(), 0)).backward()
        outer.step()
    outer.close()
    before = flat(model)
    inner.step()
    if torch.equal(before, flat(model)):
        wrong.append("the optimizer inside does not step")
    if "after close()" not in message_of(outer.step):
        wrong.append(message_of(outer.step))
    return wrong


def open_step(way: str) -> laconic.State:
    """Some gradients of a step have gone to the hook, and the others will not come."""
    ddp = wrapped(Probe())
    if way == "attach":
        state = laconic.attach(ddp, "topk", keep=0.1, arrange_buckets=False)
    else:
        state = laconic.State(ddp, "topk", keep=0.1, arrange_buckets=False)
        ddp.register_comm_hook(state, laconic.hook)

    def stop(gradient: torch.Tensor) -> None:
        raise ValueError("stop here")

    ddp.module.values[0].register_hook(stop)
    try:
        step_of(ddp, gradients(0, 0))
    except ValueError:
        return state
    raise AssertionError("the step ended")


def ended_in_a_step() -> list[str]:
    """Dropped by whoever holds the interpreter's lock, and ended as the interpreter's end does it."""
    found = []
    for way in ("attach", "hook"):
        open_step(way)
        gc.collect()
        state = open_step(way)
        laconic._core.close_hooks()
        found.append(message_of(state.metrics))
    return found


def closed_at_once(times: int) -> None:
    """One rank has its groups connected, and closes them, while another may still connect."""
    ddp, model = wrapped(Probe()), network()
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(times):
        laconic.State(ddp, "topk", keep=0.1, arrange_buckets=False).close()
        laconic.Optimizer(inner, model, "topk", keep=0.1).close()
        laconic.Optimizer(inner, model, "def", ratio=4).close()


def listed_groups() -> list[int]:
    """Groups of an engine that torch has to make are taken out of its list."""
    before = len(c10d._world.pg_names)
    users = _process_groups.given(None)
    groups = _process_groups._ListedGroups(users, "gloo", _process_groups.limit_of(users, None))
    groups.make(), groups.make()
    among = len(c10d._world.pg_names)
    dist.barrier()
    groups.close()
    groups.close()
    groups.make()
    dist.barrier()
    return [among - before, len(c10d._world.pg_names) - before]


def after_the_default_group() -> bool:
    """The user ends all process groups, then what we have is dropped or closed, then all begins anew."""
    ddp, model = wrapped(Probe()), network()
    state = laconic.attach(ddp, "topk", keep=0.1)
    outer = optimizer_for("easgd", model)
    step_of(ddp, gradients(0, dist.get_rank()))
    dist.barrier()
    dist.destroy_process_group()
    state.close()
    del ddp, outer
    gc.collect()
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    dist.init_process_group(
        "gloo", store=dist.PrefixStore("again", store), rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"])
    )
    again = optimizer_for("def", network())
    train(again, 0, 2)
    with again.read_out():
        return same_everywhere(flat(again.model))


def in_a_fork() -> list[str]:
    """What a fork of the process is told by every call, and that this process goes on."""
    ddp, model = wrapped(Probe()), network()
    state = laconic.attach(ddp, "topk", keep=0.1, threads=3)
    outer = optimizer_for("def", model, threads=3)
    train(outer, 0, 2)
    step_of(ddp, gradients(0, dist.get_rank()))
    saved = state.state_dict(), outer.state_dict()
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        calls = (
            state.metrics,
            state.state_dict,
            lambda: state.load_state_dict(saved[0]),
            state.close,
            outer.metrics,
            outer.state_dict,
            lambda: outer.load_state_dict(saved[1]),
            outer.step,
            outer.read_out().__enter__,
            outer.close,
        )
        os.write(sending, "\n".join(message_of(call) for call in calls).encode())
        del state, outer, calls
        gc.collect()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(sending)
    with os.fdopen(receiving) as told:
        said = told.read().splitlines()
    step_of(ddp, gradients(1, dist.get_rank()))
    train(outer, 2, 4)
    state.close()
    outer.close()
    return [f"ended with {status}", *said]


# A step is open when the interpreter ends: the last layer's gradients have gone to the hook, the first layer raises.
SCRIPT = """
import torch, torch.distributed as dist, laconic
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.Sequential(*(torch.nn.Linear(50, 50) for _ in range(6)))
ddp = DistributedDataParallel(model, bucket_cap_mb=0.001)
state = laconic.State(ddp, "topk", keep=0.1, arrange_buckets=False)
ddp.register_comm_hook(state, laconic.hook)
for step in range(2):
    ddp(torch.randn(3, 50)).sum().backward()
def stop(gradient):
    raise ValueError("stop here")
model[0].weight.register_hook(stop)
ddp(torch.randn(3, 50)).sum().backward()
"""


class TeardownTest(unittest.TestCase):
    def test_many_in_one_process(self) -> None:
        for make, *arguments in (
            (hook, "attach", True),
            (hook, "hook", False),
            (optimizer, "def", True),
            (optimizer, "mgrawa", False),
            (asynchronous, False),
        ):
            for few, many in run_ranks(2, many_times, make, *arguments):
                with self.subTest(make=make.__name__, arguments=arguments):
                    for name, count in many.items():
                        self.assertLessEqual(count, few[name], name)

    def test_a_hook_that_is_dropped_before_a_step(self) -> None:
        for before, after in run_ranks(2, dropped_before_a_step):
            self.assertEqual(before, after)

    def test_in_a_fork(self) -> None:
        names = ("metrics", "state_dict", "load_state_dict", "close")
        calls = [f"{name}() of a hook" for name in names]
        calls += [f"{name}() of an optimizer" for name in (*names[:3], "step", "read_out", "close")]
        for status, *said in run_ranks(2, in_a_fork):
            self.assertEqual((status, len(said)), ("ended with 0", len(calls)), said)
            for text, call in zip(said, calls, strict=True):
                self.assertRegex(text, rf"^{re.escape(call)} in process \d+, a fork of process \d+ that made it")

    def test_calls_that_refer_to_their_optimizer(self) -> None:
        self.assertEqual(run_ranks(2, calls_back), [False, False])

    def test_closed(self) -> None:
        self.assertEqual(run_ranks(2, closed), [[]] * 2)

    def test_in_the_middle_of_a_step(self) -> None:
        for said in run_ranks(1, ended_in_a_step)[0]:
            self.assertIn("was closed", said)

    def test_closed_at_once(self) -> None:
        run_ranks(3, closed_at_once, 5)

    def test_groups_of_other_engines(self) -> None:
        self.assertEqual(run_ranks(2, listed_groups), [[2, 1]] * 2)

    def test_after_the_default_group(self) -> None:
        self.assertEqual(run_ranks(2, after_the_default_group), [True] * 2)

    def test_the_interpreter_ends_in_the_middle_of_a_step(self) -> None:
        done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("stop here", done.stderr)


if __name__ == "__main__":
    unittest.main()
