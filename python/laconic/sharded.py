"""Gradient methods between the replicas of a sharded model (fully_shard, HSDP, replicate()): `attach` makes the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from . import _core, _fsdp, _process_groups, _selection, _settings, _shards, _warning, checkpoint

__all__ = ["ShardedState"]

Patterns = _selection.Patterns


class ShardedState:
    """A gradient method with its memory, between the replicas of a model in fully_shard. `laconic.attach` makes it.

        model = fully_shard(model, mesh=mesh)              # native HSDP: a mesh of replicas and shards
        state = laconic.attach(model, "topk", keep=0.01)

    Inside a replica fully_shard reduces gradients as usual. Between replicas the method exchanges each rank's shards
    while backward goes on, and the aggregate is added to the gradients when backward ends. Each backward that
    all-reduces is one step of the method. Creating it is collective over all ranks of the model.

    Args:
        model: in fully_shard on a mesh of two dimensions, in replicate(), or in fully_shard on one dimension with
            `replicas`.
        method: a gradient method of `laconic.methods()`. It works on this rank's shards: `keep` and `scope` count their
            entries.
        replicas: the ranks that hold the same shards, for a model that is sharded on one dimension of a mesh:
            `mesh["replicate"]`, or a process group. Leave it out if fully_shard knows the replicas.
        include: shell patterns of parameter names, as in `laconic.State`.
        exclude: patterns of the parameters that are sent dense although `include` matches them.
        exempt: what is sent dense, in words as in `laconic.State` ("vectors", "embeddings", "output").
        min_size: parameters with fewer entries, over all shards, are sent dense.
        groups: other methods for some parameters, as in `laconic.State`.
        warmup: number of steps at the start that are sent dense.
        clip: the largest norm that a replica's own gradient may have, over all parameters and shards. A larger one is
            scaled down before the method remembers or sends anything.
        optimizer: the optimizer that steps with the aggregate; it is only looked at, as in `laconic.State`.
        nonfinite: "error" raises an error on all ranks. "skip" drops the step on all ranks: it adds zeros to the
            gradients.
        seed: seed of the method's random draws, the same on all ranks.
        threads: number of threads that kernels may use. Default: as many as torch uses.
        timeout: seconds that ranks wait for each other. Default: the timeout of the replicas' process group.
        backend: engine of the process groups that this opens, as in `laconic.State`.
        chunk_entries: number of entries that are exchanged together by methods that start during backward. 0: the
            method's own choice.
        options: the method's own options.

    Raises:
        InvalidConfig: for a model without replicas, in FSDP1 or with an all-reduce hook; and as `laconic.State` does.
        TransportError: if another rank failed or did not answer within the timeout. `backward` raises it too.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        method: str,
        *,
        replicas: Any = None,
        include: Patterns | None = None,
        exclude: Patterns | None = None,
        exempt: Patterns | None = None,
        min_size: int | None = None,
        groups: Sequence[Mapping[str, Any]] = (),
        warmup: int = 0,
        clip: float | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        nonfinite: str = "error",
        seed: int = 0,
        threads: int | None = None,
        timeout: float | None = None,
        backend: str | None = None,
        chunk_entries: int = 0,
        **options: Any,
    ) -> None:
        if options.pop("scaler", None) is not None:
            raise _core.InvalidConfig(
                "scaler is for DistributedDataParallel: reduce a sharded model's gradients in bfloat16 or float32"
            )
        self.method = method
        self._model = model
        _fsdp.reshard(model)  # the parameters are found by those that the model registers when it is sharded
        sharding = _fsdp.found(model, replicas)
        selection = _selection.Selection(include, exclude, min_size, groups, warmup, exempt)
        settings = _settings.HookSettings(
            selection, options, clip, optimizer, nonfinite, seed, threads, backend, chunk_entries
        )

        def prepare() -> tuple[_settings.Fields, tuple[Any, ...]]:
            settings.require()
            sharding.require_no_early_readers()
            fields, method_groups = settings.chosen(model, sharding.names, sharding.parameters, method)
            fields |= {"seed": str(seed), "nonfinite": nonfinite}
            fields |= {"warmup": str(warmup), "chunk_entries": str(chunk_entries)}
            return fields, (method_groups, settings.hook_options(drops_unused=True))

        choice, hook_options = agreed(sharding, timeout, prepare, _described(sharding))
        self._group = None  # of a RunLog: all ranks
        self._options = dict(options)
        self._rank, self._replicas = dist.get_rank(sharding.replicas), dist.get_world_size(sharding.replicas)
        self._sharding = sharding
        self._open_host(threads or torch.get_num_threads(), choice, hook_options, backend, timeout)
        _warning.warn_of_copies("gradients", "compressed", self._host.reason_for_cpu)
        self._states = _shards.ShardStates(self._host, sharding, choice)
        self._exchange = _Exchange(self._host, sharding, _votes(choice))
        for group in sharding.groups:
            group.open_door(self._exchange.take)

    def _open_host(
        self,
        threads: int,
        choice: _selection.Groups,
        hook_options: _core.HookOptions,
        backend: str | None,
        timeout: float | None,
    ) -> None:
        """The host, with process groups of its own over the replicas and over the shards of this one."""
        sharding = self._sharding
        between, own = _process_groups.opened(sharding.replicas, backend=backend, timeout=timeout)
        inside, self._own = None, [own]
        if sharding.shards is not None:
            inside, own = _process_groups.opened(sharding.shards, backend=backend, timeout=timeout)
            self._own.append(own)
        names, sizes = sharding.names, [each.numel() for each in sharding.locals()]

        def make() -> _core.FsdpHost:
            return _core.FsdpHost(between, inside, threads, names, sizes, sharding.device(), choice, hook_options)

        def make_or_tell_shards() -> _core.FsdpHost:
            return make() if inside is None else _process_groups.made_or_failed(inside, make)

        self._host = _process_groups.made_or_failed(between, make_or_tell_shards)
        for each in self._own:
            each.connected()

    def close(self) -> None:
        """Gives fully_shard its own all-reduce back and releases the thread, memory and process groups.

        Not collective, but every rank calls it, between steps. Further calls do nothing. Without close(), all is
        released with the model and this state, or when the interpreter ends.
        """
        for group in self._sharding.groups:
            group.close_door()
        self._sharding.groups = []
        self._host.close()
        for each in self._own:
            each.close()

    def __enter__(self) -> ShardedState:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def abandon_step(self) -> None:
        """Drops a step that ended with an error, and makes the model ready for the next one. Collective.

        Every rank of the model calls it, after every error of backward. The methods' residuals are those of before the
        step, on all ranks, also on those that had gone on: their backward raises InvalidConfig. fully_shard's
        parameters are sharded again, and what it had accumulated of the step is discarded, also the gradients that
        `reset_iter_state` leaves behind. Gradients of earlier backward passes in `.grad` stay. After a TransportError
        there is no next step: start the ranks again.

        Raises:
            InvalidConfig: for torch 2.11, whose fully_shard cannot be brought back from a step that failed.
        """
        _fsdp.require_reset()
        self._exchange.forget()
        self._host.abandon()
        _fsdp.reset(self._model)

    def metrics(self) -> dict[str, Any]:
        """Bytes, seconds and residual of this rank, as `laconic.State.metrics`.

        Its bytes are those between replicas, for this rank's shards. `last` and `total` have two more entries:
        `inside_sent_bytes`, the bytes that this rank sends inside its replica to reduce gradients to shards, in backward
        passes that are exchanged; and `early_entries`, the entries whose aggregate was there before the last gradient
        was, because their exchange ran during backward. Call it between steps. Not collective.
        """
        figures: dict[str, Any] = self._host.metrics()
        return figures

    def state_dict(self) -> dict[str, Any]:
        """The memory for distributed checkpoint: a DTensor per parameter and replica. Collective over a replica's ranks.

            dcp.save({"model": model_state, "laconic": state}, checkpoint_id=path)    # state has this method itself
            dcp.load({"model": model_state, "laconic": state}, checkpoint_id=path)

        Call it between steps. For torch.save per rank take `rank_state_dict`.
        """
        return self._states.saved()

    def rank_state_dict(self) -> dict[str, torch.Tensor]:
        """This rank's memory, under a key that contains the replica's and the shard's number. For torch.save per rank.

        Not collective. Call it between steps.
        """
        return {self._key(): self._host.save()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continues from a saved state. Collective.

        With the same numbers of replicas and shards, the run continues bit for bit. With another number of shards,
        residuals and momenta are sharded anew, and a method forgets what it forgets when ranks come and go (regtopk's
        last support). For another number of replicas there is `load_checkpoint`.

        Args:
            state_dict: what `state_dict` returned, as distributed checkpoint has loaded it, or what `rank_state_dict`
                returned on this rank. Other entries are ignored.

        Raises:
            InvalidConfig: on all replicas of a shard, if one of them got the state of another rank or number of ranks,
                another method, other settings of the method or other parameters. Nothing is changed there. Other shards may
                have loaded theirs: load a state that all ranks take before the next step.
        """
        if any(str(key).startswith("laconic/rank") for key in state_dict):
            checkpoint.load_shard(self._host, state_dict, self._key())
        else:
            checkpoint.load_bytes(self._host, lambda: self._states.loaded(state_dict))

    def load_checkpoint(self, checkpoint_id: Any, key: str = "laconic") -> None:
        """Continues from a distributed checkpoint of any numbers of replicas and shards. Collective over all ranks.

        With another number of replicas, every replica starts with the mean of the saved residuals and momenta, so that
        nothing that was to be sent is lost.

        Args:
            checkpoint_id: the folder of the checkpoint.
            key: the key under which this state was saved.

        Raises:
            InvalidConfig: as `load_state_dict` does.
        """
        from torch.distributed.checkpoint.filesystem import FileSystemReader
        from torch.distributed.checkpoint.state_dict_loader import load

        prefix = f"{key}."
        saved = FileSystemReader(checkpoint_id).read_metadata().state_dict_metadata
        keys = {each.removeprefix(prefix) for each in saved if each.startswith(prefix)}

        def read(wanted: dict[str, Any]) -> None:
            nested = {key: wanted}
            load(nested, checkpoint_id=checkpoint_id)
            wanted.update(nested[key])

        checkpoint.load_bytes(self._host, lambda: self._states.redealt(read, keys))

    def _key(self) -> str:
        return f"laconic/rank{self._rank}of{self._replicas}/{_shards.place_of(self._sharding)}{checkpoint.HOOK}"


class _Exchange:
    """What fully_shard calls in backward: hands gradients to the host, and ends the step when backward ends."""

    def __init__(self, host: Any, sharding: _fsdp.Sharding, votes: Mapping[int, str]) -> None:
        self._host = host
        self._sharding = sharding
        self._votes = votes
        self._task: int | None = None  # the backward that the open step is of

    def take(self, group: _fsdp.Group, flat: torch.Tensor, factor: float, divisor: float) -> None:
        task = _fsdp.graph_task()
        if task != self._task:
            if self._host.in_step:
                raise _core.InvalidConfig(
                    f"the backward before this one did not end: {_fsdp.remedy_for_failed_step()}"
                )
            self._task = task
            _fsdp.at_end_of_backward(self._finish)
        pieces = group.pieces(flat)
        if (factor, divisor) != (1.0, 1.0):
            self._require_no_vote(group, pieces)
        self._host.submit(flat.detach(), pieces, factor, divisor)

    def forget(self) -> None:
        self._task = None
        for group in self._sharding.groups:
            group.partial = None

    def _finish(self) -> None:
        self._task = None
        self._sharding.require_no_early_readers()
        self._host.finish(self._sharding.gradients())

    def _require_no_vote(self, group: _fsdp.Group, pieces: Sequence[tuple[int, int]]) -> None:
        for index, _ in pieces:
            if index in self._votes:
                raise _core.InvalidConfig(
                    f"{self._votes[index]} is a vote, whose entries are -1 and 1, and the gradients of {group.name} are "
                    "summed and divided: reduce in float32 or bfloat16, without set_gradient_divide_factor and "
                    "set_force_sum_reduction_for_comms"
                )


def _votes(groups: _selection.Groups) -> dict[int, str]:
    """The method of each parameter that is decided by a vote."""
    return {
        index: method
        for method, texts, members in groups
        if _core.suits(method, texts) == "vote"
        for index in members
    }


def agreed(sharding: _fsdp.Sharding, timeout: float | None, prepare: Any, alike: _settings.Fields) -> Any:
    """The plan of `prepare`, once the ranks of this replica and then those of all replicas have compared it. If one rank
    of the model refuses, all do. `alike`: what the replicas of a shard must have in common besides."""

    def of_replica() -> tuple[_settings.Fields, Any]:
        fields: _settings.Fields = {}

        def own() -> tuple[_settings.Fields, Any]:
            found, plan = prepare()
            fields.update(found)
            return found, plan

        plan = own()[1] if sharding.shards is None else _settings.agreed(sharding.shards, timeout, own)
        return fields | alike, plan

    return _settings.agreed(sharding.replicas, timeout, of_replica)


def _described(sharding: _fsdp.Sharding) -> _settings.Fields:
    """What the replicas of a shard must have in common."""
    fields = {}
    for name, each in zip(sharding.names, sharding.locals(), strict=True):
        fields[f"shard of {name}"] = f"{tuple(each.shape)}, {each.dtype}"
    for group in sharding.groups:
        fields[f"divide factor of {group.name}"] = str(group.inside.gradient_divide_factor)
    for name, each in zip(sharding.names, sharding.locals(), strict=True):
        fields[f"values of {name} (replicas must start alike)"] = _checksum(each)
    return fields


def _checksum(values: torch.Tensor) -> str:
    if values.is_meta:
        return "none yet"
    words = {2: torch.int16, 4: torch.int32}[values.element_size()]
    whole = values.contiguous().view(words)
    return str(int(whole.sum(dtype=torch.int64)))
