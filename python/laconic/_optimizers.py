"""Torch's optimizers: which of them suit a method and a model, their settings, and the plan of a laconic.Optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from . import _core, _fsdp, _selection, _shards, _warning

Group = tuple[str, Sequence[tuple[str, str]], Any]  # a method, its options, its parameters

# Classes that divide a step by the root of a second moment, or by something like it. Other packages derive from them or
# use their names.
ADAPTIVE = (
    "Adam",
    "AdamW",
    "NAdam",
    "RAdam",
    "Adamax",
    "SparseAdam",
    "Adafactor",
    "Adagrad",
    "Adadelta",
    "RMSprop",
)
# What such optimizers call it in their state: those that have made a step are known by it, whatever their class is.
SECOND_MOMENTS = {"exp_avg_sq", "exp_inf", "square_avg", "row_var"}
# Classes of torch.optim whose step multiplies the parameters by 1 - lr * weight_decay if a group asks for it.
DECOUPLED = ("Adam", "AdamW", "NAdam", "RAdam")


def is_adaptive(optimizer: torch.optim.Optimizer) -> bool:
    names = {each.__name__ for each in type(optimizer).__mro__}
    if not names.isdisjoint(ADAPTIVE):
        return True
    return any(not SECOND_MOMENTS.isdisjoint(state) for state in optimizer.state.values() if isinstance(state, dict))


def require_optimizer(optimizer: object) -> None:
    """Raises InvalidConfig if it is none of torch's."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise _core.InvalidConfig(f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")


def require_suiting(groups: Iterable[Group], optimizer: torch.optim.Optimizer) -> None:
    """Raises InvalidConfig for a vote before an optimizer like Adam. Warns of methods that compress gradients so that it
    learns less."""
    if not is_adaptive(optimizer):
        return
    kind = type(optimizer).__name__
    methods_of: dict[str, list[str]] = {"any": [], "sgd": [], "vote": []}
    for method, options, _ in groups:
        methods_of[_core.suits(method, options)].append(method)
    for vote in methods_of["vote"]:
        raise _core.InvalidConfig(
            f"{vote} is a vote: every entry of the aggregate is -1 or 1, and {kind}, which divides by a second moment, "
            "learns little from it: use torch.optim.SGD(..., lr=5e-4, momentum=0), whose step is then the vote "
            f"(`laconic methods {vote}` shows more)"
        )
    if methods_of["sgd"]:
        _warning.warn(
            f"{' and '.join(dict.fromkeys(methods_of['sgd']))} with {kind}: an entry that is sent rarely or rounded "
            "coarsely makes second moments wrong, and the model learns less than without compression. Use "
            f"{_alternatives()}, or torch.optim.SGD"
        )


def _alternatives() -> str:
    """The methods of the table that compress and suit any optimizer."""
    rows = [row for row in _core.methods() if row["suits"] == "any" and not row["optimizer"]]
    gradients = [row["name"] for row in rows if row["face"] == "gradient" and row["name"] != _core.dense_method]
    updates = [row["name"] for row in rows if row["sends_updates"] and not row["is_sgd"]]
    return f"{', '.join(gradients)}, or with laconic.Optimizer {', '.join(updates)}"


def shrink_factors(optimizer: torch.optim.Optimizer) -> list[float]:
    """The factor of each group's parameters in the next step: decoupled weight decay, or 1 if it is not known."""
    known = any(type(optimizer).step is getattr(torch.optim, name).step for name in DECOUPLED)
    always = isinstance(optimizer, torch.optim.AdamW)
    return [
        1.0 - float(group["lr"]) * float(group["weight_decay"])
        if known and group.get("decoupled_weight_decay", always)
        else 1.0
        for group in optimizer.param_groups
    ]


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
    require_optimizer(optimizer)
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
    for name, parameter in _selection.named(model):
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


def unscaling(
    scale: torch.Tensor | None, found_inf: torch.Tensor | None, groups: Sequence[dict[str, Any]]
) -> torch.Tensor | None:
    """What gradients are multiplied by: one over GradScaler's scale. None if they are not scaled.

    If the scaler saw an infinity, which clipping may have hidden, this is NaN, or one gradient becomes NaN. The method
    finds it, and all ranks learn of it from its messages: so they drop the step together. All of this is computed on the
    device, and the caller does not wait for it.
    """
    factor = None if scale is None else scale.double().reciprocal().float().reshape(())
    if found_inf is None:
        return factor
    if factor is not None:
        return _nan_if(found_inf, factor)
    for parameter in (each for group in groups for each in group["params"]):
        gradient = _fsdp.local_of(parameter.grad) if parameter.requires_grad and parameter.grad is not None else None
        if gradient is not None and gradient.numel() > 0:
            gradient.mul_(_nan_if(found_inf, torch.ones((), device=gradient.device)))
            break
    return None


def _nan_if(found_inf: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return factor.masked_fill(found_inf.reshape(()).to(factor.device) > 0, float("nan"))


def plan_of(
    optimizer: torch.optim.Optimizer,
    model: torch.nn.Module,
    method: str,
    options: dict[str, Any],
    selection: _selection.Selection,
    scoring: Callable[[int], Any] | None,
    shards: _shards.Shards | None = None,
) -> tuple[dict[str, str], dict[str, Any]]:
    """The fields that all ranks must have alike, and the host's arguments. Nothing is made yet."""
    face = _selection.face_of(method)
    if shards is None:
        require_plain(model)
    else:
        _shards.require_lockstep(options)
    require_fitting(optimizer, method, options, scoring)
    names, parameters, frozen = trained(optimizer, model)
    if shards is not None:
        shards.require_replicas(names, parameters)
    alone = frozenset() if shards is None else shards.sharding.alone
    start = [each for each in (*model.parameters(), *model.buffers()) if id(each) not in alone]
    in_group = groups_of(optimizer, parameters)
    plan: dict[str, Any] = {
        "model": _core.GivenModel(
            names,
            parameters if shards is None else shards.take(parameters),
            frozen_names=[name for name, _ in frozen],
            frozen=[parameter for _, parameter in frozen],
            start=[_fsdp.local_of(each) for each in start],
        )
    }
    if face == "gradient":
        sends = _core.dense_method if _core.method(method)["optimizer"] else method
        choice = selection.choice(model, names, parameters, sends, options)
        require_suiting(choice.groups, optimizer)
        by = choice.method_of()
        plan |= {"groups": choice.groups, "warmup": selection.warmup}
    else:
        selection.require_everything(method)
        if is_sgd(optimizer, method):
            coefficients(method, optimizer.param_groups)
        texts = _selection.texts(options)
        _core.check_method(method, texts)
        by = [f"{method}, in group {number} of the optimizer" for number in in_group]
        plan |= {"method": (method, texts), "group_of_parameter": in_group}
    fields = {"optimizer of method": method, "optimizer inside": type(optimizer).__name__}
    fields |= _selection.described(names, parameters, by)
    fields |= settings_of(optimizer)
    fields["scoring"] = "none" if scoring is None else "a function"
    return fields, plan
