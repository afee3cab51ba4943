"""The result of a limit, and its sentences."""

from __future__ import annotations

from collections.abc import Sequence

from engine.experiment.experiment import Experiment
from engine.experiment.value import MIB_PER_GIB
from engine.limit.search import Search
from engine.protocol.trials import Bound, LimitResult, LimitSide, Trial, Tried
from engine.words.numbers import memory_text

_OUTCOMES = {
    "memory": "out of memory",
    "spill": "spilled to the host",
    "death": "worker died",
    "hang": "hung",
}


def outcome(trial: Trial) -> str:
    """How one trial ended, in a few words."""
    ending = "fits" if trial.fits else _OUTCOMES.get(trial.cause or "", "failed")
    return f"{ending}, uncompiled" if trial.uncompiled else ending


def recommended_batch(side: LimitSide, margin_fraction: float, multiple: int = 1) -> int:
    """The largest multiple that leaves that fraction of the memory free; 0 if there is none."""
    search = Search(granularity=side.granularity, budget_mib=side.budget_mib)
    for trial in side.telling:
        search.learn(trial, side.budget_mib)
    return search.recommended_batch(margin_fraction) // multiple * multiple


def result_of(
    search: Search,
    experiment: Experiment,
    *,
    margin_fraction: float,
    tried: Tried | None,
    seconds: float,
    uncompiled: Sequence[Trial] = (),
) -> LimitResult:
    """The result of a search so far; `tried` is what the last trial reported of the machine.

    The trials `uncompiled` preceded the search's own and led to its first batch. A search whose own trials
    are uncompiled has proven nothing about the experiment yet.
    """
    largest, failure, bound = search.largest_batch, search.first_failure, search.bound_by
    if _is_uncompiled(search):
        bound = "stopped"
    passed = next((trial for trial in search.trials if trial.fits and trial.batch_size == largest), None)
    return LimitResult(
        precision=experiment.precision,
        largest_batch=largest,
        # a worker may die or hang for other reasons than the batch, so that proves nothing
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


def _is_uncompiled(search: Search) -> bool:
    return any(trial.uncompiled for trial in search.trials)


def _compiled(search: Search, uncompiled: Sequence[Trial]) -> list[str]:
    if _is_uncompiled(search):
        return ["So far the trials ran uncompiled: compiled, the largest batch may differ."]
    if not uncompiled:
        return []
    first = "trial" if len(uncompiled) == 1 else f"{len(uncompiled)} trials"
    return [f"To save time, the first {first} ran uncompiled; the answer rests on compiled ones."]


def _sentences(search: Search, bound: Bound, experiment: Experiment, tried: Tried | None) -> list[str]:
    failure = search.first_failure
    sentences: list[str] = []
    match bound:
        case "stopped":
            sentences.append("It was stopped before the answer was proven.")
        case "data":
            sentences.append(f"The limit is the data, not the memory: {search.limit_reason}.")
        case "memory" if not search.largest_batch:
            sentences.append(_nothing_fits(search, tried))
        case "error" | "death" | "hang" if failure is not None:
            batch = f"A batch of {failure.batch_size:,}"
            sentences.append(f"{batch} fails, but not for lack of memory: {failure.note}")
    if others := _others(experiment, tried):
        sentences.append(others)
    return sentences


def _nothing_fits(search: Search, tried: Tried | None) -> str:
    few = "one sample fits" if search.granularity == 1 else f"{search.granularity:,} samples fit"
    if tried is None or tried.model_mib is None:
        return f"Not even {few}."
    return (
        f"Not even {few}: the model alone needs {memory_text(tried.model_mib)} with its gradients and "
        f"optimizer state, but only {memory_text(tried.budget_mib)} are available."
    )


def _others(experiment: Experiment, tried: Tried | None) -> str | None:
    # only where other programs leave less than the cap, or than the device has
    if tried is None or not tried.other_programs_mib:
        return None
    cap = experiment.memory_cap_gib
    if cap is not None and tried.budget_mib >= cap * MIB_PER_GIB:
        return None
    others, budget = memory_text(tried.other_programs_mib), memory_text(tried.budget_mib)
    return f"Other programs hold {others} of the device's memory, in addition to the {budget} here."
