"""The sentences of the workspace Timing."""

from __future__ import annotations

from engine.protocol.timing.energy import Energy
from engine.protocol.timing.timing import Timing
from engine.store.timings import TimingRecord
from engine.timing.names import side_names
from engine.words.names import dataset_words, listed
from engine.words.numbers import number, share_text
from gui.session.orders.timings import TimingView
from gui.widgets.saved_menu import SavedEntry


def facts(view: TimingView) -> str:
    """What was profiled, where and when."""
    when = view.created.astimezone().strftime("%d %b, %H:%M")
    return ", ".join(part for part in (_what(view.timing), view.device_name, when) if part)


def progress(view: TimingView) -> str:
    """How far a timing has come."""
    if view.is_waiting:
        return "waiting for its turn"
    names = side_names(view.timing)
    place = f", {view.side + 1} of {len(names)}" if len(names) > 1 else ""
    share = f", {share_text(view.fraction)}" if view.fraction is not None else ""
    return f"{names[view.side]}{place}: {view.doing or 'starting a process'}{share}"


def saved_entry(key: str, record: TimingRecord) -> SavedEntry:
    """A saved timing in a menu."""
    tip = f"{_what(record.bare)}, on {record.device_name}"
    return SavedEntry(key, _what(record.bare), record.created, tip)


def unfinished_entry(view: TimingView) -> SavedEntry:
    """A timing in progress or in the queue, in the menu of the saved ones."""
    state = "waiting" if view.is_waiting else "in progress"
    return SavedEntry(view.key, f"{_what(view.timing)}: {state}", view.created, progress(view))


def failures(timing: Timing) -> str:
    """Why sides have no profile, a line each; empty where all have one, or are still to come."""
    return "\n".join(
        f"{name}: {side.problem.message} {side.problem.remedy}".rstrip()
        for name, side in zip(side_names(timing), timing.sides, strict=True)
        if side.problem is not None
    )


def energy_words(timing: Timing) -> str:
    """The energy of each side; empty where none was measured."""
    sides = [
        (name, side.profile.energy)
        for name, side in zip(side_names(timing), timing.sides, strict=True)
        if side.profile is not None and side.profile.energy is not None
    ]
    if not sides:
        return ""
    several = len(timing.sides) > 1
    words = "; ".join(f"{name + ' ' if several else ''}{_energy(energy)}" for name, energy in sides)
    return f"Energy: {words}."


def energy_tip(timing: Timing) -> str:
    """What the energy counts."""
    counted = {
        "nvml": "The graphics card's own counter: without processor, fans and power supply.",
        "rapl": "The processor's own counter: without memory, fans and power supply.",
    }
    energies = [profile.energy for profile in timing.profiles() if profile.energy is not None]
    idle = next((energy.idle_watts for energy in energies if energy.idle_watts is not None), None)
    rest = "" if idle is None else f" The idle device takes {number(idle, 0)} W of it."
    return "".join(f"{counted[source]}{rest}" for source in {energy.source for energy in energies})


def _energy(energy: Energy) -> str:
    parts = [
        f"{number(energy.per_step())} J a step",
        f"{number(energy.per_thousand_samples())} J per 1,000 samples",
    ]
    if (watts := energy.mean_watts) is not None:
        idle = "" if energy.idle_watts is None else f", {number(energy.idle_watts, 0)} W of it idle"
        parts.append(f"{number(watts, 0)} W on average{idle}")
    return ", ".join(parts)


def _what(timing: Timing) -> str:
    first = timing.sides[0].experiment
    return f"{first.model} on {dataset_words(first.dataset)}: {listed(side_names(timing))}"
