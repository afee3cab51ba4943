"""Estimates a run's memory from one step with fake tensors, which have sizes but no content."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.value import BYTES_PER_MIB
from engine.protocol.events import ForecastMade
from engine.protocol.trials import MemoryLine, highest_line, upper_hull
from engine.training.data.datasets import footprint
from engine.training.data.own import own_footprint
from engine.training.doctor import read_catalog
from engine.training.measuring.memory import Breakdown, LiveBytes, breakdown_of
from engine.training.models.attention import attention_kernel
from engine.training.models.forward import keep_in_float32, make_bfloat16, removed_at_end
from engine.training.models.recompute import checkpoint_activations
from engine.training.models.weightless import CudaSemantics, Weightless, fill_with_fakes
from engine.training.runs.plan import RunPlan
from engine.training.steps.imagined import ImaginedStep
from engine.training.steps.optimizers import allocate_state, build_optimizer, combine_optimizers, uses_torchao
from engine.training.steps.plain import RecipeRecord
from engine.training.steps.recipe import without_garbage_collection

# workspaces that CUDA's libraries take from the allocator beside tensors: 80 to 95 MiB on an H200
LIBRARIES_MIB = 88.0
# Memory beside tensors that the first training takes on a CPU: 25 to 31 MiB of libraries' code, loaded at
# first use, 17 to 37 of code that oneDNN generates, and threads' stacks (x86, torch 2.15).
CPU_LIBRARIES_MIB = 55.0
_LIBRARIES_MIB = {"cuda": LIBRARIES_MIB, "cpu": CPU_LIBRARIES_MIB}
_SIZES = (64, 128)  # a fake batch costs the same at any size; these fill an allocator's blocks evenly
_CUDA_BLOCK_BYTES = 512
_ACCUMULATED = 2  # batches of a group that are traced: from the second on all are alike
_CPU = torch.device("cpu")
_UNCOMPILED = "The estimate is for the uncompiled step. Compiled, it needs less."
_UNFUSED = "The estimate is for a compiled step without fused operations. A run corrects it."
_BUDGETED = "The estimate is for the uncompiled step, without its activation budget. A run corrects it."


def forecast(experiment: Experiment, catalog: Catalog | None = None) -> ForecastMade:
    """Estimate the experiment's memory at any batch size, almost without memory. Raises ProblemError."""
    began = time.perf_counter()
    plan = RunPlan(experiment, catalog or read_catalog())
    if plan.workload.body is not None:
        raise ProblemError(_unknown(experiment.model, "it has its own step"))
    try:
        found, note = _imagined_as_it_runs(plan)
    except ProblemError:
        raise
    except Exception as error:  # a model that reads its own numbers fails in any way
        raise ProblemError(_unknown(plan.experiment.model, error)) from error
    return _forecast_from(plan, found, note, time.perf_counter() - began)


@dataclass(frozen=True)
class _Imagined:
    passes: Sequence[int]  # the bytes alive after each operation
    update: Sequence[int]  # what each of its operations adds
    activations: int  # what the forward passes keep

    @property
    def timeline(self) -> list[int]:
        return [*self.passes, *(self.passes[-1] + more for more in self.update)]


_Steps = tuple[_Imagined, _Imagined, Breakdown]


def _imagined_as_it_runs(plan: RunPlan) -> tuple[_Steps, str | None]:
    # with a note if the run needs another amount
    step = plan.experiment.step
    budget = step.activation_budget
    if budget is not None:
        # only for a budget, because tracing takes several times as long
        with suppress(Exception):  # a model that only compiles in parts fails in any way
            return _imagined_steps(plan, budget), _UNFUSED
    note = _UNCOMPILED if budget is None else _BUDGETED
    return _imagined_steps(plan), note if "compile" in step.parts else None


def _imagined_steps(plan: RunPlan, budget: float | None = None) -> _Steps:
    is_cuda = plan.device.type == "cuda"
    templates = plan.workload.templates
    model = _model(plan)
    with (
        FakeTensorMode() as fakes,
        LiveBytes(_CUDA_BLOCK_BYTES if is_cuda else 1) as live,
        CudaSemantics() if is_cuda else nullcontext(),
        # a CPU's flash kernel keeps what a GPU's fused kernels keep, and only math keeps all scores
        attention_kernel("math" if plan.experiment.step.attention == "math" else "auto"),
    ):
        fill_with_fakes(model)
        step = _step(plan, model)
        _give_state(step.optimizer, is_cuda=is_cuda)
        keeps_gradients = plan.experiment.devices > 1 and plan.experiment.ranks.strategy == "ddp"
        watch = _ForwardWatch(live)

        def imagined(batch_size: int, update: Sequence[int] | None = None) -> _Imagined:
            if templates is None:
                data = footprint(
                    plan.experiment, plan.model_entry, plan.dataset_entry, plan.facts, batch_size
                )
            else:
                data = own_footprint(templates, plan.experiment, batch_size)
            if budget is not None:
                step.compile_for(data.batches[0][0], fakes, budget)
            step.optimizer.zero_grad(set_to_none=True)
            if keeps_gradients:
                # DistributedDataParallel's buckets, whose views they are, stay in memory
                _keep_gradients(step)
            watch.most = 0
            live.restart()
            with watch.on(step.watched):
                loss = step.gradients(data.batches[:_ACCUMULATED])
            passes = live.timeline
            if update is None:
                live.restart()
                step.update(loss)
                update = [now - passes[-1] for now in live.timeline]
            return _Imagined(passes, update, watch.most)

        # garbage collected at different moments of the two steps would look like an effect of the batch
        with without_garbage_collection():
            small = imagined(_SIZES[0])
        with without_garbage_collection():
            # no batch changes what an update takes
            large = imagined(_SIZES[1], small.update)
        return small, large, breakdown_of(model, step.optimizer)


def _model(plan: RunPlan) -> nn.Module:
    experiment = plan.experiment
    with Weightless():
        model = plan.workload.build()
    if experiment.step.recomputes_blocks:
        checkpoint_activations(model, experiment.step.activation_checkpointing)
    keep_in_float32(model, experiment.step.fp32_modules, _CPU)
    if experiment.precision is Precision.BF16_PURE:
        make_bfloat16(model)
    plan.to_precision(model, experiment, _CPU)
    return model.train()


def _step(plan: RunPlan, model: nn.Module) -> ImaginedStep:
    settings = plan.experiment
    # the scaler reads found_inf, which fake gradients cannot have; it takes next to no memory
    unscaled = settings.model_copy(update={"scaler": settings.scaler.model_copy(update={"mode": "off"})})
    made, fused = plan.workload.optimizers(model), settings.optimizer.fused
    is_fused = "fused" in settings.step.parts if fused is None else fused
    optimizer = build_optimizer(model, settings, fused=is_fused) if made is None else combine_optimizers(made)
    if uses_torchao(settings):
        allocate_state(optimizer)
    return ImaginedStep(
        model,
        plan.workload.loss,
        unscaled,
        _CPU,
        optimizer=optimizer,
        record=RecipeRecord(()),
        cache_casts="capture" not in settings.step.parts,
        call=plan.workload.call,
    )


def _give_state(optimizer: torch.optim.Optimizer, *, is_cuda: bool) -> None:
    # as a first step would create it
    for group in optimizer.param_groups:
        if is_cuda and not group.get("fused"):
            # PyTorch's choice for parameters on CUDA; for a moment it takes copies as large as all of them
            group["foreach"] = True
        for parameter in group["params"]:
            if parameter.requires_grad:
                parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _keep_gradients(step: ImaginedStep) -> None:
    for parameter in step.model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.empty_like(parameter)
    step.optimizer.zero_grad = lambda set_to_none=True: None  # type: ignore[method-assign]


class _ForwardWatch:
    def __init__(self, live: LiveBytes) -> None:
        self.most = 0  # bytes that a forward pass has left alive for its backward pass
        self.live = live
        self._before = 0

    def on(self, model: nn.Module) -> AbstractContextManager[None]:
        hooks = model.register_forward_pre_hook(self._begin), model.register_forward_hook(self._end)
        return removed_at_end(hooks)

    def _begin(self, model: nn.Module, inputs: Any) -> None:
        self._before = self.live.now

    def _end(self, model: nn.Module, inputs: Any, output: Any) -> None:
        self.most = max(self.most, self.live.now - self._before)


def _forecast_from(plan: RunPlan, found: _Steps, note: str | None, seconds: float) -> ForecastMade:
    small, large, parts = found
    batch_size = plan.experiment.batch_size
    libraries_mib = _LIBRARIES_MIB.get(plan.device.type, 0.0)
    # each moment of the step is a line; only the peak where the two steps differ in their operations
    moments = {(max(small.timeline), max(large.timeline))}
    if len(small.timeline) == len(large.timeline):
        moments = set(zip(small.timeline, large.timeline, strict=True))
    lines = tuple(
        line.model_copy(update={"fixed_mib": line.fixed_mib + libraries_mib})
        for line in upper_hull([_line(*pair) for pair in moments])
    )
    decisive = highest_line(lines, batch_size)
    return ForecastMade(
        experiment=plan.experiment,
        quantity="resident" if plan.device.type == "cpu" else "allocated",
        parameters_mib=parts.parameters_mib,
        gradients_mib=parts.gradients_mib,
        optimizer_state_mib=parts.optimizer_state_mib,
        activations_mib=_line(small.activations, large.activations).at(batch_size),
        libraries_mib=libraries_mib,
        fixed_mib=decisive.fixed_mib,
        per_sample_mib=decisive.per_sample_mib,
        needed_mib=decisive.at(batch_size),
        lines=lines,
        seconds=seconds,
        note=note,
    )


def _line(small: int, large: int) -> MemoryLine:
    per_sample = (large - small) / (_SIZES[1] - _SIZES[0])
    return MemoryLine(
        fixed_mib=(small - per_sample * _SIZES[0]) / BYTES_PER_MIB,
        per_sample_mib=max(0.0, per_sample) / BYTES_PER_MIB,
    )


def _unknown(model: str, failure: object) -> Problem:
    lines = str(failure).strip().splitlines()
    message = f"The memory of {model} cannot be estimated: {lines[0] if lines else 'unknown reason'}"
    remedy = "Find the largest batch by trials, which need no estimate."
    return Problem(kind=Kind.INTERNAL, message=message, remedy=remedy, key="model", value=model)
