"""Records steps with torch.profiler, with marks that show what each record belongs to."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, chdir, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from engine.protocol.events import Event, Phase, PhaseName
from engine.protocol.summary import Energy
from engine.training.data.batches import Batch
from engine.training.measuring.telemetry import Rows
from engine.training.models.forward import removed_at_end
from engine.training.ranks import broadcast_from_rank0, current_rank
from engine.training.runs.run import Run
from engine.training.steps.own import OwnStep
from engine.training.steps.plain import PlainStep
from engine.training.steps.rehearsal import synchronize

_DEVICE_ACTIVITIES = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}
_LEAST_WARMUP = 2


def record_trace(steps: Steps, recorded: int, path: Path, *, shapes: bool = True) -> bool:
    """Write the Chrome trace of `recorded` steps and a validation batch to `path`. Return False if stopped.

    The steps before them run with the profiler on but are not recorded, because its start is slow and a
    loader fills its queue during it. With `shapes`, the operations' inputs are described.
    """
    run = steps.run
    _prepare_kineto(is_captured=run.step.is_replayed)
    data = run.experiment.data
    warmup = _LEAST_WARMUP + data.workers * data.prefetch
    steps.only_whole = True
    steps.wait()
    with ExitStack() as stack:
        profiler = stack.enter_context(
            profile(
                activities=_activities(run.device),
                schedule=schedule(wait=0, warmup=warmup, active=recorded, repeat=1),
                record_shapes=shapes,
                # there is one cycle; without this up to torch 2.11 warns that each clears those before it
                acc_events=True,
            )
        )
        for number in range(warmup + recorded):
            if steps.must_end:
                return False
            if number == warmup:
                stack.enter_context(_marks_within(run.step))
            steps.enter_epoch()
            with record_function(STEP):
                with record_function(DATA):
                    group = steps.next_group()
                run.train_on(group)
            if number == warmup - 1:
                # kernels still in flight have no recorded launch, and would count for the first step
                synchronize(run.device)
            if number < warmup + recorded - 1:
                profiler.step()
        synchronize(run.device)
        validate_batch(run, record_function(VALIDATION))
        steps.interrupt_loading()
    steps.wait()
    # on Windows Kineto opens no file whose name the code page lacks, such as a temporary folder of its user's
    is_plain = str(path).isascii()
    with nullcontext() if is_plain else chdir(path.parent):
        profiler.export_chrome_trace(str(path) if is_plain else path.name)
    return True


def _prepare_kineto(*, is_captured: bool) -> None:
    # messages of torch.profiler's library are for its authors, not for a run's log
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    if is_captured:
        # as torch.profiler does for the compiler's graphs: CUPTI must not go and come back under a graph
        os.environ.setdefault("TEARDOWN_CUPTI", "0")
        os.environ.setdefault("DISABLE_CUPTI_LAZY_REINIT", "1")


def validate_batch(run: Run, mark: AbstractContextManager[Any]) -> None:
    """Validate on one batch within `mark`, if the experiment validates."""
    validation = run.experiment.validation
    if not (validation.every and run.source.has_validation):
        return
    batches = list(islice(run.source.validation(validation.limit), 1))
    with mark:
        run.validate_on(batches)


def hides_modules(step: PlainStep) -> bool:
    """Return True for a step that runs without the Python code of its modules."""
    return step.is_replayed or step.watched is not step.model


def _activities(device: torch.device) -> list[ProfilerActivity]:
    of_device = _DEVICE_ACTIVITIES.get(device.type)
    return [ProfilerActivity.CPU, *([] if of_device is None else [of_device])]


@contextmanager
def _marks_within(step: PlainStep) -> Iterator[None]:
    with ExitStack() as stack:
        if not step.is_replayed:
            stack.enter_context(_optimizer_marks(step))
        if not hides_modules(step):
            stack.enter_context(_module_marks(step.model))
        yield


@contextmanager
def _optimizer_marks(step: PlainStep) -> Iterator[None]:
    names = ("unscale", "make", "end_cycle") if isinstance(step, OwnStep) else ("update",)
    for name in names:
        setattr(step, name, record_function(OPTIMIZER)(getattr(step, name)))
    try:
        yield
    finally:
        for name in names:
            delattr(step, name)


@contextmanager
def _module_marks(model: nn.Module) -> Iterator[None]:
    handles = []
    for name, module in _watchable(model):
        begin, end = _mark_hooks(MODULE + name)
        handles += [
            module.register_forward_pre_hook(begin),
            # also after a failed forward: recomputing activations ends with an exception
            module.register_forward_hook(end, always_call=True),
        ]
    with removed_at_end(handles):
        yield


def _watchable(model: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    if isinstance(model, torch.jit.ScriptModule | torch._dynamo.OptimizedModule):
        return
    yield name, model
    for child_name, child in model.named_children():
        yield from _watchable(child, f"{name}.{child_name}" if name else child_name)


def _mark_hooks(mark: str) -> tuple[Callable[..., None], Callable[..., None]]:
    # a module may call itself, and is called again where its activations are recomputed
    open_marks: list[Any] = []

    def begin(*_: Any) -> None:
        opened = record_function(mark)
        opened.__enter__()  # type: ignore[no-untyped-call]
        open_marks.append(opened)

    def end(*_: Any) -> None:
        if open_marks:
            open_marks.pop().__exit__(None, None, None)

    return begin, end


STEP = "ammeter.step"
"""The mark of a step, from the request of its batches to the end of its last launch."""

DATA = "ammeter.data"
"""The mark of waiting for the next batch, in the training thread."""

OPTIMIZER = "ammeter.optimizer"
"""The mark of unscaling, clipping, and the update of optimizer and loss scaler."""

VALIDATION = "ammeter.validation"
"""The mark of a validation batch."""

MODULE = "ammeter.module:"
"""The prefix of a forward pass, before the module's dotted name. The model itself has the empty name."""


_LEAST_WARMUP_STEPS = 3
"""The first full step creates the optimizer's state, and libraries select their kernels in it."""
_LEAST_STEPS, _LEAST_SECONDS, _MOST_SECONDS = 10, 1.5, 10.0
_LEAST_BLOCK, _MOST_BLOCKS = 8, 10


class Steps:
    """Makes a profile's optimizer steps with the batches of a run, if necessary beyond the run's last step.

    Beyond it, and with `only_whole`, the smaller group of batches at the end of an epoch is skipped.
    `wait_seconds` has how long the host waited for the batches of each step. `group` has the last step's
    batches.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.samples = min(run.experiment.device_step_samples, run.source.train_samples)
        self.only_whole = False
        self._ends_smaller = run.steps_per_epoch > 1 and run.source.train_samples % self.samples != 0
        self._groups: Iterator[list[Batch]] = iter(())
        self._left = 0
        self._is_loading = False
        self.group: list[Batch] = []
        self.wait_seconds: list[float] = []
        self._rows: list[Rows] = []

    @property
    def must_end(self) -> bool:
        """True once a stop was requested. A NaN does not end a profile."""
        return self.run.control.stop_requested.is_set()

    def enter_epoch(self) -> None:
        """Start the next epoch at the end of this one. As in a run, this does not count for any step."""
        skips_last = self._ends_smaller and (self.only_whole or self.run.is_complete)
        if self._left <= skips_last:
            if self.run.telemetry.steps:
                self._take(self.run.telemetry.flush())
                self.run.begin_epoch()
            self._left = self.run.steps_per_epoch
        elif self._is_loading:
            return
        self._groups = self.run.groups()
        self._is_loading = True
        self.run.telemetry.begin()

    def interrupt_loading(self) -> None:
        """Note that a validation has loaded its batches instead of the epoch's."""
        self._is_loading = False

    def next_group(self) -> list[Batch]:
        """Return the batches of the next step. Its epoch must have been entered."""
        self._left -= 1
        began = time.perf_counter()
        self.group = next(self._groups)
        self.wait_seconds.append(time.perf_counter() - began)
        return self.group

    def make(self) -> None:
        """Make a step as the run does."""
        self.enter_epoch()
        self.run.train_on(self.next_group())
        self.collect()

    def collect(self) -> None:
        """Collect the metrics that have arrived, as often as the run does."""
        if self.run.telemetry.is_due():
            self._take(self.run.telemetry.collect())

    def wait(self) -> None:
        """Wait until the device has completed all steps. The wait does not count for any step."""
        self._take(self.run.telemetry.flush())
        self.run.telemetry.begin()

    def measured(self, first: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the samples and the seconds of the completed steps after the `first`."""
        return (
            np.concatenate([rows.samples for rows in self._rows])[first:],
            np.concatenate([rows.step_seconds for rows in self._rows])[first:],
        )

    def _take(self, arrived: list[Rows]) -> None:
        for rows in arrived:
            self.run.take(rows)
        self._rows += arrived
        self.run.samples()


@dataclass(frozen=True)
class StepTiming:
    """The mean duration of a step and of its wait for data, in ms without the profiler.

    `energy` is of all timed steps, None if not measured. `disturbance` says why the times are unreliable.
    """

    step_ms: float
    wait_ms: float
    energy: Energy | None
    disturbance: str | None


def warm_up(steps: Steps) -> Generator[Event, None, None]:
    """Make the run's warm-up, including compilation and capture, and at least three steps."""
    run = steps.run
    while not steps.must_end:
        phase = run.training_phase
        if phase is PhaseName.MEASURING:
            if run.telemetry.steps >= _LEAST_WARMUP_STEPS:
                return
            phase = PhaseName.WARMING_UP
        if phase is not run.phase:
            run.enter(phase)
            yield Phase(name=phase)
        steps.make()


def time_steps(steps: Steps) -> Generator[Event, None, StepTiming]:
    """Make enough steps to time them, as the run measures its own, and at least one."""
    run = steps.run
    steps.wait()
    run.enter(PhaseName.MEASURING)
    yield Phase(name=PhaseName.PROFILING, fraction=0.0, detail="timing steps")
    most = _most_of_ranks(steps)
    first, began = run.telemetry.steps, time.perf_counter()
    while True:
        steps.make()
        made, seconds = run.telemetry.steps - first, time.perf_counter() - began
        is_enough = (made >= _LEAST_STEPS and seconds >= _LEAST_SECONDS) or seconds >= _MOST_SECONDS
        if steps.must_end or (is_enough if most is None else made >= most):
            break
    steps.wait()
    run.enter(PhaseName.PROFILING)
    return _timing_of(steps, first)


def _most_of_ranks(steps: Steps) -> int | None:
    # multiple ranks cannot each use their own clock: the first decides, by steps that do not count
    if current_rank().count == 1:
        return None
    began = time.perf_counter()
    for _ in range(_LEAST_WARMUP_STEPS):
        steps.make()
    steps.wait()
    seconds = (time.perf_counter() - began) / _LEAST_WARMUP_STEPS
    most = min(max(_LEAST_STEPS, math.ceil(_LEAST_SECONDS / seconds)), math.ceil(_MOST_SECONDS / seconds))
    return round(broadcast_from_rank0(most, steps.run.device))


def _timing_of(steps: Steps, first: int) -> StepTiming:
    (samples, seconds), waits = steps.measured(first), np.asarray(steps.wait_seconds[first:])
    instruments = steps.run.instruments
    is_whole = samples == samples.max()
    # a CPU's counter counts the energy of all ranks on it
    together = current_rank().count if steps.run.device.type == "cpu" else 1
    return StepTiming(
        step_ms=1e3 * _typical(seconds[is_whole]),
        wait_ms=1e3 * _typical(waits[is_whole]),
        energy=instruments.energy.over(len(samples), together * int(samples.sum()), float(seconds.sum())),
        disturbance=instruments.disturbance(),
    )


def _typical(seconds: NDArray[np.float64]) -> float:
    """Return the median of the means of blocks, which one hiccup of the machine does not change."""
    # a block is long enough for all processes of a loader to deliver
    blocks = min(_MOST_BLOCKS, max(1, len(seconds) // _LEAST_BLOCK))
    return float(np.median([block.mean() for block in np.array_split(seconds, blocks)]))
