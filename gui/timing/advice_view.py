"""The advice on a timing: what would make its steps shorter."""

from __future__ import annotations

from engine.protocol.numerics.advice import Advice
from engine.protocol.timing.timing import Timing
from engine.timing.names import side_names
from gui.widgets.answers.advice_view import AdviceView, AdviceWords

_WORDS = AdviceWords(
    question="What would make a step shorter?",
    hint="Advice comes with the profile of a step, together with the figures that it rests on.",
    action="Explain the time",
    tooltip="Profile some steps of what the form describes",
    none="Advice is given only where figures support it, and none do here.",
)


class TimingAdvice(AdviceView):
    """Shows what the profiles of a timing advise."""

    def __init__(self) -> None:
        super().__init__(_WORDS)

    def show_timing(self, timing: Timing | None) -> None:
        """Shows the advice for all sides; None for the empty state."""
        self.show_advice(None if timing is None or not timing.profiles() else _by_side(timing))


def _by_side(timing: Timing) -> list[tuple[str, Advice]]:
    """Pieces of advice with the sides that they are for; no name where there is one side."""
    sides: dict[Advice, list[str]] = {}
    for name, side in zip(side_names(timing), timing.sides, strict=True):
        for advice in side.profile.advice if side.profile is not None else ():
            sides.setdefault(advice, []).append(name if len(timing.sides) > 1 else "")
    return [(", ".join(names), advice) for advice, names in sides.items()]
