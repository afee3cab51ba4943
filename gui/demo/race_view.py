"""The card of a replay, painted by Qt as large as the widget, and its buttons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import cast

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSizeF, Qt
from PySide6.QtGui import (
    QColor,
    QImage,
    QKeyEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QLabel, QWidget

from engine.drawing.bitmap import Painter
from engine.drawing.blocks import Blocks
from engine.drawing.chart_parts import Rect
from engine.drawing.shapes import Drawing, Shape, Words, ink_color
from engine.race.card import Card, race_card
from engine.race.parts import DIGIT_WEIGHT, MEASURED_AT, Metrics, Part
from engine.race.scene import Instant, Scene
from gui.charts.painter import paint, words_width
from gui.demo.scale import DemoButton, Scale, explained, stage_sizes
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets.boxes import Stretch, in_row
from gui.widgets.labels import plain_tip
from resources.looks import Palette

_SURE = "Show how certain this number is, and reasons to doubt it"
_DOUBTS = "Show all reasons to doubt these numbers"
_AROUND = 4
"""Pixels by which letters may extend beyond their part."""


@lru_cache(maxsize=32)
def _edges(figure: str) -> tuple[float, float]:
    path = QPainterPath()
    path.addText(QPointF(0.0, 0.0), font(MEASURED_AT, DIGIT_WEIGHT, display=True), figure)
    outline = path.boundingRect()
    return outline.left() / MEASURED_AT, outline.right() / MEASURED_AT


METRICS = Metrics(lru_cache(maxsize=4096)(words_width), _edges)
"""Of the window's fonts."""


class RaceView(QWidget):
    """Paints a replay at one point in time. Only parts that changed are repainted.

    The page connects the buttons: `number` and `certainty` explain how certain the ratio is, `more` shows all
    doubts, and `again` repeats a disturbed measurement.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scene: Scene | None = None
        self.card: Card | None = None
        self.instant: Instant | None = None
        self._scale = Scale()
        self._moving: list[tuple[Shape, ...]] = []
        self._still: QPixmap | None = None
        self._lanes: tuple[PaintedLane, ...] = ()
        self._labels: list[QLabel] = []
        self.number = _NumberButton("", "showLink", _SURE, parent=self)
        self.certainty = DemoButton("", "showLink", _SURE, parent=self)
        self._row = QWidget(self)
        self.more = DemoButton("", "showLink", _DOUBTS)
        self.again = DemoButton("Measure again", "show", "Train both again, one after the other")
        self._spaces = in_row(self.more, self.again, Stretch(1), parent=self._row)
        theme().changed.connect(self._repaint)

    def set_scale(self, scale: Scale) -> None:
        self._scale = scale
        for button in (self.certainty, self.more, self.again):
            button.set_scale(scale)
        self._spaces.setSpacing(scale.px(12))
        self._lay_out()

    def show_scene(self, scene: Scene, instant: Instant, certainty: str = "") -> None:
        """Show another scene. `certainty` is the text of the link below the number, or ""."""
        self.scene, self.instant = scene, instant
        self.certainty.set_words(certainty, _SURE)
        self.again.setVisible(scene.is_spoiled)
        others = len(scene.doubts) - 1
        self.more.set_words(f"and {others} more" if others > 0 else "More", _DOUBTS)
        self._lay_out()
        self.announce()

    def show_instant(self, instant: Instant) -> None:
        """Show another instant of the scene."""
        before, self.instant, card = self.instant, instant, self.card
        if card is None or before is None:
            return
        for place, part in enumerate(card.parts):
            shapes = part.moving(instant)
            if shapes != self._moving[place]:
                self._moving[place] = shapes
                self.update(_around(part))
        for lane, old, new in zip(self._lanes, before.counts, instant.counts, strict=False):
            for rect in lane.changed(old.blocks, new.blocks):
                self.update(rect)
        self._show_number()

    def announce(self) -> None:
        """Update the text for screen readers. At each instant it would never be read to its end."""
        if self.card is None or self.instant is None:
            return
        for told, part in zip(self._labels, self.card.parts, strict=True):
            words = part.words(self.instant)
            if told.accessibleName() != words:
                told.setAccessibleName(words)
        self.number.setAccessibleName(self.instant.spoken)

    def words(self) -> str:
        """Return all text on the card."""
        return "" if self.card is None or self.instant is None else self.card.words(self.instant)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._lay_out()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out()

    def paintEvent(self, event: QPaintEvent) -> None:
        card, instant = self.card, self.instant
        if card is None or instant is None:
            return
        still, region = self._painted(card), event.region()
        painter = QPainter(self)
        ratio = self.devicePixelRatioF()
        # each by itself: a clip of many rectangles is slow
        for rect in map(QRectF, cast(Iterable[QRect], region)):
            painter.drawPixmap(rect, still, QRectF(rect.topLeft() * ratio, rect.size() * ratio))
            for lane, count in zip(self._lanes, instant.counts, strict=True):
                lane.paint_lit(painter, count.blocks, rect)
        for part, shapes in zip(card.parts, self._moving, strict=True):
            if shapes and region.intersects(_around(part)):
                paint(painter, Drawing(self.width(), self.height(), shapes))
        painter.end()

    def _lay_out(self) -> None:
        self._still = None
        if self.scene is None or self.instant is None:
            return
        ratio = self.devicePixelRatioF()
        sizes = replace(
            stage_sizes(self.size(), self._scale),
            metrics=METRICS,
            snap=lambda place: round(place * ratio) / ratio,
        )
        self.card = race_card(self.scene, sizes=sizes)
        self._moving = [part.moving(self.instant) for part in self.card.parts]
        self._place_labels(self.card.parts, self.scene.end)
        self._place_buttons(self.card.parts)
        self.update()

    def _place_labels(self, parts: Sequence[Part], end: Instant) -> None:
        while len(self._labels) < len(parts):
            told = QLabel(self)
            told.lower()
            told.show()
            self._labels.append(told)
        while len(self._labels) > len(parts):
            self._labels.pop().deleteLater()
        for told, part in zip(self._labels, parts, strict=True):
            told.setGeometry(_rect(part.area).intersected(self.rect()))
            words = part.words(end)
            is_cut = any(isinstance(shape, Words) and shape.text.endswith("…") for shape in part.still)
            told.setToolTip(plain_tip("\n".join(filter(None, (words if is_cut else "", explained(words))))))

    def _place_buttons(self, parts: Sequence[Part]) -> None:
        places = {name: _rect(rect) for part in parts for name, rect in part.places.items()}
        self._row.setVisible("doubts" in places)
        if "doubts" in places:
            self._row.setGeometry(places["doubts"])
        self.number.setGeometry(places["number"])
        link = places["certainty"]
        link.setWidth(min(self.certainty.sizeHint().width(), link.width()))
        self.certainty.setGeometry(link)
        self.certainty.setVisible(bool(self.certainty.text()))
        self._show_number()

    def _show_number(self) -> None:
        number = None if self.instant is None else self.instant.number
        self.number.setVisible(number is not None)
        self.number.setEnabled(bool(number))

    def _painted(self, card: Card) -> QPixmap:
        if self._still is None:
            palette, ratio = theme().palette, self.devicePixelRatioF()
            self._still = QPixmap((QSizeF(self.size()) * ratio).toSize())
            self._still.fill(QColor(ink_color(palette, card.ground)))
            self._still.setDevicePixelRatio(ratio)
            self._lanes = tuple(PaintedLane(blocks, card.ground, palette, ratio) for blocks in card.lanes)
            painter = QPainter(self._still)
            paint(painter, card.still())
            for lane in self._lanes:
                lane.paint_unlit(painter)
            painter.end()
        return self._still

    def _repaint(self) -> None:
        self._still = None
        self.update()


class _NumberButton(DemoButton):
    """The clickable area of the number on the card. Only its focus ring is painted."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.hasFocus():
            painter = QPainter(self)
            painter.setPen(QColor(theme().palette.text3))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
            painter.end()


def _rect(rect: Rect) -> QRect:
    return QRect(round(rect.left), round(rect.top), round(rect.width), round(rect.height))


def _around(part: Part) -> QRect:
    return _rect(part.moves or part.area).adjusted(-_AROUND, -_AROUND, _AROUND, _AROUND)


class PaintedLane:
    """Paints the row of blocks that shows one run's progress: finished blocks are lit, the others unlit.

    All blocks are painted once unlit and once lit, on the color `ground`. Drawing any number of lit blocks
    then only copies parts of these two images.
    """

    def __init__(self, blocks: Blocks, ground: str, palette: Palette, ratio: float = 1.0) -> None:
        self.blocks, self.ratio = blocks, ratio
        self._corner = QRect(*blocks.rect(0, ratio)).topLeft()
        self._unlit, self._lit = (self._painted(lit, ground, palette) for lit in (0, blocks.grid.count))

    def paint_unlit(self, painter: QPainter) -> None:
        """Paint all blocks, unlit."""
        whole = QRectF(self._unlit.rect())
        corner = self._corner.toPointF() / self.ratio
        painter.drawPixmap(QRectF(corner, whole.size() / self.ratio), self._unlit, whole)

    def paint_lit(self, painter: QPainter, count: int, exposed: QRectF) -> None:
        """Paint the first `count` blocks lit, within the exposed part of the widget."""
        within = QRectF(exposed.topLeft() * self.ratio, exposed.size() * self.ratio).toAlignedRect()
        for rect in self.covered(0, count):
            part = rect.intersected(within)
            if not part.isEmpty():
                source = QRectF(part.translated(-self._corner))
                painter.drawPixmap(self._on_widget(part), self._lit, source)

    def changed(self, before: int, now: int) -> Iterator[QRect]:
        """Return the rectangles that change when `now` blocks are lit instead of `before`."""
        for rect in self.covered(*sorted((before, now))):
            yield self._on_widget(rect).toAlignedRect()

    def covered(self, first: int, end: int) -> Iterator[QRect]:
        """Return at most three rectangles that contain exactly the blocks from `first` to before `end`."""
        rows = self.blocks.grid.rows
        while first < end:
            row = first % rows
            last = end - end % rows if row == 0 and end - first >= rows else min(end, first + rows - row)
            yield self._rect(first).united(self._rect(last - 1))
            first = last

    def _rect(self, number: int) -> QRect:
        return QRect(*self.blocks.rect(number, self.ratio))

    def _on_widget(self, rect: QRect) -> QRectF:
        return QRectF(rect.toRectF().topLeft() / self.ratio, rect.toRectF().size() / self.ratio)

    def _painted(self, lit: int, ground: str, palette: Palette) -> QPixmap:
        left, top = self._corner.x() / self.ratio, self._corner.y() / self.ratio
        at_corner = replace(self.blocks, x=self.blocks.x - left, y=self.blocks.y - top, lit=lit)
        grid = self.blocks.grid
        drawing = Drawing(max(grid.columns * grid.across, 1.0), max(grid.rows * grid.down, 1.0), ())
        painter = Painter.blank(drawing, ground, palette, self.ratio)
        painter.paint_blocks(at_corner)
        (width, height), pixels = painter.image.size, painter.image.tobytes()
        # converted once, and not at each frame; Qt copies the bytes
        image = QImage(pixels, width, height, 3 * width, QImage.Format.Format_RGB888)
        return QPixmap.fromImage(image.convertToFormat(QImage.Format.Format_RGB32))
