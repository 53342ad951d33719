"""Variants of def-topk on a character GPT, modelled in PyTorch: python python/benchmarks/update_variants.py --text FILE

All workers are in one process. Their parameters, gradients, momenta and residuals are flat tensors [workers, entries],
and the network has a leading dimension of workers, so one backward of the sum of their losses gives each worker's own
gradient. Nothing of laconic is imported: this is a second implementation. One step, as in src/methods/updates.cpp with
H = 1 and no outer momentum; lr is the step's learning rate:
  1. each worker's gradient g at y = x - lambda e is clipped to norm 1
  2. m = beta1 m + (1 - beta1) g, v as --moment says, p = e + a m / (sqrt(v) + eps) with Adam's bias corrections; a is
     lr times --gain
  3. c = the entries of p with the largest magnitudes (torch.topk: exactly k per worker), coded as --values says
  4. e = rho (p - c);  D = mean of c over the workers;  x = (1 - lr decay) x - D, with the decay on matrices only
The loss is that of the last tenth of the text at x - mean of e, which is what def-topk evaluates (read = mean).
Bits per entry are those of one worker's message: the entropy of which entries it has, and its values.

Dense AdamW is --keep 1 --values f32 --lam 0 --moment mean. `delta` and `delta-all` make one second moment, which all
workers have, of D alone, so it costs no traffic:
- They convert what came to units of a gradient, d = D (sqrt(v) + eps) / a, with the v that the step used.
- `delta-all`: v = beta2 v + (1 - beta2) d^2 in all entries, with d = 0 where nothing came. If an entry waits t steps
  and then brings the sum of t gradients that are noise, d^2 is t times their square on average. The zeros before it
  therefore make the average right. This also holds for signs, where entries differ in how often they come.
- `delta`: only where something came, v = beta2^t v + (1 - beta2^t) d^2 / t^b, with t the steps since the last time and
  b = --age-power. An entry that waits keeps its v. b = 1 is right if gradients are noise, as above, b = 2 if they
  are the same in all t steps, and b = 0 takes d^2 as it is.
- Both start at the mean square of all workers' first gradients in each tensor, which is one float per tensor and
  worker. There is no bias correction. In delta-all the start counts as 10 steps: the weight of d^2 in step t is
  1 / (t + 10) as long as that is more than 1 - beta2.
- Both divide by the root of (1 - s) v + s (the mean of v in the tensor), s = --shrink. So no entry, however seldom it
  comes, has a step more than 1 / sqrt(s) times that of an average entry.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import lzma
import math
import pathlib
import time

import torch
import torch.nn.functional as F

EPSILON = 1e-8
DEVIATION = 0.02  # of the initial weights
LEARNING_RATES = {"adam": 1e-3, "sign": 5e-4}
START = 10  # steps that the start of delta-all's second moment counts as
SHARED = ("delta", "delta-all", "mean", "mean-of-workers")


@dataclasses.dataclass(frozen=True)
class Size:
    layers: int
    heads: int
    width: int
    context: int
    dropout: float


GPT = Size(layers=6, heads=6, width=384, context=256, dropout=0.2)
SMALL = Size(layers=2, heads=2, width=32, context=32, dropout=0.0)  # for tests


class Text:
    """Characters as tokens: nine tenths for training, the last tenth for validation."""

    def __init__(self, path: pathlib.Path, context: int, device: torch.device) -> None:
        content = lzma.open(path).read() if path.suffix == ".xz" else path.read_bytes()
        alphabet = sorted(set(content))
        tokens = torch.zeros(256, dtype=torch.long)
        tokens[alphabet] = torch.arange(len(alphabet))
        text = tokens[torch.frombuffer(bytearray(content), dtype=torch.uint8).long()].to(device)
        border = len(content) * 9 // 10
        self.characters = len(alphabet)
        self.train, self.validation = text[:border], text[border:]
        self.window = torch.arange(context + 1, device=device)
        if len(self.validation) <= context:
            raise SystemExit(f"{path} has {len(content)} characters: its last tenth must have more than {context}")

    def draw(self, workers: int, batch: int, generator: torch.Generator) -> torch.Tensor:
        """[workers, batch, context + 1], drawn with replacement."""
        device, last = self.train.device, len(self.train) - len(self.window) + 1
        starts = torch.randint(last, (workers, batch, 1), generator=generator, device=device)
        return self.train[starts + self.window]

    def validation_windows(self) -> torch.Tensor:
        """[windows, context + 1]. They follow each other, so each character is predicted once."""
        context = len(self.window) - 1
        starts = torch.arange((len(self.validation) - 1) // context, device=self.train.device)
        return self.validation[starts[:, None] * context + self.window]


class Network:
    """The program's gpt: layer norms first, no bias, the embedding also makes the logits. Holds shapes, not values."""

    def __init__(self, size: Size, characters: int) -> None:
        self.size = size
        width, residual = size.width, DEVIATION / math.sqrt(2 * size.layers)
        self.shapes = [(characters, width), (size.context, width)]
        self.deviations = [DEVIATION, DEVIATION]
        for _ in range(size.layers):
            self.shapes += [(width,), (3 * width, width), (width, width)]
            self.shapes += [(width,), (4 * width, width), (width, 4 * width)]
            self.deviations += [0.0, DEVIATION, residual, 0.0, DEVIATION, residual]
        self.shapes.append((width,))
        self.deviations.append(0.0)
        ends = torch.tensor([math.prod(shape) for shape in self.shapes]).cumsum(0).tolist()
        self.ranges = list(zip([0, *ends[:-1]], ends, strict=True))
        self.entries = ends[-1]

    def start(self, seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        parts = [
            torch.randn(math.prod(shape), generator=generator) * deviation if len(shape) == 2 else torch.ones(shape)
            for shape, deviation in zip(self.shapes, self.deviations, strict=True)
        ]
        return torch.cat(parts)

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """[workers, entries] as a list of [workers, ...]."""
        return [
            flat[:, begin:end].view(len(flat), *shape)
            for (begin, end), shape in zip(self.ranges, self.shapes, strict=True)
        ]

    def loss(self, parameters: list[torch.Tensor], windows: torch.Tensor, training: bool) -> torch.Tensor:
        """The mean over all workers' characters. windows: [workers, batch, context + 1]."""
        size, drop = self.size, self.size.dropout if training else 0.0
        workers, batch, length = windows.shape[0], windows.shape[1], windows.shape[2] - 1
        rows = (workers, batch * length, size.width)
        by_head = (workers * batch, length, 3, size.heads, size.width // size.heads)
        rest = iter(parameters)
        embedding, positions = next(rest), next(rest)

        def norm(values: torch.Tensor) -> torch.Tensor:
            return F.layer_norm(values, (size.width,)) * next(rest)[:, None]

        def linear(values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return torch.bmm(values, weight.transpose(1, 2))

        # One table of all workers' embeddings.
        tables = windows[..., :-1] + embedding.shape[1] * torch.arange(workers, device=windows.device)[:, None, None]
        values = F.embedding(tables, embedding.flatten(0, 1)) + positions[:, None, :length]
        values = F.dropout(values.reshape(rows), drop)
        for _ in range(size.layers):
            parts = linear(norm(values), next(rest)).view(by_head).transpose(1, 3).unbind(2)
            mixed = F.scaled_dot_product_attention(*parts, dropout_p=drop, is_causal=True)
            mixed = mixed.transpose(1, 2).reshape(rows)
            values = values + F.dropout(linear(mixed, next(rest)), drop)
            hidden = F.gelu(linear(norm(values), next(rest)))
            values = values + F.dropout(linear(hidden, next(rest)), drop)
        logits = linear(norm(values), embedding)
        return F.cross_entropy(logits.flatten(0, 1).float(), windows[..., 1:].flatten())


class SecondMoment:
    """v, one per worker or one for all. divisor() returns sqrt(v) + eps, corrected for v's start at zero."""

    def __init__(self, network: Network, flags: argparse.Namespace, device: torch.device) -> None:
        self.network, self.flags = network, flags
        rows = 1 if flags.moment in SHARED else flags.workers
        self.v = torch.zeros(rows, network.entries, device=device)
        self.of_delta = flags.moment in ("delta", "delta-all")
        self.age = torch.zeros(network.entries, device=device) if flags.moment == "delta" else None
        self.used = torch.empty(0)

    def take_gradients(self, g: torch.Tensor, step: int) -> None:
        beta2 = self.flags.beta2
        if self.flags.moment == "local":
            self.v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        elif self.flags.moment == "mean":
            mean = g.mean(0)
            self.v.mul_(beta2).addcmul_(mean, mean, value=1 - beta2)
        elif self.flags.moment == "mean-of-workers":
            norms = torch.linalg.vector_norm(g, dim=0)
            self.v.mul_(beta2).addcmul_(norms, norms, value=(1 - beta2) / len(g))
        elif step == 0:
            for begin, end in self.network.ranges:
                self.v[:, begin:end] = g[:, begin:end].square().mean()

    def divisor(self, step: int, out: torch.Tensor) -> torch.Tensor:
        """Into `out` if there is a v per worker, which saves memory."""
        if not self.of_delta:
            correction = math.sqrt(1 - self.flags.beta2 ** (step + 1))
            self.used = torch.sqrt(self.v, out=out) if len(self.v) == len(out) else self.v.sqrt()
            return self.used.div_(correction).add_(EPSILON)
        self.used = self.v * (1 - self.flags.shrink)
        for begin, end in self.network.ranges:
            self.used[:, begin:end] += self.flags.shrink * self.v[:, begin:end].mean()
        return self.used.sqrt_().add_(EPSILON)

    def take_delta(self, delta: torch.Tensor, step: int, learning_rate: float) -> None:
        if not self.of_delta:
            return
        squares = self.used[0].mul_(delta).div_(learning_rate).square_()
        if self.age is None:
            self.v[0].lerp_(squares, max(1 - self.flags.beta2, 1 / (step + START)))
            return
        came = delta != 0
        self.age.add_(1)
        squares.div_(self.age**self.flags.age_power)
        weight = (1 - self.flags.beta2**self.age).mul_(came)
        self.v[0].lerp_(squares, weight)
        self.age.masked_fill_(came, 0)


class Run:
    """What the workers have, and their steps. x: [entries]; y, g, m and e: [workers, entries]."""

    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags, self.device = flags, torch.device(flags.device)
        size = SMALL if flags.small else GPT
        self.text = Text(flags.text, size.context, self.device)
        self.network = Network(size, self.text.characters)
        self.x = self.network.start(flags.seed).to(self.device)
        self.y = self.x.repeat(flags.workers, 1)
        self.g, self.m, self.e = torch.zeros(3, *self.y.shape, device=self.device)
        self.moment = SecondMoment(self.network, flags, self.device)
        self.leaves = [view.detach().requires_grad_() for view in self.network.views(self.y)]
        for leaf, gradient in zip(self.leaves, self.network.views(self.g), strict=True):
            leaf.grad = gradient  # backward adds to it in place
        self.draws = torch.Generator(self.device).manual_seed(flags.seed)
        torch.manual_seed(flags.seed)  # dropout
        self.bits = 0.0
        self.lam = torch.tensor(0.0 if flags.lam == "optimal" else flags.lam, device=self.device)
        self.lambdas = torch.zeros((), device=self.device)  # their sum over the steps
        self.came = torch.zeros((), device=self.device)  # share of entries that D has

    def learning_rate(self, step: int) -> float:
        steps, rate = self.flags.steps, self.flags.lr
        warm_up = steps // 10
        if step < warm_up:
            return rate * (step + 1) / (warm_up + 1)
        share = (step - warm_up) / (steps - warm_up)
        return rate * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * share)))

    def kept(self, step: int) -> int:
        """Number of entries that a worker sends."""
        share = (step + 0.5) / self.flags.steps
        factor = {"constant": 1.0, "rising": 2 * share, "falling": 2 * (1 - share)}[self.flags.keep_schedule]
        return max(1, round(min(1.0, self.flags.keep * factor) * self.network.entries))

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.flags.precision != "f32")

    def step(self, step: int) -> torch.Tensor:
        """Returns the mean of the workers' losses."""
        flags = self.flags
        windows = self.text.draw(flags.workers, flags.batch // flags.workers, self.draws)
        self.g.zero_()
        with self.autocast():
            loss = self.network.loss(self.leaves, windows, training=True)
        (loss * flags.workers).backward()
        with torch.no_grad():
            rate = self.learning_rate(step)
            norms = torch.linalg.vector_norm(self.g, dim=1, keepdim=True)
            self.g.mul_((flags.clip / (norms + 1e-6)).clamp(max=1.0))
            self.add_direction(step, rate * flags.gain)
            delta = self.exchange(self.kept(step))
            for (begin, end), shape in zip(self.network.ranges, self.network.shapes, strict=True):
                if len(shape) == 2:
                    self.x[begin:end].mul_(1 - rate * flags.weight_decay)
            self.x.sub_(delta)
            self.moment.take_delta(delta, step, rate * flags.gain)
            self.came = (delta != 0).float().mean()
            self.detach()
        return loss.detach()

    def add_direction(self, step: int, rate: float) -> None:
        """2: e becomes p."""
        self.m.lerp_(self.g, 1 - self.flags.beta1)
        if self.flags.direction == "sign":
            self.e.add_(torch.sign(self.m, out=self.g), alpha=rate)
            return
        self.moment.take_gradients(self.g, step)
        correction = 1 - self.flags.beta1 ** (step + 1)
        self.e.addcdiv_(self.m, self.moment.divisor(step, out=self.g), value=rate / correction)

    def exchange(self, kept: int) -> torch.Tensor:
        """3 and 4: e, which is p, becomes the residual. Returns D, the mean of what the workers send."""
        entries, signs = self.network.entries, self.flags.values == "sign"
        share = kept / entries
        entropy = -sum(part * math.log2(part) for part in (share, 1 - share) if part > 0)
        self.bits += entropy + share * (1 if signs else 32)
        if kept == entries:
            sent = self.e.sign() * self.e.abs().mean(1, keepdim=True) if signs else self.e.clone()
            delta = sent.mean(0)
            self.e.sub_(sent)
        else:
            largest, indices = torch.topk(torch.abs(self.e, out=self.g), kept, dim=1, sorted=False)
            sent = self.e.gather(1, indices)
            if signs:
                sent = sent.sign_() * largest.mean(1, keepdim=True)
            delta = torch.zeros_like(self.x).scatter_add_(0, indices.flatten(), sent.flatten()).div_(len(sent))
            self.e.scatter_add_(1, indices, sent.neg_())
        if self.flags.decay != 1:
            self.e.mul_(self.flags.decay)
        return delta

    def detach(self) -> None:
        """y = x - lambda e, with the lambda of this step."""
        if self.flags.lam == "optimal":
            together = self.e.mean(0).square().sum()
            each = torch.linalg.vector_norm(self.e, dim=1).square().mean()
            self.lam = together / each.clamp(min=1e-30)
        self.lambdas += self.lam
        torch.addcmul(self.x, self.e, self.lam, value=-1, out=self.y)

    def read(self) -> torch.Tensor:
        return self.x - self.e.mean(0)

    @torch.no_grad()
    def validation_loss(self) -> float:
        parameters = self.network.views(self.read()[None])
        windows = self.text.validation_windows()
        total = 0.0
        for part in windows.split(64):
            with self.autocast():
                total += self.network.loss(parameters, part[None], training=False).item() * len(part)
        return total / len(windows)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        epilog=__doc__.split("\n\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--text", type=pathlib.Path, required=True, help="the text to learn, plain or .xz")
    add("--workers", type=int, default=4)
    add("--batch", type=int, default=64, help="sequences per step, shared by all workers (64)")
    add("--keep", type=float, default=0.02, help="share of the entries that a worker sends (0.02); 1: all of them")
    add("--keep-schedule", choices=("constant", "rising", "falling"), default="constant",
        help="rising: from 0 to twice --keep along the run; falling: from twice --keep to 0")  # fmt: skip
    add("--values", choices=("sign", "f32"), default="sign", help="sign: signs and the mean magnitude")
    add("--lam", default="0.5", help="lambda (0.5), or optimal: |mean of e|^2 / mean of |e|^2 in each step")
    add("--decay", type=float, default=1.0, help="rho: the residual is multiplied by it in each step (1)")
    add("--direction", choices=("adam", "sign"), default="adam", help="sign: p = e + a sign(m), without a v")
    add("--moment", choices=("local", *SHARED), default="local",
        help="whose squares v has. local: each worker's own gradients. mean: the mean gradient. mean-of-workers: the "
        "mean of all workers' v. The last two are as if known: their traffic is not counted. delta and delta-all: "
        "see below")  # fmt: skip
    add("--shrink", type=float, default=0.1, help="s of delta and delta-all (0.1)")
    add("--age-power", type=float, default=1.0, help="b of delta (1)")
    add("--lr", type=float, help="1e-3, and 5e-4 with --direction sign; warm-up in the first tenth, cosine to a tenth")
    add("--gain", type=float, default=1.0,
        help="multiplies the workers' steps, not the weight decay (1). If gradients are mostly noise, the root of a "
        "worker's own v is sqrt(workers) times that of the mean gradient, and this gain makes up for it")  # fmt: skip
    add("--beta1", type=float, default=0.9)
    add("--beta2", type=float, default=0.99)
    add("--weight-decay", type=float, default=0.1, help="decoupled, on matrices (0.1)")
    add("--clip", type=float, default=1.0, help="largest norm of a worker's gradient (1)")
    add("--steps", type=int, default=1000)
    add("--seed", type=int, default=1)
    add("--small", action="store_true", help="a tiny network, for tests")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--precision", choices=("bf16", "f32"), help="of matrix products: bf16 on a GPU, otherwise f32")
    add("--json", type=pathlib.Path, help="write settings and results to this file")
    flags = parser.parse_args(arguments)
    flags.lam = flags.lam if flags.lam == "optimal" else float(flags.lam)
    flags.lr = flags.lr or LEARNING_RATES[flags.direction]
    flags.precision = flags.precision or ("bf16" if flags.device.startswith("cuda") else "f32")
    if flags.workers < 1 or flags.batch % flags.workers:
        parser.error(f"--batch {flags.batch} must be a multiple of --workers {flags.workers}")
    if not 0 < flags.keep <= 1 or flags.steps < 1:
        parser.error(f"--keep must be in (0, 1] and --steps 1 or more, got {flags.keep} and {flags.steps}")
    if flags.direction == "sign" and flags.moment != "local":
        parser.error("--direction sign has no second moment: leave out --moment")
    return flags


def train(flags: argparse.Namespace) -> dict[str, object]:
    """Prints progress, and returns what --json writes."""
    run, curve, losses = Run(flags), [], []
    begin = time.perf_counter()
    for step in range(flags.steps):
        losses.append(run.step(step))
        if (step + 1) % 100 == 0 or step + 1 == flags.steps:
            mean, came = torch.stack(losses).mean().item(), run.came.item()
            curve.append((step + 1, mean))
            losses.clear()
            taken = (time.perf_counter() - begin) / (step + 1)
            speed = f"{taken * 1000:.1f} ms per step"
            print(f"step {step + 1}: loss {mean:.4f}, {came:.1%} of entries came, {speed}", flush=True)
    seconds = time.perf_counter() - begin
    found = {
        "settings": {name: value for name, value in vars(flags).items() if name not in ("text", "json")},
        "loss": run.validation_loss(),
        "bits": run.bits / flags.steps,
        "seconds": seconds,
        "mean_lambda": run.lambdas.item() / flags.steps,
        "came": came,
        "entries": run.network.entries,
        "training": curve,
        "torch": torch.__version__,
    }
    if run.device.type == "cuda":
        found["device"] = torch.cuda.get_device_name(run.device)
        found["peak_bytes"] = torch.cuda.max_memory_allocated(run.device)
    return found


if __name__ == "__main__":
    given = parsed()
    result = train(given)
    print(f"loss {result['loss']:.4f}, {result['bits']:.4f} bits per entry, {result['seconds']:.1f} s")
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n")
