"""The sentences of the page of the limit."""

from __future__ import annotations

from engine.experiment.value import MIB_PER_GIB
from engine.limit import result as limit_result
from engine.protocol.trials import Limit, LimitSide, Trial
from engine.words.numbers import date_text, duration, memory_text
from gui.session.studies import StudyView

_SHORT = {"memory": "OOM", "spill": "Spilled", "death": "Died", "hang": "Hung"}


def outcome(trial: Trial, largest: int) -> str:
    """The result of a trial."""
    if trial.fits and trial.batch_size == largest and not trial.uncompiled:
        return "Largest fit"
    return limit_result.outcome(trial).capitalize()


def short_outcome(trial: Trial) -> str:
    """The result of a trial, in a word."""
    return "Fits" if trial.fits else _SHORT.get(trial.cause or "", "Failed")


def proof(side: LimitSide) -> str:
    """The proof of a side's answer, in a sentence; empty while nothing is known."""
    if side.problem is not None:
        return side.problem.message
    result = side.result
    if result is None:
        return ""
    if result.note and (result.bound_by != "memory" or not result.verified):
        return result.note
    if result.verified and result.first_failure is not None:
        proven = (
            f"{side.largest_batch:,} was trained and passed, {result.first_failure:,} was trained and failed."
        )
        return f"{proven} {result.note}" if result.note else proven
    return result.note or ""


def short_proof(view: Limit) -> str:
    """The proofs of all sides in one line; empty if there is more to say about any."""
    results = [side.result for side in view.sides]
    if not all(result and result.verified and result.first_failure and not result.note for result in results):
        return ""
    proofs = [
        f"{result.largest_batch:,} fits, {result.first_failure:,} fails" for result in results if result
    ]
    return f"Proven: {'; '.join(proofs)}."


def recommendation(side: LimitSide, batch: int, margin_fraction: float, multiple: int) -> str:
    """Why to use a batch: "a multiple of 8 that leaves 10 % free"; for 0, why there is none."""
    share = f"{100 * margin_fraction:.0f} %"
    if not batch:
        free = f" and leaves {share} free" if margin_fraction else ""
        return f"no multiple of {multiple:,} fits{free}"
    free = f"leaves {share} free" if margin_fraction else "fits"
    return free if multiple == 1 else f"a multiple of {multiple:,} that {free}"


def progress(view: StudyView[Limit]) -> str:
    """The progress in words, for the line beside the title."""
    if view.is_waiting:
        return "waiting for its turn"
    limit = view.answer
    count = limit.trial_count
    trials = f"{count} trial" + ("s" if count != 1 else "")
    if not view.is_live:
        when = date_text(view.created)
        return f"{trials} in {duration(limit.seconds)}, {when}"
    busy = next((side for side in limit.sides if side.trying is not None), None)
    if busy is None:
        return f"{trials}, getting ready"
    return f"{trials}, trying {busy.trying:,} in {busy.label} ({view.doing or 'starting a process'})"


def card(view: Limit, on_gpu: bool) -> str:
    """The device in a heading: "a 24 GiB card"."""
    cap = view.cap_gib
    if cap is None:
        return "this GPU" if on_gpu else "this machine"
    article = "an" if f"{cap:g}".startswith("8") or cap in (11, 18) else "a"
    return f"{article} {cap:g} GiB card" if on_gpu else f"{cap:g} GiB"


def capacity(view: Limit, on_gpu: bool) -> tuple[str, str]:
    """The label of the chart's limit: its name, and what follows where there is room."""
    cap, budget = view.cap_gib, view.budget_mib
    if cap is None:
        return (f"{memory_text(budget)} free on this GPU" if budget else ""), ""
    more = " (simulated)" if on_gpu else ""
    if budget and abs(budget / MIB_PER_GIB - cap) >= 0.05:
        more = f"{more}, {memory_text(budget)} available"
    return (f"{cap:g} GiB card" if on_gpu else f"{cap:g} GiB limit"), more
