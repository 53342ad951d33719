"""Gradient methods as communication hooks of DistributedDataParallel: `attach`, or `State` with `hook`."""

# No `from __future__ import annotations` here: DistributedDataParallel compares a hook's annotations with the types.

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from . import _core, _fsdp, _process_groups, _selection, _settings, _warning, checkpoint, sharded

__all__ = ["State", "attach", "hook"]

Patterns = str | Iterable[str]


class State:
    """A gradient method with its memory, for one DistributedDataParallel model. `laconic.hook` needs it. Collective.

        ddp.register_comm_hook(laconic.State(ddp, "regtopk", keep=0.01), laconic.hook)

    Creating a State is collective over the ranks of `ddp`, as `attach` is. It opens process groups of its own over the
    same ranks. The method keeps its memory per parameter, so it does not matter how buckets are filled.

    Args:
        ddp: the wrapped model. Its set of parameters must not change afterwards.
        method: a gradient method of `laconic.methods()`.
        include: shell patterns of parameter names (`"*.weight"`, or a list of patterns). The other parameters are sent
            dense.
        exclude: patterns of the parameters that are sent dense although `include` matches them.
        exempt: parameters that are sent dense whatever the patterns and groups are, by one word or a list of words:
            "vectors" (biases, norms: at most one dimension), "embeddings" (of nn.Embedding and nn.EmbeddingBag) and
            "output" (the last nn.Linear, or the one that shares its weight with an embedding).
        min_size: tensors with fewer entries are sent dense. Default: as in the method's paper, which is 10,000 for
            qsgd, so that biases and norms are dense, and 0 for the others.
        groups: other methods for some parameters. Each group is a dict with `params` (patterns), `method` and the
            method's options. It may have a `min_size`: smaller tensors are treated like the rest. The first group that
            matches a parameter counts; `method` is for the rest.
        warmup: number of steps at the start that are sent dense.
        clip: the largest norm that this rank's own gradient may have, over all parameters. A larger gradient is scaled
            down to it before the method remembers or sends anything, by the factor that torch's clip_grad_norm_ would
            use. Use it instead of calling clip_grad_norm_ after backward, which would clip the aggregate. The aggregate
            of a vote has a norm of the root of the number of parameters, so little of it would be left. The norm needs
            the whole gradient, so the exchange begins with the last bucket and does not overlap backward.
        optimizer: the optimizer that steps with the aggregate. It is only looked at: a vote before an optimizer like
            Adam is an error, and a compressor that makes its second moments wrong is a warning.
        scaler: the GradScaler that scales the loss. Gradients are unscaled before the method sees them. If a gradient
            overflows on any rank, all ranks get infinities, so that every scaler skips the step.
        nonfinite: "error" raises an error that names rank, tensor and step. "skip" drops the step on all ranks: their
            gradients become zero.
        seed: seed of the method's random draws, the same on all ranks.
        threads: number of threads that kernels may use. Default: as many as torch uses.
        timeout: seconds that ranks wait for each other. Default: the timeout of the process group.
        backend: engine of the process groups that this opens. Default: the engine that the model's group has for host
            memory, or Gloo if it has none, as with NCCL. With `"nccl"`, messages of a model on a GPU are sent from the
            GPU's memory.
        chunk_entries: number of entries that are exchanged together by methods that start during backward. 0: the
            method's own choice.
        within: two levels. Gradients are averaged uncompressed inside each host, each local rank runs the method on its
            slice of the gradient between the hosts, and the result is gathered inside the host; so the ranks of a host
            share the bytes that leave it. "host": ranks with the same host name, or the same environment variable
            LACONIC_HOST. A process group: its ranks are one host; every rank gives the group that it is in. All hosts
            need the same number of ranks.
        arrange_buckets: fill DistributedDataParallel's buckets, once it has settled them, so that the method finds its
            tensors one after another and need not copy them. A method that needs the whole gradient first gets it in
            one bucket.
        options: the method's own options: `keep=0.01`, `scope="tensor"`, `bits=4`, … (`laconic.methods()` lists them).
            If a name is a keyword of Python, append an underscore: `return_="full"`.

    Raises:
        InvalidConfig: for an unknown method or option, a value out of its range, patterns that match nothing, a model
            method, a model that is not in DistributedDataParallel, or settings that differ between ranks.
        TransportError: if another rank failed or did not answer within the timeout. During a step, `backward` raises a
            plain RuntimeError with the same message, because autograd does not keep an error's type.
    """

    def __init__(
        self,
        ddp: DistributedDataParallel,
        method: str,
        *,
        include: Patterns | None = None,
        exclude: Patterns | None = None,
        exempt: Patterns | None = None,
        min_size: int | None = None,
        groups: Sequence[Mapping[str, Any]] = (),
        warmup: int = 0,
        clip: float | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        scaler: "torch.amp.GradScaler | None" = None,
        nonfinite: str = "error",
        seed: int = 0,
        threads: int | None = None,
        timeout: float | None = None,
        backend: str | None = None,
        chunk_entries: int = 0,
        within: str | dist.ProcessGroup | None = None,
        arrange_buckets: bool = True,
        **options: Any,
    ) -> None:
        self.method = method
        self._group = getattr(ddp, "process_group", None)
        selection = _selection.Selection(include, exclude, min_size, groups, warmup, exempt)
        settings = _settings.HookSettings(
            selection, options, clip, optimizer, nonfinite, seed, threads, backend, chunk_entries
        )

        def prepare() -> tuple[_settings.Fields, tuple[Any, ...]]:
            settings.require(scaler)
            names, parameters = _parameters_of(ddp)
            fields, method_groups = settings.chosen(ddp.module, names, parameters, method)
            scale = _scale_of(scaler, parameters[0].device)
            fields["arrange_buckets"] = str(bool(arrange_buckets))
            fields["scaler"] = "none" if scale is None else "a scaler"
            fields["within"] = _process_groups.require_within(within, self._group)
            hook_options = settings.hook_options(bool(ddp.find_unused_parameters or ddp.static_graph))
            return fields, (threads or torch.get_num_threads(), names, parameters, scale, method_groups, hook_options)

        plan = _settings.agreed(self._group, timeout, prepare)
        self._rank = dist.get_rank(self._group)
        self._size = dist.get_world_size(self._group)
        communicator, self._own = _process_groups.opened(self._group, backend=backend, timeout=timeout)

        def make() -> _core.DdpHost:
            plan[-1].hosts = _process_groups.hosts_of(communicator, within)
            return _core.DdpHost(communicator, *plan)

        self._host = _process_groups.made_or_failed(communicator, make)
        self._own.connected()
        _warning.warn_of_copies("gradients", "compressed", self._host.reason_for_cpu)
        self._arranging = _arrange_later(ddp, self._host) if arrange_buckets else None

    def close(self) -> None:
        """Ends the hook and releases its thread, memory and process groups. Not collective, but every rank calls it.

        Call it between steps. In the middle of one, the other ranks get a TransportError. A hook cannot be removed from
        DistributedDataParallel: to go on training without it, wrap the model again. Further calls do nothing. Without
        close(), all is released with the model and this State, or when the interpreter ends.

        Raises:
            InvalidConfig: in a fork of the process that made this State, like every call: the fork does not have the
                hook's thread.
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
        """Bytes, seconds and residual of this rank: `last` for the last step, `total` for all since this was made.

        `ratio` is the bytes of float32 gradients divided by the bytes of the payloads. Seconds are measured on the
        hook's thread, by stage. Exchanges that overlap backward or each other count in full. Call it between steps. Not
        collective.

        Returns:
            `steps`, `skipped`, `ratio`, `residual_norm` (norm of what this rank has not sent yet), `convert_seconds`
                (to float32 and back, where that is needed), `busy_seconds`, `method_seconds`, and two dicts, `last` and
                `total`, with `payload_bytes`, `sent_bytes`, `received_bytes`, `sent_messages`, `inside_sent_bytes`,
                `inside_received_bytes` (on two levels what stays inside the host; the bytes before leave it),
                `dense_bytes`, `ratio`, `bits`, `select_seconds`, `encode_seconds`, `exchange_seconds`, `decode_seconds`
                and `wait_seconds`.
        """
        return self._host.metrics()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """This rank's memory, under a key that contains the rank: for torch.save per rank and distributed checkpoint.

        Not collective. Call it between steps.
        """
        return checkpoint.save_hook(self._host, self._rank, self._size)

    def gather_state_dict(self) -> dict[str, torch.Tensor]:
        """The memory of all ranks, on every rank: for saving from rank 0. Collective."""
        return checkpoint.gather(self.state_dict(), self._group)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continues from a saved state, bit for bit. Collective.

        Args:
            state_dict: what `state_dict` returned on this rank, or `gather_state_dict` on any rank. Other entries are
                ignored.

        Raises:
            InvalidConfig: on all ranks, if one of them got the state of another rank, another number of ranks, another
                method, other settings of the method or other parameters. Nothing is changed then.
        """
        checkpoint.load_hook(self._host, state_dict, self._rank, self._size)


def hook(state: State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """The communication hook: `ddp.register_comm_hook(laconic.State(...), laconic.hook)`. Returns at once.

    Only DistributedDataParallel calls it. Each bucket is a part of one collective step.

    Args:
        state: the State of the model.
        bucket: some gradients, as DDP fills it.

    Returns:
        A future of the bucket with the aggregate in it. It is done when the step is, and carries errors to `backward`.
    """
    return state._host.submit(bucket)


def attach(ddp: torch.nn.Module, method: str, **settings: Any) -> "State | sharded.ShardedState":
    """Makes a method the communication hook of `ddp`, in one line, and returns its State. Collective.

        state = laconic.attach(ddp, "regtopk", keep=0.01)

    The result has the same bits as with `laconic.hook`, but the hook is C++: a step needs neither Python nor its lock.

    Args:
        ddp: a model in DistributedDataParallel without a hook; or a sharded model, in fully_shard or replicate(),
            between whose replicas the method works.
        method: a gradient method of `laconic.methods()`.
        settings: the settings of `laconic.State` (`include`, `warmup`, `scaler`, …), or for a sharded model those of
            `laconic.ShardedState` (`replicas`, …), and the method's own options.

    Raises:
        InvalidConfig: as `laconic.State` and `laconic.ShardedState` do.
        TransportError: as they do.
    """
    if not isinstance(ddp, DistributedDataParallel) and _fsdp.is_sharded(ddp):
        return sharded.ShardedState(ddp, method, **settings)
    wrapped = cast(DistributedDataParallel, ddp)  # or State refuses it
    state = State(wrapped, method, **settings)
    try:
        state._host.register_on(wrapped.reducer)
    except BaseException:
        state.close()
        raise
    if wrapped.logger is not None:
        wrapped.logger._set_comm_hook_name(f"laconic {method}")
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
        if owner is None or module is not owner.module:  # a copy of the module, an average of weights say, has the hook too
            module._forward_pre_hooks.pop(handle.id, None)
        elif owner._has_rebuilt_buckets:
            handle.remove()
            arranging.arrange(owner.reducer, owner.bucket_bytes_cap)

    handle: RemovableHandle = ddp.module.register_forward_pre_hook(arrange)
    return handle


def _parameters_of(ddp: DistributedDataParallel) -> tuple[list[str], list[torch.nn.Parameter]]:
    """The parameters that the reducer reduces, in the order of registration, a shared one once."""
    if not isinstance(ddp, DistributedDataParallel):
        inside = isinstance(getattr(ddp, "_orig_mod", None), DistributedDataParallel)
        remedy = "give the one that torch.compile was given" if inside else "wrap it, or use laconic.Optimizer"
        raise _core.InvalidConfig(
            f"expected a model in DistributedDataParallel or fully_shard, got {type(ddp).__name__}: {remedy}"
        )
    hook = ddp._get_ddp_logging_data().get("comm_hook")  # type: ignore[no-untyped-call]
    if hook:
        raise _core.InvalidConfig(
            f"the model has a communication hook already, {hook}, and torch takes one: wrap the module again"
        )
    if getattr(ddp, "_use_python_reducer", False):
        raise _core.InvalidConfig(
            "the model was wrapped under torch._dynamo.config.optimize_ddp = 'python_reducer', which calls no hook with "
            "buckets: set it to 'ddp_optimizer' first, then wrap the module again"
        )
    parameters, sparse = ddp._build_params_for_reducer()  # type: ignore[no-untyped-call]
    reduced = _reduced_count(ddp)
    if len(parameters) != reduced:
        raise _core.InvalidConfig(
            f"{len(parameters)} parameters need gradients, and {reduced} did when the model was wrapped: "
            "freeze and thaw first, then wrap it in DistributedDataParallel"
        )
    name_of = {parameter: name for name, parameter in reversed(_selection.named(ddp.module))}
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
