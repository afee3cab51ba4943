"""The search in one precision: its trials, and its result in numbers and sentences."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from engine.compare.verdict import Piece, Pieces
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.experiment.settings import joined
from engine.experiment.value import MIB_PER_GIB, in_sentence
from engine.limit.search import Search
from engine.protocol.events import Failed
from engine.protocol.trials import Bound, Cause, Limit, LimitResult, LimitSide, Trial, Tried
from engine.words.names import listed
from engine.words.numbers import counted, duration, memory_text, share_text, times

TOLERATED_LEAK_MIB = 1.0
# A process that is refused memory outside of Python ends at once; its last output says why.
_DIED_OF_MEMORY = re.compile(
    r"bad_alloc|MemoryError|cannot allocate memory|can't allocate memory|Thread creation failed"
    r"|can't start new thread",
    re.IGNORECASE,
)
_OUTCOMES = {
    "memory": "out of memory",
    "spill": "spilled to system memory",
    "death": "worker crashed",
    "hang": "hung",
}


def is_answer(trial: Trial, side: LimitSide) -> bool:
    """Return True if the trial's batch size is the side's largest, verified to fit."""
    is_largest = side.is_verified and trial.batch_size == side.largest_batch
    return is_largest and trial.fits and not trial.is_quick


def result_words(trial: Trial, side: LimitSide | None = None) -> str:
    """Return the result of a trial in a few words. With its `side`, the answer is the "largest fit"."""
    if side is not None and is_answer(trial, side):
        return "largest fit"
    ending = "fits" if trial.fits else _OUTCOMES.get(trial.cause or "", "failed")
    quick = {"uncompiled": trial.uncompiled, "no cuDNN search": trial.unsearched}
    return ", ".join([ending, *(word for word, applies in quick.items() if applies)])


def pieces_of(limit: Limit) -> Pieces:
    """Return the answer as a sentence: the largest batches, or once verified, the best relative to FP32's."""
    base, best, ratio = limit.baseline, limit.best, limit.ratio
    if best is not None and ratio is not None and all(side.is_over for side in limit.sides):
        return (
            Piece(best.label, "title", precision=best.precision),
            Piece(" fits a batch of "),
            *_number_pieces(best),
            Piece(", "),
            Piece(f"{times(ratio)} times", "strong"),
            Piece(" that of "),
            Piece(base.label, "title", precision=base.precision),
            Piece(", which fits "),
            *_number_pieces(base),
        )
    pieces: list[Piece] = []
    for side in (side for side in limit.sides if side.trials):
        pieces += [Piece(", ")] if pieces else []
        pieces += [
            Piece(side.label, "title", precision=side.precision),
            Piece(f" {side.claim[0]}"),
            *_number_pieces(side),
        ]
    return tuple(pieces) or (Piece("No trial has finished yet"),)


def _number_pieces(side: LimitSide) -> Iterator[Piece]:
    _, number, after = side.claim
    yield Piece(number, "strong", precision=side.precision)
    if after:
        yield Piece(after)


def notes_of(limit: Limit) -> tuple[str, ...]:
    """Return the clauses below the answer: the memory, the trials, and the notes of each side."""
    verified = f"{counted(limit.trial_count, 'trial')} in {duration(limit.seconds)}" if limit.is_known else ""
    said: dict[str, list[str]] = {}
    for side in limit.sides:
        text = side.problem.message if side.problem is not None else side.result and side.result.note
        if text:
            said.setdefault(text, []).append(side.label)
    # what all sides say is said once
    notes = (
        text if len(labels) == len(limit.sides) else f"{listed(labels)}: {in_sentence(text)}"
        for text, labels in said.items()
    )
    return tuple(filter(None, ("".join(limit_label(limit)), verified, *notes)))


_NEARLY_HIGHEST, _LEAST_POINTS = 0.95, 3


def throughput_sentences(limit: Limit) -> Iterator[str]:
    """Yield for each side with enough trials the batch from which it is nearly as fast as it gets."""
    for side in limit.sides:
        points = side.throughputs
        if len(points) < _LEAST_POINTS:
            continue
        fastest, highest = max(points, key=lambda point: point[1])
        last, speed = points[-1]
        slower = [place for place, (_, known) in enumerate(points, 1) if known < _NEARLY_HIGHEST * highest]
        first = max(slower, default=0)
        if first < len(points) - 1:
            batch = points[first][0]
            yield f"{side.label} is within 5% of its highest throughput from a batch of {batch:,} on."
        elif fastest == last:
            yield f"{side.label} is fastest at a batch of {last:,}, the largest that fit."
        else:
            rest = f"reaches {share_text(speed / highest)} of that at {last:,}"
            yield f"{side.label} is fastest at a batch of {fastest:,}, and {rest}."


def limit_label(limit: Limit) -> tuple[str, str]:
    """Return the memory limit in words, and an addition where there is room."""
    cap, budget = limit.cap_gib, limit.budget_mib
    on_gpu = limit.sides[0].experiment.device != "cpu"
    if cap is None:
        return (f"{memory_text(budget)} free on this {'GPU' if on_gpu else 'machine'}" if budget else ""), ""
    more = " (simulated)" if on_gpu else ""
    if budget and abs(budget / MIB_PER_GIB - cap) >= 0.05:
        more = f"{more}, {memory_text(budget)} available"
    return (f"{cap:g} GiB GPU" if on_gpu else f"{cap:g} GiB limit"), more


def verification(side: LimitSide) -> str:
    """Return how far the largest batch of a side is verified."""
    result = side.result
    if side.problem is not None:
        return "failed"
    if result is None:
        return "not verified yet"
    if result.bound_by == "data":
        return "the dataset has no more samples"
    if result.verified and result.first_failure is not None:
        return f"{result.largest_batch:,} fits, {result.first_failure:,} does not"
    return "stopped early" if result.bound_by == "stopped" else "not verified"


def recommended_batch(side: LimitSide, margin_fraction: float, multiple: int = 1) -> int:
    """Return the largest multiple that leaves that fraction of the memory free, or 0."""
    search = Search(granularity=side.granularity, budget_mib=side.budget_mib)
    for trial in side.decisive_trials:
        search.learn(trial, side.budget_mib)
    return search.recommended_batch(margin_fraction) // multiple * multiple


class SideSearch:
    """The batch-size search for one side, whose result so far is in `side`.

    Compilation, and cuDNN's search for algorithms (`searches_algorithms`), would be repeated for each batch
    and take far longer than the steps. Therefore the first trials skip both. The search is then repeated with
    both, starting at the batch that was found, because they change the memory needed.
    """

    def __init__(
        self, side: LimitSide, search: Search, margin_fraction: float, *, searches_algorithms: bool = False
    ) -> None:
        self.side = side
        self.began: float | None = None
        self._search = search
        self._margin_fraction = margin_fraction
        self._experiment = side.experiment
        self._left_out = {
            "uncompiled": "compile" in side.experiment.step.parts,
            "unsearched": searches_algorithms,
        }
        self.is_quick = any(self._left_out.values())
        self._quick: Search | None = None
        self._tried: Tried | None = None
        self._failed: Failed | None = None

    @property
    def doing(self) -> str:
        """Return the current work: "FP32: trial 3, 64 fits, trying 128"."""
        side = self.side
        if side.trying is None:
            return f"{side.label}: getting ready"
        fits = f", {side.largest_batch:,} fits" if side.largest_batch else ""
        return f"{side.label}: trial {len(side.trials) + 1}{fits}, trying {side.trying:,}"

    def next_batch(self) -> int | None:
        """Return the batch to try next. None once the answer is verified."""
        size = self._search.next_batch()
        if size is None and self.is_quick and self._search.limit:
            self.is_quick = False
            self._quick, self._search = self._search, self._search.restarted_at_answer()
            size = self._search.next_batch()
        if size is not None:
            self._update_side(trying=size)
        return size

    @property
    def ends_with_next(self) -> bool:
        """True if the next trial verifies the answer, whatever its result."""
        return self._search.ends_with_next and not self.is_quick

    def experiment_of(self, batch_size: int) -> Experiment:
        """Return the experiment that tries a batch now."""
        step = self._experiment.step
        if self.is_quick:
            parts = joined(part for part in step.parts if part != "compile")
            step = step.model_copy(update={"recipe": parts})
        return self._experiment.model_copy(update={"batch_size": batch_size, "step": step})

    def record(self, batch_size: int, last: Tried | Failed) -> tuple[Trial | None, str | None]:
        """Record the end of a trial. Return the trial, or None if the search is pointless, and the reason if
        the next trial gets another process."""
        why = None
        if isinstance(last, Tried):
            self._tried, trial = last, last.trial
            # on a CPU the worker ends with its trial, and so does what its libraries took on first use
            if self._experiment.device != "cpu" and last.leaked_mib > TOLERATED_LEAK_MIB:
                why = f"{last.leaked_mib:,.0f} MiB were not freed after the trial."
            if last.train_samples is not None:
                self._search.limit_to(last.train_samples // self._experiment.step.gradient_accumulation)
        else:
            trial, why = self._failed_trial(batch_size, last), last.problem.message
            if self._is_pointless(trial, last.problem):
                self._failed = last
                return None, None
        if self.is_quick:
            trial = trial.model_copy(update=self._left_out)
        budget_mib = (self._search.budget_mib if self._tried is None else self._tried.budget_mib) or 0.0
        self._search.learn(trial, budget_mib)
        self._update_side(trials=(*self.side.trials, trial), budget_mib=budget_mib or None, trying=None)
        return trial, why

    def close(self) -> None:
        """Record the result, whether the search is complete or not."""
        search, before = self._search, self._quick
        if before is not None and not search.trials:
            search, before = before, None
        quick = [] if before is None else before.trials
        largest, failure, bound = search.largest_batch, search.first_failure, search.bound_by
        # a search whose own trials are quick has verified nothing about the experiment yet
        is_only_quick = any(trial.is_quick for trial in search.trials)
        if is_only_quick:
            bound = "stopped"
        passed = next((trial for trial in search.trials if trial.fits and trial.batch_size == largest), None)
        sentences = [*_search_sentences(search, bound, self._experiment, self._tried)]
        words = {"uncompiled": "uncompiled", "unsearched": "without cuDNN's search for fast algorithms"}
        how = listed([words[name] for name, is_left_out in self._left_out.items() if is_left_out])
        if is_only_quick:
            sentences.append(f"So far the trials ran {how}, so the largest batch may differ.")
        elif quick:
            first = "trial" if len(quick) == 1 else f"{len(quick)} trials"
            sentences.append(
                f"To save time, the first {first} ran {how}. The answer was verified with all optimizations."
            )
        if passed is not None and passed.note:
            sentences.append(passed.note)
        failed = self._failed
        result = LimitResult(
            precision=self._experiment.precision,
            largest_batch=largest,
            # a worker may die or hang for other reasons than the batch, so that proves nothing
            verified=largest > 0 and bound in ("memory", "data", "error"),
            first_failure=None if failure is None else failure.batch_size,
            recommended_batch=search.recommended_batch(self._margin_fraction) or None,
            peak_mib=None if passed is None else passed.peak_mib,
            budget_mib=search.budget_mib if search.trials else None,
            bound_by=bound if failed is None else "error",
            trials=(*quick, *search.trials),
            seconds=0.0 if self.began is None else time.monotonic() - self.began,
            note=(" ".join(sentences) or None) if failed is None else failed.problem.message,
        )
        self._update_side(result=result, trying=None, problem=None if failed is None else failed.problem)

    def _update_side(self, **changes: Any) -> None:
        self.side = self.side.model_copy(update=changes)

    def _failed_trial(self, batch_size: int, failed: Failed) -> Trial:
        cause = _failure_cause(failed)
        refused = [trial.batch_size for trial in self._search.trials if trial.cause == "memory"]
        if cause == "death" and self._experiment.device == "cpu" and max(refused, default=0) > batch_size:
            # a larger batch reported a refusal; code that does not check whether it got its memory crashes
            cause = "memory"
        return Trial(batch_size=batch_size, fits=False, cause=cause, note=failed.problem.message)

    def _is_pointless(self, trial: Trial, problem: Problem) -> bool:
        # it is not the batch that fails if nothing has passed yet and nothing ran out of memory
        is_too_large = problem.kind is Kind.REQUEST and problem.key == "batch_size"
        return trial.cause not in ("memory", "spill") and not is_too_large and not self._search.trials


def _failure_cause(failed: Failed) -> Cause:
    match failed.problem.kind:
        case Kind.OUT_OF_MEMORY:
            return "memory"
        case Kind.SPILLED:
            return "spill"
        case Kind.HANG:
            return "hang"
        case Kind.WORKER_DIED | Kind.PROTOCOL:
            return "memory" if _DIED_OF_MEMORY.search(failed.detail) else "death"
    return "error"


def _search_sentences(
    search: Search, bound: Bound, experiment: Experiment, tried: Tried | None
) -> Iterator[str]:
    failure = search.first_failure
    match bound:
        case "stopped":
            most = "" if failure is None else f" and at most {failure.batch_size - search.granularity:,}"
            known = f"at least {search.largest_batch:,}{most} (not verified)" if search.trials else "unknown"
            yield f"Stopped early. The largest batch is {known}."
        case "data":
            yield f"The dataset limits the batch, not memory: {search.limit_reason}."
        case "memory" if not search.largest_batch:
            yield _nothing_fits(search, tried)
        case "error" | "death" | "hang" if failure is not None:
            yield f"A batch of {failure.batch_size:,} fails for a reason other than memory: {failure.note}"
    if tried is not None and tried.looked_through:
        yield (
            f"Samples differ in size, so each trial used the largest of {tried.looked_through:,} batches. A "
            "run may draw a larger one. Keep a margin, or limit the length of samples."
        )
    # only where other programs leave less than the cap, or than the device has
    cap = experiment.memory_cap_gib
    is_less = tried is not None and (cap is None or tried.budget_mib < cap * MIB_PER_GIB)
    if tried is not None and tried.other_programs_mib and is_less:
        others, budget = memory_text(tried.other_programs_mib), memory_text(tried.budget_mib)
        yield f"Other programs use {others} of the device's memory, which leaves {budget} here."


def _nothing_fits(search: Search, tried: Tried | None) -> str:
    few = "one sample fits" if search.granularity == 1 else f"{search.granularity:,} samples fit"
    if tried is None or tried.model_mib is None:
        return f"Not even {few}."
    return (
        f"Not even {few}. The model alone needs {memory_text(tried.model_mib)} with its gradients and "
        f"optimizer state, but only {memory_text(tried.budget_mib)} are available."
    )
