"""The sentences of the workspace Timing."""

from __future__ import annotations

from engine.compare.energy import step_energy_text
from engine.profile.names import ENERGY_COUNTERS, side_names
from engine.profile.verdict import MFU, mfu_sentence
from engine.protocol.profile.profile import StepProfile
from engine.protocol.profile.profiles import Timing
from engine.words.names import dataset_words, listed
from engine.words.numbers import date_text, number, share_text
from gui.session.orders.studies import StudyView


def facts(view: StudyView[Timing]) -> str:
    """What was profiled, where and when."""
    when = date_text(view.created)
    return ", ".join(part for part in (_what(view.answer), view.device_name, when) if part)


def progress(view: StudyView[Timing]) -> str:
    """How far a timing has come."""
    if view.is_waiting:
        return "waiting for its turn"
    names = side_names(view.answer)
    place = f", {view.study.place + 1} of {len(names)}" if len(names) > 1 else ""
    share = f", {share_text(view.fraction)}" if view.fraction is not None else ""
    return f"{names[view.study.place]}{place}: {view.doing or 'starting a process'}{share}"


def figures(profile: StepProfile) -> str:
    """A profile's utilisation and energy, as far as they are known."""
    parts = [] if profile.mfu is None else [f"MFU {share_text(profile.mfu)}"]
    if (energy := profile.energy) is not None:
        parts += [step_energy_text(energy), f"{number(energy.per_thousand_samples())} J per 1,000 samples"]
    return "  ·  ".join(parts)


def figures_tip(profile: StepProfile) -> str:
    """What the figures mean, and what they count."""
    parts = [mfu_sentence(profile), MFU if profile.mfu is not None else None]
    if (energy := profile.energy) is not None:
        parts.append(ENERGY_COUNTERS[energy.source])
        if (net := energy.net_joules) is not None:
            parts.append(f"Without the idle device's share a step takes {number(net / energy.steps)} J.")
    return "\n".join(filter(None, parts))


def notes(timing: Timing) -> str:
    """What was noted of the profiles, with the sides' names where it is not of all."""
    sides: dict[str, list[str]] = {}
    for name, side in zip(side_names(timing), timing.sides, strict=True):
        for note in side.profile.notes if side.profile is not None else ():
            sides.setdefault(note, []).append(name)
    return " ".join(
        note if len(names) == len(timing.sides) else f"{listed(names)}: {note}"
        for note, names in sides.items()
    )


def _what(timing: Timing) -> str:
    first = timing.sides[0].experiment
    return f"{first.model} on {dataset_words(first.dataset)}: {listed(side_names(timing))}"
