"""Two ranks of an installed laconic meet."""

import pathlib
import sys

import torch.distributed as dist

import laconic
from laconic import _groups

assert pathlib.Path(laconic.__file__).is_relative_to(sys.prefix), laconic.__file__
dist.init_process_group("gloo")
print(_groups.communicator().description, flush=True)
dist.destroy_process_group()
