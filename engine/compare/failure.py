"""Explains a failed comparison: the reason, the batch sizes that were tried, and the remedies that train it
again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from engine.experiment.catalog import DeviceEntry, Precision
from engine.experiment.experiment import Experiment, changed
from engine.experiment.own.code import Code, CodeLocation, place_of
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.value import BYTES_PER_MIB, MIB_PER_GIB
from engine.protocol.trials import LimitSide, MemoryLine, Trial, largest_batch, needed_mib
from engine.store.record import RunRecord, Status
from engine.store.saved.forecasts import Forecasts
from engine.words.names import listed
from engine.words.numbers import memory_text

_USABLE_FRACTION = 0.95  # of a budget: the rest is lost between the allocator's blocks and to the device
_MOST_REMEDIES = 3
_FULL = Kind.OUT_OF_MEMORY
_SPARE = 1.05  # a raised cap, relative to the need
# bounded: another machine, an archive or the user's code may have written the message
_SIZE = r"\b(\d{1,9}(?:\.\d{1,9})?) (KiB|MiB|GiB)"
_CUDA_ASKED = re.compile(f"Tried to allocate {_SIZE}")
_CUDA_USED = re.compile(f"{_SIZE} is allocated by PyTorch")
_CPU_ASKED = re.compile(r"you tried to allocate (\d{1,18}) bytes")
_MIB = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": MIB_PER_GIB}
_PARTS = {"backward pass": "_engine_run_backward", "optimizer": "torch/optim/", "forward pass": "in forward"}
"""The parts of a step, each with what a traceback says in it."""
_STATES = {
    Status.FINISHED: ("finished", "finished"),
    Status.QUEUED: ("was not started", "were not started"),
    Status.RUNNING: ("is training", "are training"),
    Status.STOPPED: ("was stopped", "were stopped"),
    Status.INTERRUPTED: ("was interrupted", "were interrupted"),
    Status.FAILED: ("failed", "failed"),
}


@dataclass(frozen=True)
class FailureRemedy:
    """What to do after a failure: the words of a button, and the outcome in one or two sentences.

    `brief` are fewer words for a narrow button. With `rereads` the user's model file is read again.
    "train" trains the labeled experiments `sides` again, each `repeats` times. "open" opens `file`, and
    "check" checks the model of the first side.
    """

    words: str
    outcome: str
    sides: tuple[tuple[str, Experiment], ...] = ()
    repeats: int = 1
    action: Literal["train", "open", "check"] = "train"
    file: Path | None = None
    brief: str = ""
    rereads: bool = False

    def experiments(self) -> tuple[tuple[str, Experiment], ...]:
        """Return the labeled experiments. Raises ProblemError if a file cannot be read again."""
        if not self.rereads:
            return self.sides
        return tuple((label, _read_again(experiment)) for label, experiment in self.sides)


@dataclass(frozen=True)
class MemoryNeed:
    """The memory that one step of a side needs in MiB, None if it is unknown."""

    label: str
    precision: Precision
    mib: float | None


@dataclass(frozen=True)
class MemoryShortage:
    """The memory that the sides need and have, in MiB.

    `cap_mib` is the user's memory cap, None unless it is the reason of the failure. `device_mib` is None if
    it is unknown. `limits` have each side's measured and estimated memory by batch size, and the largest
    batch that fits.
    """

    needs: tuple[MemoryNeed, ...]
    cap_mib: float | None
    device_mib: float | None
    device: str
    limits: tuple[LimitSide, ...] = ()

    @property
    def budget_mib(self) -> float | None:
        """The memory that tensors may use."""
        return self.device_mib if self.cap_mib is None else self.cap_mib

    @property
    def budget(self) -> str:
        """Return the memory that is available, with its source: "cap 1.0 GiB" or "GPU 24.0 GiB"."""
        return "" if self.budget_mib is None else f"{self._name} {memory_text(self.budget_mib)}"

    @property
    def _name(self) -> str:
        return self.device if self.cap_mib is None else "cap"


@dataclass(frozen=True)
class Failure:
    """The reason why a run or a comparison failed.

    `title` names it, and `reason` explains it. `tried` are sentences on attempts to avoid it. `runs` are all
    runs of the comparison, the baseline first. `place` is where the user's own code failed. `detail` is the
    full message.
    """

    run: RunRecord
    runs: tuple[RunRecord, ...]
    problem: Problem
    title: str
    reason: str
    tried: tuple[str, ...]
    remedies: tuple[FailureRemedy, ...]
    memory: MemoryShortage | None = None
    place: CodeLocation | None = None

    @property
    def detail(self) -> str:
        return self.run.detail

    def lines(self) -> list[str]:
        """Return the title, the reason and all details as lines of text."""
        head = (self.title, self.reason, *self.tried)
        return [
            *filter(None, head),
            *(f"- {remedy.words}: {remedy.outcome}" for remedy in self.remedies),
        ]


def failure_of(
    runs: Sequence[RunRecord],
    forecasts: Forecasts,
    device: DeviceEntry | None,
    steps: Mapping[str, int] | None = None,
    run_id: str | None = None,
) -> Failure | None:
    """Return why the last failed run of a comparison's `runs`, or the given one, failed. None if none did.

    `steps` are the last completed steps of runs by id, as far as known. Without `device`, the environment of
    a run says how much memory there is.
    """
    ordered = sorted(runs, key=lambda run: run.number)
    asked = [run for run in ordered if run_id in (None, run.id)]
    failed = next((run for run in reversed(asked) if run.problem is not None), None)
    if failed is None or failed.problem is None:
        return None
    if failed.sweep is not None:
        # a sweep goes on with its next cell
        failure = _Reader((failed,), failed, failed.problem, forecasts, device, steps or {}).failure()
        return replace(failure, remedies=tuple(one for one in failure.remedies if one.action != "train"))
    return _Reader(tuple(ordered), failed, failed.problem, forecasts, device, steps or {}).failure()


def fitting_batch(lines: Sequence[MemoryLine], budget_mib: float, failed_batch: int) -> int | None:
    """Return the largest batch below the failed one that fits into `budget_mib`, or None."""
    largest = largest_batch(lines, _USABLE_FRACTION * budget_mib)
    if largest is None or largest < 1 or failed_batch < 2:
        return None
    # it failed whatever the forecast says, so propose clearly less
    return min(largest, max(1, math.floor(0.9 * failed_batch)))


def with_accumulation(experiment: Experiment, batch_size: int) -> Experiment | None:
    """Return the experiment with a batch of at most `batch_size` and the same samples per step.

    None if only a batch of one sample divides them evenly.
    """
    samples = experiment.device_step_samples
    fitting = next((size for size in range(min(batch_size, samples), 1, -1) if samples % size == 0), None)
    if fitting is None:
        return None
    step = experiment.step.model_copy(update={"gradient_accumulation": samples // fitting})
    return experiment.model_copy(update={"batch_size": fitting, "step": step})


def own_code(experiment: Experiment) -> Code | None:
    """Return the user's code that an experiment keeps, or None, also if another version kept it."""
    try:
        return experiment.own_code
    except ValueError:
        return None


class _Reader:
    """Makes the failure of one comparison."""

    def __init__(
        self,
        runs: tuple[RunRecord, ...],
        failed: RunRecord,
        problem: Problem,
        forecasts: Forecasts,
        device: DeviceEntry | None,
        steps: Mapping[str, int],
    ) -> None:
        self.runs, self.failed, self.problem, self.steps = runs, failed, problem, steps
        self.forecasts = forecasts
        self.sides: dict[str, Experiment] = {}
        for run in runs:
            self.sides.setdefault(run.side, run.experiment)
        self.repeats = -(-len(runs) // len(self.sides))
        self.full = {run.side for run in runs if run.problem is not None and run.problem.kind is _FULL}
        self.experiment = failed.experiment
        self.device_mib = _device_mib(failed, device)
        self.device = "GPU" if self.experiment.device != "cpu" else "system"
        self.code = own_code(self.experiment)
        self.place = place_of(failed.detail, self.code)

    def failure(self) -> Failure:
        if self.problem.kind is _FULL and not self.experiment.is_script:
            memory = self.memory()
            title, reason = _memory_words(self, memory)
            remedies = tuple(self.memory_remedies(memory))
        else:
            memory, title = None, self.problem.message.removesuffix(".")
            reason = "" if self.problem.kind is Kind.NOT_A_NUMBER else self.problem.remedy
            remedies = tuple(self.other_remedies())
        return Failure(
            self.failed,
            self.runs,
            self.problem,
            title,
            reason,
            tuple(self.tried()),
            remedies[:_MOST_REMEDIES],
            memory,
            self.place,
        )

    def tried(self) -> Iterator[str]:
        failed, is_full = self.failed, self.problem.kind is _FULL
        if self.experiment.is_script:
            # its problem names the last step, and nothing else was tried
            return
        step = self.steps.get(failed.id)
        if step is None and failed.summary is not None:
            step = failed.summary.steps
        part = _part_of_step(failed.detail)
        where = "" if step is None else f"step {step + 1:,}"
        places = (f"the {part}" if part else "", where)
        place = f" in {' of '.join(filter(None, places))}" if any(places) else ""
        what, asked = ("ran out of memory", _asked_words(failed.detail)) if is_full else ("failed", "")
        yield f"{failed.side} {what}{place}{asked}."
        others: dict[Status, list[str]] = {}
        for run in self.runs:
            if run.side != self.failed.side and run.side not in others.setdefault(run.status, []):
                others[run.status].append(run.side)
        for status, sides in others.items():
            yield f"{listed(sides)} {_STATES[status][len(sides) > 1]}."

    def changed(self, words: str, outcome: str, changes: Mapping[str, Any]) -> Iterator[FailureRemedy]:
        """Yield the remedy of changing these settings on all sides, if these can be changed."""
        try:
            made = [changed(one, changes) for one in self.sides.values()]
        except ProblemError:
            return
        if made != list(self.sides.values()):
            yield self.again(words, outcome, made)

    def again(self, words: str, outcome: str, made: Sequence[Experiment], brief: str = "") -> FailureRemedy:
        sides = tuple(zip(self.sides, made, strict=True))
        return FailureRemedy(words, outcome, sides, self.repeats, brief=brief)

    @property
    def all_sides(self) -> str:
        count = len(self.sides)
        are_precisions = {precision.label for precision in Precision}.issuperset(self.sides)
        noun = "precisions" if are_precisions else "sides"
        return "" if count == 1 else f"both {noun}" if count == 2 else f"all {count} {noun}"

    # --- memory

    def memory(self) -> MemoryShortage:
        caps = [one.memory_cap_gib for one in self.sides.values() if one.memory_cap_gib is not None]
        cap_mib = min(caps) * MIB_PER_GIB if len(caps) == len(self.sides) else None
        if cap_mib is not None and self.device_mib is not None and cap_mib >= self.device_mib:
            cap_mib = None
        found = dict(zip(self.sides, self.forecasts.find_all(self.sides.values()), strict=True))
        needs, limits = [], []
        for label, one in self.sides.items():
            forecast = found[label]
            lines = () if forecast is None else forecast.lines
            need = needed_mib(lines, one.batch_size) if lines else None
            needs.append(MemoryNeed(label, one.precision, need))
            trials = [
                Trial(batch_size=peak.batch_size, fits=True, peak_mib=peak.peak_mib)
                for peak in self.forecasts.peaks(one)
            ]
            if label in self.full:
                trials.append(Trial(batch_size=one.batch_size, fits=False, cause="memory"))
            budget_mib = self.device_mib if cap_mib is None else cap_mib
            size = None if budget_mib is None else fitting_batch(lines, budget_mib, one.batch_size)
            limits.append(
                LimitSide(label=label, experiment=one, trials=tuple(trials), forecast=lines, trying=size)
            )
        known = tuple(limits) if any(side.forecast or side.passed for side in limits) else ()
        return MemoryShortage(tuple(needs), cap_mib, self.device_mib, self.device, known)

    def memory_remedies(self, memory: MemoryShortage) -> Iterator[FailureRemedy]:
        size = self.fitting(memory)
        lines = {side.label: side.forecast for side in memory.limits if side.forecast}
        largest = max(one.batch_size for one in self.sides.values())
        is_known = size is not None
        if size is None and largest > 1:
            size = largest // 2
        if size is not None:
            sizes = {side: min(one.batch_size, size) for side, one in self.sides.items()}
            smaller = [one.model_copy(update={"batch_size": sizes[side]}) for side, one in self.sides.items()]
            outcome = (
                self.need_words(sizes, lines, memory)
                if is_known
                else "Half of it. Whether it fits is not known."
            )
            brief, every = f"Use batch {size:,}", f" for {self.all_sides}" if self.all_sides else ""
            yield self.again(f"{brief}{every}", outcome, smaller, brief)
            made = [with_accumulation(one, sizes[side]) for side, one in self.sides.items()]
            accumulated = [one for one in made if one is not None]
            if len(accumulated) == len(self.sides):
                most = max(accumulated, key=lambda one: one.step.gradient_accumulation)
                times, batch = most.step.gradient_accumulation, most.batch_size
                outcome = f"Still {most.device_step_samples:,} samples in each step, {batch:,} at a time."
                yield self.again(f"Accumulate {times:,} × {batch:,}", outcome, accumulated)
        if memory.cap_mib is not None:
            yield from self.raised(memory)
        else:
            outcome = "Recomputes activations in the backward pass. Takes less memory, but steps are slower."
            yield from self.changed(
                "Use activation checkpointing", outcome, {"step.activation_checkpointing": "full"}
            )

    def fitting(self, memory: MemoryShortage) -> int | None:
        """Return the largest batch that fits all sides with an estimate. None if a failed one has none."""
        lines = {side.label: side.forecast for side in memory.limits if side.forecast}
        largest = max(one.batch_size for one in self.sides.values())
        if memory.budget_mib is None or not self.full <= lines.keys():
            return None
        sizes = [fitting_batch(each, memory.budget_mib, largest) for each in lines.values()]
        known = [size for size in sizes if size is not None]
        return min(known) if len(known) == len(sizes) else None

    def need_words(
        self, sizes: Mapping[str, int], lines: Mapping[str, Sequence[MemoryLine]], memory: MemoryShortage
    ) -> str:
        needs = {side: needed_mib(each, sizes[side]) for side, each in lines.items()}
        most = max(needs, key=lambda side: needs[side])
        budget = memory_text(memory.budget_mib or 0.0)
        words = f"{most} takes about {memory_text(needs[most])} of {budget}."
        others = [f"{side} takes {memory_text(mib)}." for side, mib in needs.items() if side != most]
        return f"{words} {others[0]}" if len(others) == 1 else words

    def raised(self, memory: MemoryShortage) -> Iterator[FailureRemedy]:
        needs = [need.mib for need in memory.needs]
        most = max((mib for mib in needs if mib is not None), default=0.0) if None not in needs else 0.0
        gib = math.ceil(_SPARE * most / MIB_PER_GIB)
        room = memory.device_mib
        has = "" if room is None else f" The {memory.device} has {memory_text(room)}."
        if gib and (memory.cap_mib or 0.0) < gib * MIB_PER_GIB <= (room or math.inf):
            enough = f", enough for {self.all_sides}" if self.all_sides else ", enough for this batch"
            outcome = f"To {gib:,} GiB{enough}.{has}"
            yield from self.changed("Raise the cap", outcome, {"memory_cap_gib": gib})
        else:
            outcome = f"Tensors may use all memory.{has}"
            yield from self.changed("Remove the memory cap", outcome, {"memory_cap_gib": None})

    # --- anything else

    def other_remedies(self) -> Iterator[FailureRemedy]:
        kind = self.problem.kind
        # Ammeter changes no setting of a script
        is_script = self.experiment.is_script
        if kind is Kind.NOT_A_NUMBER and not is_script:
            yield from self.nan_remedies()
            return
        if self.code is not None and kind in (Kind.REQUEST, Kind.INTERNAL, Kind.WORKER_DIED, Kind.HANG):
            yield from self.code_remedies()
            return
        if self.problem.key == "data.workers":
            outcome = "Loads the data in the training process. It may be slower."
            yield from self.changed("Use no loader workers", outcome, {"data.workers": 0})
        if kind is Kind.DISK_FULL and not is_script:
            outcome = "Train again without saving checkpoints, which need the most space."
            nothing = {"checkpoint.best": False, "checkpoint.last": False, "checkpoint.rewind_every": 0}
            yield from self.changed("Save no checkpoints", outcome, nothing)
        if kind is Kind.WORKER_DIED and self.experiment.batch_size > 1 and not is_script:
            size = self.experiment.batch_size // 2
            outcome = "Half of it, in case the system ran out of memory."
            all_sides = f" for {self.all_sides}" if self.all_sides else ""
            yield from self.changed(f"Use batch {size:,}{all_sides}", outcome, {"batch_size": size})
        yield self.again("Try again", "Trains all of it with the same settings.", list(self.sides.values()))

    def nan_remedies(self) -> Iterator[FailureRemedy]:
        replaced = (Precision.FP16, Precision.FP16_UNSCALED)
        taken = {one.precision for one in self.sides.values()}
        if self.experiment.precision in replaced and Precision.BF16 not in taken:
            sides = [
                (Precision.BF16.label, changed(one, {"precision": "bf16", "scaler.mode": "auto"}))
                if one.precision is self.experiment.precision
                else (side, one)
                for side, one in self.sides.items()
            ]
            outcome = f"BF16 has the range of FP32 and needs no loss scaler. It replaces {self.failed.side}."
            yield replace(self.again("Use BF16 AMP", outcome, list(self.sides.values())), sides=tuple(sides))
        rate = self.experiment.optimizer.learning_rate
        outcome = f"A tenth of {rate:g}. Smaller steps are less likely to diverge."
        yield from self.changed(
            f"Use learning rate {rate / 10:g}", outcome, {"optimizer.learning_rate": rate / 10}
        )
        if self.experiment.step.clip_norm != 1.0:
            outcome = "Limits the gradient norm to 1 before each update of the weights."
            yield from self.changed("Clip gradients", outcome, {"step.clip_norm": 1.0})
        outcome = "Trains all steps and records at which step NaN began."
        yield from self.changed("Continue after NaN", outcome, {"on_nan": "continue"})

    def code_remedies(self) -> Iterator[FailureRemedy]:
        code = self.code
        assert code is not None
        path = code.place if self.place is None else self.place.path
        first = next(iter(self.sides.items()))
        if TrustedCode().may_look(code.place) and path.is_file():
            where = "" if self.place is None else f" at line {self.place.line:,}"
            yield FailureRemedy(
                f"Open {path.name}", f"Fix it{where}, then check it.", action="open", file=path
            )
        outcome = "Sends one batch through the model. It takes seconds."
        yield FailureRemedy("Check the model", outcome, (first,), action="check")
        outcome = "Trains all of it with the file as it is now."
        yield replace(self.again("Try again", outcome, list(self.sides.values())), rereads=True)


def _read_again(experiment: Experiment) -> Experiment:
    code = experiment.own_code
    if code is None:
        return experiment
    return experiment.model_copy(update={"code": TrustedCode().reread(code).to_json()})


def _device_mib(failed: RunRecord, device: DeviceEntry | None) -> float | None:
    if failed.environment is not None and failed.environment.device_memory_mib:
        return failed.environment.device_memory_mib
    return None if device is None else device.memory_mib


def _memory_words(reader: _Reader, memory: MemoryShortage) -> tuple[str, str]:
    """Return the title and the reason of an out-of-memory error, with the memory that one step needs."""
    batch, device, failed = f"Batch {reader.experiment.batch_size:,}", memory.device, reader.failed
    room = "" if memory.device_mib is None else memory_text(memory.device_mib)
    need = next((need.mib for need in memory.needs if need.label == failed.side), None)
    needs = "" if need is None else f"{failed.side} needs about {memory_text(need)} for one step."
    if memory.cap_mib is not None:
        title = f"{batch} does not fit under your memory cap of {memory_text(memory.cap_mib)}"
        is_enough = need is None or memory.device_mib is None or need <= memory.device_mib
        blame = f"The {device} has {room}, so the cap is the limit." if room and is_enough else ""
        more = f"The {device} has only {room}." if room and not is_enough else blame
        return title, f"{needs} {more}".strip()
    title = f"{batch} does not fit in the {device}'s {room or 'memory'}"
    if need is not None and memory.device_mib is not None and need <= memory.device_mib:
        return title, f"{needs} Other programs may use the rest of the memory."
    return title, needs or reader.problem.message


def _part_of_step(detail: str) -> str:
    """Return the part of a step in which a traceback ends: "forward pass". Empty if it is unknown."""
    places = {part: detail.rfind(sign) for part, sign in _PARTS.items()}
    part = max(places, key=lambda each: places[each])
    return part if places[part] >= 0 else ""


def _asked_words(detail: str) -> str:
    """Return how much memory was in use and how much more was asked for, as PyTorch reports it."""
    used, asked = _CUDA_USED.search(detail), _CUDA_ASKED.search(detail)
    mib = None if asked is None else float(asked[1]) * _MIB[asked[2]]
    if (on_cpu := _CPU_ASKED.search(detail)) is not None:
        mib = int(on_cpu[1]) / BYTES_PER_MIB
    parts = [
        f"{memory_text(float(used[1]) * _MIB[used[2]])} in use" if used is not None else "",
        f"{memory_text(mib)} more requested" if mib is not None else "",
    ]
    words = ", ".join(filter(None, parts))
    return f" ({words})" if words else ""
