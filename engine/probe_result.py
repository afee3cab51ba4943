"""What a search found, with the sentence that a person needs beside the number."""

from __future__ import annotations

from engine.experiment import Experiment
from engine.probe_events import ProbeResult, Tried
from engine.search import Search


def result_of(
    search: Search, experiment: Experiment, *, margin_fraction: float, tried: Tried | None, seconds: float
) -> ProbeResult:
    """The result of a search as far as it came. `tried` is what the last trial told of the machine."""
    largest, failure, bound = search.largest_batch, search.first_failure, search.bound_by
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
        trials=tuple(search.trials),
        seconds=seconds,
        note=" ".join(_sentences(search, experiment, tried)) or None,
    )


def _sentences(search: Search, experiment: Experiment, tried: Tried | None) -> list[str]:
    failure = search.first_failure
    told: list[str] = []
    match search.bound_by:
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
        f"Not even {few}: the model alone needs {_amount(tried.model_mib)} with its gradients and its "
        f"optimizer's state, and there are {_amount(tried.budget_mib)}."
    )


def _others(experiment: Experiment, tried: Tried | None) -> str | None:
    """Said where other programs leave less than the cap, or than the device has."""
    if tried is None or not tried.other_programs_mib:
        return None
    cap = experiment.memory_cap_gib
    if cap is not None and tried.budget_mib >= cap * 1024:
        return None
    others = _amount(tried.other_programs_mib)
    return (
        f"Other programs hold {others} of the device, which are not in the {_amount(tried.budget_mib)} here."
    )


def _amount(mib: float) -> str:
    return f"{mib:,.0f} MiB" if mib < 1024 else f"{mib / 1024:,.1f} GiB"
