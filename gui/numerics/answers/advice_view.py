"""The view of advice: what would help, and the figures that it rests on."""

from __future__ import annotations

from engine.protocol.numerics.advice import Advices
from gui.numerics.answers.answer_page import AnswerPage, counted, names_words, wrapped

_NOTHING_YET = (
    "What would make this training faster, smaller or safer?",
    "Advice comes with every part of a diagnosis, together with the figures that it rests on.",
    "Diagnose",
    "Diagnose the form's experiment",
)
_NO_ADVICE = "There is nothing to advise."
_MEANING = (
    "Advice is given only where figures support it, and none do here. Other parts of a diagnosis may find "
    "more."
)


class AdviceView(AnswerPage):
    """Blocks of advice, the most useful first."""

    def __init__(self) -> None:
        super().__init__("Advice", *_NOTHING_YET)

    def show_advice(self, advices: Advices | None) -> None:
        """Shows the advice of a diagnosis; None for the empty state."""
        if advices is None:
            self.show_empty()
            return
        blocks = [
            self.block(
                advice.message,
                advice.evidence,
                f"Modules: {names_words(advice.modules)}" if advice.modules else "",
                changes=advice.changes,
                action=advice.action or "Use",
            )
            for advice in advices.items
        ]
        if blocks:
            self.show_answer(f"{counted(len(blocks), 'piece')} of advice", *blocks)
        else:
            self.show_answer(_NO_ADVICE, wrapped(_MEANING, "body"))
