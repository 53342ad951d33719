"""Gradient methods for DistributedDataParallel: attach, or State with hook."""

# No `from __future__ import annotations` here: DistributedDataParallel compares a hook's annotations with the types.

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from . import _core, _process_groups, _settings, _version_check, checkpoint

__all__ = ["State", "attach", "hook"]

Patterns = str | Iterable[str]


class State:
    """A gradient method with its memory, for one DistributedDataParallel model: what `laconic.hook` needs. Collective.

        ddp.register_comm_hook(laconic.State(ddp, "regtopk", keep=0.01), laconic.hook)

    Making one is collective over the ranks of `ddp`, as `attach` is: it opens process groups of its own over the same
    ranks. Names, sizes and order of the parameters are those of `ddp`; memory is kept by parameter,
    so it does not matter how buckets are filled.

    Args:
        ddp: the wrapped model. Its parameters must not change afterwards.
        method: a gradient method of `laconic.methods()`.
        include: shell patterns of parameters' names (`"*.weight"`, or a list of such); the others travel dense.
        exclude: patterns of those that travel dense although they are included.
        min_size: tensors with fewer entries travel dense. Default: what the method's paper does, which is 10,000 for
            qsgd, so that biases and norms are dense, and 0 for the others.
        groups: methods for some parameters, each a dict with `params` (patterns), `method` and its options, and
            `min_size` if small ones among them shall travel as the rest does; the first that fits counts, and `method`
            serves the rest.
        warmup: so many first steps travel dense.
        scaler: the GradScaler that scales the loss. Gradients are unscaled before anything is remembered; a step with an
            infinity on any rank comes back as infinity on all, so that the scaler skips it on all.
        nonfinite: "error" names rank, tensor and step; "skip" drops the step on all ranks, whose gradients become zero.
        seed: of the method's random draws, the same on all ranks.
        threads: that kernels may use; default: as many as torch uses.
        timeout: seconds that ranks wait for each other; default: the process group's.
        backend: the engine of the process groups that this opens; default: the one that the model's group has for host
            memory, and Gloo beside NCCL, which has none. `"nccl"` sends by way of the device.
        chunk_entries: how many entries travel together in methods that begin before backward ends.
        arrange_buckets: once DistributedDataParallel has settled its buckets, fill them so that a method finds its
            tensors one after another and need not copy them. A method that needs the whole gradient first gets it in one
            bucket.
        options: the method's own: `keep=0.01`, `scope="tensor"`, `bits=4`, … (`laconic.methods()` lists them). A name
            that is a word of Python has an underscore behind it: `return_="full"`.

    Raises:
        InvalidConfig: an unknown method or option, a value out of its range, patterns that fit nothing, a model method,
            a model that is not in DistributedDataParallel, or settings that differ between ranks.
        TransportError: another rank failed or did not come within the timeout. In a step `backward` says so, by a plain
            RuntimeError: autograd keeps an error's words and not its kind.
    """

    def __init__(
        self,
        ddp: DistributedDataParallel,
        method: str,
        *,
        include: Patterns | None = None,
        exclude: Patterns | None = None,
        min_size: int | None = None,
        groups: Sequence[Mapping[str, Any]] = (),
        warmup: int = 0,
        scaler: "torch.amp.GradScaler | None" = None,
        nonfinite: str = "error",
        seed: int = 0,
        threads: int | None = None,
        timeout: float | None = None,
        backend: str | None = None,
        chunk_entries: int = 0,
        arrange_buckets: bool = True,
        **options: Any,
    ) -> None:
        self.method = method
        self._group = getattr(ddp, "process_group", None)
        selection = _settings.Selection(include, exclude, min_size, groups, warmup)

        def prepare() -> tuple[_settings.Fields, tuple[Any, ...]]:
            _settings.require_settings(
                nonfinite=nonfinite,
                scaler=scaler,
                warmup=warmup,
                seed=seed,
                min_size=min_size,
                chunk_entries=chunk_entries,
                threads=threads,
            )
            _process_groups.require_engine(backend)
            _version_check.warn_once()
            names, parameters = _parameters_of(ddp)
            choice = selection.choice(names, parameters, method, options)
            scale = _scale_of(scaler, parameters[0].device)
            hook_options = _core.HookOptions(
                seed=seed,
                warmup=warmup,
                skip=nonfinite == "skip",
                drops_unused=bool(ddp.find_unused_parameters or ddp.static_graph),
                chunk_entries=chunk_entries,
            )
            fields = {"hook of method": method, "backend": str(backend), "arrange_buckets": str(bool(arrange_buckets))}
            fields |= _settings.described(names, parameters, choice.method_of())
            fields["scaler"] = "none" if scale is None else "a scaler"
            return fields, (threads or torch.get_num_threads(), names, parameters, scale, choice.groups, hook_options)

        plan = _settings.agreed(self._group, timeout, prepare)
        self._rank = dist.get_rank(self._group)
        self._size = dist.get_world_size(self._group)
        communicator, self._own = _process_groups.opened(self._group, backend=backend, timeout=timeout)
        self._host = _process_groups.telling(communicator, lambda: _core.DdpHost(communicator, *plan))
        self._own.connected()
        self._arranging = _arrange_later(ddp, self._host) if arrange_buckets else None

    def close(self) -> None:
        """Ends the hook and gives back its thread, its memory and its process groups. Not collective, but on all ranks.

        Between steps; in the middle of one, the other ranks get a TransportError. DistributedDataParallel knows no way
        to take a hook out again: to go on training without it, wrap the model anew. Once is enough, more do no harm.
        Without it all ends with the model and this, or with the interpreter.

        Raises:
            InvalidConfig: in a fork of the process that made this, as every call: a fork has no thread of the hook's.
        """
        if self._arranging is not None:
            self._arranging.remove()
        self._host.close()
        self._own.close()

    def __enter__(self) -> "State":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def metrics(self) -> dict[str, Any]:
        """What was said and how long it took, on this rank; `last` of the last step, `total` of all since it was made.

        `ratio` is the bytes of float32 gradients over those of the payloads. Seconds are those of the hook's thread, by
        stage; exchanges that overlap backward or each other count in full. Ask between steps. Not collective.

        Returns:
            `steps`, `skipped`, `ratio`, `residual_norm` (of what this rank owes), `convert_seconds` (to float32 and
                back), `busy_seconds`, `method_seconds`, and two dicts, `last` and `total`, with `payload_bytes`, `sent_bytes`,
                `received_bytes`, `sent_messages`, `dense_bytes`, `ratio`, `bits`, `select_seconds`, `encode_seconds`,
                `exchange_seconds`, `decode_seconds` and `wait_seconds`.
        """
        return self._host.metrics()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """This rank's memory, under a key that carries the rank: for torch.save by rank and distributed checkpoint.

        Not collective. Ask between steps.
        """
        return checkpoint.save_hook(self._host, self._rank, self._size)

    def gather_state_dict(self) -> dict[str, torch.Tensor]:
        """All ranks' memory, on every rank: for those who save from rank 0. Collective."""
        return checkpoint.gather(self.state_dict(), self._group)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on where the run was saved, bit for bit. Collective.

        Args:
            state_dict: what `state_dict` gave on this rank, or `gather_state_dict` on any; other entries do not matter.

        Raises:
            InvalidConfig: on all ranks, if one of them was given the state of another rank, another number of ranks,
                another method, other settings of the method or other parameters. Nothing has changed then.
        """
        checkpoint.load_hook(self._host, state_dict, self._rank, self._size)


def hook(state: State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """The communication hook: `ddp.register_comm_hook(laconic.State(...), laconic.hook)`. Returns at once.

    Each bucket is a part of one collective step: DDP calls this on all ranks, and nobody else does.

    Args:
        state: the model's.
        bucket: some gradients, as DDP fills it.

    Returns:
        A future of the bucket with the aggregate in it, done when the step is; errors reach `backward` through it.
    """
    return state._host.submit(bucket)


def attach(ddp: DistributedDataParallel, method: str, **settings: Any) -> State:
    """Makes a method the hook of `ddp`, in one line, and gives back its State; takes what State takes. Collective.

        state = laconic.attach(ddp, "regtopk", keep=0.01)

    The hook is C++ all through: the result is that of `laconic.hook`, and a step needs neither Python nor its lock.

    Args:
        ddp: the wrapped model, which has no hook yet.
        method: a gradient method of `laconic.methods()`.
        settings: those of `laconic.State` (`include`, `warmup`, `scaler`, …) and the method's own options.

    Raises:
        InvalidConfig: as `laconic.State` does.
    """
    state = State(ddp, method, **settings)
    try:
        state._host.register_on(ddp.reducer)
    except BaseException:
        state.close()
        raise
    if ddp.logger is not None:
        ddp.logger._set_comm_hook_name(f"laconic {method}")
    return state


def _arrange_later(ddp: DistributedDataParallel, host: _core.DdpHost) -> RemovableHandle | None:
    """Arranges the buckets when DistributedDataParallel has just rebuilt them, or at once if it will not.

    It rebuilds them in the second forward, before it calls the module, and remembers in the backward that follows which
    parameter is where: this call of the module is the moment. Until then nothing here keeps the host or `ddp` alive.
    """
    arranging = host.arranging()
    if ddp.find_unused_parameters and not ddp.static_graph:
        arranging.arrange(ddp.reducer, ddp.bucket_bytes_cap)
        return None
    if getattr(ddp, "_has_rebuilt_buckets", True):
        return None
    wrapper = weakref.ref(ddp)  # the module may outlive it, and has this hook then

    def arrange(module: torch.nn.Module, inputs: object) -> None:
        owner = wrapper()
        if owner is None or module is not owner.module:  # a copy, a teacher or an average of the weights, has the hook too
            module._forward_pre_hooks.pop(handle.id, None)
        elif owner._has_rebuilt_buckets:
            handle.remove()
            arranging.arrange(owner.reducer, owner.bucket_bytes_cap)

    handle = ddp.module.register_forward_pre_hook(arrange)
    return handle


def _parameters_of(ddp: DistributedDataParallel) -> tuple[list[str], list[torch.nn.Parameter]]:
    """The parameters that the reducer reduces, in the order of registration, a shared one once."""
    if not isinstance(ddp, DistributedDataParallel):
        inside = isinstance(getattr(ddp, "_orig_mod", None), DistributedDataParallel)
        remedy = "give the one that torch.compile was given" if inside else "wrap it, or use laconic.Optimizer"
        raise _core.InvalidConfig(f"expected a model in DistributedDataParallel, got {type(ddp).__name__}: {remedy}")
    hook = ddp._get_ddp_logging_data().get("comm_hook")  # type: ignore[no-untyped-call]
    if hook:
        raise _core.InvalidConfig(
            f"the model has a communication hook already, {hook}, and torch takes one: wrap the module anew"
        )
    if getattr(ddp, "_use_python_reducer", False):
        raise _core.InvalidConfig(
            "the model was wrapped under torch._dynamo.config.optimize_ddp = 'python_reducer', which calls no hook with "
            "buckets: set it to 'ddp_optimizer' first, then wrap the module anew"
        )
    parameters, sparse = ddp._build_params_for_reducer()  # type: ignore[no-untyped-call]
    reduced = _reduced_count(ddp)
    if len(parameters) != reduced:
        raise _core.InvalidConfig(
            f"{len(parameters)} parameters need gradients, and {reduced} did when the model was wrapped: "
            "freeze and thaw first, then wrap it in DistributedDataParallel"
        )
    name_of = {parameter: name for name, parameter in reversed(_settings.named(ddp.module))}
    for parameter, is_sparse in zip(parameters, sparse, strict=True):
        if parameter.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise _core.InvalidConfig(
                f"parameter {name_of[parameter]} has type {parameter.dtype}; methods work in float32 and take float32, "
                "float16 and bfloat16: convert the model"
            )
        if is_sparse:
            raise _core.InvalidConfig(
                f"the gradient of {name_of[parameter]} is sparse, and methods need dense ones: make it with sparse=False"
            )
    return [name_of[parameter] for parameter in parameters], parameters


def _reduced_count(ddp: DistributedDataParallel) -> int:
    """How many parameters the reducer has, since it was made."""
    count: int = ddp._get_ddp_logging_data()["num_parameter_tensors"]  # type: ignore[no-untyped-call]
    return count


def _scale_of(scaler: "torch.amp.GradScaler | None", device: torch.device) -> torch.Tensor | None:
    """The tensor that holds the scale; the scaler changes it in place, so the hook can read it without Python."""
    if scaler is None or not scaler.is_enabled():
        return None
    if scaler._scale is None:
        scaler._lazy_init_scale_growth_tracker(device)
    return scaler._scale
