"""Every method, gradient or model, around a torch optimizer, without DistributedDataParallel."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from . import _batch_norm, _core, _optimizers, _process_groups, _selection, _settings, _shards, _version_check
from . import _warning, checkpoint, sharded

__all__ = ["Optimizer"]

COMPARED_EVERY = 64  # steps: ranks compare the settings of the optimizers inside, which costs a message of 16 bytes


class Optimizer(torch.optim.Optimizer):
    """A method around a torch optimizer. It takes the optimizer's place in a training loop on several ranks.

        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        optimizer = laconic.Optimizer(optimizer, model, method="def-a", ratio=64)
        ...
        loss.backward()
        optimizer.step()

    Each rank works on its own batches, and `step` combines them. This is a `torch.optim.Optimizer` and shares
    `param_groups` with the optimizer inside, so learning-rate schedulers, gradient clipping and `GradScaler` work as
    usual.

    The optimizer inside can be any optimizer of torch except LBFGS.

    - Gradient methods (sgd, topk, regtopk, qsgd, signum, ...): `step` replaces the local gradients by the aggregate of
      all ranks, then the optimizer inside makes its step. A vote before an optimizer like Adam is an error, and a
      compressor that makes Adam's second moments wrong is a warning.
    - def-topk, diloco, sparseloco, ef-rbgs, def and def-a: the optimizer inside makes a step at this rank's model, and
      that step is compressed and sent. The optimizer's memory never leaves its rank. Decoupled weight decay (AdamW, and
      NAdam and RAdam with decoupled_weight_decay=True) is applied on all ranks alike and not sent. With
      torch.optim.SGD, ef-rbgs, def and def-a make its steps themselves: its lr, momentum, nesterov and weight_decay are
      read from the groups at each step. The model holds the point where the next gradient is taken.
    - psync, localsgd, easgd, lsgd, mgrawa, lgrawa: the optimizer inside makes a local step, and the models meet in
      rounds. Between rounds the ranks hold different models. A step with an infinity is dropped on its rank alone.

    Test and save inside `with optimizer.read_out():`. Creating an Optimizer is collective: rank 0 sends its parameters
    and buffers to all ranks, and process groups of its own are opened over the same ranks.

    Args:
        optimizer: the optimizer inside. Its parameters must be the model's.
        model: not wrapped in DistributedDataParallel, which would reduce gradients a second time. A model in fully_shard
            with replicas is taken too: the method then works between replicas on this rank's shards, and backward no
            longer averages gradients over replicas.
        method: a name of `laconic.methods()`.
        group: the process group. Default: all ranks. Not for sharded models.
        replicas: for a model that is sharded on one dimension of a mesh, as in `laconic.ShardedState`.
        include: for gradient methods: patterns of the parameters that are compressed, as in `laconic.State`.
        exclude: for gradient methods: patterns of the parameters that are sent dense.
        exempt: for gradient methods: what is sent dense, in words as in `laconic.State` ("vectors", "embeddings",
            "output").
        min_size: for gradient methods: tensors with fewer entries are sent dense.
        groups: for gradient methods: other methods for some parameters, as in `laconic.State`.
        warmup: for gradient methods: number of steps at the start that are sent dense.
        scoring: for mgrawa and lgrawa: a function that is called once per round with the round's number. It computes
            gradients (`loss.backward()`) on a batch that is the same on all ranks. Without it, the scores are the norms
            of the local steps' gradients.
        after_round: for round methods: called after every round, on all ranks. This is where to save an asynchronous
            run.
        scaler: the GradScaler. If a step is dropped because of another rank, the scale is lowered here too.
        nonfinite: "error" raises an error that names rank, tensor and step of a NaN or an infinity. "skip" drops the
            step.
        seed: seed of the method's random draws, the same on all ranks.
        threads: number of threads that kernels may use. Default: as many as torch uses.
        timeout: seconds that ranks wait for each other. Default: the timeout of the process group.
        backend: engine of the process groups that this opens, as in `laconic.State`.
        options: the method's own options: `keep=0.01`, `ratio=64`, `period=16`, `pace="async"`, ... If a name is a
            keyword of Python, append an underscore: `lambda_=0.3`.

    Raises:
        InvalidConfig: for an unknown method or option, a value out of its range, an optimizer (or a setting of it) that
            the method does not support, a model in DistributedDataParallel or sharded without replicas, or settings
            that differ between ranks.
        TransportError: if another rank failed or did not answer within the timeout. `step` and `read_out` raise it too.
    """

    _step_supports_amp_scaling = True  # GradScaler calls step() on every rank, and this decides with the others

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: torch.nn.Module,
        method: str,
        *,
        group: dist.ProcessGroup | None = None,
        replicas: Any = None,
        include: str | Iterable[str] | None = None,
        exclude: str | Iterable[str] | None = None,
        exempt: str | Iterable[str] | None = None,
        min_size: int | None = None,
        groups: Sequence[Mapping[str, Any]] = (),
        warmup: int = 0,
        scoring: Callable[[int], Any] | None = None,
        after_round: Callable[[], Any] | None = None,
        scaler: torch.amp.GradScaler | None = None,
        nonfinite: str = "error",
        seed: int = 0,
        threads: int | None = None,
        timeout: float | None = None,
        backend: str | None = None,
        **options: Any,
    ) -> None:
        self.inner: Any = _Blank()
        super().__init__([torch.nn.Parameter(torch.zeros(1))], {})  # hooks and their like; the groups are those inside
        options = dict(options)
        selection = _selection.Selection(include, exclude, min_size, groups, warmup, exempt)
        shards = _shards.shards_of(model, replicas, group)

        def prepare() -> tuple[_settings.Fields, dict[str, Any]]:
            _settings.require_settings(
                nonfinite=nonfinite, scaler=scaler, warmup=warmup, seed=seed, min_size=min_size, threads=threads
            )
            _process_groups.require_engine(backend)
            _version_check.warn_once()
            fields, plan = _optimizers.plan_of(optimizer, model, method, options, selection, scoring, shards)
            fields |= {"scaler": "none" if scaler is None else "a scaler", "backend": str(backend)}
            fields |= {"seed": str(seed), "nonfinite": nonfinite, "warmup": str(warmup)}
            fields["after_round"] = "none" if after_round is None else "a function"
            return fields, plan

        if shards is None:
            plan = _settings.agreed(group, timeout, prepare)
        else:
            plan = sharded.agreed(shards.sharding, timeout, prepare, {})
        self._shards = shards
        plan |= {"seed": seed, "skips": nonfinite == "skip", "threads": threads or torch.get_num_threads()}
        self.inner = optimizer
        self.model = model
        self.method = method
        self._scaler = scaler
        self._group = group
        self._options = options
        row = _core.method(method)
        self._is_sgd = _optimizers.is_sgd(optimizer, method)
        self._sends_updates: bool = row["sends_updates"]
        self._steps_alike: bool = row["steps_alike"]
        self._needs_loss: bool = row["needs_loss"]
        self._steps_inside = "groups" in plan
        self._scoring = scoring
        self._after_round = after_round
        self._count = _optimizers.count_of(optimizer)
        between = group if shards is None else shards.replicas
        communicator, self._own = _process_groups.opened(between, backend=backend, timeout=timeout)
        make: Callable[..., _core.OptimizerHost] = _core.reducing_host
        if not self._steps_inside:
            make = _core.model_host
            plan["calls"] = _core.HostCalls(
                optimizer=None if self._is_sgd else _weakly(self, "_step_inner"),
                scoring=None if scoring is None else _weakly(self, "_score"),
                after_round=None if after_round is None else _weakly(self, "_tell_round"),
            )
        self._host: Any = _process_groups.made_or_failed(communicator, lambda: make(communicator, **plan))
        self._own.connected()
        _warning.warn_of_copies("parameters", "worked on", self._host.reason_for_cpu)
        if shards is not None:
            shards.open_doors()
        self._steps = 0  # that were begun since this was made

    def close(self) -> None:
        """Releases the method's memory and its process groups. Not collective, but every rank calls it, between steps.

        The model and the optimizer inside stay as they are and can go on without the other ranks. Further calls do
        nothing. Without close(), all is released with this object, or when the interpreter ends.

        Raises:
            InvalidConfig: in a fork of the process that made this, like every call.
        """
        if self._shards is not None:
            self._shards.close_doors()
        self._host.close()
        self._host = _Closed()
        self._own.close()

    def __enter__(self) -> Optimizer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What schedulers, clipping and scalers look at is the optimizer inside.

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of the optimizer inside."""
        found: list[dict[str, Any]] = self.inner.param_groups
        return found

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.inner.param_groups = groups

    @property
    def state(self) -> Any:
        """The state of the optimizer inside."""
        return self.inner.state

    @state.setter
    def state(self, state: Any) -> None:
        self.inner.state = state

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults of the optimizer inside."""
        found: dict[str, Any] = self.inner.defaults
        return found

    @defaults.setter
    def defaults(self, defaults: dict[str, Any]) -> None:
        self.inner.defaults = defaults

    def __repr__(self) -> str:
        return f"laconic.Optimizer(method={self.method!r}) around {self.inner!r}"

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raises InvalidConfig: all ranks agreed on the parameters when this was made. Not collective."""
        if isinstance(self.inner, _Blank):
            super().add_param_group(param_group)
            return
        raise _core.InvalidConfig(
            "add_param_group: all ranks agreed on the parameters when this was made; "
            "add the group to the optimizer inside first and make a new laconic.Optimizer"
        )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Calls zero_grad of the optimizer inside. Not collective."""
        self.inner.zero_grad(set_to_none=set_to_none)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, *, loss: Any = None) -> Any:
        """Makes one step of the run. Collective, except for the local steps of an asynchronous run.

        A parameter without a gradient is treated as if its gradient were zero. A parameter that was frozen since, on
        all ranks, keeps its value.

        Args:
            closure: computes loss and gradients. It is called once, and its loss is used as `loss`.
            loss: the loss of this rank's batch. lsgd needs it to elect its leader.

        Returns:
            The loss, or None if there is none.

        Raises:
            InvalidConfig: for a gradient that is not finite if `nonfinite` is "error" (with rank, tensor and step); for
                lsgd without a loss; for a step after the last of `total_steps`; for learning rates or other settings of
                the optimizer inside that differ between ranks although all must hold the same model (compared every 64
                steps).
            TransportError: if another rank failed or did not answer within the timeout.
        """
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._require_same_parameters()
        self._compare_settings()
        if loss is None and self._needs_loss:
            raise _core.InvalidConfig(
                f"{self.method} elects its leader by the loss: call step(loss=loss), or step(closure)"
            )
        coefficients = _optimizers.coefficients(self.method, self.param_groups) if self._is_sgd else []
        shrink = _optimizers.shrink_factors(self.inner) if self._sends_updates and not self._is_sgd else []
        # Only for who needs it: reading a loss on a device waits for the device.
        value = float(loss) if self._needs_loss else float("nan")
        found = getattr(self, "found_inf", None)  # GradScaler sets this and grad_scale for the time of the call
        scaling = _optimizers.unscaling(getattr(self, "grad_scale", None), found, self.param_groups)
        scaled = (found is not None, scaling)
        if self._shards is None:
            counts = self._host.step(coefficients, shrink, value, 1.0, *scaled)
        else:
            value = self._shards.mean(value) if self._needs_loss else value
            factor = self._shards.finite_factor()
            with self._shards.opened(self._host):
                counts = self._host.step(coefficients, shrink, value, factor, *scaled)
        if not counts:
            self._tell_scaler()
        elif self._steps_inside:
            self.inner.step()
        if self._is_sgd:
            self.inner._opt_called = True  # a scheduler that was made for the optimizer inside looks for this
        return loss

    @property
    def finished(self) -> bool:
        """Whether a round method has made all of its `total_steps`. Then `step` must not be called again."""
        made_all: bool = self._host.finished
        return made_all

    @contextlib.contextmanager
    def read_out(
        self, batches: Iterable[Any] | None = None, *, forward: Callable[[Any], Any] | None = None
    ) -> Iterator[torch.nn.Module]:
        """Within a `with` block, the model holds the point to test and save. Afterwards all is as before, to the bit.

        Collective: every rank enters. Batch norm's running statistics are averaged over the ranks.

        Args:
            batches: if given, batch norm's statistics are first estimated at this point: as the plain mean over forward
                passes in train mode on these batches. A batch is the model's input, or a tuple or list whose first
                entry is.
            forward: runs the model on a batch of another form.

        Yields:
            The model that was given.

        Raises:
            InvalidConfig: if `batches` is empty although the model has batch norms.
            TransportError: if another rank failed or did not enter within the timeout.
        """
        norms = _batch_norm.Statistics(self.model)
        self._host.enter_read_out()
        self._reshard()
        try:
            if batches is not None:
                try:
                    norms.estimate(self.model, batches, forward)
                except BaseException as error:
                    self._host.fail(f"read_out(batches=...): {error}")
                    raise
            self._host.average(norms.tensors)
            if self._shards is not None:
                self._shards.average(norms.tensors)
            yield self.model
        finally:
            norms.restore()
            self._host.leave_read_out()
            self._reshard()

    def metrics(self) -> dict[str, Any]:
        """Bytes, seconds and residual of this rank: `last` for the last step, `total` for all since this was made.

        `ratio` is the bytes of all parameters as float32, in every step, divided by the bytes of the payloads. Not
        collective.

        Returns:
            `steps`, `skipped` and `rounds` of the whole run; `ratio`; `bits` of the last step; `extra`, a figure of the
                method's own; `residual_norm`, the norm of what this rank has not sent yet; and two dicts, `last` and
                `total`, with bytes and with seconds by stage.
        """
        figures: dict[str, Any] = self._host.metrics()
        return figures

    def state_dict(self) -> dict[str, Any]:
        """This rank's memory and the state of the optimizer inside, under keys that contain the rank. Not collective.

        For torch.save per rank and for distributed checkpoint. The state of a model method contains the rank's
        parameters too.
        """
        return checkpoint.save_optimizer(self._host, self.inner, self._shards)

    def gather_state_dict(self) -> dict[str, Any]:
        """The states of all ranks, on every rank: for saving from rank 0. Collective.

        Of a sharded model: those of all replicas of this rank's shards, for saving from each rank of one replica.
        """
        group = self._group if self._shards is None else self._shards.replicas
        return checkpoint.gather_optimizer(self.state_dict(), group)

    def load_state_dict(self, state_dict: Mapping[str, Any], *, redeal: bool = False) -> None:
        """Continues from a saved state, bit for bit. Collective.

        Load the model's state first: model methods then set the parameters to where this rank was.

        Args:
            state_dict: what `state_dict` returned on this rank, or `gather_state_dict` on any rank. Other entries are
                ignored.
            redeal: load the states of all ranks of a run, as `gather_state_dict` returns them, with another number of
                ranks. The mean of the ranks' residuals is kept, momenta become their mean, regtopk forgets its last
                support, and a new rank of a round method starts at the centre. A method that sends the optimizer's
                steps leaves each rank its optimizer's memory; that of a new rank starts empty.

        Raises:
            InvalidConfig: on all ranks, if one of them got the state of another rank, another number of ranks (without
                `redeal`), another method, other settings of the method or another model. Nothing is changed then.
        """
        if redeal:
            memory = "own" if self._sends_updates else "first" if self._steps_alike else "mean"
            checkpoint.redeal_optimizer(self._host, self.inner, state_dict, memory, self._shards)
        else:
            checkpoint.load_optimizer(self._host, self.inner, state_dict, self._shards)

    def _step_inner(self) -> None:
        if self._shards is not None:
            self._shards.give_gradients()
        self.inner.step()

    def _score(self, number: int) -> None:
        statistics = _batch_norm.Statistics(self.model)
        self._reshard()
        with torch.enable_grad(), contextlib.nullcontext() if self._shards is None else self._shards.scored():
            if self._scoring is not None:
                self._scoring(number)
        statistics.restore()

    def _reshard(self) -> None:
        """What fully_shard has gathered of the parameters is of before they were changed."""
        if self._shards is not None:
            self._shards.reshard()

    def _tell_round(self) -> None:
        if self._after_round is not None:
            self._after_round()

    def _require_same_parameters(self) -> None:
        """The optimizer inside would move one that was added to it by this rank's gradient alone."""
        count = _optimizers.count_of(self.inner)
        if count == self._count:
            return
        reason = (
            f"the optimizer inside has {count} parameters and had {self._count} when this was made: "
            "close this and make a new laconic.Optimizer"
        )
        self._host.fail(reason)
        raise _core.InvalidConfig(reason)

    def _compare_settings(self) -> None:
        """If a scheduler follows each rank's own loss, learning rates differ and the models diverge.

        With round methods the models of ranks differ anyway: their settings are compared only when this is made.
        """
        self._steps += 1
        if self._steps % COMPARED_EVERY == 0 and self._steps_alike:
            self._host.agree(list(_optimizers.settings_of(self.inner).items()))

    def _tell_scaler(self) -> None:
        """The scaler of a rank whose own gradients were finite learns that the step was dropped."""
        if self._scaler is None or not self._scaler.is_enabled():
            return
        for found in self._scaler._per_optimizer_states[id(self)]["found_inf_per_device"].values():
            found.fill_(1.0)


class _Closed:
    """Stands for the host that was closed."""

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        raise _core.InvalidConfig(f"{name} after close(): make a new laconic.Optimizer")


class _Blank:
    """Stands for the optimizer inside while the base class is made."""


def _weakly(owner: Optimizer, name: str) -> Callable[..., None]:
    """A bound method that does not keep its owner, which owns the host that calls it."""
    reference = weakref.ref(owner)

    def call(*arguments: Any) -> None:
        getattr(reference(), name)(*arguments)

    return call
