"""The page of an answer in words: sentences, facts and remedies in a column that scrolls."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QScrollArea, QWidget

from engine.experiment.experiment import setting_title
from engine.experiment.value import in_sentence
from engine.protocol.numerics.advice import Changes
from engine.protocol.numerics.precision_map import module_title
from engine.words.names import setting_text
from gui.widgets import Button, label
from gui.widgets.boxes import Part, Stretch, in_column, in_row, wide
from gui.widgets.messages import OfferedView
from gui.widgets.shortcuts import tab_after

_MARGINS, _GAP = (2, 12, 8, 12), 12
_TITLE_WIDTH = 140
_SWITCHES = {"true": "on", "false": "off"}
_MOST_NAMED = 8


class AnswerPage(OfferedView):
    """An offer until there is an answer.

    `changes_wanted` carries the `Changes` that a button puts into the form.
    """

    changes_wanted = Signal(object)

    def __init__(
        self, name: str, question: str, hint: str, action: str, tooltip: str, *, is_solid: bool = False
    ) -> None:
        super().__init__(question, hint, action, tooltip, is_solid=is_solid)
        self._area = QScrollArea()
        self._area.setWidgetResizable(True)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setAccessibleName(name)
        self.addWidget(self._area)

    @property
    def offer(self) -> Button:
        """The button of the empty state."""
        return self.empty.button

    def text(self) -> str:
        """All that the page says."""
        if self.currentWidget() is self.empty:
            return self.empty.words()
        return "\n".join(part.text() for part in self._area.findChildren(QLabel))

    def show_empty(self) -> None:
        """Shows what the page would answer."""
        self.setCurrentWidget(self.empty)

    def show_answer(self, answer: str, *parts: Part) -> None:
        """Shows the answer in large type, and the parts below it."""
        holder = QWidget()
        large = wrapped(answer, "stat")
        in_column(large, *parts, Stretch(), parent=holder, margins=_MARGINS, spacing=_GAP)
        old = self._area.takeWidget()
        if old is not None:
            # it may hold the button whose press led here
            old.hide()
            old.deleteLater()
        self._area.setWidget(holder)
        tab_after(self.empty, holder)
        self._area.setAccessibleDescription(answer)
        self.setCurrentWidget(self._area)

    def block(
        self,
        message: str,
        *details: str,
        head: str = "",
        changes: Changes = (),
        action: str = "Use",
    ) -> QFrame:
        """The remedy, and a button `action` where changes of settings would do it."""
        block = QFrame()
        block.setProperty("surface", "chip")
        column = in_column(parent=block, margins=(12, 8, 12, 10), spacing=4)
        for text, role in ((head, "heading"), (message, "strong"), *((text, "body") for text in details)):
            if text:
                column.addWidget(wrapped(text, role))
        if changes:
            words = changes_words(changes)
            button = Button(action, "strip", f"Put into the form: {in_sentence(words)}")
            button.setAccessibleDescription(words)
            button.clicked.connect(lambda: self.changes_wanted.emit(changes))
            column.addLayout(in_row(button, wide(wrapped(words, "hint")), margins=(0, 4, 0, 0), spacing=12))
        return block


def changes_words(changes: Changes) -> str:
    """The settings by their titles: "Modules kept in FP32: fc; Precision: BF16 AMP"."""
    return "; ".join(
        f"{setting_title(key)}: {setting_text(key, _SWITCHES.get(text, text)) or 'none'}"
        for key, text in changes
    )


def names_words(names: Sequence[str]) -> str:
    """Names of modules in a line: at most eight, and how many more there are; "none" without any."""
    more = len(names) - _MOST_NAMED
    shown = ", ".join(module_title(name) for name in names[:_MOST_NAMED])
    return f"{shown} and {more:,} more" if more > 0 else shown or "none"


def facts(rows: Sequence[tuple[str, str]]) -> QGridLayout:
    """Titles with their values, those without a value left out."""
    grid = QGridLayout()
    grid.setContentsMargins(0, 0, 0, 0)
    grid.setHorizontalSpacing(12)
    grid.setVerticalSpacing(6)
    grid.setColumnMinimumWidth(0, _TITLE_WIDTH)
    grid.setColumnStretch(1, 1)
    for row, (title, value) in enumerate((title, value) for title, value in rows if value):
        grid.addWidget(label(title, "body"), row, 0, Qt.AlignmentFlag.AlignTop)
        grid.addWidget(wrapped(value, "plain"), row, 1)
    return grid


def wrapped(text: str, role: str) -> QLabel:
    """A text that wraps and can be copied."""
    line = label(text, role, wraps=True)
    line.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return line
