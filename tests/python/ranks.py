"""Runs a test's function on several ranks: processes with a Gloo group between them, started as torchrun starts them.

    def sums(factor):                       # runs on every rank, with torch.distributed ready
        value = torch.ones(1) * factor
        torch.distributed.all_reduce(value)
        return value.item()                 # what can be pickled comes back, by rank

    run_ranks(3, sums, 2.0)  ->  [6.0, 6.0, 6.0]

Ranks are forks of the test's process, so that torch is imported once: a test does no work of its own with torch's
threads (no backward, no process group) before it calls run_ranks. Where forks cannot use the device, they are processes
that import the test anew. run_torchrun starts a script under the real torchrun.
"""

from __future__ import annotations

import dataclasses
import datetime
import faulthandler
import importlib
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from device import fork, reaches_forks

importlib.import_module("torch._dynamo")  # which an optimizer loads with its first step: once here, not in every rank
torch.set_num_threads(1)  # ranks share the cores, and threads do not survive a fork

GRACE_SECONDS = 10.0  # that the others get once a rank has failed


@dataclasses.dataclass
class Rank:
    """How one rank ended."""

    status: int | None  # exit status, negative for a signal; None: did not end and was killed
    output: str  # what it wrote
    value: Any  # what its function returned


def run_ranks(
    count: int, function: Callable[..., Any], *arguments: Any, timeout: float = 60.0, group_timeout: float = 30.0
) -> list[Any]:
    """The function's values by rank. AssertionError with everybody's output if a rank fails or takes too long."""
    ranks = start_ranks(count, function, *arguments, timeout=timeout, group_timeout=group_timeout, stop_early=True)
    if any(rank.status != 0 for rank in ranks):
        raise AssertionError(told(ranks))
    return [rank.value for rank in ranks]


def start_ranks(
    count: int,
    function: Callable[..., Any],
    *arguments: Any,
    timeout: float = 60.0,
    group_timeout: float | None = 30.0,
    stop_early: bool = False,
) -> list[Rank]:
    """As run_ranks, for tests in which ranks fail: tells how each ended and raises nothing. Without a group_timeout the
    function makes the process group itself, from torchrun's variables."""
    with tempfile.TemporaryDirectory(prefix="laconic_ranks_") as name:
        folder = pathlib.Path(name)
        forks = reaches_forks()
        if not forks:
            _write(folder / "call", pickle.dumps((function, arguments, timeout, group_timeout)))
        sys.stdout.flush()
        sys.stderr.flush()
        children = []
        for rank in range(count):
            child = fork()
            if child == 0 and not forks:
                test = sys.modules["__main__"].__file__
                os.execv(sys.executable, [sys.executable, __file__, str(test), name, str(rank), str(count)])
            elif child == 0:
                _be_rank(rank, count, function, arguments, folder, timeout, group_timeout)
            children.append(child)
        # The starter keeps the store, as torchrun's agent does, on a port that was free; the forks came before, so
        # they have none of its threads.
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        _write(folder / "port", str(store.port).encode())
        statuses = _await(children, time.monotonic() + timeout, stop_early)
        return [_collected(folder, rank, status) for rank, status in enumerate(statuses)]


def run_torchrun(
    count: int, script: str | pathlib.Path, *arguments: str, restarts: int = 0, timeout: float = 120.0
) -> str:
    """Runs a script under torchrun and gives back what it printed. AssertionError if it fails."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    command += ["--max-restarts", str(restarts)]
    done = subprocess.run(
        [*command, str(script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        # The agent's store survives a restart, and torch's own group would find the addresses of ranks that were killed.
        env={**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"torchrun {script} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def told(ranks: Sequence[Rank]) -> str:
    """How all ranks ended and what they wrote, for a failed test's message."""
    parts = []
    for number, rank in enumerate(ranks):
        end = "did not end in time" if rank.status is None else f"ended with {rank.status}"
        parts.append(f"--- rank {number} {end}\n{rank.output}")
    return "\n" + "\n".join(parts)


def _be_rank(
    rank: int,
    count: int,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    folder: pathlib.Path,
    timeout: float,
    group_timeout: float | None,
) -> NoReturn:
    """The life of a forked rank; never returns into the test."""
    status = 1
    try:
        log = os.open(folder / f"output.{rank}", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        faulthandler.enable(file=2)  # where it crashes
        faulthandler.dump_traceback_later(max(timeout - 2.0, 1.0), file=2)  # where it hangs, before it is killed
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _read_port(folder / "port")}
        os.environ.update(address, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count), LOCAL_WORLD_SIZE=str(count))
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        if group_timeout is not None:
            dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=group_timeout))
        value = function(*arguments)
        _write(folder / f"value.{rank}", pickle.dumps(value))
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # the groups go with the process; nobody waits for anybody


def _read_port(path: pathlib.Path) -> str:
    while not path.exists():
        time.sleep(0.005)
    return path.read_text()


def _write(path: pathlib.Path, contents: bytes) -> None:
    part = path.with_suffix(path.suffix + ".part")
    part.write_bytes(contents)
    part.rename(path)


def _await(children: Sequence[int], deadline: float, stop_early: bool) -> list[int | None]:
    statuses: list[int | None] = [None] * len(children)
    waiting = set(range(len(children)))
    while waiting and time.monotonic() < deadline:
        for rank in list(waiting):
            child, status = os.waitpid(children[rank], os.WNOHANG)
            if child == 0:
                continue
            waiting.discard(rank)
            statuses[rank] = os.waitstatus_to_exitcode(status)
            if stop_early and statuses[rank] != 0:
                deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
        time.sleep(0.01)
    for rank in waiting:
        os.kill(children[rank], signal.SIGKILL)
        os.waitpid(children[rank], 0)
    return statuses


def _collected(folder: pathlib.Path, rank: int, status: int | None) -> Rank:
    output, value = folder / f"output.{rank}", folder / f"value.{rank}"
    return Rank(
        status,
        output.read_text(errors="replace") if output.exists() else "",
        pickle.loads(value.read_bytes()) if value.exists() else None,
    )


def _be_fresh_rank(test: str, folder: pathlib.Path, rank: int, count: int) -> NoReturn:
    """Of a process of its own. The test's functions are those of its main module, and here are not."""
    sys.modules["__main__"] = importlib.import_module(pathlib.Path(test).stem)
    function, arguments, timeout, group_timeout = pickle.loads((folder / "call").read_bytes())
    _be_rank(rank, count, function, arguments, folder, timeout, group_timeout)


if __name__ == "__main__":
    _be_fresh_rank(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
