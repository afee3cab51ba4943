"""What a search for the largest batch found, in sentences."""

from __future__ import annotations

from engine.experiment.value import MIB_PER_GIB
from engine.limit import result as probe_result
from engine.protocol.trials import Trial
from engine.words.numbers import duration, gib
from gui.session.searches import SearchView, SideView

_SHORT = {"memory": "OOM", "spill": "Spilled", "death": "Died", "hang": "Hung"}


def outcome(trial: Trial, largest: int) -> str:
    """How one trial went."""
    if trial.fits and trial.batch_size == largest and not trial.uncompiled:
        return "Largest fit"
    return probe_result.outcome(trial).capitalize()


def short_outcome(trial: Trial) -> str:
    """How one trial went, in a word."""
    return "Fits" if trial.fits else _SHORT.get(trial.cause or "", "Failed")


def sentence(view: SearchView) -> str:
    """What was found, or is known so far: "FP32 fits 289, FP16 AMP fits 561: 1.94 times the batch."."""
    return probe_result.sentence([side for side in view.sides if side.trials])


def proof(side: SideView) -> str:
    """What one side's answer rests on, in a sentence; empty while nothing is known."""
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


def short_proof(view: SearchView) -> str:
    """The proofs of a search in one line; empty where more must be said of any of its sides."""
    results = [side.result for side in view.sides]
    if not all(one and one.verified and one.first_failure and not one.note for one in results):
        return ""
    told = [f"{one.largest_batch:,} fits, {one.first_failure:,} fails" for one in results if one]
    return f"Proven: {'; '.join(told)}."


def recommendation(side: SideView, batch: int, margin_fraction: float, multiple: int) -> str:
    """What speaks for a batch: "a multiple of 8 that leaves 10 % free"; why there is none for 0."""
    share = f"{100 * margin_fraction:.0f} %"
    if not batch:
        free = f" and leaves {share} free" if margin_fraction else ""
        return f"no multiple of {multiple:,} fits{free}"
    free = f"leaves {share} free" if margin_fraction else "fits"
    return free if multiple == 1 else f"a multiple of {multiple:,} that {free}"


def picture_heading(view: SearchView, on_gpu: bool) -> tuple[str, str]:
    """The title of a picture of the chart, and below it what was searched, on what, and what was found."""
    first = view.sides[0].experiment
    title = f"Peak memory by batch size, {first.model} on {first.dataset}, in GiB"
    return title, f"On {card(view, on_gpu)}. {sentence(view)}".strip()


def progress(view: SearchView) -> str:
    """How far a search is, for the line beside the title."""
    if view.is_waiting:
        return "waiting for its turn"
    count = view.trial_count
    trials = f"{count} trial" + ("s" if count != 1 else "")
    if not view.is_live:
        when = view.created.astimezone().strftime("%d %b, %H:%M")
        return f"{trials} in {duration(view.seconds)}, {when}"
    busy = next((side for side in view.sides if side.trying is not None), None)
    if busy is None:
        return f"{trials}, getting ready"
    return f"{trials}, trying {busy.trying:,} in {busy.label} ({busy.doing or 'starting a process'})"


def menu_words(view: SearchView) -> str:
    """A saved search in a menu: what was searched, on what, what was found, and at the right when."""
    first = view.sides[0].experiment
    when = view.created.astimezone().strftime("%d %b, %H:%M")
    on = card(view, on_gpu=first.device != "cpu")
    return f"{first.model} on {on}: {sentence(view)}\t{when}"


def card(view: SearchView, on_gpu: bool) -> str:
    """What was searched on, as a heading names it: "a 24 GB card"."""
    cap = view.cap_gib
    if cap is None:
        return "this GPU" if on_gpu else "this machine"
    article = "an" if f"{cap:g}".startswith("8") or cap in (11, 18) else "a"
    return f"{article} {cap:g} GB card" if on_gpu else f"{cap:g} GiB"


def capacity(view: SearchView, on_gpu: bool) -> str:
    """The words on the chart's limit."""
    cap, budget = view.cap_gib, view.budget_mib
    if cap is None:
        return f"{gib(budget)} GiB free on this GPU" if budget else ""
    name = f"{cap:g} GB card (simulated)" if on_gpu else f"{cap:g} GiB limit"
    if budget and abs(budget / MIB_PER_GIB - cap) >= 0.05:
        return f"{name}, {gib(budget)} GiB to be had"
    return name
