"""Seconds per step of a sharded GPT on slow links: python3 python/benchmarks/sharded_links.py --rates 1gbit 100mbit

Two network namespaces stand for two boxes, with two ranks in each: a mesh of 2 replicas and 2 shards. The link between
them has the given rates (tc's tbf); ranks of one box reach each other over the loopback, which is not shaped. Needs root,
`ip` and `tc`. With --local there are no namespaces and one rate, none: this is the floor.

For each rate and way there is one run: native HSDP, native HSDP that reduces in bfloat16, and methods of Laconic, by
laconic.attach or laconic.Optimizer. A way's figure is the median of its steps, of the slowest rank, in milliseconds, and
the bytes that one rank sends to the other box in a step.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any

BOXES = 2
PER_BOX = 2
PORT = 29431

# name: method, its options, and the precision of native reduction
WAYS: dict[str, tuple[str | None, dict[str, Any], str | None]] = {
    "native": (None, {}, None),
    "native bf16": (None, {}, "bfloat16"),
    "sgd": ("sgd", {}, None),
    "topk": ("topk", {"keep": 0.01}, None),
    "regtopk": ("regtopk", {"keep": 0.01}, None),
    "signum": ("signum", {}, None),
    "def-topk": ("def-topk", {}, None),
}


def work(arguments: argparse.Namespace) -> None:
    """The life of a rank."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    import laconic

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (BOXES, PER_BOX), mesh_dim_names=("replicate", "shard"))
    method, options, reduce = WAYS[arguments.way]
    torch.manual_seed(0)
    width, context = arguments.width, arguments.context

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
            self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

        def forward(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            normed = self.first(values)
            values = values + self.attention(normed, normed, normed, attn_mask=mask, need_weights=False)[0]
            return values + self.down(torch.nn.functional.gelu(self.up(self.second(values))))

    class Gpt(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = torch.nn.Embedding(256, width)
            self.places = torch.nn.Parameter(torch.zeros(context, width))
            self.blocks = torch.nn.ModuleList(Block() for _ in range(arguments.layers))
            self.head = torch.nn.Linear(width, 256)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            mask = torch.triu(torch.full((context, context), float("-inf")), 1)
            values = self.tokens(tokens) + self.places
            for block in self.blocks:
                values = block(values, mask)
            return self.head(values)

    model: Any = Gpt()
    parameters = sum(each.numel() for each in model.parameters())
    policy = MixedPrecisionPolicy(reduce_dtype=getattr(torch, reduce) if reduce else None)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    row = next((row for row in laconic.methods() if row["name"] == method), None)
    votes = row is not None and row["suits"] == "vote"
    optimizer: Any = (torch.optim.SGD if votes else torch.optim.AdamW)(model.parameters(), lr=1e-4)
    source: Any = None
    if row is not None and row["face"] == "gradient":
        source = laconic.attach(model, row["name"], **options)
    elif row is not None:
        source = optimizer = laconic.Optimizer(optimizer, model, row["name"], **options)
    generator = torch.Generator().manual_seed(rank)
    seconds = []
    for _ in range(arguments.warmup + arguments.steps):
        tokens = torch.randint(256, (arguments.batch, context), generator=generator)
        dist.barrier()
        start = time.perf_counter()
        found = model(tokens)
        torch.nn.functional.cross_entropy(found.flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
    slowest = torch.tensor(seconds[arguments.warmup :])
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    width_of = 2 if reduce else 4
    sent = parameters // PER_BOX * width_of  # a ring of two ranks sends the whole
    if source is not None:
        figures = source.metrics()
        sent = figures["total"]["sent_bytes"] // figures["steps"]
    if rank == 0:
        median = statistics.median(slowest.tolist())
        print(json.dumps({"way": arguments.way, "ms": 1000 * median, "sent": sent, "parameters": parameters}), flush=True)
    dist.barrier()
    os._exit(0)


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def name_of(box: int) -> str:
    return f"laconic{box}"


def make_boxes(rate: str | None) -> None:
    for box in range(BOXES):
        run("ip", "netns", "add", name_of(box))
    run("ip", "link", "add", "link0", "netns", name_of(0), "type", "veth", "peer", "name", "link1", "netns", name_of(1))
    for box in range(BOXES):
        inside = ("ip", "-n", name_of(box))
        run(*inside, "addr", "add", f"10.77.0.{box + 1}/24", "dev", f"link{box}")
        run(*inside, "link", "set", f"link{box}", "up")
        run(*inside, "link", "set", "lo", "up")
        if rate:
            shape = ("root", "tbf", "rate", rate, "burst", "256kb", "latency", "200ms")
            run("tc", "-n", name_of(box), "qdisc", "add", "dev", f"link{box}", *shape)


def remove_boxes() -> None:
    for box in range(BOXES):
        subprocess.run(["ip", "netns", "del", name_of(box)], check=False, stderr=subprocess.DEVNULL)


def measure(way: str, local: bool, arguments: argparse.Namespace) -> dict[str, Any]:
    """One run of four ranks."""
    ranks = []
    for rank in range(BOXES * PER_BOX):
        box = rank // PER_BOX
        variables = {"RANK": rank, "LOCAL_RANK": rank % PER_BOX, "WORLD_SIZE": BOXES * PER_BOX, "MASTER_PORT": PORT}
        environment = {**os.environ, **{name: str(value) for name, value in variables.items()}, "OMP_NUM_THREADS": "1"}
        environment["MASTER_ADDR"] = "127.0.0.1" if local else "10.77.0.1"
        environment["GLOO_SOCKET_IFNAME"] = "lo" if local else f"link{box}"
        command = [] if local else ["ip", "netns", "exec", name_of(box)]
        command += [sys.executable, str(pathlib.Path(__file__).resolve()), "--way", way]
        for name in ("steps", "warmup", "width", "layers", "context", "batch"):
            command += [f"--{name}", str(getattr(arguments, name))]
        ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [rank.communicate(timeout=arguments.timeout)[0] for rank in ranks]
    found: dict[str, Any] = json.loads(outputs[0].strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", nargs="+", default=["1gbit", "100mbit"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--local", action="store_true", help="without namespaces: the floor alone")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        work(arguments)
        return
    rates: list[str | None] = [None] if arguments.local else [None, *arguments.rates]
    table: dict[str, list[str]] = {way: [] for way in arguments.ways}
    for rate in rates:
        if not arguments.local:
            remove_boxes()
            make_boxes(rate)
        try:
            for way in arguments.ways:
                found = measure(way, arguments.local, arguments)
                if not table[way]:
                    table[way] = [f"{found['sent']:,}"]
                table[way].append(f"{found['ms']:.0f}")
                print(f"{rate or 'not shaped'}: {found}", file=sys.stderr, flush=True)
        finally:
            if not arguments.local:
                remove_boxes()
    print("| way | bytes per step and rank | " + " | ".join(f"{rate or 'not shaped'}, ms" for rate in rates) + " |")
    print("|---|---|" + "---|" * len(rates))
    for way, cells in table.items():
        print(f"| {way} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
