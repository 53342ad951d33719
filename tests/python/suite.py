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


def wrong_checks(communicator: Any) -> dict[str, list[str]]:
    """What each check of the suite that fails says."""
    return {name: found for name in c10d_suite.checks() if (found := c10d_suite.run_check(communicator, name))}
