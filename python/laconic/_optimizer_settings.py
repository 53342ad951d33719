"""The settings of laconic.Optimizer: whether method, optimizer and model fit together, and the plan made from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _core, _fsdp, _optimizers, _settings, _shards


def require_plain(model: torch.nn.Module) -> None:
    if not isinstance(model, torch.nn.Module):
        raise _core.InvalidConfig(f"model must be a torch.nn.Module, got {type(model).__name__}")
    for module in model.modules():  # it may be inside: of torch.compile, or a part of the model
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            raise _core.InvalidConfig(
                "the model is in DistributedDataParallel, which reduces gradients itself: "
                "give the model without it, or use laconic.attach(ddp, ...)"
            )
    for name, parameter in model.named_parameters():
        if hasattr(parameter, "device_mesh"):
            raise _core.InvalidConfig(
                f"parameter {name} is a DTensor, but the model is not in fully_shard: methods take whole parameters, or "
                "the shards of fully_shard"
            )


def require_fitting(
    optimizer: torch.optim.Optimizer, method: str, options: dict[str, Any], scoring: Callable[[int], Any] | None
) -> None:
    """Raises InvalidConfig if the method does not support this optimizer. Sets the option `score` if it is missing."""
    _optimizers.require_optimizer(optimizer)
    if isinstance(optimizer, torch.optim.LBFGS):
        raise _core.InvalidConfig("LBFGS evaluates the model several times per step, each rank by its own loss: use another")
    if hasattr(optimizer, "read_out"):
        raise _core.InvalidConfig("the optimizer is a laconic.Optimizer already: give it the one inside")
    row = _core.method(method)
    fixed = row["optimizer"].capitalize()  # as torch.optim names its class
    if fixed and not isinstance(optimizer, getattr(torch.optim, fixed)):
        dense = _core.dense_method
        raise _core.InvalidConfig(
            f"{method} is torch.optim.{fixed} on {dense}'s mean, got {type(optimizer).__name__}: "
            f"use method {dense}, or torch.optim.{fixed}"
        )
    if row["is_sgd"]:
        for setting in ("momentum", "weight_decay"):
            if setting in options:
                raise _core.InvalidConfig(f"{method} reads {setting} from the optimizer's groups: set it there")
    if row["takes_scoring"]:
        score = options.setdefault("score", "local" if scoring is None else "shared")
        if (score == "shared") != (scoring is not None):
            raise _core.InvalidConfig(
                f"{method}: score = shared and a scoring function go together, got score = {score} "
                f"{'without' if scoring is None else 'with'} one"
            )
    elif scoring is not None:
        takers = " and ".join(each["name"] for each in _core.methods() if each["takes_scoring"])
        raise _core.InvalidConfig(f"scoring is for {takers}, got it for {method}: leave it out")


def is_sgd(optimizer: torch.optim.Optimizer, method: str) -> bool:
    """Whether the method makes the steps of the optimizer inside itself."""
    return bool(_core.method(method)["is_sgd"]) and type(optimizer).step is torch.optim.SGD.step


def trained(
    optimizer: torch.optim.Optimizer, model: torch.nn.Module
) -> tuple[list[str], list[torch.nn.Parameter], list[tuple[str, torch.nn.Parameter]]]:
    """Names and parameters of the model that the optimizer trains, in order of registration; and the frozen ones."""
    in_groups = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    names, parameters, frozen = [], [], []
    for name, parameter in _settings.named(model):
        name = _fsdp.plain_name(name)
        if id(parameter) not in in_groups:
            continue
        in_groups.discard(id(parameter))
        if parameter.requires_grad:
            names.append(name)
            parameters.append(parameter)
        else:
            frozen.append((name, parameter))
    if in_groups:
        raise _core.InvalidConfig(
            f"the optimizer has {len(in_groups)} parameters that are not the model's: make it with model.parameters()"
        )
    return names, parameters, frozen


def count_of(optimizer: torch.optim.Optimizer) -> int:
    return sum(len(group["params"]) for group in optimizer.param_groups)


def settings_of(optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """Learning rates, momenta and all other settings of the optimizer's groups, as texts that ranks can compare."""
    return {
        f"{name} of group {number} of the optimizer": _told(value)
        for number, group in enumerate(optimizer.param_groups)
        for name, value in group.items()
        if name not in ("params", "param_names")
    }


def _told(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_told, value))})"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(float(value))
    return repr(value) if value is None or isinstance(value, (bool, str)) else type(value).__name__


def coefficients(method: str, groups: Sequence[dict[str, Any]]) -> list[tuple[float, float, float, bool]]:
    """lr, momentum, weight decay and nesterov of each group. Raises InvalidConfig for settings the method has not."""
    found = []
    for number, group in enumerate(groups):
        for setting in ("maximize", "differentiable"):
            if group.get(setting):
                raise _core.InvalidConfig(f"{method} has no {setting}, and group {number} does: set it to False")
        if group.get("dampening"):
            raise _core.InvalidConfig(f"{method} has no dampening, got {group['dampening']} in group {number}: set it to 0")
        rates = (float(group["lr"]), float(group["momentum"]), float(group["weight_decay"]))
        found.append((*rates, bool(group["nesterov"])))
    return found


def groups_of(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.nn.Parameter]) -> list[int]:
    number_of = {id(each): number for number, group in enumerate(optimizer.param_groups) for each in group["params"]}
    return [number_of[id(parameter)] for parameter in parameters]


def plan_of(
    optimizer: torch.optim.Optimizer,
    model: torch.nn.Module,
    method: str,
    options: dict[str, Any],
    selection: _settings.Selection,
    scoring: Callable[[int], Any] | None,
    shards: _shards.Shards | None = None,
) -> tuple[dict[str, str], dict[str, Any]]:
    """The fields that all ranks must have alike, and the host's arguments. Nothing is made yet."""
    face = _settings.face_of(method)
    if shards is None:
        require_plain(model)
    else:
        _shards.require_lockstep(options)
    require_fitting(optimizer, method, options, scoring)
    names, parameters, frozen = trained(optimizer, model)
    in_group = groups_of(optimizer, parameters)
    plan: dict[str, Any] = {
        "model": _core.GivenModel(
            names,
            parameters if shards is None else shards.take(parameters),
            frozen_names=[name for name, _ in frozen],
            frozen=[parameter for _, parameter in frozen],
            start=[_fsdp.local_of(each) for each in (*model.parameters(), *model.buffers())],
        )
    }
    if face == "gradient":
        sends = _core.dense_method if _core.method(method)["optimizer"] else method
        choice = selection.choice(model, names, parameters, sends, options)
        _optimizers.require_suiting(choice.groups, optimizer)
        by = choice.method_of()
        plan |= {"groups": choice.groups, "warmup": selection.warmup}
    else:
        selection.require_everything(method)
        if is_sgd(optimizer, method):
            coefficients(method, optimizer.param_groups)
        texts = _settings.texts(options)
        _core.check_method(method, texts)
        by = [f"{method}, in group {number} of the optimizer" for number in in_group]
        plan |= {"method": (method, texts), "group_of_parameter": in_group}
    fields = {"optimizer of method": method, "optimizer inside": type(optimizer).__name__}
    fields |= _settings.described(names, parameters, by)
    fields |= settings_of(optimizer)
    fields["scoring"] = "none" if scoring is None else "a function"
    return fields, plan
