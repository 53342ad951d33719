"""The suite of all transports, which is a module of C++: names of its checks, and calls that run them.

torch comes first, whatever sorts the imports: the module is linked with torch's libraries, which torch loads in a way of
its own.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

assert torch.__version__
c10d_suite: Any = importlib.import_module("c10d_suite")


def wrong_checks(communicator: Any, without: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """What each check of the suite that fails says. Some communicators do not have everything."""
    wanted = [name for name in c10d_suite.checks() if name not in without]
    assert len(wanted) + len(without) == len(c10d_suite.checks()), without
    return {name: found for name in wanted if (found := c10d_suite.run_check(communicator, name))}
