"""Tries one batch size: full optimizer steps as in the run, to see whether they fit in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import islice

import torch

from engine.experiment.catalog import OWN_DATA
from engine.experiment.checks import Catalog, accumulation_problem
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, ProblemError
from engine.experiment.value import BYTES_PER_MIB
from engine.protocol.events import Event, Finished, Phase, PhaseName, Started, Summary
from engine.protocol.jobs import Control
from engine.protocol.trials import SPILLED, Cause, Trial, Tried
from engine.training.data.batches import Batch, move_batch, requested_samples, tensors_in
from engine.training.data.datasets import dataset_entries
from engine.training.doctor import read_catalog
from engine.training.failures import problem_of
from engine.training.measuring.memory_cap import TrialMemory, trial_memory
from engine.training.models.build import count_parameters
from engine.training.ranks import uses_fsdp
from engine.training.runs.plan import RunPlan
from engine.training.runs.prepare import prepare_unsaved, select_device, training_conditions
from engine.training.runs.run import Run
from engine.training.steps.recipe import cudnn_search

_ALIKE_SAMPLES, _LOOKED_THROUGH, _LOOKING_SECONDS = 256, 24, 3.0
"""Batches of so many samples that are alike show that all are. Of others so many batches are drawn."""
LEAST_STEPS = 3  # the first whole step makes the optimizer's state; fragmentation shows in those after it
MOST_STEPS = 20
"""The most full steps that a trial makes while an optimizer has no state."""
_NO_STATE = (
    f"An optimizer created no state in {MOST_STEPS} steps, so the peak does not include it. "
    "Check the loss for NaN and Inf."
)

# The message of a convolution after cuDNN has tried all algorithms, some of whose workspaces were refused.
_HIDES_A_REFUSAL = "unable to find an engine"


def try_batch(
    experiment: Experiment, control: Control, *, searches_algorithms: bool = True
) -> Iterator[Event]:
    """Train at the experiment's batch size just long enough to know. The last event is `Tried`.

    It makes at least three full optimizer steps, more until the step is steady and the optimizers have their
    state, one that is timed, the smaller group at the end of an epoch, a short validation, and one more step.
    Without `searches_algorithms` it is a quick trial, and no step is timed. Raises ProblemError of kind
    `REQUEST` if the experiment cannot run here, and any other error than a lack of memory.
    """
    began = time.perf_counter()
    control.step = 0
    # a minimum of what prolongs a run without changing its memory
    measure = experiment.measure.model_copy(update={"warmup_steps": LEAST_STEPS})
    # a large scale overflows, and skipped steps never allocate the optimizer's state
    scaler = experiment.scaler.model_copy(update={"init_scale": 1.0})
    experiment = experiment.model_copy(update={"measure": measure, "scaler": scaler})
    # a trial may have fetched the data
    plan = RunPlan(experiment, _catalog().model_copy(update={"datasets": dataset_entries()}))
    # on a CPU what is kept would count as the trial's own
    plan.workload.copies_model = plan.device.type != "cpu"
    plan.experiment = _validated_in_short(plan)
    # a search makes many trials, and none reports power or activity: each would wait for the idle power
    plan.reads_sensors = False
    samples, batch_size = plan.samples_per_epoch, plan.experiment.batch_size
    if samples < plan.experiment.device_step_samples:
        raise ProblemError(accumulation_problem(plan.experiment, max(1, samples // batch_size)))
    select_device(plan)
    memory = trial_memory(plan.device, plan.experiment.memory_cap_gib)
    progress = _TrialProgress(memory, is_timed=searches_algorithms and not _is_slowed(plan))
    control.has_spilled = memory.has_spilled
    try:
        with training_conditions(plan), nullcontext() if searches_algorithms else cudnn_search(False):
            yield from _train(plan, control, progress)
    except Exception as error:
        is_said = problem_of(error).kind is Kind.OUT_OF_MEMORY
        if not is_said and not (memory.was_refused() and _HIDES_A_REFUSAL in str(error)):
            raise
        progress.cause = "memory"
    finally:
        control.has_spilled = lambda: False
    # outside the except block, where the exception no longer pins the tensors of its frames
    if progress.was_stopped:
        yield Finished(summary=Summary(), stopped=True)
        return
    trial = _trial(plan, memory, progress, time.perf_counter() - began)
    if "compile" in plan.experiment.step.parts:
        torch.compiler.reset()
    leaked_mib = memory.release()  # after which the budget is known without what libraries hold
    yield Tried(
        trial=trial,
        budget_mib=memory.budget_mib,
        baseline_mib=memory.baseline_mib,
        leaked_mib=leaked_mib,
        other_programs_mib=memory.other_programs_mib,
        model_mib=_model_mib(plan, progress.parameters),
        train_samples=plan.samples_per_epoch,
        looked_through=progress.looked_through,
    )


@cache
def _catalog() -> Catalog:
    # once in a worker, which may make many trials
    return read_catalog()


@dataclass
class _TrialProgress:
    memory: TrialMemory
    is_timed: bool
    whole_steps: int = 0
    samples_per_second: float | None = None
    parameters: int | None = None
    cause: Cause | None = None
    lacks_state: bool = False
    looked_through: int | None = None
    was_stopped: bool = False

    def note(self, started: Started) -> None:
        self.parameters = started.parameters


def _is_slowed(plan: RunPlan) -> bool:
    # under a cap a CPU returns freed memory at once, which takes about half its speed
    return plan.device.type == "cpu" and plan.experiment.memory_cap_gib is not None


def _validated_in_short(plan: RunPlan) -> Experiment:
    # a validation of one batch and of the smaller last one: a library may keep something for each size
    experiment, available = plan.experiment, plan.facts.validation_samples
    samples, batch_size = min(experiment.validation.limit or available, available), experiment.batch_size
    if samples <= batch_size * experiment.devices:
        return experiment
    limit = batch_size * experiment.devices + samples % batch_size
    validation = experiment.validation.model_copy(update={"limit": limit})
    return experiment.model_copy(update={"validation": validation})


def _train(plan: RunPlan, control: Control, progress: _TrialProgress) -> Iterator[Event]:
    run = yield from prepare_unsaved(plan, control, progress.note)
    if run is None:
        progress.was_stopped = True
        return
    with closing(run):
        largest = _largest_batch(plan, run, progress)
        yield from _train_until_steady(run, progress)
        if largest is not None and not control.stop_requested.is_set():
            _train_on(run, [largest] * plan.experiment.step.gradient_accumulation, progress)
        if not control.stop_requested.is_set():
            _end_epoch(plan, run, progress)
            if run.experiment.validation.every and run.source.has_validation:
                run.validate()
            if plan.total_steps > plan.steps_per_epoch:
                # one more whole step: what the smaller group and the validation leave behind, in libraries
                # and between blocks, leaves less room for it
                run.begin_epoch()
                if (group := next(run.groups(), None)) is not None:
                    _train_on(run, group, progress)
        progress.was_stopped = control.stop_requested.is_set()


def _largest_batch(plan: RunPlan, run: Run, progress: _TrialProgress) -> Batch | None:
    # of the first batches of the user's own data; None where these are all of one size
    if plan.workload.own is None or plan.experiment.dataset != OWN_DATA:
        return None
    began, largest, sizes = time.perf_counter(), None, []
    for count, batch in enumerate(run.source.epoch(1), 1):
        if requested_samples(batch) == plan.experiment.batch_size:
            sizes.append(sum(tensor.numel() for tensor in tensors_in(batch)))
            if sizes[-1] == max(sizes):
                # in the host's memory, where the trial does not count it
                largest = move_batch(batch, torch.device("cpu"))
        is_slow = time.perf_counter() - began > _LOOKING_SECONDS
        are_alike = len(set(sizes)) < 2 and count * plan.experiment.batch_size >= _ALIKE_SAMPLES
        if count > 1 and (is_slow or are_alike or count == _LOOKED_THROUGH):
            break
    if len(set(sizes)) < 2 or largest is None:
        return None
    progress.looked_through = len(sizes)
    return move_batch(largest, plan.device)


def _train_until_steady(run: Run, progress: _TrialProgress) -> Iterator[Event]:
    phase = None
    while True:
        for group in run.groups():
            if run.training_phase is not phase:
                phase = run.training_phase
                yield Phase(name=phase)
            is_whole = sum(map(requested_samples, group)) == run.experiment.device_step_samples
            # the last of the least steps allocates anew, and others compile or capture
            is_usual = is_whole and progress.whole_steps >= LEAST_STEPS and run.step.next_phase() is None
            speed = _train_on(run, group, progress)
            if is_usual and progress.is_timed:
                progress.samples_per_second = speed
            progress.whole_steps += is_whole
            progress.lacks_state = lacks_state(run.step.optimizer)
            least = MOST_STEPS if progress.lacks_state else LEAST_STEPS
            is_steady = run.step.next_phase() is None and progress.whole_steps >= least
            if (is_steady and (is_usual or not progress.is_timed)) or run.control.stop_requested.is_set():
                return
        run.begin_epoch()


def lacks_state(optimizer: torch.optim.Optimizer) -> bool:
    """Return True if an optimizer that keeps state for its weights has none yet."""
    return any(
        not member.state
        # SGD without momentum keeps none
        and any(group.get("momentum", 1) for group in member.param_groups)
        and any(weight.requires_grad for group in member.param_groups for weight in group["params"])
        for member in getattr(optimizer, "members", (optimizer,))
    )


def _end_epoch(plan: RunPlan, run: Run, progress: _TrialProgress) -> None:
    # the smaller group that ends an epoch, if the run reaches one: beside a captured step it takes memory
    accumulated = plan.experiment.step.gradient_accumulation
    is_smaller = plan.samples_per_epoch % plan.experiment.device_step_samples != 0
    if is_smaller and plan.total_steps >= plan.steps_per_epoch:
        batches = run.source.epoch(run.epoch, (plan.steps_per_epoch - 1) * accumulated)
        group = list(islice(batches, accumulated))
        _train_on(run, group, progress)


def _train_on(run: Run, group: list[Batch], progress: _TrialProgress) -> float | None:
    # returns the samples per second of the step, without the wait for its data
    # a single left-over sample is left out: some models cannot train on one
    left_over = requested_samples(group[-1]) == 1 < run.experiment.batch_size
    group, speed = group[:-1] if left_over else group, None
    if group:
        run.telemetry.begin()
        is_capturing = run.step.next_phase() is PhaseName.CAPTURING
        if is_capturing:
            # from earlier refusals, as in cuDNN's search, the libraries have recovered
            progress.memory.forget_refusals()
        run.train_on(group)
        if is_capturing and run.step.capture_failed and progress.memory.was_refused():
            # a run would continue without the capture, but that is not what was asked for
            progress.cause = "memory"
        for rows in run.telemetry.flush():
            run.take(rows)
            speed = float(rows.samples[-1] / rows.step_seconds[-1])
    return speed


def _trial(plan: RunPlan, memory: TrialMemory, progress: _TrialProgress, seconds: float) -> Trial:
    if progress.cause is None and memory.has_spilled():
        progress.cause = "spill"
    fits = progress.cause is None
    return Trial(
        batch_size=plan.experiment.batch_size,
        fits=fits,
        peak_mib=memory.peak_mib() if fits else None,
        reserved_mib=memory.reserved_mib() if fits else None,
        one_step_samples_per_second=progress.samples_per_second if fits else None,
        seconds=seconds,
        steps=progress.whole_steps,
        cause=progress.cause,
        note=SPILLED if progress.cause == "spill" else _NO_STATE if fits and progress.lacks_state else None,
    )


def _model_mib(plan: RunPlan, parameters: int | None) -> float:
    # parameters, gradients and optimizer state, all float32 even under autocast, or all of them bfloat16
    optimizer, size = plan.experiment.optimizer, 2 if plan.experiment.precision is Precision.BF16_PURE else 4
    kind = optimizer.kind
    moments = kind.moments + (optimizer.momentum > 0)
    # that of a model that did not fit under the cap is counted now that this is lifted
    count = count_parameters(plan.workload.build()) if parameters is None else parameters
    parts = plan.experiment.devices if uses_fsdp(plan.experiment) else 1
    of_state = moments * (size if kind.moment_bytes is None else kind.moment_bytes)
    return count * (2 * size + of_state) / parts / BYTES_PER_MIB
