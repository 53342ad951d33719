"""What torch's profiler sees of a step: whether a gradient leaves the device."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from device import ON_GPU

Event = dict[str, Any]


@contextlib.contextmanager
def traced(events: list[Event]) -> Iterator[None]:
    """What the profiler sees of the block."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if ON_GPU:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
        torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as profiler:
        yield
        if ON_GPU:
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            events.extend(json.load(file)["traceEvents"])


def copies_to_cpu(events: Sequence[Event]) -> list[int]:
    """Bytes of each copy from the device to the CPU."""
    names = ("DtoH", "Device -> Pageable", "Device -> Pinned")
    copies = [each for each in events if any(name in str(each.get("name")) for name in names)]
    return [int(each.get("args", {}).get("bytes", 0)) for each in copies]


def copies_of(step: Callable[[], object], read: Callable[[], object]) -> dict[str, Any]:
    """Kernels and copies to the CPU of a step; and copies of a step after which `read` brings a gradient there, which
    the trace must show."""
    events: dict[str, list[Event]] = {"step": [], "control": []}
    for name, found in events.items():
        with traced(found):
            step()
            if name == "control":
                read()
    kernels = sum(str(each.get("cat")) == "kernel" for each in events["step"])
    return {"kernels": kernels, **{name: copies_to_cpu(found) for name, found in events.items()}}


def require_small_copies(test: unittest.TestCase, found: Mapping[str, Any], gradient: int, most: int) -> None:
    """No copy of the step that copies_of saw is larger than `most` bytes. The gradient has `gradient` bytes."""
    if not found["kernels"] or not found["control"]:
        test.fail(f"the profiler shows no kernels and copies of a GPU, perhaps because it may not: {found}")
    test.assertGreaterEqual(max(found["control"]), gradient, found)
    test.assertLessEqual(max(found["step"], default=0), most, found)
