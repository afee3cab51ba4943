"""FSDP2: the weights, gradients and optimizer state of a model in shards, one on each device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils._pytree import tree_map_only

from engine.experiment.experiment import Experiment, setting_error
from engine.training.precision import autocast_dtype
from engine.training.ranks.rank import current_rank

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
