"""One line of small print below an answer, with a button that opens all of it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QLabel, QWidget

from gui.widgets.boxes import Part, Stretch, discard, in_column, in_row, scrolled, wide
from gui.widgets.buttons import IconButton
from gui.widgets.labels import ElidedLabel, label
from gui.widgets.messages import Popover

_WIDTH, _HIGHEST, _MARGIN = 480, 520, 16

Detail = tuple[str, str]
"""A title and its text."""


class QuietLine(QWidget):
    """Clauses in one line, cut where there is no room. Its (i) opens them in full, with further details."""

    def __init__(self, *buttons: QWidget, beside: Sequence[Part] = ()) -> None:
        """Place the `buttons` below the details, and `beside` at the right end of the line."""
        super().__init__()
        self._line = ElidedLabel("", "body")
        self.info = IconButton("info", "About this result", "Show how this result was found")
        self.details = _Details(self.info, buttons)
        self.info.clicked.connect(self.details.toggle)
        in_row(self._line, self.info, Stretch(1), *beside, parent=self, spacing=6)

    def show_clauses(self, clauses: Sequence[str], details: Sequence[Detail] = ()) -> None:
        """Show the clauses, and in the panel of the (i) each in its own line above the details."""
        self._line.set_whole_text(" · ".join(clauses))
        known = [("", f"{clause.rstrip('.')}.") for clause in clauses]
        self.details.show_details([*known, *(detail for detail in details if detail[1])])
        self.info.setVisible(bool(clauses or details))

    def text(self) -> str:
        """Return the clauses and all details."""
        return self.details.text()


class _Details(Popover):
    def __init__(self, anchor: QWidget, buttons: Sequence[QWidget]) -> None:
        super().__init__(anchor, is_right=True)
        self.setAccessibleName("About this result")
        self._details: tuple[Detail, ...] = ()
        self._labels: list[QLabel] = []
        self._buttons, self._holder = QWidget(), QWidget()
        in_row(*buttons, Stretch(1), parent=self._buttons, spacing=8)
        self._column = in_column(self._buttons, parent=self._holder, margins=_MARGIN, spacing=6)
        in_column(wide(scrolled("About this result", self._holder)), parent=self, margins=1)

    def show_details(self, details: Sequence[Detail]) -> None:
        """Show these details, unless they are shown already."""
        if tuple(details) == self._details:
            return
        self._details = tuple(details)
        discard(self._column, *self._labels)
        texts = (pair for title, text in details for pair in ((title, "heading"), (text, "body")))
        self._labels = [label(words, role, wraps=True) for words, role in texts if words]
        for place, line in enumerate(self._labels):
            self._column.insertWidget(place, line)

    def text(self) -> str:
        return " ".join(filter(None, (part for detail in self._details for part in detail)))

    def sizeHint(self) -> QSize:
        inside = _WIDTH - 2
        return QSize(_WIDTH, min(_HIGHEST, self._column.heightForWidth(inside) + 4))
