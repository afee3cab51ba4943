"""The advice on a timing: what would make its steps shorter."""

from __future__ import annotations

from engine.profile.advice import advice_by_side
from engine.protocol.profile.profiles import Timing
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
        self.show_advice(None if timing is None or not timing.profiles() else advice_by_side(timing))
