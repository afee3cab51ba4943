"""The view of advice: what would help, and the figures that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.protocol.advice import Advice
from engine.words.numbers import counted
from gui.widgets.answers.answer_page import AnswerPage, names_words, wrapped

_NO_ADVICE = "There is nothing to advise."


class AdviceWords(NamedTuple):
    """The words of a view without advice: the empty state, and what it means that there is none."""

    question: str
    hint: str
    action: str
    tooltip: str
    none: str


class AdviceView(AnswerPage):
    """Blocks of advice, the most useful first."""

    def __init__(self, words: AdviceWords) -> None:
        super().__init__("Advice", words.question, words.hint, words.action, words.tooltip)
        self._none = words.none

    def show_advice(self, advice: Sequence[tuple[str, Advice]] | None) -> None:
        """Shows pieces of advice under what they are about, "" for nothing; None for the empty state."""
        if advice is None:
            self.show_empty()
            return
        blocks = [
            self.block(
                piece.message,
                piece.evidence,
                f"Modules: {names_words(piece.modules)}" if piece.modules else "",
                head=head,
                changes=piece.changes,
                action=piece.action or "Use",
            )
            for head, piece in advice
        ]
        if blocks:
            self.show_answer(f"{counted(len(blocks), 'piece')} of advice", *blocks)
        else:
            self.show_answer(_NO_ADVICE, wrapped(self._none, "body"))
