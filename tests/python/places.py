"""Whether a hook or an optimizer works where its model is."""

from __future__ import annotations

from typing import Any

import torch


def has_kernels(device: torch.device) -> bool:
    """Whether the build has kernels for tensors on the device."""
    if device.type == "cuda":
        from suite import c10d_suite  # here, because tests on the CPU also run without that module

        return bool(c10d_suite.has_cuda)
    return device.type == "cpu"


def require_place(state: Any, device: torch.device) -> None:
    """Fails if a State or an Optimizer of a model on this device copies tensors to the CPU although the build has
    kernels for the device, or does not copy them although it has none. Nothing else in a test would show it, because
    the bits are the same."""
    reason = state._host.reason_for_cpu
    assert bool(reason) != has_kernels(device), f"on {device}: {reason or 'nothing is copied to the CPU'}"
