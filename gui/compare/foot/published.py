"""The card below the figures of Compare with the figures that others have published of the same model."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QTableWidget, QWidget

from engine.compare.comparison import Comparison
from engine.compare.published import published_beside
from engine.export.document import Section
from engine.export.kinds.published import published_section
from gui.widgets import Button
from gui.widgets.answers.answer_page import wrapped
from gui.widgets.boxes import Stretch, in_column, in_row
from gui.widgets.tables import whole_table

_WIDTHS = {"Precision": 92, "Batch": 60, "img/s": 72, "Yours": 72, "Accuracy": 76, "Year": 48}


class PublishedCard(QFrame):
    """Folded until its button is pressed, and hidden where nothing is published of the models compared."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self._section: Section | None = None
        self._table: QTableWidget | None = None
        self.opener = Button(
            "Published figures",
            "toggle",
            "Lays published figures of the same model beside yours, here and in an exported web page",
        )
        self.opener.toggled.connect(self._refresh)
        self._warning, self._sources = wrapped("", "body"), wrapped("", "hint")
        head = in_row(self.opener, Stretch(1))
        self._column = in_column(
            head, self._warning, self._sources, parent=self, margins=(12, 8, 12, 8), spacing=8
        )
        self.hide()

    @property
    def is_open(self) -> bool:
        """Whether the published figures are wanted."""
        return self.opener.isChecked()

    def show_comparison(self, comparison: Comparison) -> None:
        """Shows what is published of the models that were compared."""
        rows = published_beside(comparison)
        self._section = published_section(rows) if rows else None
        self.setVisible(bool(rows))
        self._refresh()

    def texts(self) -> list[list[str]]:
        """The texts of the rows that are shown."""
        table = self._table
        if table is None:
            return []
        columns = range(table.columnCount())
        cells = [[table.item(row, column) for column in columns] for row in range(table.rowCount())]
        return [[item.text() for item in row if item is not None] for row in cells]

    def _refresh(self) -> None:
        if self._table is not None:
            self._column.removeWidget(self._table)
            self._table.deleteLater()
            self._table = None
        section = self._section if self.is_open else None
        for part in (self._warning, self._sources):
            part.setVisible(section is not None)
        if section is None:
            return
        self._warning.setText(" ".join(section.sentences))
        self._sources.setText("\n".join(section.notes))
        widths = {place: _WIDTHS[name] for place, name in enumerate(section.headings) if name in _WIDTHS}
        right = {place for place, name in enumerate(section.headings) if name in section.right}
        rows = [tuple(map(str, row)) for row in section.rows]
        self._table = whole_table(
            section.title, "What others have published", section.headings, rows, right, widths
        )
        self._column.insertWidget(2, self._table)
