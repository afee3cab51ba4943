"""The box on top of the form, "What do you want to know?", and the list of questions that it opens."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import cast

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QListWidget,
    QListWidgetItem,
    QSizePolicy,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from gui.setup.question import QUESTIONS, Entry, Question
from gui.theme.fonts import font
from gui.theme.icons import draw_icon
from gui.theme.theme import theme
from gui.widgets.boxes import in_column
from gui.widgets.messages import Popover

_BOX_HEIGHT, _ROW_HEIGHT, _MARGIN = 56, 60, 5
_ICON, _TEXT = 12, 38
"""Pixels from the left edge."""


def _draw(painter: QPainter, rect: QRectF, entry: Entry, right: str) -> None:
    """Draws a question into its box or row, and an icon at the right."""
    palette = theme().palette
    middle = rect.center().y()
    draw_icon(painter, QRectF(rect.left() + _ICON, middle - 9, 18, 18), entry.icon, palette.text2)
    left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
    line = QRectF(rect.left() + _TEXT, middle - 19, rect.width() - _TEXT - 12, 20)
    painter.setFont(font(13, 600))
    painter.setPen(QColor(palette.text))
    painter.drawText(line, left, entry.title)
    painter.setFont(font(12))
    painter.setPen(QColor(palette.text2))
    painter.drawText(line.translated(0, 18), left, entry.about)
    if right:
        draw_icon(painter, QRectF(rect.right() - 25, middle - 8, 16, 16), right, palette.text)


class QuestionBox(QAbstractButton):
    """Shows the question that is asked; a click, Space, Enter or an arrow key opens the list to `ask` one."""

    def __init__(self, ask: Callable[[Question], object], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.ask = ask
        self.question: Question = "compare"
        self.setFixedHeight(_BOX_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip("What do you want to know? The question decides what the form asks for")
        self.clicked.connect(lambda: self.list.toggle())
        theme().changed.connect(self.update)
        self.set_question("compare")

    @cached_property
    def list(self) -> QuestionList:
        """The list of questions, made when it is first opened."""
        questions = QuestionList(self)
        questions.toggled.connect(self.update)
        return questions

    def set_question(self, question: Question) -> None:
        """Shows a question."""
        self.question = question
        entry = QUESTIONS[question]
        self.setAccessibleName(f"What do you want to know? {entry.title}")
        self.setAccessibleDescription(entry.about)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(288, _BOX_HEIGHT)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.list.open()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        palette, painter = theme().palette, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_open = "list" in vars(self) and self.list.is_open
        border = palette.pri if is_open else palette.text3 if self.underMouse() else palette.line2
        painter.setPen(QColor(border))
        painter.setBrush(QColor(palette.field))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
        chevron = "chevron-up" if is_open else "chevron-down"
        _draw(painter, QRectF(self.rect()), QUESTIONS[self.question], chevron)
        painter.end()


class QuestionList(Popover):
    """The six questions below their box."""

    def __init__(self, box: QuestionBox) -> None:
        super().__init__(box)
        self._box = box
        self.rows = QListWidget(self)
        self.rows.setAccessibleName("Questions")
        self.rows.setItemDelegate(_RowDelegate(self.rows, box))
        self.rows.setMouseTracking(True)
        self.rows.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        for question, entry in QUESTIONS.items():
            item = QListWidgetItem(f"{entry.title}: {entry.about}")
            item.setData(Qt.ItemDataRole.UserRole, question)
            self.rows.addItem(item)
        self.rows.itemClicked.connect(self._choose)
        self.rows.itemActivated.connect(self._choose)
        self.rows.itemEntered.connect(self.rows.setCurrentItem)
        self.setFocusProxy(self.rows)
        in_column(self.rows, parent=self, margins=_MARGIN)

    def sizeHint(self) -> QSize:
        return QSize(0, _ROW_HEIGHT * len(QUESTIONS) + 2 * _MARGIN + 2)

    def open(self) -> None:
        self.rows.setCurrentRow(tuple(QUESTIONS).index(self._box.question))
        super().open()

    def _choose(self, item: QListWidgetItem) -> None:
        if self.is_open:
            self.dismiss()
            self._box.ask(item.data(Qt.ItemDataRole.UserRole))


class _RowDelegate(QStyledItemDelegate):
    def __init__(self, rows: QListWidget, box: QuestionBox) -> None:
        super().__init__(rows)
        self._box = box

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        return QSize(0, _ROW_HEIGHT)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        question = cast("Question", index.data(Qt.ItemDataRole.UserRole))
        rect = QRectF(option.rect)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme().palette.bg3))
            painter.drawRoundedRect(rect, 6, 6)
        _draw(painter, rect, QUESTIONS[question], "check" if question == self._box.question else "")
        painter.restore()
