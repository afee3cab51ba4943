"""The advice of a diagnosis."""

from __future__ import annotations

from engine.protocol.numerics.advice import Advices
from gui.widgets.answers.advice_view import AdviceView, AdviceWords

_WORDS = AdviceWords(
    question="What would make this training faster, smaller or safer?",
    hint="Advice comes with every part of a diagnosis, together with the figures that it rests on.",
    action="Diagnose",
    tooltip="Diagnose the form's experiment",
    none=(
        "Advice is given only where figures support it, and none do here. Other parts of a diagnosis may "
        "find more."
    ),
)


class DiagnosisAdvice(AdviceView):
    """Shows what a diagnosis advises."""

    def __init__(self) -> None:
        super().__init__(_WORDS)

    def show_advices(self, advices: Advices | None) -> None:
        """Shows the advice of a diagnosis; None for the empty state."""
        self.show_advice(None if advices is None else [("", advice) for advice in advices.items])
