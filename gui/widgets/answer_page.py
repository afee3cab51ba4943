"""Answers in words: sentences with facts and fixes, advice, and the tabs of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QTabWidget, QToolButton, QWidget

from engine.experiment.experiment import setting_title
from engine.experiment.value import in_sentence
from engine.protocol.advice import Advice, Changes
from engine.protocol.ranges import module_title
from engine.words.names import setting_text
from engine.words.numbers import counted
from gui.widgets import Button, label
from gui.widgets.boxes import Part, Stretch, Surface, grid_of, in_column, in_row, scrolled, wide
from gui.widgets.buttons import IconButton
from gui.widgets.labels import wrapped
from gui.widgets.messages import OfferedView
from gui.widgets.shortcuts import tab_after

_MARGINS, _GAP = (2, 12, 8, 12), 12
_TITLE_WIDTH = 140
_SWITCHES = {"true": "on", "false": "off"}
_MOST_NAMED = 8


class AnswerPage(OfferedView):
    """The base of pages that show an answer, or before there is one, a button to find it.

    `changes_wanted` carries the `Changes` that a button of the answer puts into the form.
    """

    changes_wanted = Signal(object)

    def __init__(
        self, name: str, question: str, hint: str, action: str, tooltip: str, *, is_solid: bool = False
    ) -> None:
        super().__init__(question, hint, action, tooltip, is_solid=is_solid)
        self._area = scrolled(name)
        self.addWidget(self._area)

    @property
    def offer(self) -> Button:
        """The button of the empty state."""
        return self.empty.button

    def text(self) -> str:
        if self.currentWidget() is self.empty:
            return self.empty.words()
        return "\n".join(part.text() for part in self._area.findChildren(QLabel))

    def show_empty(self) -> None:
        """Show the empty state, which explains the page."""
        self.setCurrentWidget(self.empty)

    def show_answer(self, answer: str, *parts: Part) -> None:
        """Show the answer in large type, and the parts below it."""
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
        self, message: str, *details: str, head: str = "", changes: Changes = (), action: str = "Use"
    ) -> QFrame:
        """Return a block with a message, and a button `action` if `changes` of settings would fix it."""
        block = Surface("chip")
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
    """Return the settings by their titles: "Modules kept in FP32: fc · Precision: BF16 AMP"."""
    return " · ".join(
        f"{setting_title(key)}: {setting_text(key, _SWITCHES.get(text, text)) or 'none'}"
        for key, text in changes
    )


def names_words(names: Sequence[str]) -> str:
    """Return at most eight names of modules, and the number of others. Return "none" without any."""
    more = len(names) - _MOST_NAMED
    shown = ", ".join(module_title(name) for name in names[:_MOST_NAMED])
    return f"{shown} and {more:,} more" if more > 0 else shown or "none"


def facts(rows: Sequence[tuple[str, str]]) -> QGridLayout:
    """Return a grid of titles with their values. Empty values are skipped."""
    grid = grid_of(spacing=(12, 6), grows=(1,))
    grid.setColumnMinimumWidth(0, _TITLE_WIDTH)
    for row, (title, value) in enumerate((title, value) for title, value in rows if value):
        grid.addWidget(label(title, "body"), row, 0, Qt.AlignmentFlag.AlignTop)
        grid.addWidget(wrapped(value, "plain"), row, 1)
    return grid


_NO_ADVICE = "No advice."


class AdviceWords(NamedTuple):
    """The texts of an `AdviceView`: four for the state before a study, and `none` if it has no advice."""

    question: str
    hint: str
    action: str
    tooltip: str
    none: str


class AdviceView(AnswerPage):
    """A list of advice on how to improve the form's settings, the most useful first."""

    def __init__(self, words: AdviceWords) -> None:
        super().__init__("Advice", words.question, words.hint, words.action, words.tooltip)
        self._none = words.none

    def show_advice(self, advice: Sequence[tuple[str, Advice]] | None) -> None:
        """Show pieces of advice, each under a heading ("" for none). For None, show the empty state."""
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


class ViewTab(NamedTuple):
    """A tab of `ViewTabs`: its key, its title, its widget, and the guide page that its help button opens."""

    name: str
    title: str
    page: str
    view: QWidget


class ViewTabs(QTabWidget):
    """Tabs with a help button. `guide_wanted` carries the guide page of the current tab."""

    guide_wanted = Signal(str)

    def __init__(self, accessible_name: str, tabs: Sequence[ViewTab]) -> None:
        super().__init__()
        self._tabs = tuple(tabs)
        self.guide_button = IconButton("help", "Guide to this view", "Explain this view and what to do")
        self.guide_button.clicked.connect(lambda: self.guide_wanted.emit(self._front.page))
        self.setDocumentMode(True)
        self.tabBar().setDrawBase(False)
        self.tabBar().setAccessibleName(accessible_name)
        for arrow in self.tabBar().findChildren(QToolButton):
            arrow.setToolTip(arrow.accessibleName())
        self.setCornerWidget(self.guide_button)
        for tab in self._tabs:
            self.addTab(tab.view, tab.title)

    def open(self, name: str) -> None:
        """Bring the view of that name to the front. Do nothing if it is unknown or hidden."""
        for place, tab in enumerate(self._tabs):
            if tab.name == name and self.isTabVisible(place):
                self.setCurrentIndex(place)

    def show_tab(self, name: str, shows: bool) -> None:
        for place, tab in enumerate(self._tabs):
            if tab.name == name:
                self.setTabVisible(place, shows)

    def name(self) -> str:
        return self._front.name

    @property
    def _front(self) -> ViewTab:
        return self._tabs[self.currentIndex()]
