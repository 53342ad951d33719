"""Parameters that are sent dense by what they are, in one word each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from . import _core

Found = Iterable[torch.Tensor]


def _vectors(model: torch.nn.Module) -> Found:
    return [parameter for parameter in model.parameters() if parameter.dim() <= 1]


def _embeddings(model: torch.nn.Module) -> Found:
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return [parameter for module in model.modules() if isinstance(module, kinds) for parameter in module.parameters()]


def _output(model: torch.nn.Module) -> Found:
    """Of the linear layer that shares its weight with an embedding, or else of the last one."""
    layers = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    embedded = {id(parameter) for parameter in _embeddings(model)}
    tied = [layer for layer in layers if id(layer.weight) in embedded]
    return [parameter for layer in tied or layers[-1:] for parameter in layer.parameters()]


WORDS: dict[str, Callable[[torch.nn.Module], Found]] = {
    "vectors": _vectors,
    "embeddings": _embeddings,
    "output": _output,
}


def exempted(model: torch.nn.Module, exempt: str | Iterable[str] | None) -> set[int]:
    """The ids of the parameters that the words name. Raises InvalidConfig for another word."""
    if exempt is None:
        return set()
    words = [exempt] if isinstance(exempt, str) else list(exempt) if isinstance(exempt, Iterable) else [exempt]
    for word in words:
        if word not in WORDS:
            raise _core.InvalidConfig(
                f"exempt must be one of {', '.join(WORDS)}, or a list of them, got {word!r}: "
                "exclude= takes patterns of names"
            )
    return {id(parameter) for word in words for parameter in WORDS[word](model)}
