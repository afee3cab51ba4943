"""The ranks of a run: the share of the data, and gradients, buffers and values that ranks exchange.

DistributedDataParallel averages gradients, or FSDP2 keeps weights, gradients and optimizer state in shards.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch._C._distributed_c10d import FileStore
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map_only

from engine.experiment.experiment import Experiment, setting_error, setting_title
from engine.experiment.problem import Problem, ProblemError, request_error, request_problem
from engine.experiment.settings import Ranks
from engine.protocol import jobs
from engine.training.precision import autocast_dtype

# A rank that died is noticed at once by who started it; one that is slow, as in compiling, is waited for.
_PATIENCE = timedelta(hours=1)


@dataclass(frozen=True)
class Rank:
    """This process's place in a multi-device run: its number (0-based) among the `count` processes."""

    number: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """True for the process that saves, and for the only process of a run."""
        return self.number == 0


def current_rank() -> Rank:
    """Return this process's rank. It is 0 of 1 in a run with one process."""
    if distributed.is_available() and distributed.is_initialized():
        return Rank(distributed.get_rank(), distributed.get_world_size())
    return Rank()


@contextmanager
def process_group(rank: jobs.RankAssignment | None, device_type: str) -> Iterator[None]:
    """Connect to the other ranks of the run in this context. No-op for a single process."""
    if rank is None:
        yield
        return
    if sys.platform.startswith("linux"):
        # all are on this machine: a host name that does not resolve would make them wait for minutes
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    backend = "nccl" if device_type == "cuda" else "xccl" if device_type == "xpu" else "gloo"
    # a file in a private folder, not a port, which another program may have taken by then
    store = FileStore(rank.meeting, rank.count)
    distributed.init_process_group(
        backend, store=store, rank=rank.number, world_size=rank.count, timeout=_PATIENCE
    )
    # Left to the end of the process: destroying the group waits for ranks that may have gone.
    yield


def rank_indices(order: Tensor, batch_size: int) -> Tensor:
    """Return this process's share of an epoch's sample indices (samples,), in order.

    Cut into batches of `batch_size`, the shares of all processes together have, step by step, the samples of
    one process with batches of `count * batch_size`. The last batches have equal sizes. If the samples cannot
    be divided evenly, the last ones, fewer than the processes, are skipped.
    """
    rank = current_rank()
    if rank.count == 1:
        return order
    order = order[: len(order) // rank.count * rank.count]
    whole = len(order) // (rank.count * batch_size) * (rank.count * batch_size)
    full = order[:whole].view(-1, rank.count, batch_size)[:, rank.number].flatten()
    return torch.cat((full, order[whole:].view(rank.count, -1)[rank.number]))


_REDUCED = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_LISTS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)


def uses_fsdp(experiment: Experiment) -> bool:
    """Return True if this rank trains a shard of the experiment's model."""
    return experiment.ranks.strategy == "fsdp" and experiment.devices > 1 and current_rank().count > 1


def shard_model(model: nn.Module, experiment: Experiment, device: torch.device) -> None:
    """Shard a model in place: its blocks, then the rest. The model is on its device, without an optimizer.

    It casts weights and inputs itself, instead of autocast. Raises ProblemError if it cannot be sharded.
    """
    # imported here: it takes seconds, and few runs use it
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

    if not (blocks := shardable_blocks(model)):
        raise _refused(f"{experiment.model} is a single module, so there is nothing to shard")
    for name, parameter in model.named_parameters():
        if parameter.ndim == 0:
            raise _refused(f"FSDP2 does not shard scalars such as the parameter {name}")
    group = distributed.group.WORLD
    assert group is not None  # the processes have met
    mesh = DeviceMesh.from_group(group, device.type)
    dtype, reduced = autocast_dtype(experiment.precision), _REDUCED[experiment.ranks.reduction]
    in_float32 = MixedPrecisionPolicy(reduce_dtype=reduced, cast_forward_inputs=False)
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=reduced)
    of_whole = MixedPrecisionPolicy(
        param_dtype=dtype, reduce_dtype=reduced, output_dtype=None if dtype is None else torch.float32
    )
    for module in model.modules():
        if dtype is not None and isinstance(module, _NormBase) and _has_own(module):
            # its running statistics are in float32, and PyTorch takes weights of their format only
            fully_shard(module, mesh=mesh, mp_policy=in_float32)
    for block in blocks:
        if not isinstance(block, FSDPModule):
            fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=of_whole)
    for module in model.modules():
        if device.type == "cpu" and isinstance(module, FSDPModule):
            # gloo has no mean and silently sums in its place (pytorch/pytorch#162338)
            module.set_force_sum_reduction_for_comms(True)


def shardable_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the modules to shard: those in the model's lists, such as its layers, or else its children."""
    return list(dict.fromkeys(_listed(model))) or [child for child in model.children() if _has_own(child)]


def _listed(parent: nn.Module) -> Iterator[nn.Module]:
    for child in parent.children():
        is_block = isinstance(parent, _LISTS) and not isinstance(child, _LISTS)
        if is_block and _has_own(child):
            yield child
        elif not is_block:
            yield from _listed(child)


def _has_own(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _refused(reason: str) -> Exception:
    return setting_error("ranks.strategy", f"is FSDP2, but {reason}.", "Set it to DDP.", value="fsdp")


def is_sharded(model: nn.Module) -> bool:
    return hasattr(model, "set_requires_gradient_sync")


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the full tensor of a sharded one, in a call by all ranks. Return a plain one as it is."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def local_shard(tensor: Tensor) -> Tensor:
    """Return this rank's shard of a tensor. A plain tensor is returned as it is."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def gather_state(state: Any) -> Any:
    """Return a nested state with full tensors on rank 0, empty ones elsewhere. All ranks call it together."""
    is_first = current_rank().is_first

    def put_together(tensor: Tensor) -> Tensor:
        if not hasattr(tensor, "full_tensor"):
            return tensor
        full = full_tensor(tensor.detach())
        return full.cpu() if is_first else torch.empty(0)

    return tree_map_only(Tensor, put_together, state)


def shard_tensors(values: Mapping[Any, Any], like: Mapping[Any, Any]) -> dict[Any, Any]:
    """Shard the full tensors `values` like the tensors of the same names in `like`."""
    return {name: shard_tensor(value, like.get(name)) for name, value in values.items()}


def shard_tensor(value: Any, like: Any) -> Any:
    """Return this rank's shard of a full tensor if `like` is sharded and of its shape, else the tensor."""
    if not hasattr(like, "full_tensor") or not isinstance(value, Tensor) or value.shape != like.shape:
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


SAMPLED_FIRST = 10  # DistributedDataParallel samples so many of the first steps, and then every hundredth
_MOST_SAMPLES = 1_000
_UNSENT = re.compile(r"did not receive grad for rank \d+: ([\d ]+)")


class DistributedModel(DistributedDataParallel):
    """A model in DistributedDataParallel, whose backward passes average the gradients over all ranks.

    Other attributes are those of the wrapped model, so a workload file can read them.
    """

    def __init__(self, model: nn.Module, experiment: Experiment, device: torch.device) -> None:
        settings = experiment.ranks
        super().__init__(
            model,
            device_ids=None if device.type == "cpu" else [device],
            bucket_cap_mb=settings.bucket_mib,
            gradient_as_bucket_view=True,
            static_graph=settings.static_graph,
            find_unused_parameters=settings.find_unused_parameters,
        )
        self._settings, self._passes = settings, 0
        # in the order of DistributedDataParallel, which counts those that are trained now
        self._names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        self._own_sum = torch.zeros((), device=device) if experiment.uses_scaler else None
        self._sampled: deque[tuple[float, float]] = deque(maxlen=_MOST_SAMPLES)
        self._sampled_step = -1
        send: Callable[..., Any] = _sum_up
        if settings.reduction != "fp32":
            # imported here: it brings what few runs use
            from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

            is_bf16 = settings.reduction == "bf16"
            send = default_hooks.bf16_compress_hook if is_bf16 else default_hooks.fp16_compress_hook
        if settings.reduction != "fp32" or self._own_sum is not None:
            # without annotations, which PyTorch would compare with its own
            self.register_comm_hook(self._own_sum, lambda own_sum, bucket: _looked_at(send, own_sum, bucket))

    def check_gradients_sent(self) -> None:
        """Raise ProblemError if the last backward pass left gradients unsent.

        PyTorch itself raises only in the next forward pass, after an update with differing gradients.
        """
        self._passes += 1
        # it counts a forward pass once the next has begun
        if self._passes == 2 and not self._get_ddp_logging_data().get("iteration"):  # type: ignore[no-untyped-call]
            message = (
                "The model's forward(model, inputs) calls parts of the model, not the model itself. "
                "DistributedDataParallel averages the gradients of what the model's own forward computes."
            )
            raise request_error(message, "Move that code into the model's forward.", key="model")
        try:
            self.reducer._check_reducer_finalized()
        except RuntimeError as error:
            found = _UNSENT.search(str(error))
            unsent = [self._names[int(number)] for number in found[1].split()] if found else []
            raise ProblemError(unused_problem(unsent, self._settings, "this step")) from None

    @property
    def needs_local_inf(self) -> bool:
        """True if the loss scaler must know whether this rank's own gradients overflowed."""
        return self._own_sum is not None

    def pop_local_inf(self) -> Tensor:
        """Return 1 if this rank's own gradients overflowed since the last call, else 0."""
        assert self._own_sum is not None
        own_inf = self._own_sum.isfinite().logical_not().float()
        self._own_sum.zero_()
        return own_inf

    def note_communication(self) -> None:
        """Record the communication times that DistributedDataParallel sampled last."""
        sampled = self._get_ddp_logging_data()  # type: ignore[no-untyped-call]
        sent, beside = (
            sampled.get(f"backward_{name}_time", 0) / 1e6 for name in ("comm", "compute_comm_overlap")
        )
        if sent and sampled["iteration"] != self._sampled_step:
            self._sampled_step = sampled["iteration"]
            self._sampled.append((sent, max(0.0, sent - beside)))

    def communication(self, step_ms: float) -> tuple[float, float] | None:
        """Return the milliseconds of communication in a step of `step_ms`, and its part without computation.

        None without a sample.
        """
        self.note_communication()
        return typical_times(tuple(self._sampled), step_ms)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


def typical_times(sampled: Sequence[tuple[float, float]], step_ms: float) -> tuple[float, float] | None:
    """Return the medians of both times over the later half of the samples, capped at `step_ms`.

    In the first steps some ranks wait for one that started later.
    """
    if not sampled:
        return None
    later = sampled[len(sampled) // 2 :]
    sent, exposed = (min(statistics.median(times), step_ms) for times in zip(*later, strict=True))
    return sent, exposed


def _looked_at(send: Callable[..., Any], own_sum: Tensor | None, bucket: Any) -> Any:
    if own_sum is not None:
        # one pass over the gradients, whose sum is not finite where one of them is not
        own_sum.add_(bucket.buffer().sum())
    return send(None, bucket)


def _sum_up(_: None, bucket: Any) -> Any:
    # to the last bit as DistributedDataParallel does it without a hook
    work = distributed.all_reduce(bucket.buffer().mul_(1 / current_rank().count), async_op=True)
    assert work is not None
    return work.get_future().then(lambda sent: sent.value()[0])


def wrap_model(model: nn.Module, experiment: Experiment, device: torch.device) -> nn.Module:
    """Return the module that a step calls: a `DistributedModel`, or the model if trained alone or sharded."""
    is_shared = experiment.devices > 1 and current_rank().count > 1 and not is_sharded(model)
    is_trained = any(parameter.requires_grad for parameter in model.parameters())
    return DistributedModel(model, experiment, device) if is_shared and is_trained else model


def set_gradient_sync(called: nn.Module, sends: bool) -> None:
    """Set whether the next backward pass sends the gradients, or only accumulates them locally."""
    if isinstance(called, DistributedModel):
        called.require_backward_grad_sync = sends  # as its no_sync() does
    elif is_sharded(called):
        called.set_requires_gradient_sync(sends)  # type: ignore[operator]


_STATIC, _FINDS = "ranks.static_graph", "ranks.find_unused_parameters"


def unused_problem(names: Sequence[str], settings: Ranks, steps: str) -> Problem:
    """Return the problem of parameters without a gradient in `steps`, such as "some steps", under DDP."""
    others = f", like {len(names) - 1:,} more," if len(names) > 1 else ""
    subject = f"The parameter {names[0]}{others} gets" if names else "A parameter gets"
    key, finds = _STATIC if settings.static_graph else _FINDS, setting_title(_FINDS)
    needs = f"needs one for every parameter unless {finds} is on"
    remedy = f"Turn on {finds} ({_FINDS}), or set requires_grad to False for parameters that are never used."
    if settings.static_graph:
        needs = f"needs the same parameters in every step where {setting_title(_STATIC)} is on"
        remedy = _not_static()
    message = f"{subject} no gradient in {steps}. DistributedDataParallel {needs}."
    return request_problem(message, remedy, key=key, value=str(settings.static_graph).lower())


def _not_static() -> str:
    return f"Turn off {setting_title(_STATIC)} and turn on {setting_title(_FINDS)} ({_FINDS})."


def ddp_problem(error: BaseException) -> Problem | None:
    """Return the problem of an error by which DistributedDataParallel refuses a step, None for another."""
    text = str(error) if isinstance(error, RuntimeError) else ""
    if "Your training graph has changed in this iteration" in text:
        but = f"{setting_title(_STATIC)} is on"
        message = f"The model used other parameters in this step than in the first, but {but}."
        return request_problem(message, _not_static(), key=_STATIC, value="true")
    if "Expected to mark a variable ready only once" in text:
        message = (
            "DistributedDataParallel got the gradient of a parameter twice in one backward pass. The model "
            "is called twice in a step, or uses a parameter outside of forward."
        )
        remedy = (
            "Call the model once in a step, without reentrant checkpoints, and return tensors from forward."
        )
        return request_problem(message, remedy, key="model")
    return None


def broadcast_buffers(model: nn.Module) -> None:
    """Copy rank 0's buffers, such as running statistics, to all ranks. Rank 0 saves checkpoints."""
    if current_rank().count == 1:
        return
    for buffer in model.buffers():
        if buffer.is_contiguous():
            distributed.broadcast(buffer, 0)
        # an expanded one is the same everywhere: nothing can be written to it
        elif 0 not in buffer.stride():
            # such as one in channels_last
            packed = buffer.contiguous()
            distributed.broadcast(packed, 0)
            buffer.copy_(packed)


def average_gradients(parameters: Iterable[Tensor]) -> None:
    """Replace each rank's gradients by their mean over all ranks. No-op for a single process.

    A parameter without a gradient on this rank counts as zero. Without a gradient on any rank, it keeps none.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    count = current_rank().count
    if count == 1 or not trained:
        return
    unused = [parameter.grad is None for parameter in trained]
    lacking = torch.zeros(len(unused), device=trained[0].device)
    if any(unused):
        # only then is the device waited for, here and below
        lacking.copy_(torch.tensor(unused))
    distributed.all_reduce(lacking)
    if any(unused):
        for parameter, lacks in zip(trained, lacking.tolist(), strict=True):
            if lacks < count and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
    gradients = [parameter.grad for parameter in trained if parameter.grad is not None]
    work = [distributed.all_reduce(gradient, async_op=True) for gradient in gradients]
    for each in work:
        assert each is not None
        each.wait()
    torch._foreach_div_(gradients, count)


def gather_from_ranks(figures: Sequence[float], device: torch.device) -> list[list[float]]:
    """Return the values of each rank, in rank order. All ranks pass equally many."""
    rank = current_rank()
    own = [0.0] * len(figures) * rank.count
    own[rank.number * len(figures) : (rank.number + 1) * len(figures)] = figures
    whole = list(sum_over_ranks(own, device))
    return [whole[first : first + len(figures)] for first in range(0, len(whole), len(figures) or 1)]


def broadcast_from_rank0(figure: float, device: torch.device) -> float:
    """Return rank 0's value, so that all ranks decide the same."""
    return sum_over_ranks([figure if current_rank().is_first else 0.0], device)[0]


def sum_over_ranks(figures: Sequence[float], device: torch.device) -> Sequence[float]:
    """Return the sum of each value over all ranks."""
    if current_rank().count == 1:
        return figures
    sums = torch.tensor(figures, dtype=torch.float64, device=device)
    distributed.all_reduce(sums)
    return sums.tolist()
