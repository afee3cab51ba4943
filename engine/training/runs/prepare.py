"""Prepares a run: everything before its first step, which may be refused."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from engine.experiment.catalog import IMAGE_FOLDER
from engine.experiment.checks import DatasetEntry
from engine.experiment.experiment import Experiment, Precision, setting_error
from engine.experiment.problem import ProblemError
from engine.experiment.settings import PLAIN
from engine.protocol.events import Event, Log, Phase, PhaseName, Started
from engine.protocol.jobs import Control
from engine.training.data.batches import rank_seed
from engine.training.data.image_folder import check_images, read_image_folder, unreadable_problem, used_images
from engine.training.data.image_sets import download
from engine.training.data.image_sources import is_kept_on_device
from engine.training.doctor import environment_of
from engine.training.measuring.instruments import EnergyMeter, Instruments, energy_meter
from engine.training.measuring.memory import memory_meter
from engine.training.measuring.memory_cap import CAPPED_CPU_NOTE, check_cap, memory_cap
from engine.training.measuring.sensors import SensorGauge, sensor_gauge
from engine.training.models.attention import attention_kernel
from engine.training.models.build import count_parameters
from engine.training.models.forward import keep_in_float32
from engine.training.models.own import seed_everything
from engine.training.models.recompute import checkpoint_activations
from engine.training.models.tensor_cores import check_recipe, layers_sentence
from engine.training.precision import float32_mode
from engine.training.ranks import current_rank
from engine.training.runs.checkpoints import Checkpoints, load_checked
from engine.training.runs.plan import RunPlan
from engine.training.runs.run import Run
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import cudnn_search

_REPORTED_FRACTION = 0.01
UNCOMPILED_FP8 = "FP8 may not be faster without compilation, because scaling and casting need extra kernels."


def select_device(plan: RunPlan) -> None:
    """Make the plan's device the current one. Raises ProblemError for an impossible cap or scaling."""
    check_cap(plan.device_entry, plan.experiment.memory_cap_gib)
    if plan.device.type in ("cuda", "xpu"):
        torch.get_device_module(plan.device).set_device(plan.device)
    # not sooner: a forecast leaves the GPU alone
    check_recipe(plan.experiment, plan.device)


@contextmanager
def training_conditions(plan: RunPlan) -> Iterator[None]:
    """Set the plan's memory cap, FP32 mode, cuDNN search and attention kernel for this process."""
    settings = plan.experiment
    with (
        memory_cap(plan.device, settings.memory_cap_gib),
        float32_mode(settings.precision, settings.step.autocast_tf32),
        cudnn_search(bool(settings.step.parts)),
        attention_kernel(settings.step.attention),
    ):
        yield


def prepare(
    plan: RunPlan, control: Control, checkpoints: Path | None, *, resume: bool
) -> Generator[Event, None, Run | None]:
    """Build the run and report progress. Return None if it was stopped before it was built.

    Raises ProblemError of kind `REQUEST` before any event.
    """
    experiment = plan.experiment
    store = None if checkpoints is None else Checkpoints(checkpoints, current_rank().number)
    state = None
    if store is not None and resume:
        state = load_checked(store.load("last"), plan.steps_per_epoch)
    memory = memory_meter(plan.device)
    model = build(plan, experiment)
    if not current_rank().is_first:
        # the same weights, and other dropout
        seed_everything(rank_seed(experiment.seed))
    yield _started(plan, model, None if state is None else state["progress"]["tally"]["steps"])
    if current_rank().count == 1:  # several ranks have what they need before they are started
        yield from fetch_data(plan, control, None if resume else plan.total_steps)
    if control.stop_requested.is_set():
        return None
    yield Phase(name=PhaseName.BUILDING, detail=experiment.model)
    with ExitStack() as undo:
        # before the model is on the device: it measures the idle power
        energy = energy_meter(plan.device) if plan.reads_sensors else EnergyMeter(None)
        undo.callback(energy.close)
        is_convolutional = plan.workload.is_convolutional(model)
        step = plan.workload.step(model, experiment, plan.device, is_convolutional=is_convolutional)
        source = plan.workload.source(plan.device, step.memory_format)
        undo.callback(source.close)
        card = sensor_gauge(plan.device) if plan.reads_sensors else SensorGauge()
        undo.callback(card.close)
        instruments = Instruments(plan.device, memory, card, energy)
        run = Run(
            plan, control, step=step, source=source, instruments=instruments, checkpoints=store, resumed=state
        )
        undo.pop_all()
    return run


def prepare_unsaved(
    plan: RunPlan, control: Control, note: Callable[[Started], None] = lambda started: None
) -> Generator[Event, None, Run | None]:
    """Prepare a run that is not saved. Its `Started` goes to `note` instead of the events."""
    preparing = prepare(plan, control, None, resume=False)
    while True:
        try:
            event = next(preparing)
        except StopIteration as end:
            run: Run | None = end.value
            return run
        if isinstance(event, Started):
            note(event)
        else:
            yield event


def fetch_data(plan: RunPlan, control: Control, steps: int | None) -> Generator[Event, None, None]:
    """Download the dataset, or check the images that `steps` steps read (None: all). Raises ProblemError."""
    experiment = plan.experiment
    if plan.dataset_entry.needs_download:
        yield from _download(plan.dataset_entry, control)
    if experiment.dataset == IMAGE_FOLDER and not experiment.data.skip_broken:
        yield from _check_pictures(plan, control, steps)


def build(plan: RunPlan, experiment: Experiment) -> nn.Module:
    """Return the plan's model on the CPU, checkpointed and cast as in `experiment`. Raises ProblemError."""
    if experiment.precision is Precision.FP8:
        _ = plan.tokens  # which are found before the model's own random numbers begin
    model = plan.workload.build()
    kind = experiment.step.activation_checkpointing
    if experiment.step.recomputes_blocks and not checkpoint_activations(model, kind):
        raise setting_error(
            "step.activation_checkpointing",
            f"is {kind}, but {experiment.model} has no parts to recompute.",
            "Set it to none for this model.",
            value=kind,
        )
    keep_in_float32(model, experiment.step.fp32_modules, plan.device)
    plan.to_precision(model, experiment, plan.device)
    return model


def with_plain_step(experiment: Experiment) -> Experiment:
    """Return the experiment without optimizations, on one device."""
    step = experiment.step.model_copy(update={"recipe": PLAIN})
    return experiment.model_copy(update={"step": step, "devices": 1})


def build_plain_step(plan: RunPlan, experiment: Experiment, weights: Mapping[str, Any]) -> PlainStep:
    """Return the plain step of a new model with these weights. Reseeds the random numbers."""
    model = build(plan, experiment)
    model.load_state_dict(weights)
    return plan.workload.step(model, with_plain_step(experiment), plan.device)


def _download(dataset: DatasetEntry, control: Control) -> Generator[Event, None, None]:
    yield Phase(name=PhaseName.DOWNLOADING, fraction=0.0, detail=dataset.title)
    reported = 0.0
    for fraction in download(dataset.name, control.stop_requested.is_set):
        if fraction is None or abs(fraction - reported) >= _REPORTED_FRACTION:
            reported = fraction or 0.0
            # a server may send more than it announced
            shown = None if fraction is None else min(1.0, fraction)
            yield Phase(name=PhaseName.DOWNLOADING, fraction=shown, detail=dataset.title)


def _check_pictures(plan: RunPlan, control: Control, steps: int | None) -> Generator[Event, None, None]:
    yield Phase(name=PhaseName.CHECKING, fraction=0.0)
    folder = read_image_folder(plan.experiment.path)
    progress, reported = None, 0.0
    for progress in check_images(
        used_images(folder, plan.experiment, steps), control.stop_requested.is_set, plan.experiment.seed
    ):
        fraction = progress.count / progress.of
        if fraction - reported >= _REPORTED_FRACTION:
            reported = fraction
            yield Phase(name=PhaseName.CHECKING, fraction=fraction)
    if progress is None or control.stop_requested.is_set():
        return
    if progress.broken:
        raise ProblemError(
            unreadable_problem(progress.broken[0], folder.root, len(progress.broken), progress.count)
        )
    if progress.count < progress.of:
        checked = f"{progress.count:,} of the {progress.of:,} images that the run uses"
        yield Log(message=f"Only {checked} were checked in the time limit. None of them is broken.")


def _started(plan: RunPlan, model: nn.Module, resumed_step: int | None) -> Started:
    loss_name, loss_unit = plan.workload.loss_name_and_unit
    return Started(
        experiment=plan.experiment,
        environment=environment_of(plan.device_entry),
        total_steps=plan.total_steps,
        steps_per_epoch=plan.steps_per_epoch,
        parameters=count_parameters(model),
        loss_name=loss_name,
        loss_unit=loss_unit,
        notes=_notes(plan),
        hardly_faster=plan.device_entry.precision(plan.experiment.precision).hardly_faster,
        resumed_step=resumed_step,
    )


def _notes(plan: RunPlan) -> tuple[str, ...]:
    experiment, device = plan.experiment, plan.device_entry
    notes = []
    if experiment.precision is Precision.FP8:
        notes.append(layers_sentence(plan.linear_layers))
        if device.is_gpu and "compile" not in experiment.step.parts:
            notes.append(UNCOMPILED_FP8)
    if note := device.precision(experiment.precision).note:
        notes.append(f"{experiment.precision.label} on {device.title}: {note}.")
    if experiment.uses_scaler and device.is_gpu and not experiment.wants_fused:
        notes.append("The optimizer is not fused, so GradScaler.step synchronizes with the GPU each step.")
    if experiment.data.workers and (not plan.dataset_entry.loads or is_kept_on_device(experiment)):
        notes.append("The full dataset is on the device, so no loader process is started.")
    if experiment.memory_cap_gib is not None and not device.is_gpu:
        notes.append(CAPPED_CPU_NOTE)
    return tuple(notes)
