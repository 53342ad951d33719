"""A small GPT on characters, trained as public trainers do it: AdamW, a cosine schedule with a warm-up, clipping,
gradient accumulation, autocast, checkpoints. The lines with `# laconic` behind them are all that Laconic needs.

    torchrun --nproc-per-node 2 gpt.py                                        # DistributedDataParallel alone
    torchrun --nproc-per-node 2 gpt.py --laconic def-topk                     # sends 2 % of each rank's own AdamW step
    torchrun --nproc-per-node 2 gpt.py --laconic signum --lr 5e-4             # one bit per parameter
    torchrun --nproc-per-node 2 gpt.py --laconic diloco --option period=16    # sends only every 16th step

Without --text it learns a text that it makes up. With --folder it saves there, and goes on from there if it is started
again. The network that public trainers use for tiny Shakespeare has --layers 6 --heads 6 --width 384 --context 256.
"""

import argparse
import contextlib
import math
import os
import pathlib
import random

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import laconic  # laconic

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--text", type=pathlib.Path, help="file to learn; without it a text is made up")
parser.add_argument("--folder", type=pathlib.Path, help="where checkpoints are")
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--save-every", type=int, default=100)
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--heads", type=int, default=4)
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--context", type=int, default=64)
parser.add_argument("--dropout", type=float, default=0.0)
parser.add_argument("--batch", type=int, default=16, help="sequences per rank and backward")
parser.add_argument("--accumulate", type=int, default=1, help="backwards per step")
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--warmup", type=int, default=100, help="steps in which the learning rate rises")
parser.add_argument("--weight-decay", type=float, default=0.1, help="of matrices")
parser.add_argument("--clip", type=float, default=1.0, help="largest norm of a gradient")
parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help="of autocast")
methods = [row["name"] for row in laconic.methods()]  # laconic
parser.add_argument("--laconic", choices=methods, metavar="METHOD", help=", ".join(methods))  # laconic
parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the method")  # laconic
arguments = parser.parse_args()


class Block(torch.nn.Module):
    """Attention to what came before, then two layers for each place."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.before_attention = torch.nn.LayerNorm(width, bias=False)
        self.queries_keys_values = torch.nn.Linear(width, 3 * width, bias=False)
        self.attended = torch.nn.Linear(width, width, bias=False)
        self.before_layers = torch.nn.LayerNorm(width, bias=False)
        self.wide = torch.nn.Linear(width, 4 * width, bias=False)
        self.narrow = torch.nn.Linear(4 * width, width, bias=False)
        self.drop = torch.nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.queries_keys_values(self.before_attention(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        x = x + self.drop(self.attended(mixed.transpose(1, 2).flatten(-2)))
        return x + self.drop(self.narrow(functional.gelu(self.wide(self.before_layers(x)))))


class GPT(torch.nn.Module):
    """Logits of the next character. The output layer shares its weight with the embedding."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        width, layers = arguments.width, arguments.layers
        self.characters = torch.nn.Embedding(characters, width)
        self.places = torch.nn.Embedding(arguments.context, width)
        self.drop = torch.nn.Dropout(arguments.dropout)
        self.blocks = torch.nn.Sequential(*(Block(width, arguments.heads, arguments.dropout) for _ in range(layers)))
        self.norm = torch.nn.LayerNorm(width, bias=False)
        self.output = torch.nn.Linear(width, characters, bias=False)
        self.output.weight = self.characters.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                into_sum = name.endswith(("attended.weight", "narrow.weight"))
                torch.nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if into_sum else 0.02)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        places = torch.arange(inputs.shape[1], device=inputs.device)
        x = self.drop(self.characters(inputs) + self.places(places))
        return self.output(self.norm(self.blocks(x)))


def made_up(sentences: int = 4000) -> str:
    """Plain sentences, the same on all ranks."""
    draw = random.Random(0)
    names = ("Anna", "Boris", "the baker", "a tall sailor", "the old king", "my neighbour", "the fox", "nobody")
    verbs = ("sees", "finds", "forgets", "paints", "follows", "sells", "remembers", "hides")
    things = ("a boat", "the green door", "seven apples", "the letter", "a song", "the river", "its shadow", "bread")
    ends = (".", " at night.", " in the rain.", "; then all is quiet.", " and laughs.", ", as always.")
    chosen = ([draw.choice(words) for words in (names, verbs, things, ends)] for _ in range(sentences))
    lines = (f"{name} {verb} {thing}{end}" for name, verb, thing, end in chosen)
    return "\n".join(line[0].upper() + line[1:] for line in lines)


def batch(data: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    starts = torch.randint(len(data) - arguments.context, (arguments.batch,), generator=generator)
    rows = torch.stack([data[start : start + arguments.context + 1] for start in starts.tolist()]).to(device)
    return rows[:, :-1], rows[:, 1:]


def loss_of(network: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
        return functional.cross_entropy(network(inputs).flatten(0, 1), targets.flatten())


def learning_rate_factor(step: int) -> float:
    """Rises in the warm-up, then falls along a cosine to a tenth."""
    if step < arguments.warmup:
        return (step + 1) / (arguments.warmup + 1)
    share = (step - arguments.warmup) / max(1, arguments.steps - arguments.warmup)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(share, 1.0)))


@torch.no_grad()
def validation_loss() -> float:
    model.eval()
    generator = torch.Generator().manual_seed(0)  # the same batches each time
    losses = [loss_of(model, *batch(held_out, generator)).item() for _ in range(10)]
    model.train()
    return sum(losses) / len(losses)


@torch.no_grad()
def sample(length: int = 120) -> str:
    model.eval()
    found = torch.zeros(1, 1, dtype=torch.long, device=device)
    generator = torch.Generator(device).manual_seed(0)
    for _ in range(length):
        chances = model(found[:, -arguments.context :])[:, -1].softmax(dim=-1)
        found = torch.cat([found, torch.multinomial(chances, 1, generator=generator)], dim=1)
    model.train()
    return "".join(alphabet[i] for i in found[0, 1:].tolist())


rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
on_gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpus else torch.device("cpu")
dtype = getattr(torch, arguments.dtype or ("bfloat16" if on_gpus else "float32"))
dist.init_process_group("nccl" if on_gpus else "gloo")

text = arguments.text.read_text() if arguments.text else made_up()
alphabet = sorted(set(text))
number_of = {character: number for number, character in enumerate(alphabet)}
numbers = torch.tensor([number_of[character] for character in text])
training, held_out = numbers[: len(numbers) * 9 // 10], numbers[len(numbers) * 9 // 10 :]
batches = torch.Generator().manual_seed(1 + rank)  # each rank draws its own

torch.manual_seed(0)
model = GPT(len(alphabet)).to(device)
groups = [
    {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": arguments.weight_decay},
    {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
]
optimizer: torch.optim.Optimizer = torch.optim.AdamW(groups, lr=arguments.lr, betas=(0.9, 0.99))
torch.manual_seed(1 + rank)  # of dropout
scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)

state = hook = None  # laconic
method = next((row for row in laconic.methods() if row["name"] == arguments.laconic), None)  # laconic
options = {name: value for name, _, value in (option.partition("=") for option in arguments.option)}  # laconic
if method and method["suits"] == "vote":  # laconic: the vote is the step, and AdamW would undo it
    optimizer = torch.optim.SGD(groups, lr=arguments.lr)  # laconic
if method and method["face"] == "model":  # laconic: more than a mean of gradients, and in DDP's place
    state = optimizer = laconic.Optimizer(optimizer, model, method["name"], scaler=scaler, **options)  # laconic
    network: torch.nn.Module = model  # laconic
else:  # laconic
    network = DistributedDataParallel(model, device_ids=[device.index] if on_gpus else None)
if method and method["face"] == "gradient":  # laconic: it clips, because after backward gradients are of all ranks
    settings = {"clip": arguments.clip, "optimizer": optimizer, "scaler": scaler, **options}  # laconic
    state = hook = laconic.attach(network, method["name"], **settings)  # laconic
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, learning_rate_factor)


def tested() -> contextlib.AbstractContextManager[object]:
    """Within it the model is the one to test and save."""
    return optimizer.read_out() if isinstance(optimizer, laconic.Optimizer) else contextlib.nullcontext()  # laconic


def save(step: int) -> None:
    """Each rank a file, and only when all are written the name of the step."""
    parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    parts |= {"scaler": scaler.state_dict(), "batches": batches.get_state(), "random": torch.get_rng_state()}
    parts["hook"] = hook.state_dict() if hook else {}  # laconic
    if on_gpus:  # where dropout draws from the generator of the device
        parts["random on the GPU"] = torch.cuda.get_rng_state(device)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    torch.save(parts, arguments.folder / f"step{step}.rank{rank}.pt")
    dist.barrier()
    if rank == 0:
        (arguments.folder / "last.part").write_text(str(step))
        (arguments.folder / "last.part").rename(arguments.folder / "last")


def load() -> int:
    """The step to go on with."""
    if arguments.folder is None or not (arguments.folder / "last").exists():
        return 0
    step = int((arguments.folder / "last").read_text())
    saved = torch.load(arguments.folder / f"step{step}.rank{rank}.pt", weights_only=True)
    for name, part in (("model", model), ("optimizer", optimizer), ("scheduler", scheduler), ("scaler", scaler)):
        part.load_state_dict(saved[name])
    if hook:  # laconic
        hook.load_state_dict(saved["hook"])  # laconic
    batches.set_state(saved["batches"])
    torch.set_rng_state(saved["random"])
    if on_gpus:
        torch.cuda.set_rng_state(saved["random on the GPU"], device)
    return step


start = load()
for step in range(start, arguments.steps):
    optimizer.zero_grad()
    total = 0.0
    for micro in range(arguments.accumulate):
        meets = micro == arguments.accumulate - 1 or not isinstance(network, DistributedDataParallel)
        with contextlib.nullcontext() if meets else network.no_sync():
            loss = loss_of(network, *batch(training, batches)) / arguments.accumulate
            scaler.scale(loss).backward()
        total += loss.item()
    if not hook:  # laconic: which has clipped
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), arguments.clip)
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    if (step + 1) % arguments.save_every == 0 or step + 1 == arguments.steps:
        with tested():
            validation = validation_loss()
        if rank == 0:
            print(f"step {step + 1}: loss {total:.3f}, validation {validation:.3f}", flush=True)
        if arguments.folder is not None:
            save(step + 1)

with tested():
    written = sample()
if rank == 0:
    print(f"steps {start} to {arguments.steps}; it writes:\n{written}")
    if state is not None:  # laconic
        metrics = state.metrics()["total"]  # laconic
        sent, dense = metrics["sent_bytes"], 2 * (ranks - 1) / ranks * metrics["dense_bytes"]  # laconic
        ratio = dense / max(sent, 1)  # laconic
        print(f"sent {sent:,} bytes; dense would send {dense:,.0f}: {ratio:.0f} times as many")  # laconic
dist.destroy_process_group()
