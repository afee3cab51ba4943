"""The card below the figures of Compare with the figures that others have published of the same model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtWidgets import QFrame, QWidget

from engine.compare.comparison import Comparison
from engine.compare.published import PublishedRow, published_beside
from engine.export.document import Cell, Section
from engine.export.kinds.published import published_section
from gui.widgets import Button
from gui.widgets.answers.answer_page import wrapped
from gui.widgets.boxes import Stretch, in_column, in_row
from gui.widgets.table import Column, ResultTable
from gui.widgets.table.columns import GROWS

_WIDTHS = {"Precision": 92, "Batch": 60, "img/s": 72, "Yours": 72, "Accuracy": 76, "Year": 48}
_VALUES: Mapping[str, Callable[[PublishedRow], float | None]] = {
    "Batch": lambda row: row.figure.batch_size,
    "img/s": lambda row: row.figure.samples_per_second,
    "Yours": lambda row: row.ratio,
    "Accuracy": lambda row: row.figure.accuracy_percent,
    "Year": lambda row: row.source.year,
}
_Row = tuple[PublishedRow, tuple[Cell, ...]]


class PublishedCard(QFrame):
    """Folded until its button is pressed, and hidden where nothing is published of the models compared."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self._section: Section | None = None
        self._table: ResultTable[_Row] = ResultTable("Published figures", whole=True)
        self.opener = Button(
            "Published figures",
            "toggle",
            "Lays published figures of the same model beside yours, here and in an exported web page",
        )
        self.opener.toggled.connect(self._refresh)
        self._warning, self._sources = wrapped("", "body"), wrapped("", "hint")
        head = in_row(self.opener, Stretch(1))
        in_column(
            head, self._warning, self._table, self._sources, parent=self, margins=(12, 8, 12, 8), spacing=8
        )
        self.hide()

    @property
    def is_open(self) -> bool:
        """Whether the published figures are wanted."""
        return self.opener.isChecked()

    def show_comparison(self, comparison: Comparison) -> None:
        """Shows what is published of the models that were compared."""
        rows = published_beside(comparison)
        section = published_section(rows) if rows else None
        self._section = section
        if section is not None:
            columns = [_column(section, place) for place in range(len(section.headings))]
            self._table.show_rows(list(zip(rows, section.rows, strict=True)), columns)
        self.setVisible(bool(rows))
        self._refresh()

    def texts(self) -> list[list[str]]:
        """The texts of the rows that are shown."""
        return self._table.lines()[1:] if self._table.isVisible() else []

    def _refresh(self) -> None:
        section = self._section if self.is_open else None
        for part in (self._warning, self._table, self._sources):
            part.setVisible(section is not None)
        if section is not None:
            self._warning.setText(" ".join(section.sentences))
            self._sources.setText("\n".join(section.notes))


def _column(section: Section, place: int) -> Column[_Row]:
    title = section.headings[place]
    value, width = _VALUES.get(title), _WIDTHS.get(title)
    return Column(
        title,
        lambda row: row[1][place],
        None if value is None else lambda row: value(row[0]),
        width=width or 90,
        widest=0 if width else GROWS,
        is_number=title in section.right,
    )
