"""Messages of a search for the largest batch that fits: its trials, its progress, its result."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.text import Line, Text
from engine.experiment.value import MOST_ENTRIES, Message, Mib, Positive, Seconds, Whole

Cause = Literal["memory", "spill", "error", "death", "hang"]
"""Why a batch did not fit: an allocation was refused; it spilled into the host's memory; an error not about
memory; the worker died; or the worker hung."""

SPILLED = "It took more than was free: the driver put the rest into the host's memory, which is slow."

Bound = Literal["memory", "data", "error", "death", "hang", "stopped"]
"""The bound of the largest batch; `stopped`: the search was stopped before it knew."""


class Trial(Message):
    """One batch size, really trained for `steps` whole optimizer steps; `cause` is None where it fits.

    `peak_mib` is its peak in the quantity of the budget: on an accelerator what the caching allocator had
    allocated, with what it had reserved in `reserved_mib`; on a CPU the data segment over that of the idle
    worker. A trial that did not fit has none: what it needed could not be seen. An `uncompiled` trial leaves
    out a requested `compile`, to come near the answer quickly.
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
    """The answer to the job `try`: the trial, and the memory it had, in MiB.

    `budget_mib` is the cap, or what other programs leave free. `leaked_mib` is what was still held over
    `baseline_mib` after everything was freed. `model_mib` is the least that training takes at any batch:
    parameters, gradients and optimizer state.
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
    """A search begins; `probe_id` is its id in the store. Until a trial has found what is free, the budget is
    the whole device's."""

    event: Literal["probe-started"] = "probe-started"
    probe_id: Line
    experiment: Experiment
    precision: Precision
    granularity: Positive
    budget_mib: Mib


class TrialBegun(Message):
    """The batch size that is being tried."""

    event: Literal["trial-begun"] = "trial-begun"
    batch_size: Positive


class TrialEnded(Message):
    """The result of a trial; `replaced_worker` says why the next one gets another process, if it does."""

    event: Literal["trial-ended"] = "trial-ended"
    trial: Trial
    budget_mib: Mib
    other_programs_mib: Mib | None = None
    replaced_worker: Text | None = None


class ProbeResult(Message):
    """The limit in one precision.

    `largest_batch` was trained and passed; 0 where none did. It is `verified` if the next larger batch by the
    granularity was trained too and failed, or if the dataset has no more samples (`bound_by` "data"). With a
    recipe that compiles, both of these trials were compiled. `seconds` count from the first trial.
    `recommended_batch` leaves the requested margin free. `peak_mib` is the largest batch's.
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
