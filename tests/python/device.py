"""Where a test's models lie: on the host, or where LACONIC_TEST_DEVICE says (cuda:0; all ranks share it).

device.py TEST [arguments]: runs the test, or skips it at once where there is no GPU.
"""

from __future__ import annotations

import functools
import glob
import os
import sys
import warnings

if __name__ == "__main__":
    if not glob.glob("/dev/nvidia[0-9]*"):
        print("skipped: there is no GPU", flush=True)
        sys.exit(77)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])

import torch

DEVICE = torch.device(os.environ.get("LACONIC_TEST_DEVICE", "cpu"))
ON_GPU = DEVICE.type == "cuda"

if ON_GPU:
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # or the question itself would spoil the GPU for forks
    if not torch.cuda.is_available():
        print("skipped: there is no GPU, or torch was built without CUDA", flush=True)
        sys.exit(77)


def fork() -> int:
    """os.fork without its warning of threads: those of libraries beside torch sleep, and torch's have not begun."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


@functools.cache
def reaches_forks() -> bool:
    """Whether a fork of this process can use the device. CUDA cannot, once this process has asked for it."""
    if not ON_GPU:
        return True
    child = fork()
    if child == 0:
        try:
            torch.zeros(1, device=DEVICE).add_(1).item()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
