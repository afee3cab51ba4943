"""The sections of a document in the window: sentences, charts, tables, facts, and interactive widgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QPainter
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QVBoxLayout, QWidget

from engine.export.document import Action, CellText, Picture, Section
from gui.charts.painter import DrawingView
from gui.theme.theme import theme
from gui.widgets import Button, EmptyState, label, set_text
from gui.widgets.boxes import Placed, Stretch, Surface, discard, grid_of, in_column, in_row, scrolled, wide
from gui.widgets.labels import wrapped
from gui.widgets.table import Column, FilteredTable, ResultTable
from gui.widgets.table.columns import GROWS, PLAIN, Look, spaced
from gui.widgets.table.painting import MARK, PADDING, paint_words, text_width

_BARS, _BAR_HEIGHT, _BAR_GAP, _LEAST_BAR = 96, 14, 10, 4
_WIDEST, _BESIDE, _LEAST_FIRST = 240, 4 * PADDING, 150
_TITLE_WIDTH, _LEAST_WIDTH, _GAP = 150, 360, 8
_MOST_WHOLE, _LEAST_HEIGHT = 40, 240
"""The rows up to which a table is as high as its rows. A longer one scrolls, and is at least so high."""
_FILTER_TIP = "Show only rows with all of these words in any column"


class Offer(NamedTuple):
    """What a tab without sections shows: a question, a hint, and a button with its tooltip."""

    question: str
    hint: str = ""
    action: str = ""
    tooltip: str = ""


class DocumentView(QWidget):
    """The sections of one tab, from top to bottom. A section that was shown before keeps its widgets.

    Without sections it shows an `Offer`, and `wanted` is emitted when its button is clicked. `asked` carries
    the `Action` of a clicked button, and `rows_selected` the title of a section and the places of its
    selected rows. `widgets` makes the interactive parts by name.
    """

    asked = Signal(object)  # Action
    rows_selected = Signal(str, object)  # tuple[int, ...]
    wanted = Signal()

    def __init__(self, name: str, widgets: Mapping[str, Callable[[], QWidget]]) -> None:
        super().__init__()
        self._makers = widgets
        self.sections: dict[str, SectionView] = {}
        self.empty: EmptyState | None = None
        self._page, self._offer = QWidget(), Surface("panel")
        self._offer.hide()
        self._column = in_column(Placed(self._offer, 1), Stretch(), parent=self._page, spacing=_GAP)
        in_column(scrolled(name, self._page), parent=self, margins=(0, _GAP, 0, 0))

    def show_sections(self, sections: Sequence[Section], answer: Any, offer: Offer | None = None) -> None:
        """Show these sections of an answer, or the offer. Only what differs from before is filled again."""
        wanted: dict[str, Section] = {}
        for section in sections:
            # one widget may show several sections, such as the tables of a profile
            if not section.widget or section.widget not in {known.widget for known in wanted.values()}:
                wanted[section.title] = section
        for title in self.sections.keys() - wanted.keys():
            discard(self._column, self.sections.pop(title))
        for place, (title, section) in enumerate(wanted.items()):
            if title not in self.sections:
                self.sections[title] = view = SectionView(self._makers.get(section.widget))
                view.asked.connect(self.asked)
                view.rows_selected.connect(partial(self.rows_selected.emit, title))
            if self._column.indexOf(self.sections[title]) != place:
                # another study's advice may have another order
                self._column.removeWidget(self.sections[title])
                self._column.insertWidget(place, self.sections[title])
            self.sections[title].show_section(section, answer)
            self._column.setStretchFactor(self.sections[title], int(self.sections[title].grows))
        self._show_offer(None if sections else offer)
        grows = not sections or any(view.grows for view in self.sections.values())
        self._column.setStretch(self._column.count() - 1, 0 if grows else 1)

    def _show_offer(self, offer: Offer | None) -> None:
        if offer is not None:
            if self.empty is None:
                self.empty = EmptyState("")
                self.empty.pressed.connect(self.wanted)
                in_column(self.empty, parent=self._offer)
            self.empty.show_text(*offer)
        self._offer.setVisible(offer is not None)


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
        self._title, self._words = wrapped("", "panelTitle"), wrapped("", "body")
        self._notes = wrapped("", "hint")
        self._buttons, self._pictures, self._facts = QWidget(), QWidget(), QWidget()
        for part in (self._buttons, self._pictures, self._facts):
            part.hide()
        self.table: ResultTable[_Row] | None = None
        self._held: QWidget | None = None
        self._is_long = False
        self._filtered: FilteredTable[_Row] | None = None
        self._head = QWidget()
        self._head_row = in_row(wide(self._title), self._buttons, parent=self._head, spacing=8)
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
        """True if its widget or table fills the remaining height of the page."""
        expanding = QSizePolicy.Policy.Expanding
        is_long = self._is_long and self._held is not None and not self._held.isHidden()
        return is_long or (self.widget is not None and self.widget.sizePolicy().verticalPolicy() == expanding)

    def show_section(self, section: Section, answer: Any) -> None:
        """Show a section, updating only the parts that differ from the shown section."""
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
        has_table = bool(section.rows) and not is_drawn
        is_shown = self._held is not None and not self._held.isHidden()
        if has_table and (before is None or not is_shown or section.rows != before.rows):
            self._fill_table(section)
        if self._held is not None:
            self._held.setVisible(has_table)

    def _replaced(self, layout: Any, old: QWidget, new: QWidget) -> QWidget:
        layout.replaceWidget(old, new)
        discard(layout, old)
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
        is_long = len(section.rows) > _MOST_WHOLE
        if self._held is not None and is_long != self._is_long:
            discard(self._column, self._held)
            self.table = None
        if self.table is None:
            self._is_long = is_long
            self.table = ResultTable(section.title, key=lambda row: row.key, whole=not is_long)
            self.table.selected.connect(
                lambda rows: self.rows_selected.emit(tuple(row.place for row in rows))
            )
            self._held, self._filtered = self.table, None
            if is_long:
                self.table.setMinimumHeight(_LEAST_HEIGHT)
                self._held = self._filtered = FilteredTable(self.table, "row", _FILTER_TIP)
            self._column.insertWidget(self._column.count() - 1, self._held)
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


def _picture_view(picture: Picture) -> DrawingView:
    """Return a chart of a document, as wide as the page and as high as the chart."""
    view = DrawingView()
    view.setMinimumWidth(_LEAST_WIDTH)
    view.setFixedHeight(round(picture.draw(_LEAST_WIDTH).height))
    view.show_drawing(lambda width, _height: picture.draw(width))
    return view


def _pictures(pictures: Sequence[Picture]) -> QWidget:
    holder = QWidget()
    if pictures:
        in_column(*map(_picture_view, pictures), parent=holder, spacing=8)
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

    The first column and text columns share the remaining width.
    """
    columns: list[Column[Any]] = []
    texts = [heading for heading in section.headings if heading not in section.right]
    for place, heading in enumerate(section.headings):
        cells, is_number = [row[place] for row in section.rows], heading in section.right
        width = max((text_width(str(cell), 500) for cell in cells), default=0)
        bars = [cell.bar for cell in cells if isinstance(cell, CellText) and cell.bar is not None]
        axis = max(0.0, -min(bars, default=0.0))
        span = axis + max(0.0, *bars) if bars else 0.0
        paint = partial(_paint_bar, place=place, axis=axis, span=span) if span else None
        width = max(width + (_BARS if span else 0), text_width(heading, 500))
        width = min(width, _WIDEST) + _BESIDE
        width += MARK if any(isinstance(cell, CellText) and cell.mark for cell in cells) else 0
        columns.append(
            Column(
                heading,
                partial(_text, place=place),
                partial(_value, place=place),
                paint=paint,
                width=width if place else min(width, _LEAST_FIRST),
                widest=0 if is_number and (place or texts) else GROWS,
                is_number=is_number,
                look=partial(_look, place=place),
            )
        )
    return list(spaced(columns))


def _paint_bar(
    painter: QPainter, room: QRectF, row: Sequence[Any], place: int, axis: float, span: float
) -> None:
    """Paint a number, and a bar from an axis at its right: filled to the left, outlined to the right."""
    cell, palette = row[place], theme().palette
    left = room.right() - _BARS + 2 * _BAR_GAP
    words = QRectF(room.left(), room.top(), left - _BAR_GAP - room.left(), room.height())
    paint_words(painter, words, str(cell), _look(row, place), is_right=True)
    if not isinstance(cell, CellText) or cell.bar is None:
        return
    scale = (room.right() - left) / span
    x = left + axis * scale
    painter.setPen(QColor(palette.line2))
    painter.drawLine(QPointF(x, room.top()), QPointF(x, room.bottom()))
    length = max(_LEAST_BAR, abs(cell.bar) * scale) if cell.bar else 0.0
    top = room.center().y() - _BAR_HEIGHT / 2
    if cell.bar < 0:
        painter.fillRect(QRectF(x - length, top, length, _BAR_HEIGHT), QColor(palette.text2))
    elif cell.bar:
        painter.setPen(QColor(palette.text2))
        painter.drawRect(QRectF(x, top, length, _BAR_HEIGHT))


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
