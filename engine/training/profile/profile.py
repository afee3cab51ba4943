"""The profile of an experiment's step: timed without the profiler, then recorded with it."""

from __future__ import annotations

import gc
import gzip
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from engine.experiment.experiment import Precision, setting_error
from engine.experiment.paths import part_path
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol import jobs
from engine.protocol.events import Event, Finished, Phase, PhaseName, Profiled, Summary
from engine.protocol.jobs import Control
from engine.protocol.profile import StepProfile
from engine.training.data.batches import Batch
from engine.training.doctor import read_catalog
from engine.training.measuring.flops import FlopCounter
from engine.training.models.weightless import Weightless
from engine.training.precision import EMULATED_NOTE, float32_mode
from engine.training.profile.breakdown import build_tables, step_bar
from engine.training.profile.chrome import read_trace
from engine.training.profile.communication import measure_communication
from engine.training.profile.kernels import (
    Primitive,
    formats_on_units,
    matrix_units,
    primitive_rows,
    verbose_primitives,
)
from engine.training.profile.limits import measure_again, measure_limits
from engine.training.profile.patterns import advise_on_time
from engine.training.profile.recording import (
    Steps,
    StepTiming,
    hides_modules,
    record_trace,
    time_steps,
    validate_batch,
    warm_up,
)
from engine.training.ranks import broadcast_from_rank0, current_rank
from engine.training.runs.plan import RunPlan
from engine.training.runs.prepare import prepare_unsaved, select_device, training_conditions, with_plain_step
from engine.training.runs.run import Run
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import build_step

_META = torch.device("meta")
_RECORDABLE = ("cpu", "cuda", "xpu")
_MOST_TRACE_BYTES = 50 * 10**6
_SHORT_STEP_MS = 500.0
_RECORDED_STEPS, _RECORDED_LONG_STEPS = 5, 3


def profile_steps(job: jobs.Profile, control: Control) -> Iterator[Event]:
    """Profile a step of the experiment. The last event is `Finished`.

    A stopped job has no `Profiled` before it. Raise ProblemError of kind `REQUEST` if the experiment cannot
    run or be recorded here, and raise any error of a step. No trace is left then.
    """
    plan = RunPlan(job.experiment, read_catalog())
    _check_recordable(plan)
    select_device(plan)
    kept = None if job.trace is None or not current_rank().is_first else Path(job.trace)
    found = None
    try:
        with ExitStack() as stack:
            found = yield from _profile(plan, job, control, kept, stack)
    finally:
        if found is None and kept is not None:
            kept.unlink(missing_ok=True)
    if found is not None:
        yield Profiled(profile=found)
    yield Finished(summary=Summary(), stopped=control.stop_requested.is_set())


def _check_recordable(plan: RunPlan) -> None:
    if plan.device.type not in _RECORDABLE:
        problem = f"is {plan.device}, whose work PyTorch's profiler cannot record."
        remedy = "Select a CUDA device, an XPU or the CPU."
        raise setting_error("device", problem, remedy, value=str(plan.device))


def _profile(
    plan: RunPlan, job: jobs.Profile, control: Control, kept: Path | None, files: ExitStack
) -> Generator[Event, None, StepProfile | None]:
    with training_conditions(plan):
        recorded = yield from _record_steps(plan, control, kept, files)
    if recorded is None or control.stop_requested.is_set():
        return None
    _free_memory(plan.device)
    yield _profiling("reading the trace", 0.6)
    timed, trace = recorded.timed, read_trace(recorded.path)
    files.close()
    if plan.device.type != "cpu" and not trace.is_of_device:
        raise ProblemError(_no_records_problem(plan))
    units = formats_on_units(recorded.primitives)
    bar = step_bar(trace, timed.step_ms, timed.wait_ms, units)
    exchange = measure_communication(trace, bar, timed.step_ms, plan.device, plan.device_names)
    if not current_rank().is_first:
        return None
    rows = build_tables(trace, bar, units)
    limits = job.limits
    if limits is None:
        yield _profiling("measuring the device's limits", 0.8)
        limits = measure_limits(plan.device, control)
    yield _profiling("counting FLOPs", 0.95)
    flops = count_flops(plan, recorded.group)
    found = StepProfile(
        device_type=plan.device.type,
        steps=recorded.steps,
        samples=recorded.samples * current_rank().count,
        step_ms=timed.step_ms,
        disturbance=timed.disturbance or bar.disturbance,
        recorded_ms=bar.recorded_ms,
        bar=bar.bar,
        validation=bar.validation,
        format=recorded.format,
        matrix_units=_matrix_units(plan, recorded.format),
        threads=torch.get_num_threads() if plan.device.type == "cpu" else None,
        cores=_cores(),
        kernels=rows.kernels or primitive_rows(recorded.primitives, timed.step_ms),
        operations=rows.operations,
        modules=rows.modules,
        flops=flops,
        limits=limits,
        energy=timed.energy,
        notes=(*recorded.notes, *bar.notes),
        exchange=exchange,
        trace=kept.name if kept is not None and kept.exists() else None,
    )
    if found.limits is not None and found.flops and found.format in found.limits.withheld:
        yield _profiling(f"measuring the peak in {found.format.upper()} again", 0.97)
        found = found.with_limits(measure_again(found.limits, found.format, plan.device, control))
    return found.model_copy(update={"advice": advise_on_time(trace, found, plan.experiment)})


@dataclass(frozen=True)
class _Recorded:
    path: Path
    group: list[Batch]
    format: str
    timed: StepTiming
    steps: int
    samples: int
    primitives: tuple[Primitive, ...]
    notes: tuple[str, ...]


def _record_steps(
    plan: RunPlan, control: Control, kept: Path | None, files: ExitStack
) -> Generator[Event, None, _Recorded | None]:
    run = yield from prepare_unsaved(plan, control)
    if run is None:
        return None
    with closing(run):
        steps = Steps(run)
        validate_batch(run, nullcontext())  # to warm it up
        yield from warm_up(steps)
        if steps.must_end:
            return None
        timed = yield from time_steps(steps)
        is_short = broadcast_from_rank0(timed.step_ms, plan.device) < _SHORT_STEP_MS
        count = _RECORDED_STEPS if is_short else _RECORDED_LONG_STEPS
        yield _profiling(f"recording {count} steps", 0.3)
        # created late, since a killed worker leaves it behind
        folder = files.enter_context(tempfile.TemporaryDirectory(prefix="ammeter-"))
        path = Path(folder) / "trace.json"
        if not record_trace(steps, count, path):
            return None
        notes = list(_notes(plan, run, timed))
        if kept is not None:
            yield _profiling("saving the trace", 0.5)
            notes += _keep_trace(steps, path, kept)
        primitives: tuple[Primitive, ...] = ()
        if plan.device.type == "cpu":
            primitives = verbose_primitives(steps.make)
        return _Recorded(
            path=path,
            group=steps.group,
            format=_format(plan, run.step.model),
            timed=timed,
            steps=count,
            samples=steps.samples,
            primitives=primitives,
            notes=tuple(notes),
        )


def _notes(plan: RunPlan, run: Run, timed: StepTiming) -> Iterator[str]:
    if plan.device.type == "cpu" and plan.experiment.precision is Precision.FP8:
        yield EMULATED_NOTE
    yield from run.step.record.pop_notes()
    if timed.disturbance is not None:
        yield f"The timing of the steps is unreliable: {timed.disturbance}."
    if run.step.is_replayed:
        yield "The step is replayed as one graph, so its kernels have no operation and no module."
    elif hides_modules(run.step):
        yield "The model is compiled, which hides its modules."


def _keep_trace(steps: Steps, path: Path, kept: Path) -> tuple[str, ...]:
    most = f"{_MOST_TRACE_BYTES // 10**6} MB"
    try:
        if _compress(path, kept):
            return ()
        if current_rank().count > 1:
            # no rank may make steps that the others do not make
            return (f"No trace file was saved, because the recorded steps take more than {most}.",)
        again = path.with_name("short.json")
        for shapes, without in ((True, ""), (False, ", without shapes,")):
            if record_trace(steps, 1, again, shapes=shapes) and _compress(again, kept):
                return (f"The trace file contains one step{without} to stay under {most}.",)
    except OSError as error:
        return (f"The trace file {kept} could not be written: {error.strerror or error}.",)
    return (f"No trace file was saved, because one step takes more than {most}.",)


def _compress(path: Path, kept: Path) -> bool:
    part = part_path(kept)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as plain, gzip.open(part, "wb", compresslevel=6) as packed:
            shutil.copyfileobj(plain, packed)
        is_small = part.stat().st_size < _MOST_TRACE_BYTES
        if is_small:
            part.replace(kept)
        return is_small
    finally:
        part.unlink(missing_ok=True)


def _free_memory(device: torch.device) -> None:
    gc.collect()
    if device.type != "cpu":
        torch.get_device_module(device).empty_cache()


def _no_records_problem(plan: RunPlan) -> Problem:
    return Problem(
        kind=Kind.INTERNAL,
        message=f"PyTorch's profiler recorded no work of {plan.device_entry.title}.",
        remedy="Close other programs that profile it, such as Nsight, and try again.",
    )


def _format(plan: RunPlan, model: nn.Module) -> str:
    precision, device = plan.experiment.precision, plan.device
    match precision:
        case Precision.FP16 | Precision.FP16_UNSCALED:
            return "fp16"
        case Precision.BF16 | Precision.BF16_PURE:
            return "bf16"
        case Precision.FP8:
            is_converted = any(layer.reason is None for layer in plan.linear_layers)
            return "fp8" if is_converted and device.type == "cuda" else "bf16"
        case Precision.TF32 if device.type == "cuda":
            return "tf32"
        case Precision.DEFAULT if device.type == "cuda" and torch.cuda.is_tf32_supported():
            return "tf32" if plan.workload.is_convolutional(model) else "fp32"
    return "fp32"


def _matrix_units(plan: RunPlan, name: str) -> str | None:
    if plan.device.type == "cpu":
        units = matrix_units()
        return units.get(name) or next(iter(units.values()), None)
    return "Tensor Cores" if plan.device_entry.tensor_cores else None


def _cores() -> int:
    allowed = (
        len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else os.cpu_count()
    )
    return max(1, min(psutil.cpu_count(logical=False) or 1, allowed or 1) // current_rank().count)


def _profiling(detail: str, fraction: float) -> Phase:
    return Phase(name=PhaseName.PROFILING, fraction=fraction, detail=detail)


def count_flops(plan: RunPlan, group: Sequence[Batch]) -> float | None:
    """Count the FLOPs of the model's forward and backward pass over a step's batches.

    Only matmuls, convolutions and attention count, which are nearly all. A multiply-add is two FLOPs, and
    recomputed activations count once. A model file's own step is counted completely. Most models are counted
    on tensors without content. A model that reads its values is run once, as a second model. Return None if
    neither works, such as for lack of memory, and for a model without such operations.
    """
    with torch.random.fork_rng(devices=[plan.device] if plan.device.type == "cuda" else []):
        for count in (_counted_without_content, _counted_on_device):
            try:
                return count(plan, group)
            except Exception:  # noqa: BLE001 - a model that reads its own numbers fails in any way
                continue
    return None


def _counted_without_content(plan: RunPlan, group: Sequence[Batch]) -> float | None:
    with Weightless():
        model = plan.workload.build()
    bare = tree_map_only(Tensor, lambda tensor: torch.empty_like(tensor, device=_META), group)
    with _META:
        return _count_on(plan, model, bare, Precision.FP32, _META)


def _counted_on_device(plan: RunPlan, group: Sequence[Batch]) -> float | None:
    precision = plan.experiment.precision
    try:
        with float32_mode(precision):
            return _count_on(plan, plan.workload.build(), group, precision, plan.device)
    finally:
        if plan.device.type in ("cuda", "xpu"):
            torch.get_device_module(plan.device).empty_cache()


def _count_on(
    plan: RunPlan, model: nn.Module, group: Sequence[Batch], precision: Precision, device: torch.device
) -> float | None:
    workload, settings = plan.workload, plan.experiment
    scaler = settings.scaler.model_copy(update={"mode": "off"})
    step = build_step(
        model,
        workload.loss,
        with_plain_step(settings).model_copy(update={"precision": precision, "scaler": scaler}),
        device,
        is_convolutional=False,
        call=workload.call,
        own_optimizers=workload.optimizers,
        body=workload.body,
    )
    assert isinstance(step, PlainStep)  # nothing is compiled or captured by the plain recipe
    with _recurrent_in_parts(), FlopCounter() as counter:
        step.gradients(group)
    return counter.flops or None


@contextmanager
def _recurrent_in_parts() -> Iterator[None]:
    backends: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.mkldnn)
    before = [backend.enabled for backend in backends]
    for backend in backends:
        backend.enabled = False
    try:
        yield
    finally:
        for backend, was_enabled in zip(backends, before, strict=True):
            backend.enabled = was_enabled
