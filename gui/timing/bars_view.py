"""The bars of a timing: what the device does in a step, the sides one above the other."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QStackedLayout, QToolTip, QWidget

from engine.drawing.shapes import Drawing
from engine.protocol.timing.timing import Timing
from engine.timing.bar_picture import PartPlace, bars_drawing, part_places
from engine.timing.names import part_meaning, part_title, side_names
from engine.words.numbers import number, share_text
from gui.charts.painter import paint
from gui.theme.theme import theme
from gui.widgets import EmptyState
from gui.widgets.labels import plain_tip

_NOTHING_YET = (
    "Where does a step's time go?",
    "A profile records some steps after the warm-up, and tells computing on Tensor Cores and elsewhere from "
    "moving data and from waiting, for every precision on one scale.",
    "Explain the time",
    "Profile some steps of what the form describes",
)
_LEAST_WIDTH = 420
_LARGEST = 3
_STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Up: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_Down: 1}


class _Bars(QWidget):
    """The picture of a timing; `chosen` carries the part under a click."""

    chosen = Signal(object)  # StepPart

    def __init__(self) -> None:
        super().__init__()
        self._timing = Timing()
        self._drawing = Drawing(0, 0, ())
        self._places: tuple[PartPlace, ...] = ()
        self._current: PartPlace | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(_LEAST_WIDTH)
        self.setAccessibleName("Where a step's time goes")
        theme().changed.connect(self.update)

    def show_timing(self, timing: Timing) -> None:
        """Draws a timing with a profile."""
        self._timing = timing
        self._draw()

    def place_of(self, position: QPointF) -> PartPlace | None:
        """The part at a point of the widget."""
        return next((place for place in self._places if place.holds(position.x(), position.y())), None)

    def places(self) -> tuple[PartPlace, ...]:
        """Where the parts are: first those in the bars, then those in the table."""
        return self._places

    def tip(self, place: PartPlace) -> str:
        """What a part takes, what it means, and the largest of its kernels."""
        side = self._timing.sides[place.side]
        assert side.profile is not None  # only profiles have parts
        bar, title = side.profile.bar, part_title(place.part, side.profile)
        name = f"{side_names(self._timing)[place.side]}: " if len(self._timing.sides) > 1 else ""
        time = f"{number(bar.ms(place.part))} ms, {share_text(bar.fraction(place.part))} of the step"
        lines = [f"{name}{title}, {time}", f"{part_meaning(place.part, side.profile)}."]
        rows = [row for row in side.profile.kernels if row.part is place.part][:_LARGEST]
        return "\n".join([*lines, *(f"{number(row.ms)} ms  {row.name}" for row in rows)])

    def sizeHint(self) -> QSize:
        return QSize(_LEAST_WIDTH, round(self._drawing.height))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._draw()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        paint(painter, self._drawing)
        if self._current is not None:
            place = self._current
            painter.setPen(QPen(QColor(theme().palette.text), 1))
            painter.drawRect(
                QRectF(place.x, place.y, place.width, place.height).adjusted(-1.5, -1.5, 0.5, 0.5)
            )
        painter.end()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            place = self.place_of(QPointF(event.pos()))
            QToolTip.showText(
                event.globalPos(), plain_tip(self.tip(place)) if place is not None else "", self
            )
            return True
        return super().event(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        place = self.place_of(event.position())
        self.setCursor(Qt.CursorShape.ArrowCursor if place is None else Qt.CursorShape.PointingHandCursor)
        self._mark(place)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._mark(None)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        place = self.place_of(event.position())
        if place is not None and event.button() is Qt.MouseButton.LeftButton:
            self.chosen.emit(place.part)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = _STEPS.get(Qt.Key(event.key()))
        if step is not None and self._places:
            # the table repeats the parts of the bars
            count = len(self._places) // 2
            start = self._places.index(self._current) if self._current is not None else min(0, -step)
            self._mark(self._places[(start + step) % count])
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and self._current:
            self.chosen.emit(self._current.part)
        else:
            super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._mark(None)

    def _mark(self, place: PartPlace | None) -> None:
        if place != self._current:
            self._current = place
            self.setAccessibleDescription(self._drawing.description if place is None else self.tip(place))
            self.update()

    def _draw(self) -> None:
        if not self._timing.profiles():
            return
        width = max(_LEAST_WIDTH, self.width())
        self._drawing = bars_drawing(self._timing, width)
        self._places = part_places(self._timing, width)
        self._current = None
        self.setAccessibleDescription(self._drawing.description)
        self.setFixedHeight(round(self._drawing.height))
        self.update()


class BarsView(QWidget):
    """The bars. `part_chosen` carries the `StepPart` that was clicked, `wanted` asks for a profile."""

    part_chosen = Signal(object)
    wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.empty = EmptyState(*_NOTHING_YET)
        self.empty.pressed.connect(self.wanted)
        self.bars = _Bars()
        self.bars.chosen.connect(self.part_chosen)
        self._area = QScrollArea()
        self._area.setWidgetResizable(True)
        self._area.setAccessibleName("Bars")
        self._area.setWidget(self.bars)
        self._pages = QStackedLayout(self)
        self._pages.addWidget(self.empty)
        self._pages.addWidget(self._area)

    def show_timing(self, timing: Timing | None) -> None:
        """Shows the bars of a timing; None for what they would answer."""
        if timing is not None and timing.profiles():
            self.bars.show_timing(timing)
            self._pages.setCurrentWidget(self._area)
        else:
            self._pages.setCurrentWidget(self.empty)
