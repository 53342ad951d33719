"""What a rank would make of the settings of laconic.Optimizer, with nothing made yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import _core, _fitting, _options


def made(
    optimizer: torch.optim.Optimizer,
    model: torch.nn.Module,
    method: str,
    options: dict[str, Any],
    selection: _options.Selection,
    scoring: Callable[[int], Any] | None,
) -> tuple[dict[str, str], dict[str, Any]]:
    """What ranks must have alike, and what the host takes. InvalidConfig for what does not fit together."""
    face = _options.face_of(method)
    _fitting.require_plain(model)
    _fitting.require_fitting(optimizer, method, options, scoring)
    names, parameters, frozen = _fitting.trained(optimizer, model)
    in_group = _fitting.groups_of(optimizer, parameters)
    plan: dict[str, Any] = {
        "model": _core.GivenModel(
            names,
            parameters,
            frozen_names=[name for name, _ in frozen],
            frozen=[parameter for _, parameter in frozen],
            start=[each.detach() for each in (*model.parameters(), *model.buffers())],
        )
    }
    if face == "gradient":
        sends = _core.dense_method if _core.method(method)["optimizer"] else method
        choice = selection.choice(names, parameters, sends, options)
        by = choice.method_of()
        plan |= {"groups": choice.groups, "warmup": selection.warmup}
    else:
        selection.require_everything(method)
        if _core.method(method)["is_sgd"]:
            _fitting.coefficients(method, optimizer.param_groups)
        texts = _options.texts(options)
        _core.check_method(method, texts)
        by = [f"{method}, in group {number} of the optimizer" for number in in_group]
        plan |= {"method": (method, texts), "group_of_parameter": in_group}
    fields = {"optimizer of method": method, "optimizer inside": type(optimizer).__name__}
    fields |= _fitting.described(names, parameters, by)
    fields |= _fitting.settings_of(optimizer)
    fields["scoring"] = "none" if scoring is None else "a function"
    return fields, plan
