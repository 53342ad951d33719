"""A training script as users write it, under torchrun: saves every third step, and goes on from the last checkpoint.

resuming_run.py FOLDER [--kill-at STEP]: rank 1 is killed there, the first time. Prints a digest of the model at the end.
"""

import argparse
import hashlib
import os
import pathlib
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import laconic

STEPS = 12


def say(line: str) -> None:
    """In one write: ranks share the pipe, and torchrun's unbuffered print writes the end of a line by itself."""
    os.write(1, f"{line}\n".encode())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kill-at", type=int, default=-1)
    given = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    ddp = DistributedDataParallel(model)
    state = laconic.attach(ddp, "regtopk", keep=0.05)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)

    first = 0
    checkpoint = given.folder / "checkpoint"
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        state.load_state_dict(saved["laconic"])
        first = saved["step"]
        say(f"resumed at step {first}")
    restarted = int(os.environ["TORCHELASTIC_RESTART_COUNT"]) > 0
    for step in range(first, STEPS):
        if step == given.kill_at and rank == 1 and not restarted:
            os.kill(os.getpid(), signal.SIGKILL)
        generator = torch.Generator().manual_seed(100 * step + rank)
        inputs, targets = torch.randn(8, 16, generator=generator), torch.randint(0, 4, (8,), generator=generator)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(ddp(inputs), targets).backward()
        optimizer.step()
        if (step + 1) % 3 == 0:
            residuals = state.gather_state_dict()
            if rank == 0:
                given.folder.mkdir(exist_ok=True)
                everything = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "laconic": residuals,
                    "step": step + 1,
                }
                torch.save(everything, given.folder / "partial")
                (given.folder / "partial").rename(checkpoint)
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(bytes(parameter.detach().flatten().view(torch.uint8).tolist()))
    say(f"end {digest.hexdigest()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
