"""The outputs of all modules in one step from equal weights, and how far two such steps are apart."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from engine.experiment.experiment import Experiment
from engine.training.numerics.against_fp32.band import moved_weights
from engine.training.numerics.bench import Bench

_MOST_KEPT = 2**16
"""Of an output's numbers, evenly spread: the outputs of a large model do not fit into memory twice."""


@dataclass(frozen=True)
class Output:
    """Some numbers of a module's output in float64 on the CPU, and whether all of them are finite."""

    values: Tensor
    is_finite: bool

    def error_to(self, reference: Output) -> float:
        """||x - y|| / ||y|| for the reference's numbers y; infinite where only x is not finite."""
        if not self.is_finite or self.values.shape != reference.values.shape:
            return math.inf
        apart = torch.linalg.vector_norm(self.values - reference.values).item()
        size = torch.linalg.vector_norm(reference.values).item()
        return apart / size if size else (math.inf if apart else 0.0)


Outputs = Mapping[str, Output]
"""By the module's name, in the order in which their forward passes ended; a module's first call only."""


def first_step(
    bench: Bench, experiment: Experiment, *, rounding: float = 0.0, repeat: int = 0
) -> tuple[Outputs, float]:
    """The modules' outputs in the first step, and the seconds of the step after it, which is warm."""
    found: dict[str, Output] = {}
    with bench.trainee(experiment) as trainee:
        if repeat:
            torch.manual_seed(repeat)
        generator = torch.Generator(device=bench.device).manual_seed(repeat)
        groups = list(bench.groups(1))
        with moved_weights(trainee.model, rounding, generator), _watched(trainee.model, found):
            trainee.go_back(groups[0])
        trainee.wait()
        began = time.perf_counter()
        if not repeat:
            trainee.train(groups[0])
        return found, time.perf_counter() - began


def errors_between(outputs: Outputs, reference: Outputs) -> dict[str, float]:
    """The relative error of every module's output, where the reference's is finite."""
    return {
        name: output.error_to(reference[name])
        for name, output in outputs.items()
        if name in reference and reference[name].is_finite
    }


@contextmanager
def _watched(model: nn.Module, found: dict[str, Output]) -> Iterator[None]:
    def hook_of(name: str) -> Any:
        def keep(module: nn.Module, inputs: Any, result: Any) -> None:
            tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
            floats = [tensor.detach() for tensor in tensors if tensor.is_floating_point()]
            if floats and name not in found:
                found[name] = _kept(floats)

        return keep

    handles = [module.register_forward_hook(hook_of(name)) for name, module in model.named_modules()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _kept(tensors: Sequence[Tensor]) -> Output:
    flat = [tensor.reshape(-1) for tensor in tensors]
    total = sum(part.numel() for part in flat)
    # an odd stride does not fall into step with channels, whose numbers are mostly powers of two
    stride = -(-total // _MOST_KEPT) | 1
    values = torch.cat([part[::stride].cpu().double() for part in flat])
    return Output(values, all(bool(part.isfinite().all()) for part in flat))
