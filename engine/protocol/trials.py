"""What is said of a search for the largest batch that fits: its trials, how it goes, and what it found."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.text import Line, Text
from engine.experiment.value import MOST_ENTRIES, Message, Mib, Positive, Seconds, Whole

Cause = Literal["memory", "spill", "error", "death", "hang"]
"""Why a batch did not fit: an allocation was refused; it only fitted in the host's memory too; an error that
is none of memory; the worker died of it; or nothing moved any more."""

Bound = Literal["memory", "data", "error", "death", "hang", "stopped"]
"""What keeps the batch from being larger; `stopped` means that nobody let the search find out."""


class Trial(Message):
    """One batch size, trained in earnest for `steps` whole optimizer steps; `cause` is None where it fits.

    `peak_mib` is what it took at most, in the quantity of the budget: on an accelerator what the caching
    allocator had given out, and in `reserved_mib` what it held; on a CPU the data segment over that of the
    idle worker. A trial that did not fit has none: what it needed is more than anybody could see. An
    `uncompiled` one went without the `compile` that was asked for, to come near the answer quickly.
    """

    batch_size: Positive
    fits: bool
    peak_mib: Mib | None = None
    reserved_mib: Mib | None = None
    seconds: Seconds = 0.0
    steps: Whole = 0
    cause: Cause | None = None
    note: Text | None = None
    uncompiled: bool = False


class Tried(Message):
    """The answer to the job `try`: the trial, and what the worker had for it, in MiB.

    `budget_mib` is what it may take: the cap, or what is free, which other programs have been taken off.
    `leaked_mib` is what was still held over `baseline_mib` after all was given back. `model_mib` is the least
    that training takes, whatever the batch: parameters, gradients and the optimizer's state.
    """

    event: Literal["tried"] = "tried"
    trial: Trial
    budget_mib: Mib
    baseline_mib: Mib = 0.0
    leaked_mib: Mib = 0.0
    other_programs_mib: Mib | None = None
    model_mib: Mib | None = None
    train_samples: Whole | None = None


class ProbeStarted(Message):
    """A search begins; `probe_id` is its own among the saved ones. The budget is the device's until a trial
    has told what is free of it."""

    event: Literal["probe-started"] = "probe-started"
    probe_id: Line
    experiment: Experiment
    precision: Precision
    granularity: Positive
    budget_mib: Mib


class TrialBegun(Message):
    """The batch size that is tried now."""

    event: Literal["trial-begun"] = "trial-begun"
    batch_size: Positive


class TrialEnded(Message):
    """How the trial went; `replaced_worker` says that the next one gets another process, and why."""

    event: Literal["trial-ended"] = "trial-ended"
    trial: Trial
    budget_mib: Mib
    other_programs_mib: Mib | None = None
    replaced_worker: Text | None = None


class ProbeResult(Message):
    """What a search found in one precision.

    `largest_batch` trained and passed, and is 0 where nothing did. It is `verified` where the next larger one
    by the granularity was trained too and failed, or where the dataset has no more (`bound_by` "data").
    Under a recipe that compiles these trials are compiled ones; `seconds` are counted from the first trial.
    `recommended_batch` leaves the margin free that was asked for. `peak_mib` is the largest batch's own.
    """

    precision: Precision
    largest_batch: Whole
    verified: bool
    first_failure: Whole | None = None
    recommended_batch: Whole | None = None
    peak_mib: Mib | None = None
    budget_mib: Mib | None = None
    bound_by: Bound
    trials: Annotated[tuple[Trial, ...], Field(max_length=MOST_ENTRIES)] = ()
    seconds: Seconds = 0.0
    note: Text | None = None


class ProbeEnded(Message):
    """The search is over."""

    event: Literal["probe-ended"] = "probe-ended"
    probe_id: Line
    result: ProbeResult
