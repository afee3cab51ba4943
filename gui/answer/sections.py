"""The sections of a document in the window: sentences, charts, tables, facts, and interactive widgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QVBoxLayout, QWidget

from engine.drawing.shapes import Drawing
from engine.export.document import Action, CellText, Picture, Section
from gui.charts.painter import DrawingView
from gui.widgets import Button, label, set_text
from gui.widgets.boxes import Stretch, Surface, grid_of, in_column, in_row, scrolled
from gui.widgets.labels import wrapped
from gui.widgets.table import Column, FilteredTable, ResultTable
from gui.widgets.table.columns import GROWS, PLAIN, Look, width_of

_TITLE_WIDTH, _LEAST_WIDTH, _GAP, _MARK_ROOM = 140, 360, 8, 16
_MOST_WHOLE, _LEAST_HEIGHT = 40, 240
"""The rows up to which a table is as high as its rows. A longer one scrolls, and is at least so high."""
_SHORT_NAME = 24
_FILTER_TIP = "Show only rows with all of these words in any column"


class SectionWidget(Protocol):
    """The interface of an interactive part of an answer, which a section names as its `widget`."""

    def show_answer(self, answer: Any) -> None:
        """Show what is known of the answer."""


class DocumentView(QWidget):
    """The sections of one tab, from top to bottom. A section that was shown before keeps its widgets.

    `asked` carries the `Action` of a button that was clicked, and `rows_selected` the title of a section and
    the places of its selected rows. `widgets` makes the interactive parts by name.
    """

    asked = Signal(object)  # Action
    rows_selected = Signal(str, object)  # tuple[int, ...]

    def __init__(self, name: str, widgets: Mapping[str, Callable[[], QWidget]]) -> None:
        super().__init__()
        self._makers = widgets
        self.sections: dict[str, SectionView] = {}
        self._page = QWidget()
        self._column = in_column(Stretch(), parent=self._page, spacing=_GAP)
        in_column(scrolled(name, self._page), parent=self, margins=(0, _GAP, 0, 0))

    def show_sections(self, sections: Sequence[Section], answer: Any) -> None:
        """Show these sections of an answer. Only what differs from before is filled again."""
        wanted = {section.title: section for section in sections}
        for title in self.sections.keys() - wanted.keys():
            self.sections.pop(title).deleteLater()
        for place, (title, section) in enumerate(wanted.items()):
            if title not in self.sections:
                self.sections[title] = view = SectionView(self._makers.get(section.widget))
                view.asked.connect(self.asked)
                view.rows_selected.connect(partial(self.rows_selected.emit, title))
                self._column.insertWidget(place, view)
            self.sections[title].show_section(section, answer)
            self._column.setStretchFactor(self.sections[title], int(self.sections[title].grows))
        grows = any(view.grows for view in self.sections.values())
        self._column.setStretch(self._column.count() - 1, 0 if grows else 1)


class SectionView(Surface):
    """A section in a panel: its title with buttons, sentences, pictures, table, facts and notes.

    A long table has a field that filters its rows. `rows_selected` carries the places of its selected rows.
    """

    asked = Signal(object)  # Action
    rows_selected = Signal(object)  # tuple[int, ...]

    def __init__(self, widget: Callable[[], QWidget] | None = None) -> None:
        """`widget` makes the interactive part in place of pictures and a table."""
        super().__init__("panel")
        self._shown: Section | None = None
        self.widget = None if widget is None else widget()
        self._title, self._words = label("", "panelTitle"), wrapped("", "body")
        self._notes = wrapped("", "hint")
        self._buttons, self._pictures, self._facts = QWidget(), QWidget(), QWidget()
        self.table: ResultTable[_Row] | None = None
        self._is_long = False
        self._filtered: FilteredTable[_Row] | None = None
        self._head = QWidget()
        self._head_row = in_row(self._title, Stretch(1), self._buttons, parent=self._head, spacing=8)
        self._column: QVBoxLayout = in_column(
            self._head, self._words, self._pictures, self._facts, parent=self, margins=12, spacing=8
        )
        for part in (self._pictures, self._facts):
            # an empty one would still have its spacing
            part.hide()
        if self.widget is not None:
            self._column.addWidget(self.widget, 1)
        self._column.addWidget(self._notes)

    @property
    def grows(self) -> bool:
        """True if its widget or its table takes all the height that is left on the page."""
        expanding = QSizePolicy.Policy.Expanding
        return self._is_long or (
            self.widget is not None and self.widget.sizePolicy().verticalPolicy() == expanding
        )

    def show_section(self, section: Section, answer: Any) -> None:
        """Fill what differs from the section that is shown."""
        before, self._shown = self._shown, section
        if self.widget is not None:
            self.widget.show_answer(answer)  # type: ignore[attr-defined]
        if section == before:
            return
        set_text(self._title, section.title)
        self._head.setVisible(bool((section.title and self.widget is None) or section.actions))
        for part, texts in ((self._words, section.sentences), (self._notes, section.notes)):
            set_text(part, "\n".join(texts))
            part.setVisible(bool(texts))
        if before is None or section.actions != before.actions or section.is_code:
            self._buttons = self._replaced(self._head_row, self._buttons, self._buttons_of(section))
        if self.widget is not None:
            return
        if before is None or section.pictures != before.pictures:
            self._pictures = self._replaced(self._column, self._pictures, _pictures(section.pictures))
        if before is None or section.pairs != before.pairs:
            self._facts = self._replaced(self._column, self._facts, facts(section.pairs))
        is_drawn = section.is_drawn and bool(section.pictures)
        if section.rows and not is_drawn and (before is None or section.rows != before.rows):
            self._fill_table(section)

    def _replaced(self, layout: Any, old: QWidget, new: QWidget) -> QWidget:
        layout.replaceWidget(old, new)
        # it may hold the button whose press led here
        old.hide()
        old.deleteLater()
        new.setVisible(new.layout() is not None)
        return new

    def _buttons_of(self, section: Section) -> QWidget:
        holder = QWidget()
        buttons = []
        for action in section.actions:
            button = Button(action.text, "strip", action.tooltip)
            button.clicked.connect(partial(self._ask, action))
            buttons.append(button)
        if section.is_code:
            button = Button("Copy", "strip", "Copy this to the clipboard", "copy")
            button.clicked.connect(lambda: QGuiApplication.clipboard().setText("\n".join(section.sentences)))
            buttons.append(button)
        if buttons:
            in_row(*buttons, parent=holder, spacing=8)
        return holder

    def _ask(self, action: Action, _checked: bool = False) -> None:
        self.asked.emit(action)

    def select_rows(self, places: Collection[int]) -> None:
        """Select the rows at these places of the section, without `rows_selected`."""
        if self.table is not None:
            self.table.select_keys(row.key for row in self.table.row_model.given if row.place in places)

    def _fill_table(self, section: Section) -> None:
        if self.table is None:
            self._is_long = len(section.rows) > _MOST_WHOLE
            self.table = ResultTable(section.title, key=lambda row: row.key, whole=not self._is_long)
            self.table.selected.connect(
                lambda rows: self.rows_selected.emit(tuple(row.place for row in rows))
            )
            held: QWidget = self.table
            if self._is_long:
                self.table.setMinimumHeight(_LEAST_HEIGHT)
                self._filtered = held = FilteredTable(self.table, "row", _FILTER_TIP)
            self._column.insertWidget(self._column.count() - 1, held)
        self.table.show_rows(tuple(_numbered(section.rows)), table_columns(section))
        if self._filtered is not None:
            self._filtered.show_count("")


class _Row(tuple[Any, ...]):
    """The cells of a row with its place in the section. Rows of one name are told apart by their order."""

    place: int
    key: tuple[str, int]


def _numbered(rows: Sequence[Sequence[Any]]) -> Iterator[_Row]:
    counts: Counter[str] = Counter()
    for place, cells in enumerate(rows):
        row, name = _Row(cells), str(cells[0])
        row.place, row.key = place, (name, counts[name])
        counts[name] += 1
        yield row


class PictureView(DrawingView):
    """A chart of a document, as wide as the page and as high as the chart."""

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture
        drawing = picture.draw(_LEAST_WIDTH)
        self.setMinimumWidth(_LEAST_WIDTH)
        self.setFixedHeight(round(drawing.height))
        self.setAccessibleName(drawing.description)

    def sizeHint(self) -> QSize:
        return QSize(_LEAST_WIDTH, self.height())

    def drawing(self) -> Drawing:
        return self._picture.draw(self.width())


def _pictures(pictures: Sequence[Picture]) -> QWidget:
    holder = QWidget()
    if pictures:
        in_column(*map(PictureView, pictures), parent=holder, spacing=8)
    return holder


def facts(pairs: Sequence[tuple[str, str]]) -> QWidget:
    """Return a grid of names with their values. Empty values are skipped."""
    holder = QWidget()
    known = [pair for pair in pairs if pair[1]]
    if not known:
        return holder
    grid: QGridLayout = grid_of(holder, spacing=(12, 6), grows=(1,))
    grid.setColumnMinimumWidth(0, _TITLE_WIDTH)
    for row, (title, value) in enumerate(known):
        grid.addWidget(label(title, "body"), row, 0, Qt.AlignmentFlag.AlignTop)
        grid.addWidget(wrapped(value, "plain"), row, 1)
    return holder


def table_columns(section: Section) -> list[Column[Any]]:
    """Return the columns of a section's table, each as wide as its longest text.

    The first takes the rest if its texts are long, else all columns share it.
    """
    names = [len(str(row[0])) for row in section.rows]
    is_shared = max(names, default=0) <= _SHORT_NAME
    columns: list[Column[Any]] = []
    for place, heading in enumerate(section.headings):
        cells = [row[place] for row in section.rows]
        width = width_of((heading, *map(str, cells)))
        width += _MARK_ROOM if any(getattr(cell, "mark", None) for cell in cells) else 0
        columns.append(
            Column(
                heading,
                partial(_text, place=place),
                partial(_value, place=place),
                width=width,
                widest=0 if place and not is_shared else GROWS,
                is_number=heading in section.right,
                look=partial(_look, place=place),
            )
        )
    return columns


def _text(row: Sequence[Any], place: int) -> str:
    return str(row[place])


def _value(row: Sequence[Any], place: int) -> Any:
    cell = row[place]
    return cell.value if isinstance(cell, CellText) else str(cell)


def _look(row: Sequence[Any], place: int) -> Look:
    cell = row[place]
    if not isinstance(cell, CellText):
        return PLAIN
    return Look(600 if cell.is_strong else 400, "text3" if cell.is_faint else PLAIN.ink, cell.mark)
