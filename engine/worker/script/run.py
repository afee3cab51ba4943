"""The job that runs a script: it starts the command, follows its observer, and ends it after the steps."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing

import numpy as np

from engine.busyness import OtherPrograms
from engine.experiment.catalog import DeviceEntry
from engine.experiment.command import refusal
from engine.experiment.experiment import LEAST_BLOCKS, Experiment
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import (
    Event,
    Failed,
    Finished,
    Log,
    Phase,
    PhaseName,
    Skipped,
    Started,
    Summary,
)
from engine.protocol.jobs import Control
from engine.protocol.summary import Environment, RankMetrics
from engine.training.doctor import environment_of
from engine.training.measuring.instruments import EnergyMeter, busy_note, energy_meters, throttled_note
from engine.training.measuring.sensors import USED, sensor_gauge
from engine.training.measuring.speed import Tally
from engine.training.measuring.telemetry import Rows, samples_event
from engine.training.precision import processor
from engine.words.numbers import counted
from engine.worker.guard import private_folder
from engine.worker.script.process import ScriptProcess
from engine.worker.script.reading import Begin, Reader, Steps

_LOOK_SECONDS, _PRINTED_SECONDS = 0.05, 1.0
_STOP_SECONDS = 2.5  # less than until the session ends this process
_END_SECONDS = 20.0  # a script may save a checkpoint when it is interrupted
_MOST_RECOMPILED = 5  # times the requested steps, after which compiling is part of what is measured
_LAST_FRACTION = 10  # the final loss is the mean over this part of the measured steps
_OUT_OF_MEMORY = re.compile(r"OutOfMemoryError|out of memory|can't allocate memory|MemoryError")
_NOT_OBSERVED = re.compile(r"^Ammeter cannot observe this process: (.+)", re.MULTILINE)


def run_script(experiment: Experiment, control: Control) -> Iterator[Event]:
    """Run the experiment's command, and yield the events of its run. Raises ProblemError if it cannot start.

    The command is ended after the experiment's steps, unless it is to run to its end.
    """
    command = experiment.command
    yield Phase(name=PhaseName.BUILDING)
    with ExitStack() as stack:
        folder = stack.enter_context(private_folder("command"))
        # which GPU the script will use is not known yet
        meters = energy_meters()
        for meter in meters.values():
            stack.callback(meter.close)
        process = stack.enter_context(closing(ScriptProcess(command, folder)))
        reader, run = Reader(folder), None
        no_pause = refusal("pause", (command,))
        due = 0.0
        while True:
            status = process.status  # before reading: what was written until its end is read
            for line in reader.read():
                if isinstance(line, Begin):
                    run = _Run(experiment, line, meters)
                    stack.callback(run.close)
                    yield run.started()
                elif run is not None:
                    yield from run.add(line)
                    control.step = run.tally.steps
            if time.monotonic() >= due and (output := process.output()):
                # a run saves a limited number of lines
                due = time.monotonic() + _PRINTED_SECONDS
                yield Log(level="stderr", message=output)
            if no_pause is not None and control.pause_requested.is_set():
                yield Log(level="warning", message=f"{no_pause.message} It continues.")
                no_pause = None
            is_complete = run is not None and run.is_complete
            is_stopped = control.stop_requested.is_set()
            # one whose steps are not seen could run for ever
            trouble = "" if is_stopped or is_complete else reader.unwritable()
            if status is not None or is_stopped or is_complete or trouble:
                break
            time.sleep(_LOOK_SECONDS)
        if run is not None:
            run.count(False)
        was_stopped = is_stopped and not is_complete and status is None
        if status is None:
            patience = _STOP_SECONDS if was_stopped or trouble else _END_SECONDS
            process.end(patience, lambda: control.stop_requested.is_set() and not was_stopped)
            # the ranks write their last steps as they end
            for line in reader.read():
                if run is not None and isinstance(line, Steps):
                    yield from run.add(line)
        if output := process.output():
            yield Log(level="stderr", message=output)
        for problem in reader.problems:
            yield Log(level="warning", message=problem)
        summary, tail = None if run is None else run.summary(reader), process.tail()
        if trouble:
            remedy = "Free space for temporary files, and do not delete that folder."
            yield _death(trouble, remedy, tail, summary)
        elif summary is None and was_stopped:
            yield Finished(summary=Summary(speed_note="Stopped before training began."), stopped=True)
        elif status and not is_complete:
            yield _failed(status, tail, summary)
        elif summary is None:
            yield _unseen(tail)
        else:
            if summary.speed_note:
                yield Log(level="warning", message=f"Throughput: {summary.speed_note}")
            yield Finished(summary=summary, stopped=was_stopped)


class _Run:
    """The run of the main process: its metrics and instruments, from the observer's lines.

    A GPU whose UUID the observer does not know has no sensors and no energy.
    """

    def __init__(self, experiment: Experiment, begin: Begin, meters: Mapping[str, EnergyMeter]) -> None:
        self._begin = begin
        self._measure = experiment.measure
        self._whole = experiment.command.whole
        self._length = max(1, (experiment.steps or 0) - self._measure.warmup_steps)
        # of an unknown batch, a step is the sample
        batch = begin.batch_size or 1
        seen = {"precision": begin.precision, "device": begin.setting, "batch_size": batch}
        self.experiment = experiment.model_copy(update=seen)
        self.tally = Tally(self._measure)
        self._warm_until = self._measure.warmup_steps
        self._furthest = _MOST_RECOMPILED * (self._warm_until + self._length)
        self._seconds = 0.0
        self._losses: list[float] = []
        self._memory: dict[str, float] = {}
        self._phase = PhaseName.BUILDING
        is_cpu = begin.device == "cpu"
        self._others = OtherPrograms() if is_cpu else None
        self._sensors = sensor_gauge(begin.device_uuid)
        self._energy = meters.get("cpu" if is_cpu else begin.device_uuid) or EnergyMeter(None)

    def close(self) -> None:
        self._sensors.close()

    @property
    def is_complete(self) -> bool:
        """True once the requested steps are measured, unless the script is to run to its end."""
        return not self._whole and self.tally.steps >= self._warm_until + self._length

    def started(self) -> Started:
        """Return the event of the run's start, with the experiment as it was observed."""
        return Started(
            experiment=self.experiment,
            environment=_environment(self._begin),
            total_steps=self._warm_until + self._length,
            steps_per_epoch=self._warm_until + self._length,
            parameters=sum(self._begin.parameters.values()),
            loss_name="passed to backward()",
            loss_unit="",
        )

    def add(self, steps: Steps) -> Iterator[Event]:
        """Add completed steps, without those after the last requested one, and yield their events."""
        for step in steps.compiled:
            if step <= self._furthest and (self._whole or step <= self._warm_until + self._length):
                # compiling is no part of the speed, and what is compiled must warm up too
                self._warm_until = max(self._warm_until, step + 1)
        room = len(steps.step) if self._whole else self._warm_until + self._length - self.tally.steps
        if room <= 0:
            return
        rows = self._rows(steps, room)
        self.tally.add(rows, self._warm_until)
        self._losses.extend(rows.figures["loss"].tolist())
        self._add_peaks(steps)
        # a script's memory cannot be told from that of other programs
        sensors = {name: value for name, value in self._sensors.sample().items() if name != USED}
        now = steps.model_dump(include=_MEMORY_NOW, exclude_none=True)
        # the observer does not see when a step waits for its data
        yield samples_event([rows], {**now, **sensors}).model_copy(update={"data_wait_ms": None})
        if skipped := tuple(step for step in steps.skipped if step <= rows.last_step):
            yield Skipped(steps=skipped, own=skipped)
            self.tally.skipped_steps += len(skipped)
        is_measured = self.tally.steps >= self._warm_until
        phase = PhaseName.MEASURING if is_measured else PhaseName.WARMING_UP
        if phase is not self._phase:
            self._phase = phase
            self.count(is_measured)
            yield Phase(name=phase)

    def count(self, is_on: bool) -> None:
        """Set whether the following time belongs to the measurement, for all instruments."""
        self._sensors.count(is_on)
        self._energy.count(is_on)
        if self._others is not None:
            self._others.count(is_on)

    def _add_peaks(self, steps: Steps | None) -> None:
        for name, value in (steps.model_dump(include=_MEMORY) if steps is not None else {}).items():
            if value is not None:
                self._memory[name] = max(value, self._memory.get(name, 0.0))

    def _rows(self, steps: Steps, count: int) -> Rows:
        seconds = np.asarray(steps.seconds[:count])
        samples = np.ones(len(seconds), dtype=np.int64)
        if batch := self._begin.batch_size:
            seen = np.asarray(steps.samples[:count] if steps.samples else (), dtype=np.int64)
            # a step whose samples were not seen has as many as the first ones
            samples *= np.where(seen > 0, seen, batch) if seen.size else batch
            samples *= self._begin.world_size
        durations = np.diff(seconds, prepend=self._seconds)
        self._seconds = float(seconds[-1])
        figures = {"loss": np.asarray(steps.loss[:count])}
        if steps.scale is not None:
            figures["grad_scale"] = np.asarray(steps.scale[:count])
        return Rows(
            step=np.asarray(steps.step[:count], dtype=np.int64),
            samples=samples,
            seconds=seconds,
            # of a clock that is too coarse
            step_seconds=np.maximum(durations, 1e-9),
            wait_seconds=np.zeros(len(seconds)),
            learning_rate=np.asarray(steps.learning_rate[:count]),
            figures=figures,
        )

    def summary(self, reader: Reader) -> Summary:
        """Return the metrics of the steps so far."""
        begin, measured = self._begin, self.tally.measured
        speed = self.tally.speed()
        note = speed.note
        if speed.samples_per_second is not None:
            note = throttled_note(self._sensors.slowed_by)
            if note is None and self._others is not None:
                note = busy_note(self._others.share())
        totals = self.tally.summary(
            steps_per_epoch=self._warm_until + self._length, is_scaled=begin.has_scaler
        )
        last = self._losses[self._warm_until :] or self._losses
        last = last[-max(1, len(last) // _LAST_FRACTION) :]
        # of several processes, those of the one with the highest
        for process in reader.processes.values():
            self._add_peaks(process.steps)
        figures = {
            "samples_per_second": speed.samples_per_second,
            "samples_per_second_ci": speed.interval,
            "step_ms": speed.step_ms,
            "speed_note": note,
            "slowed_by": self._sensors.slowed_by,
            "data_wait_fraction": None,
            "final_train_loss": float(np.mean(last)) if last else None,
            "whole_run_peak_mib": self._memory.get("peak_allocated_mib"),
            **{name: self._memory.get(name) for name in _MEMORY},
            **self._sensors.figures(),
            "energy": self._energy.over(measured.steps, measured.samples, measured.seconds)
            if begin.world_size == 1
            else None,
            "observed": begin.observed.model_copy(
                update={"is_compiled": begin.is_compiled or self._warm_until > self._measure.warmup_steps}
            ),
            "ranks": tuple(self._ranks(reader)) if begin.world_size > 1 else (),
        }
        return totals.model_copy(update=figures)

    def _ranks(self, reader: Reader) -> Iterator[RankMetrics]:
        began = {each.begin.rank: each for each in reader.processes.values() if each.begin is not None}
        for rank, process in sorted(began.items()):
            begin, steps = process.begin, process.steps
            if begin is None or steps is None:
                continue
            times = np.concatenate(process.times)[self._warm_until :]
            step_seconds = float(np.median(np.diff(times))) if len(times) > LEAST_BLOCKS else None
            speed = begin.batch_size / step_seconds if begin.batch_size and step_seconds else None
            yield RankMetrics(
                device=f"{begin.device}, rank {rank}",
                samples_per_second=speed,
                step_ms=1e3 * step_seconds if step_seconds else None,
                peak_mib=steps.peak_allocated_mib or steps.peak_resident_mib,
            )


_MEMORY = {"peak_allocated_mib", "peak_reserved_mib", "peak_resident_mib"}
_MEMORY_NOW = {"allocated_mib", "reserved_mib", "resident_mib"}


def _environment(begin: Begin) -> Environment:
    is_cpu = begin.device == "cpu"
    title, memory = begin.device_name or begin.device, begin.device_memory_mib
    if is_cpu:
        title, memory = processor().title, processor().memory_mib
    here = environment_of(DeviceEntry(name=begin.device, title=title, memory_mib=memory, precisions=()))
    theirs = {"torch": begin.torch, "python": begin.python, "cuda": None if is_cpu else begin.cuda}
    return here.model_copy(update=theirs)


def _death(message: str, remedy: str, tail: str, summary: Summary | None = None) -> Failed:
    problem = Problem(kind=Kind.WORKER_DIED, message=message, remedy=remedy)
    return Failed(problem=problem, detail=tail, summary=summary)


def _unseen(tail: str) -> Failed:
    """Return the end of a script whose first steps were not seen."""
    if found := _NOT_OBSERVED.search(tail):
        message = f"The observer failed: {found[1].rstrip('.')}."
        return _death(message, "If the script is not the cause, report it with the details below.", tail)
    remedy = (
        "Check that it trains with an optimizer of torch.optim, in Python that was not started with -I, -E "
        "or -S."
    )
    return _death("The script ended without an optimizer step that Ammeter could see.", remedy, tail)


def _failed(status: int, tail: str, summary: Summary | None) -> Failed:
    if _OUT_OF_MEMORY.search(tail):
        remedy = "Use a smaller batch in the script, or a 16-bit precision."
        problem = Problem(kind=Kind.OUT_OF_MEMORY, message="The script ran out of memory.", remedy=remedy)
        return Failed(problem=problem, detail=tail, summary=summary)
    how = f"with exit status {status}" if status > 0 else f"by signal {-status}"
    steps = 0 if summary is None else summary.steps
    after = f" after {counted(steps, 'step')}" if steps else " before its first step"
    last = next((line for line in reversed(tail.splitlines()) if line.strip()), "")
    message = f"The script ended {how}{after}{f': {last.strip()}' if last else '.'}"
    remedy = "Correct the script. The details below show what it printed last."
    return _death(message, remedy, tail, summary)
