"""Trains one experiment: a generator of events, read from top to bottom."""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterator
from typing import Literal

import torch
from torch import nn

from engine.catalog import Catalog, DatasetEntry, DeviceEntry, ModelEntry, resolve
from engine.events import Epoch, Event, Finished, Log, Phase, PhaseName, Skipped, Started
from engine.experiment import Experiment
from engine.training.catalog import read_catalog
from engine.training.control import Control
from engine.training.datasets import download, load_source
from engine.training.environment import environment_of
from engine.training.failures import TrainingError, not_a_number
from engine.training.memory import memory_meter
from engine.training.memory_cap import CAPPED_CPU_NOTE, check_cap, memory_cap
from engine.training.models import build_model, count_parameters, input_channels
from engine.training.precision import float32_mode
from engine.training.run import LOSSES, Run
from engine.training.tally import skipped_steps
from engine.training.telemetry import Rows


def train(experiment: Experiment, control: Control) -> Iterator[Event]:
    """Trains and measures an experiment; the last event is `Finished`.

    The accuracies in its events are fractions from 0 to 1; `Epoch.seconds` is when the epoch's last step
    ended, counted from the first step's begin. Raises ProblemError of kind `REQUEST` before any event where
    the experiment cannot run here, and TrainingError where a NaN is to be a failure.
    """
    catalog = read_catalog()
    resolved = resolve(experiment, catalog)
    device_entry, model_entry, dataset_entry = _entries(resolved, catalog)
    check_cap(device_entry, resolved.memory_cap_gib)
    device = torch.device(device_entry.name)
    if device.type in ("cuda", "xpu"):
        torch.get_device_module(device).set_device(device)
    with memory_cap(device, resolved.memory_cap_gib), float32_mode(resolved.precision):
        run = yield from _prepare(resolved, control, device_entry, model_entry, dataset_entry)
        yield from _train_epochs(run)
        yield from _finish(run)


def _prepare(
    experiment: Experiment,
    control: Control,
    device_entry: DeviceEntry,
    model_entry: ModelEntry,
    dataset: DatasetEntry,
) -> Generator[Event, None, Run]:
    device = torch.device(device_entry.name)
    memory = memory_meter(device)
    channels = input_channels(experiment.model, dataset.channels or 0)
    model = build_model(
        experiment.model,
        image_size=experiment.image_size or 0,
        channels=channels,
        num_classes=experiment.num_classes or 0,
        seed=experiment.seed,
    )
    steps_per_epoch = math.ceil((dataset.train_samples or experiment.samples) / experiment.batch_size)
    total_steps = experiment.steps or (experiment.epochs or 1) * steps_per_epoch
    yield _started(experiment, device_entry, model, model_entry, steps_per_epoch, total_steps)
    if dataset.needs_download:
        yield Phase(name=PhaseName.DOWNLOADING, detail=dataset.title)
        download(dataset.name)
    yield Phase(name=PhaseName.BUILDING, detail=experiment.model)
    return Run(
        experiment,
        control,
        device=device,
        model=model,
        source=load_source(experiment, channels, device),
        task=model_entry.task,
        memory=memory,
        steps_per_epoch=steps_per_epoch,
        total_steps=total_steps,
    )


def _train_epochs(run: Run) -> Iterator[Event]:
    for epoch in itertools.count(1):
        yield from _train_epoch(run)
        if run.must_end:
            return
        validation = None
        if run.validation_is_due(epoch):
            yield from _enter(run, PhaseName.VALIDATING)
            validation = run.validate()
        yield Epoch(
            epoch=epoch,
            step=run.telemetry.steps,
            seconds=run.tally.seconds,
            train_loss=run.tally.train_loss,
            validation_loss=None if validation is None else validation.loss,
            validation_accuracy=None if validation is None else validation.accuracy,
        )
        if run.is_complete or run.must_end:
            return


def _train_epoch(run: Run) -> Iterator[Event]:
    yield from _enter(run, run.training_phase)
    run.tally.begin_epoch()
    batches = run.batches()
    run.telemetry.begin()
    for inputs, targets in batches:
        run.telemetry.record(run.step(inputs, targets), len(targets))
        if run.telemetry.is_due():
            yield from _take(run, run.telemetry.collect())
            yield from _send(run)
        if run.is_complete or run.must_end:
            break
        yield from _enter(run, run.training_phase)
    # The host waits for the device here, once an epoch: the mean loss needs the epoch's last step.
    yield from _take(run, run.telemetry.flush())
    if run.telemetry.is_due():
        yield from _send(run)


def _take(run: Run, arrived: list[Rows]) -> Iterator[Event]:
    for rows in arrived:
        had_nan = run.tally.first_nan_step is not None
        run.take(rows)
        if skipped := skipped_steps(rows):
            yield Skipped(steps=skipped)
        if run.tally.first_nan_step is not None and not had_nan:
            yield Log(
                level="warning",
                message=f"The loss is not a number (NaN) since step {run.tally.first_nan_step:,}.",
            )


def _send(run: Run) -> Iterator[Event]:
    samples = run.samples()
    if samples is not None:
        yield samples


def _enter(run: Run, phase: PhaseName) -> Iterator[Event]:
    if phase is not run.phase:
        run.enter(phase)
        yield Phase(name=phase)


def _finish(run: Run) -> Iterator[Event]:
    yield from _send(run)
    summary = run.summary()
    if run.experiment.on_nan == "fail" and run.tally.first_nan_step is not None:
        raise TrainingError(not_a_number(run.tally.first_nan_step), summary)
    if summary.speed_note:
        level: Literal["info", "warning"] = "info" if summary.samples_per_second is None else "warning"
        yield Log(level=level, message=f"Speed: {summary.speed_note}")
    yield Finished(summary=summary, stopped=run.must_end)


def _started(
    experiment: Experiment,
    device: DeviceEntry,
    model: nn.Module,
    model_entry: ModelEntry,
    steps_per_epoch: int,
    total_steps: int,
) -> Started:
    _, loss_name, loss_unit = LOSSES[model_entry.task]
    return Started(
        experiment=experiment,
        environment=environment_of(device),
        total_steps=total_steps,
        steps_per_epoch=steps_per_epoch,
        parameters=count_parameters(model),
        loss_name=loss_name,
        loss_unit=loss_unit,
        notes=_notes(experiment, device),
    )


def _notes(experiment: Experiment, device: DeviceEntry) -> tuple[str, ...]:
    notes = []
    if note := device.precision(experiment.precision).note:
        notes.append(f"{experiment.precision.label} on {device.title}: {note}.")
    if experiment.uses_scaler and device.is_gpu:
        notes.append("The plain recipe waits for the device once a step, in GradScaler.step.")
    if experiment.memory_cap_gib is not None and not device.is_gpu:
        notes.append(CAPPED_CPU_NOTE)
    return tuple(notes)


def _entries(experiment: Experiment, catalog: Catalog) -> tuple[DeviceEntry, ModelEntry, DatasetEntry]:
    device, model = catalog.device(experiment.device), catalog.model(experiment.model)
    dataset = catalog.dataset(experiment.dataset)
    assert device is not None and model is not None and dataset is not None  # resolve() has seen to it
    return device, model, dataset
