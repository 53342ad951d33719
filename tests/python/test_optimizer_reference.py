"""laconic.Optimizer computes what the C++ method computes on the same gradients."""

import unittest
from typing import Any

import torch
import torch.distributed as dist
from networks import batch, flat, loss_of, network, small_options
from ranks import run_ranks

import laconic
from laconic import _core, _selection

SGD_METHODS = ("ef-rbgs", "def", "def-a")
FACES = {row["name"]: row["face"] for row in laconic.methods()}


def gathered(steps: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """All ranks' gradients by rank and step."""
    mine = torch.stack(steps)
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(found, mine)
    return [list(each) for each in found]


def recorded(method: str, steps: int, **groups: Any) -> tuple[laconic.Optimizer, list[torch.Tensor], list[torch.Tensor]]:
    """A run of the method with the gradients before and after each step, flat."""
    model = network()
    inner = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, **groups)
    optimizer = laconic.Optimizer(inner, model, method, seed=3, threads=1, **small_options(method))
    given, made = [], []
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, *batch(dist.get_rank(), step)).backward()
        given.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).cpu())
        optimizer.step(loss=0.0)
        made.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).cpu())
    return optimizer, given, made


def equals_the_method(steps: int) -> list[str]:
    """Which methods differ from the C++ method on the same gradients, and by how much; known to rank 0."""
    wrong = []
    names = [name for name, _ in network().named_parameters()]
    sizes = [parameter.numel() for parameter in network().parameters()]
    for method, face in FACES.items():
        if method == "adam":
            continue
        nesterov = method != "ef-rbgs"
        optimizer, given, made = recorded(method, steps, weight_decay=0.01, nesterov=nesterov)
        gradients = gathered(given)
        results = gathered(made if face == "gradient" else [flat(optimizer.model)])
        if dist.get_rank() != 0:
            continue
        options = _selection.texts({name: value for name, value in small_options(method).items() if name != "min_size"})
        if method in ("mgrawa", "lgrawa"):
            options.append(("score", "local"))
        if face == "gradient":
            _core.reduce_on_threads(method, options, names, sizes, 3, 0, gradients)
            expected = gradients
        else:
            sgd = (0.05, 0.9, nesterov, 0.01)
            models = _core.step_on_threads(method, options, sgd, names, sizes, 3, flat(network()), gradients)
            expected = [[model] for model in models]
        difference = max((a - b).abs().max().item() for a, b in zip(flattened(results), flattened(expected), strict=True))
        # Torch's own SGD, which makes the local steps of the others, has fused operations that ours has not.
        if difference > (0.0 if face == "gradient" or method in SGD_METHODS else 1e-5):
            wrong.append(f"{method} by {difference}")
    return wrong


def flattened(by_rank: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    return [each for steps in by_rank for each in steps]


class ReferenceTest(unittest.TestCase):
    def test_equals_the_method_alone(self) -> None:
        for ranks, steps in ((2, 9), (3, 9), (4, 5)):
            self.assertEqual(run_ranks(ranks, equals_the_method, steps), [[]] * ranks)


if __name__ == "__main__":
    unittest.main()
