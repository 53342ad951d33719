"""What this package knows of fully_shard (FSDP2): all private attributes are in this file, with a table by version.

A model is sharded into groups of parameters. Backward reduces each group's gradients to one flat tensor, in which every
rank of a replica has its shards, and then averages it over the replicas. There are two doors at which a method can take
that tensor:

- native HSDP and replicate(): the group's mesh has replicas, and fully_shard calls `allreduce` of their process group.
  An object of ours takes that group's place.
- fully_shard on shards alone, with replicas that the user names: the group's all-reduce hook.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from . import _core, _replicas

# Attributes that are used below, by the kind of thing that has them. Those of 2.11 and 2.14 were read in the source.
_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "module": ("_get_fsdp_state", "reset_iter_state"),
    "state": ("_fsdp_param_groups", "_is_root"),
    "group": (
        "fsdp_params", "modules", "mesh_info", "device", "post_backward", "all_reduce_grads", "gradient_divide_factor",
        "force_sum_reduction_for_comms", "reduce_scatter_unused_params", "_all_reduce_hook",
        "_reduce_scatter_process_group",
    ),
    "parameter": (
        "sharded_param", "sharded_size", "padded_sharded_param_size", "_module_info", "unsharded_accumulated_grad",
        "mesh_info",
    ),
    "mesh": ("mesh",),
    "mesh with replicas": ("replicate_process_group",),
    "mesh with shards": ("shard_process_group", "shard_mesh_dim"),
    "module of collectives": ("_get_gradient_divide_factors",),
}  # fmt: skip
_ATTRIBUTES_2_11 = {
    **_ATTRIBUTES,
    "module": ("_get_fsdp_state",),
    "state": ("_fsdp_param_group", "_is_root"),
    "group": tuple(name for name in _ATTRIBUTES["group"] if name != "reduce_scatter_unused_params"),
}
KNOWN = {"2.11": _ATTRIBUTES_2_11, "2.13": _ATTRIBUTES, "2.14": _ATTRIBUTES}
_COLLECTIVES = "torch.distributed.fsdp._fully_shard._fsdp_collectives"

Take = Callable[["Group", torch.Tensor, float, float], None]


def is_sharded(model: object) -> bool:
    """Whether a part of the model is in fully_shard, replicate() or FSDP1."""
    if not isinstance(model, torch.nn.Module):
        return False
    return any(_is_fsdp1(module) or _is_fsdp2(module) for module in model.modules())


def _is_fsdp1(module: torch.nn.Module) -> bool:
    # By name: its import takes long.
    return "FullyShardedDataParallel" in (each.__name__ for each in type(module).__mro__)


def _is_fsdp2(module: torch.nn.Module) -> bool:
    return "FSDPModule" in (each.__name__ for each in type(module).__mro__)


def _version() -> str:
    return ".".join(torch.__version__.split(".")[:2])


def _require_known(kind: str, thing: object) -> None:
    version = _version()
    if version not in KNOWN:
        raise _core.InvalidConfig(
            f"the model is in fully_shard of torch {version}, whose insides are not known here: "
            f"use torch {' or '.join(KNOWN)}, or DistributedDataParallel"
        )
    for name in KNOWN[version][kind]:
        # Of the class first: a property may refuse to be read.
        if not hasattr(type(thing), name) and not hasattr(thing, name):
            raise _core.InvalidConfig(
                f"fully_shard of torch {torch.__version__} has no attribute {name} of a {kind}, which is needed here: "
                f"use a released torch {' or '.join(KNOWN)}, or DistributedDataParallel"
            )


def _require_known_mesh(info: object) -> None:
    """A mesh with replicas, with shards or with both. One that looks like neither is of another version."""
    classes = [each.__name__ for each in type(info).__mro__]
    kinds = {"DDPMeshInfo": "mesh with replicas", "FSDPMeshInfo": "mesh with shards"}
    found = [kind for name, kind in kinds.items() if name in classes]
    if not found:
        raise _core.InvalidConfig(
            f"fully_shard of torch {torch.__version__} has a mesh of type {classes[0]}, which is not known here: "
            f"use a released torch {' or '.join(KNOWN)}, or DistributedDataParallel"
        )
    for kind in ("mesh", *found):
        _require_known(kind, info)


def plain_name(name: str) -> str:
    """A parameter's name without what torch.compile and activation checkpoints add."""
    return name.replace("_orig_mod.", "").replace("_checkpoint_wrapped_module.", "")


@dataclasses.dataclass
class Group:
    """A group of parameters that fully_shard reduces together."""

    inside: Any  # fully_shard's own object
    name: str
    index_of: dict[Any, int]  # of its parameters among those of the model
    replicas: int
    native: bool  # its mesh has the replicas
    present: list[Any] | None = None  # parameters with a gradient, as its backward has just found them
    partial: torch.Tensor | None = None  # gradients of steps whose exchange was put off, with a hook
    kept: Any = None  # what the door replaced
    error: Exception | None = None  # torch's all_reduce would replace it by one of its own

    def pieces(self, flat: torch.Tensor) -> list[tuple[int, int]]:
        """Index and place of each parameter in a flat tensor."""
        trained = [each for each in self.inside.fsdp_params if each.sharded_param.requires_grad]
        if flat.numel() != sum(map(_padded, trained)):
            here = set(self.present or ())
            trained = [each for each in trained if each in here]
        size = sum(map(_padded, trained))
        if flat.numel() != size:
            raise _core.InvalidConfig(
                f"the gradients of {self.name} have {flat.numel()} entries and its parameters {size}: some had no "
                f"gradient; {_remedy_for_unused()}"
            )
        found, offset = [], 0
        for each in trained:
            if each not in self.index_of:
                raise _core.InvalidConfig(
                    f"a parameter of {self.name} was frozen when the method was attached and has a gradient now: "
                    "close() the state and attach again"
                )
            found.append((self.index_of[each], offset))
            offset += _padded(each)
        return found

    def scaling(self, flat: torch.Tensor, mean: bool) -> tuple[float, float]:
        """Factor of the mean over replicas that fully_shard expects, and what it divides by afterwards."""
        if self.native and mean:
            return 1.0, 1.0
        inside = self.inside
        within = inside._reduce_scatter_process_group if _shards_of(inside) is not None else None
        between = inside.mesh_info.replicate_process_group if self.native else None
        factors = (inside.gradient_divide_factor, inside.force_sum_reduction_for_comms)
        divide_factors = importlib.import_module(_COLLECTIVES)._get_gradient_divide_factors
        divisor = divide_factors(within, between, flat.dtype, flat.device.type, *factors)[1]
        sums = self.native or inside.gradient_divide_factor is not None
        return float(self.replicas if sums else 1), 1.0 if divisor is None else float(divisor)

    def open_door(self, take: Take) -> None:
        """From now on `take` gets every flat tensor that is to be averaged, and what follows of it is zero."""
        inside, original = self.inside, self.inside.post_backward

        def post_backward(*arguments: Any) -> None:
            self.present = [each for each in inside.fsdp_params if _has_gradient(each)]
            self.error = None
            original(*arguments)
            if self.error is not None:
                raise self.error

        inside.post_backward = post_backward
        if self.native:
            self.kept = inside.mesh_info
            inside.mesh_info = copy.copy(inside.mesh_info)  # which groups may share
            inside.mesh_info.replicate_process_group = Between(self, take, self.kept.replicate_process_group)
        else:
            inside._all_reduce_hook = lambda flat: self._hooked(flat, take)

    def close_door(self) -> None:
        """fully_shard goes on as it did before."""
        del self.inside.post_backward
        if self.native:
            self.inside.mesh_info = self.kept
        else:
            self.inside._all_reduce_hook = None
        self.partial = None

    def _hooked(self, flat: torch.Tensor, take: Take) -> None:
        """With a hook, fully_shard does not know of gradients that are to be summed before the exchange."""
        with torch.no_grad():
            if not self.inside.all_reduce_grads:
                self.partial = flat.clone() if self.partial is None else self.partial.add_(flat)
                flat.zero_()
                return
            if self.partial is not None:
                flat.add_(self.partial)
                self.partial = None
        take(self, flat, *self.scaling(flat, mean=False))


class Between:
    """Stands where the process group of the replicas stood. Everything but a gradient's sum goes to that group."""

    def __init__(self, group: Group, take: Take, users: dist.ProcessGroup) -> None:
        self._group, self._take = group, take
        self._users: Any = users

    def allreduce(self, tensors: Sequence[torch.Tensor], options: Any) -> Any:
        if graph_task() < 0:  # not in a backward
            return self._users.allreduce(tensors, options)
        mean = options.reduceOp == dist.ReduceOp.AVG
        try:
            self._take(self._group, tensors[0], *self._group.scaling(tensors[0], mean))
        except Exception as error:
            self._group.error = error
            tensors[0].zero_()  # of this replica alone
        return None  # done, as far as fully_shard is concerned

    def __getattr__(self, name: str) -> Any:
        return getattr(self._users, name)


@dataclasses.dataclass
class Sharding:
    """How a model is sharded, as far as methods need it."""

    groups: list[Group]
    names: list[str]  # of the parameters, group by group
    inside: list[Any]  # fully_shard's objects for them
    replicas: dist.ProcessGroup  # ranks that hold the same shards
    shards: dist.ProcessGroup | None  # ranks of this replica; None: it is one rank
    alone: frozenset[int]  # ids of the parameters without replicas: their shards are of all ranks, each different

    @property
    def parameters(self) -> list[torch.Tensor]:
        """As the model registers them: DTensors with their whole size."""
        return [each.sharded_param for each in self.inside]

    def locals(self) -> list[torch.Tensor]:
        return [local_of(each.sharded_param) for each in self.inside]

    def gradients(self) -> list[torch.Tensor | None]:
        grads = (each.sharded_param.grad for each in self.inside)
        return [None if grad is None else local_of(grad) for grad in grads]

    def device(self) -> torch.device:
        device: torch.device = self.groups[0].inside.device
        return device

    def require_no_early_readers(self) -> None:
        """Gradients are complete at the end of backward, and hooks of parameters would see zeros before."""
        for name, each in zip(self.names, self.inside, strict=True):
            if getattr(each.sharded_param, "_post_accumulate_grad_hooks", None):
                raise _core.InvalidConfig(
                    f"parameter {name} has a hook that runs in backward, as soon as it has its gradient "
                    "(register_post_accumulate_grad_hook), but the replicas' gradients are complete only when backward "
                    "ends: remove the hook and step after backward"
                )


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a DTensor, without a graph."""
    found: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return found.detach()


def graph_task() -> int:
    """The number of the backward that runs in this thread; -1: none does."""
    return int(torch._C._current_graph_task_id())


def at_end_of_backward(call: Callable[[], None]) -> None:
    variable: Any = torch.autograd.Variable
    variable._execution_engine.queue_callback(call)


def reshard(model: torch.nn.Module) -> None:
    """Drops whole parameters that fully_shard still holds, so that it makes them anew from the shards."""
    for module in model.modules():
        if _is_fsdp2(module):
            module.reshard()  # type: ignore[operator]


def _remedy_for_unused() -> str:
    """What a user can do about parameters without a gradient."""
    if "reduce_scatter_unused_params" in KNOWN[_version()]["group"]:
        return "call model.set_reduce_scatter_unused_params(True)"
    return (
        f"fully_shard of torch {_version()} leaves such parameters out: freeze them before attach (requires_grad_(False)), "
        "or use them in every step (add 0 * parameter.sum() to the loss)"
    )


def remedy_for_failed_step() -> str:
    """What a user can do about a step that ended with an error."""
    if "reset_iter_state" in KNOWN[_version()]["module"]:
        return "call abandon_step() of laconic's state on all ranks after an error in a step"
    able = [version for version, known in KNOWN.items() if "reset_iter_state" in known["module"]]
    return (
        f"fully_shard of torch {_version()} cannot be brought back from a step that failed: start the ranks again from a "
        f"checkpoint, or use torch {' or '.join(able)}, with which abandon_step() drops the step"
    )


def require_reset() -> None:
    """Raises InvalidConfig if `reset` cannot bring a model back."""
    if "reset_iter_state" not in KNOWN[_version()]["module"]:
        raise _core.InvalidConfig(remedy_for_failed_step())


def reset(model: torch.nn.Module) -> None:
    """Brings the model back from a forward or backward that ended with an error."""
    for module in model.modules():
        if _is_fsdp2(module) and module._get_fsdp_state()._is_root:  # type: ignore[operator]
            module.reset_iter_state()  # type: ignore[operator]
    for inside in _groups_inside(model):
        for each in inside.fsdp_params:
            # reset_iter_state leaves these, and the next backward would add to them.
            if hasattr(each, "_unsharded_param"):
                each._unsharded_param.grad = None
            each.unsharded_accumulated_grad = None


def found(model: torch.nn.Module, replicas: Any = None) -> Sharding:
    """How the model is sharded. Raises InvalidConfig if there are no replicas to work between."""
    for module in model.modules():
        if _is_fsdp1(module):
            raise _core.InvalidConfig(
                "the model is in FullyShardedDataParallel (FSDP1), which has no place for a method between replicas: "
                "shard it with torch.distributed.fsdp.fully_shard"
            )
    everything = _groups_inside(model)
    insides = [each for each in everything if any(p.sharded_param.requires_grad for p in each.fsdp_params)]
    if not insides:
        raise _core.InvalidConfig("there are no parameters to train: all are frozen, or fully_shard was given none")
    group_names, parameter_names = _names(model, insides)
    given = _replicas.given(replicas)

    def replicated(inside: Any) -> bool:
        return _replicas_of(inside) is not None or (given is not None and _replicas.fit(given, _shard_ranks(inside)))

    chosen = [each for each in insides if replicated(each)]
    if not chosen:
        raise _core.InvalidConfig(_replicas.none_found([_shard_ranks(each) for each in insides], given))
    of_meshes = [_replicas_of(each) for each in chosen]
    if any(isinstance(each, Between) for each in of_meshes):
        raise _core.InvalidConfig("a method works between the model's replicas already: close() that state first")
    between = _replicas.common(of_meshes, given, type(model).__name__)
    shards = _one_shard_group(chosen, group_names)
    # Group by group, as modules are registered, the root's first: exchanges start from the end, as backward goes, and the
    # root's gradients come last whatever lies in it.
    order = [
        each
        for inside in chosen
        for each in sorted(inside.fsdp_params, key=lambda each: parameter_names[each][0])
        if each.sharded_param.requires_grad
    ]
    index_of = {each: i for i, each in enumerate(order)}
    groups = []
    for inside in chosen:
        _require_free(inside, group_names[id(inside)])
        members = {each: index_of[each] for each in inside.fsdp_params if each in index_of}
        native = _replicas_of(inside) is not None
        groups.append(Group(inside, group_names[id(inside)], members, dist.get_world_size(between), native))
    names = [parameter_names[each][1] for each in order]
    alone = (id(each.sharded_param) for inside in everything if not replicated(inside) for each in inside.fsdp_params)
    return Sharding(groups, names, order, between, shards, frozenset(alone))


def _groups_inside(model: torch.nn.Module) -> list[Any]:
    """fully_shard's own groups, each once: fully_shard([a, b]) gives several modules one group."""
    found: dict[int, Any] = {}
    for module in model.modules():
        if not _is_fsdp2(module):
            continue
        _require_known("module", module)
        state = module._get_fsdp_state()  # type: ignore[operator]
        _require_known("state", state)
        for group in _groups_of(state):
            _require_known("group", group)
            _require_known_mesh(group.mesh_info)
            for each in group.fsdp_params:
                _require_known("parameter", each)
            found[id(group)] = group
    if found:
        _require_known("module of collectives", importlib.import_module(_COLLECTIVES))
    return list(found.values())


def _groups_of(state: Any) -> list[Any]:
    """The groups of one call of fully_shard. torch 2.11 has one at most."""
    if hasattr(state, "_fsdp_param_groups"):
        return list(state._fsdp_param_groups)
    return [] if state._fsdp_param_group is None else [state._fsdp_param_group]


def _names(model: torch.nn.Module, insides: Iterable[Any]) -> tuple[dict[int, str], dict[Any, tuple[int, str]]]:
    """Names of groups, and place and name of each parameter. By place, because fully_shard swaps Parameter objects."""
    places: dict[tuple[int, str], tuple[int, str]] = {}
    modules: dict[int, str] = {}
    for prefix, module in model.named_modules():
        modules.setdefault(id(module), plain_name(f"{prefix}.").rstrip("."))
        for name in module._parameters:
            full = plain_name(f"{prefix}.{name}" if prefix else name)
            places.setdefault((id(module), name), (len(places), full))
    groups, parameters = {}, {}
    for inside in insides:
        names = [modules[id(module)] for module in inside.modules if id(module) in modules]
        groups[id(inside)] = " and ".join(name or type(model).__name__ for name in names)
        for each in inside.fsdp_params:
            info = each._module_info
            slots = [(info.module, info.param_name), *zip(info.shared_modules, info.shared_param_names, strict=True)]
            parameters[each] = min(places[id(module), name] for module, name in slots if (id(module), name) in places)
    return groups, parameters


def _padded(parameter: Any) -> int:
    return int(parameter.padded_sharded_param_size.numel())


def _has_gradient(parameter: Any) -> bool:
    if parameter.unsharded_accumulated_grad is not None:
        return True
    return hasattr(parameter, "_unsharded_param") and parameter._unsharded_param.grad is not None


def shard_mesh(inside: Any) -> Any:
    """The mesh over which a parameter is sharded, without its replicas; None: it is whole on every rank."""
    info = inside.mesh_info
    if getattr(info, "shard_mesh_dim", None) is None:
        return None
    if info.mesh.ndim == 1:
        return info.mesh
    return info.mesh[info.mesh.mesh_dim_names[info.shard_mesh_dim]]


def _replicas_of(inside: Any) -> dist.ProcessGroup | None:
    return getattr(inside.mesh_info, "replicate_process_group", None)


def _shards_of(inside: Any) -> dist.ProcessGroup | None:
    return getattr(inside.mesh_info, "shard_process_group", None)


def _shard_ranks(inside: Any) -> list[int]:
    shards = _shards_of(inside)
    return [dist.get_rank()] if shards is None else _replicas.ranks_of(shards)


def _one_shard_group(chosen: Sequence[Any], names: dict[int, str]) -> dist.ProcessGroup | None:
    """The ranks of this replica, which must drop a step together."""
    sharded = [each for each in chosen if len(_shard_ranks(each)) > 1]
    for each in sharded[1:]:
        if _shard_ranks(each) != _shard_ranks(sharded[0]):
            raise _core.InvalidConfig(
                f"{names[id(sharded[0])]} is sharded over ranks {_shard_ranks(sharded[0])} and {names[id(each)]} over "
                f"{_shard_ranks(each)}: methods take one set of shards"
            )
    return _shards_of(sharded[0]) if sharded else None


def _require_free(inside: Any, name: str) -> None:
    if inside._all_reduce_hook is not None:
        raise _core.InvalidConfig(
            f"{name} has an all-reduce hook already: FSDP takes one; attach before set_all_reduce_hook, or take that out"
        )
    for each in inside.fsdp_params:
        dtype = each.sharded_param.dtype
        if each.sharded_param.requires_grad and dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise _core.InvalidConfig(
                f"a parameter of {name} has type {dtype}; methods work in float32 and take float32, float16 and bfloat16: "
                "convert the model"
            )
