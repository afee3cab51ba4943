"""What a search found, with the sentences that a person needs beside the number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.value import MIB_PER_GIB
from engine.limit.search import Search
from engine.protocol.trials import Bound, ProbeResult, Trial, Tried
from engine.words.numbers import memory_text, times

_OUTCOMES = {
    "memory": "out of memory",
    "spill": "spilled to the host",
    "death": "worker died",
    "hang": "hung",
}


class Side(Protocol):
    """One precision of a search as far as it is known; `result` is None while it goes on, or if it failed.

    `largest_batch` is the largest that passed so far, and 0 where none did.
    """

    @property
    def label(self) -> str: ...

    @property
    def largest_batch(self) -> int: ...

    @property
    def result(self) -> ProbeResult | None: ...


def sentence(sides: Sequence[Side]) -> str:
    """What was found, or is known so far: "FP32 fits 289, FP16 AMP fits 561: 1.94 times the batch."."""
    if not sides:
        return ""
    told = ", ".join(f"{side.label} {_fits(side)}" for side in sides)
    ratio = times_the_batch(*_base_first(sides)) if len(sides) == 2 else None
    return f"{told}." if ratio is None else f"{told}: {times(ratio)} times the batch."


def at_least(side: Side) -> str:
    """ "at least " where the next larger batch was not proven to be too large."""
    result = side.result
    is_proven = result is not None and result.verified and result.bound_by != "data"
    return "" if is_proven else "at least "


def times_the_batch(base: Side, other: Side) -> float | None:
    """The other's batch over the base's; None unless memory bounds both, and that is proven."""
    for side in (base, other):
        if side.result is None or not side.result.verified or side.result.bound_by != "memory":
            return None
    return other.largest_batch / base.largest_batch


def outcome(trial: Trial) -> str:
    """How one trial went, in a word or three."""
    went = "fits" if trial.fits else _OUTCOMES.get(trial.cause or "", "failed")
    return f"{went}, uncompiled" if trial.uncompiled else went


def telling(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Those that the answer rests on: once a trial was compiled, the compiled ones."""
    compiled = tuple(trial for trial in trials if not trial.uncompiled)
    return compiled or tuple(trials)


def result_of(
    search: Search,
    experiment: Experiment,
    *,
    margin_fraction: float,
    tried: Tried | None,
    seconds: float,
    uncompiled: Sequence[Trial] = (),
) -> ProbeResult:
    """The result of a search as far as it came. `tried` is what the last trial told of the machine.

    The trials `uncompiled` came before the search's own, and led to where it began. A search whose own trials
    are uncompiled has proven nothing of the experiment yet.
    """
    largest, failure, bound = search.largest_batch, search.first_failure, search.bound_by
    if _is_uncompiled(search):
        bound = "stopped"
    passed = next((each for each in search.trials if each.fits and each.batch_size == largest), None)
    return ProbeResult(
        precision=experiment.precision,
        largest_batch=largest,
        # a worker may die or hang of more than the batch, so that this proves nothing
        verified=largest > 0 and bound in ("memory", "data", "error"),
        first_failure=None if failure is None else failure.batch_size,
        recommended_batch=search.recommended_batch(margin_fraction) or None,
        peak_mib=None if passed is None else passed.peak_mib,
        budget_mib=search.budget_mib if search.trials else None,
        bound_by=bound,
        trials=(*uncompiled, *search.trials),
        seconds=seconds,
        note=" ".join([*_sentences(search, bound, experiment, tried), *_compiled(search, uncompiled)])
        or None,
    )


def _fits(side: Side) -> str:
    if side.largest_batch:
        return f"fits {at_least(side)}{side.largest_batch:,}"
    is_answer = side.result is not None and side.result.bound_by == "memory"
    return "fits nothing" if is_answer else "fits nothing that was tried"


def _base_first(sides: Sequence[Side]) -> Sequence[Side]:
    """Strict FP32 is what the other is measured against, wherever it stands; else the first is."""
    return sorted(sides, key=lambda side: side.result is None or side.result.precision is not Precision.FP32)


def _is_uncompiled(search: Search) -> bool:
    return any(trial.uncompiled for trial in search.trials)


def _compiled(search: Search, uncompiled: Sequence[Trial]) -> list[str]:
    if _is_uncompiled(search):
        return ["So far the trials were uncompiled: compiled, the largest batch may be another."]
    if not uncompiled:
        return []
    first = "trial" if len(uncompiled) == 1 else f"{len(uncompiled)} trials"
    return [f"To save time the first {first} went uncompiled; the answer rests on compiled ones."]


def _sentences(search: Search, bound: Bound, experiment: Experiment, tried: Tried | None) -> list[str]:
    failure = search.first_failure
    told: list[str] = []
    match bound:
        case "stopped":
            told.append("The search was stopped before the answer was proven.")
        case "data":
            told.append(f"It is the data that end here, not the memory: {search.limit_reason}.")
        case "memory" if not search.largest_batch:
            told.append(_nothing_fits(search, tried))
        case "error" | "death" | "hang" if failure is not None:
            told.append(f"A batch of {failure.batch_size:,} fails, but not of memory: {failure.note}")
    if others := _others(experiment, tried):
        told.append(others)
    return told


def _nothing_fits(search: Search, tried: Tried | None) -> str:
    few = "one sample fits" if search.granularity == 1 else f"{search.granularity:,} samples fit"
    if tried is None or tried.model_mib is None:
        return f"Not even {few}."
    return (
        f"Not even {few}: the model alone needs {memory_text(tried.model_mib)} with its gradients and its "
        f"optimizer's state, and there are {memory_text(tried.budget_mib)}."
    )


def _others(experiment: Experiment, tried: Tried | None) -> str | None:
    """Said where other programs leave less than the cap, or than the device has."""
    if tried is None or not tried.other_programs_mib:
        return None
    cap = experiment.memory_cap_gib
    if cap is not None and tried.budget_mib >= cap * MIB_PER_GIB:
        return None
    others, budget = memory_text(tried.other_programs_mib), memory_text(tried.budget_mib)
    return f"Other programs hold {others} of the device, which are not in the {budget} here."
