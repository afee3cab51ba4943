"""Why the page offers an installation, and the words that go with it. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.installation.builds import build_title
from engine.installation.installed import Engine, Installation, State
from engine.installation.wanted import Plan, Source, Wanted
from gui.installation.words import EXTRAS


class Purpose(StrEnum):
    """`RESUME`: an installation was begun and not finished."""

    FIRST = "first"
    RESUME = "resume"
    REPAIR = "repair"
    UPDATE = "update"
    CHANGE = "change"


@dataclass(frozen=True)
class Words:
    """The page's heading, the sentence below it, and the button that begins."""

    title: str
    sentence: str
    button: str
    can_begin: bool = True


def purpose_of(engine: Engine) -> Purpose:
    return Purpose.REPAIR if engine.state is State.BROKEN else Purpose.FIRST


def first_choice(engine: Engine, source: Source | None = None) -> Wanted:
    """The present choice, to repair or to update it; else the best fit."""
    here = engine.installation
    if here is None:
        return Wanted(source=source or Source())
    return Wanted(here.backend, source or Source(), tuple(name for name in EXTRAS if name in here.packages))


def words_for(purpose: Purpose, engine: Engine, plan: Plan | None) -> Words:
    """The words of the page; `plan` is None until the choice is resolved."""
    here = _release(engine.installation.torch) if engine.installation else ""
    stays = f"PyTorch {here} stays in use until the new installation has trained a step."
    match purpose:
        case Purpose.RESUME:
            return Words("Go on setting up", "What was downloaded before is kept, and is used.", "Go on")
        case Purpose.REPAIR:
            sentence = engine.problem.message if engine.problem else "Its files are not as they were."
            return Words("The engine needs a repair", f"{sentence} Your runs are not affected.", "Repair")
        case Purpose.UPDATE if plan is not None and _release(plan.torch) == here:
            return Words("PyTorch is up to date", f"{here} is the newest version.", "Update", False)
        case Purpose.UPDATE:
            newest = f" to {_release(plan.torch)}" if plan else ""
            return Words("Update PyTorch", stays, f"Update{newest}")
        case Purpose.CHANGE:
            return Words("Change the engine", stays, "Download and change")
        case Purpose.FIRST:
            return Words("Set up the engine", _FIRST, "Download and set up")


_FIRST = (
    "Ammeter trains with PyTorch, which comes in a build for each kind of graphics card. It is downloaded "
    "once, into a folder of its own; nothing else on this machine is changed."
)


def _release(version: str) -> str:
    """The version without the build: "2.15.0" of "2.15.0+cu130"."""
    return version.partition("+")[0]


def title_of(installation: Installation) -> str:
    """The installed engine: "PyTorch 2.15.0 for CUDA 13.0"."""
    return f"PyTorch {_release(installation.torch)} for {build_title(installation.backend)}"
