from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, device
from torch._C._distributed_c10d import GradBucket, ProcessGroup, Store
from torch.futures import Future

version: str
torch_version: str
dense_method: str
most_threads: int

class InvalidConfig(ValueError):
    """A wrong setting or call. The message names the value, the allowed range and the remedy. If ranks have to agree on the
    setting, all of them raise it."""

class CorruptPayload(RuntimeError):
    """A message or a saved state is damaged. Nothing was written from it."""

class TransportError(RuntimeError):
    """Another rank failed, with its reason, or did not answer within the timeout."""

def simd() -> tuple[str, str]: ...
def methods() -> list[dict[str, Any]]: ...
def method(name: str) -> dict[str, Any]: ...
def check_method(method: str, options: Sequence[tuple[str, str]]) -> None: ...

class Communicator:
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def description(self) -> str: ...
    @property
    def timeout(self) -> float: ...
    def fail(self, reason: str) -> None: ...

class OptimizerHost:
    @property
    def finished(self) -> bool: ...
    @property
    def reads_out(self) -> bool: ...
    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    def step(self, groups: list[tuple[float, float, float, bool]], loss: float, factor: float, skips: bool) -> bool: ...
    def close(self) -> None: ...
    def agree(self, fields: Sequence[tuple[str, str]]) -> None: ...
    def broadcast(self, tensors: list[Tensor]) -> None: ...
    def average(self, tensors: list[Tensor]) -> None: ...
    def enter_read_out(self) -> None: ...
    def leave_read_out(self) -> None: ...
    def fail(self, reason: str) -> None: ...
    def save(self) -> Tensor: ...
    def load(self, saved: Tensor, refusal: str = "") -> None: ...
    def redeal(self, saved: list[Tensor], refusal: str = "") -> None: ...
    def metrics(self) -> dict[str, Any]: ...

class GivenModel:
    def __init__(
        self,
        names: list[str],
        parameters: Sequence[Tensor],
        frozen_names: list[str],
        frozen: Sequence[Tensor],
        start: Sequence[Tensor],
    ) -> None: ...

class HostCalls:
    def __init__(
        self,
        optimizer: Callable[[], None] | None,
        scoring: Callable[[int], None] | None,
        after_round: Callable[[], None] | None,
    ) -> None: ...

def reducing_host(
    communicator: Communicator,
    threads: int,
    model: GivenModel,
    groups: list[tuple[str, list[tuple[str, str]], list[int]]],
    seed: int,
    warmup: int,
    skips: bool,
) -> OptimizerHost: ...
def model_host(
    communicator: Communicator,
    threads: int,
    model: GivenModel,
    method: tuple[str, list[tuple[str, str]]],
    group_of_parameter: list[int],
    seed: int,
    skips: bool,
    calls: HostCalls,
) -> OptimizerHost: ...
def report_json(runs: list[str]) -> str: ...
class ReservedThreads:
    def __init__(self, count: int, purpose: str) -> None: ...
    def release(self) -> None: ...

def c10d_communicator(
    group: ProcessGroup,
    store: Store,
    make_group: Callable[[], ProcessGroup] | None,
    timeout: float,
    staging: device | None = None,
) -> Communicator: ...

def close_hooks() -> None: ...

class HookOptions:
    def __init__(self, *, seed: int, warmup: int, skip: bool, drops_unused: bool, chunk_entries: int) -> None: ...

class Arranging:
    def arrange(self, reducer: Any, bytes: int) -> None: ...

class DdpHost:
    def __init__(
        self,
        communicator: Communicator,
        threads: int,
        names: Sequence[str],
        parameters: Sequence[Tensor],
        scale: Tensor | None,
        groups: Sequence[tuple[str, Sequence[tuple[str, str]], Sequence[int]]],
        options: HookOptions,
    ) -> None: ...
    def register_on(self, reducer: Any) -> None: ...
    def arranging(self) -> Arranging: ...
    def submit(self, bucket: GradBucket) -> Future[Tensor]: ...
    def close(self) -> None: ...
    def metrics(self) -> dict[str, Any]: ...
    def save(self) -> Tensor: ...
    def load(self, saved: Tensor, refusal: str = "") -> None: ...

def reduce_on_threads(
    method: str,
    options: Sequence[tuple[str, str]],
    names: Sequence[str],
    sizes: Sequence[int],
    seed: int,
    first_step: int,
    gradients: Sequence[Sequence[Tensor]],
) -> None: ...
def step_on_threads(
    method: str,
    options: Sequence[tuple[str, str]],
    sgd: tuple[float, float, bool, float],
    names: Sequence[str],
    sizes: Sequence[int],
    seed: int,
    start: Tensor,
    gradients: Sequence[Sequence[Tensor]],
) -> list[Tensor]: ...

class DirectMethod:
    def __init__(
        self,
        communicator: Communicator,
        threads: int,
        method: str,
        options: Sequence[tuple[str, str]],
        names: Sequence[str],
        sizes: Sequence[int],
    ) -> None: ...
    def reduce(self, step: int, gradient: Tensor) -> None: ...
