"""The live race, painted as one design of fixed pixels that is scaled to the widget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QElapsedTimer, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.drawing.blocks import BlockGrid, Tiles
from engine.protocol.pictures import patterns
from engine.words.numbers import linear_ticks, times
from gui.charts.blocks import paint_blocks
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.train.race import LiveLane, Scene
from gui.widgets.markers import draw_marker
from resources.looks import MarkFill

WIDTH, HEIGHT, _LOW_HEIGHT = 1088.0, 512.0, 324.0
_LEAST_TEXT = 9.5
"""The least size of text on the screen, in pixels."""
_MARGIN, _RIGHT = 24.0, 1064.0
_TOPS, _HEADS = (50.0, 412.0), (12.0, 374.0)
_ROWS_LEFT, _ROWS_WIDTH, _ROWS_COUNT, _ROW_TOP, _ROW = 242.0, 640.0, 980.0, 18.0, 38.0
_BELOW_ROWS = 230.0
"""The height of number and growth."""
_NUMBER_LEFT, _NUMBER_TOP, _NUMBER_WIDTH, _CAPTION = 14.0, 128.0, 570.0, 614.0
_COLUMNS, _GAP, _COUNTER = 50, 2.8, 190.0
_SPOKEN_MS = 5_000
"""More often, a screen reader would never come to the end of the sentence."""
_TILES = 100


@dataclass(frozen=True)
class LaneLayout:
    """Where a lane's blocks are, in design pixels: columns of `rows` blocks, filled down, then right."""

    left: float
    top: float
    width: float
    rows: int
    down: float = 30.0

    @property
    def bottom(self) -> float:
        return self.top + self.rows * self.down - _GAP

    def x(self, fraction: float) -> float:
        """Return the x that a run has reached with that fraction of the samples."""
        return self.left + fraction * self.width

    def blocks(self, lane: LiveLane, tiles: Tiles) -> BlockGrid:
        """Return the lane's blocks, as far as its own training goes."""
        columns, ink = max(1, round(_COLUMNS * min(lane.end, 1.0))), lane.precision.value
        width, height = self.width / _COLUMNS - _GAP, self.down - _GAP
        unlit = "bg2" if lane.tag in ("live", "next") else f"{ink}-tint"
        lit = min(lane.fraction * _COLUMNS, columns) * self.rows
        return BlockGrid(
            self.left + _GAP / 2, self.top, columns, self.rows, width, height, _GAP, ink, tiles, lit, unlit
        )


def text_tiles(count: int, side: int = 32) -> NDArray[np.uint8]:
    """Return gray tiles of lines like text, for data without images. They are the same at each call."""
    generator = np.random.default_rng(1)
    tiles = np.full((count, side, side), 60, np.uint8)
    for tile in tiles:
        for top in range(4, side - 3, 6):
            tile[top : top + 3, 7 : int(generator.integers(side // 2, side - 6))] = 255
    return tiles


class LiveRaceView(QWidget):
    """Shows a scene of the live race. Only what moves is painted anew."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scene: Scene | None = None
        self._is_low = False
        self._images: NDArray[np.uint8] | None = None
        self._still: QPixmap | None = None
        self._still_key: object = None
        self._slow_pixmap, self._slow_key = QPixmap(), tuple[object, ...]()
        self._places: tuple[LaneLayout, ...] = ()
        self._tiles: Tiles | None = None
        self._since_spoken = QElapsedTimer()
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Expanding)
        # its own ground covers all of it
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName("Live race")
        theme().changed.connect(self._repaint)

    def set_low(self, is_low: bool) -> None:
        """Give each side a single row, in a low window."""
        if is_low != self._is_low:
            self._is_low = is_low
            self.updateGeometry()
            self._repaint()

    def set_images(self, images: NDArray[np.uint8] | None) -> None:
        """Set the training images, gray, of shape (count, side, side). None for data without images."""
        self._images = images if images is not None and len(images) else None
        self._tiles = None
        self._repaint()

    def show_scene(self, scene: Scene) -> None:
        """Show another moment."""
        before, self.scene = self.scene, scene
        is_new = before is None or (before.number == "") != (scene.number == "")
        if is_new or not self._since_spoken.isValid() or self._since_spoken.elapsed() > _SPOKEN_MS:
            self._since_spoken.start()
            self.setAccessibleDescription(scene.spoken)
        if before is None or len(before.lanes) != len(scene.lanes):
            self.updateGeometry()
        self.update()

    @property
    def _has_rows(self) -> bool:
        return self._is_low or (self.scene is not None and len(self.scene.lanes) > 2)

    @property
    def _height(self) -> float:
        """The height of the design."""
        if not self._has_rows or self.scene is None:
            return HEIGHT
        return min(HEIGHT, _LOW_HEIGHT + _ROW * max(0, len(self.scene.lanes) - 2)) if self._is_low else HEIGHT

    def height_for(self, width: int) -> int:
        """Return the height at which the design fills that width."""
        return round(self._height * width / WIDTH)

    def sizeHint(self) -> QSize:
        return QSize(round(WIDTH), round(self._height * min(1.0, self.width() / WIDTH)))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, round(0.55 * _LOW_HEIGHT))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._repaint()

    def paintEvent(self, event: QPaintEvent) -> None:
        scene = self.scene
        if scene is None:
            return
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._slow(scene))
        self._place(painter)
        ink = _Ink(painter)
        for place, lane in zip(self._places, scene.lanes, strict=True):
            paint_blocks(painter, place.blocks(lane, self._tiles_of(scene)))
            self._paint_words(ink, lane, place, is_behind=lane.is_live and _is_behind(scene))
        if scene.mark is not None and not self._has_rows:
            self._paint_mark(ink, scene)
        self._paint_line(ink, scene)
        painter.end()

    def _slow(self, scene: Scene) -> QPixmap:
        """Return the parts of the scene that change at most twice a second, including the number and its
        chart.
        """
        still, standing = self._painted(scene), scene.standing
        key = (still.cacheKey(), scene.number, scene.title, standing and int(2 * standing.now.seconds))
        if key != self._slow_key:
            self._slow_key, self._slow_pixmap = key, QPixmap(still)
            painter = QPainter(self._slow_pixmap)
            self._place(painter)
            self._paint_number(_Ink(painter), scene)
            painter.end()
        return self._slow_pixmap

    @property
    def _scale(self) -> float:
        return min(self.width() / WIDTH, self.height() / self._height)

    def _place(self, painter: QPainter) -> None:
        scale = self._scale
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate((self.width() - WIDTH * scale) / 2, (self.height() - self._height * scale) / 2)
        painter.scale(scale, scale)

    def _repaint(self) -> None:
        self._still = None
        self.update()

    def _place_of(self, number: int, count: int) -> LaneLayout:
        if not self._has_rows:
            return LaneLayout(_MARGIN, _TOPS[number], _RIGHT - _MARGIN, 2)
        pitch = min(_ROW if self._is_low else 1.25 * _ROW, (self._height - _ROW_TOP - _BELOW_ROWS) / count)
        return LaneLayout(_ROWS_LEFT, _ROW_TOP + number * pitch, _ROWS_WIDTH, 1, min(28.0, pitch - 2))

    def _painted(self, scene: Scene) -> QPixmap:
        ratio = self.devicePixelRatioF()
        key = (ratio, [(lane.precision, lane.name, lane.tag) for lane in scene.lanes])
        if self._still is None or key != self._still_key:
            self._still_key = key
            palette = theme().palette
            self._still = QPixmap(self.size() * ratio)
            self._still.setDevicePixelRatio(ratio)
            self._still.fill(QColor(palette.bg0))
            painter = QPainter(self._still)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(palette.line), 1))
            painter.setBrush(QColor(palette.bg1))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 12, 12)
            self._place(painter)
            count = len(scene.lanes)
            self._places = tuple(self._place_of(number, count) for number in range(count))
            for number, (lane, place) in enumerate(zip(scene.lanes, self._places, strict=True)):
                self._paint_head(_Ink(painter), lane, place, number)
            painter.end()
        return self._still

    def _tiles_of(self, scene: Scene) -> Tiles:
        if self._tiles is None:
            substitute = text_tiles if scene.unit == "sequences" else patterns
            self._tiles = Tiles(substitute(_TILES) if self._images is None else self._images)
        return self._tiles

    def _paint_head(self, ink: _Ink, lane: LiveLane, place: LaneLayout, number: int) -> None:
        palette, look = theme().palette, theme().palette.look(lane.precision)
        size, level = (14, place.top + place.down / 2) if self._has_rows else (18, _HEADS[number] + 14)
        fill: MarkFill = "hollow" if lane.tag == "next" else "full"
        draw_marker(ink.painter, QPointF(_MARGIN + 8, level), lane.precision, 12, fill=fill)
        left = _MARGIN + 26
        end = _ROWS_LEFT - 12 if self._has_rows else _RIGHT - _COUNTER
        room = end - left - ink.width(lane.tag, 11, 500) - (34 if lane.is_live else 26)
        name = _metrics(size, 600).elidedText(lane.name, Qt.TextElideMode.ElideRight, room)
        left += ink.write(left, level + 0.36 * size, name, size, 600) + 10
        dot = 12.0 if lane.is_live else 0.0
        tag = QRectF(left + 0.5, level - 8.5, ink.width(lane.tag, 11, 500) + 12 + dot, 18)
        ink.painter.setPen(QPen(QColor(look.color if lane.is_live else palette.line2), 1))
        ink.painter.setBrush(QColor(look.tint) if lane.is_live else Qt.BrushStyle.NoBrush)
        ink.painter.drawRoundedRect(tag, 4, 4)
        if lane.is_live:
            ink.painter.setPen(Qt.PenStyle.NoPen)
            ink.painter.setBrush(QColor(look.color))
            ink.painter.drawEllipse(QPointF(left + 9.5, level + 0.5), 3, 3)
        ink.write(left + 6.5 + dot, level + 4.5, lane.tag, 11, 500, "text" if lane.is_live else "text2")

    def _paint_words(self, ink: _Ink, lane: LiveLane, place: LaneLayout, *, is_behind: bool) -> None:
        color = theme().palette.look(lane.precision).color
        if not lane.count:
            return
        if self._has_rows:
            level = place.top + place.down / 2 + 6
            right = _ROWS_COUNT if len(self._places) > 2 else _RIGHT
            ink.write(right, level, lane.count, 18, 600, color, "end")
            if lane.ratio:
                ink.write(_RIGHT, level, lane.ratio, 16, 600, "text", "end")
        else:
            level = place.top - 18
            unit = ink.width(self._unit, 13)
            ink.write(_RIGHT, level, self._unit, 13, 400, "text2", "end")
            ink.write(_RIGHT - unit - 10, level, lane.count, 26, 600, color, "end")
            below = place.bottom + 21
            ink.write(_RIGHT, below, lane.end_words, 12, 400, "text3", "end")
            ink.line(
                (place.x(lane.end) - 0.5, place.top - 6, place.x(lane.end) - 0.5, place.bottom + 6), "text3"
            )
            has_room = place.x(lane.fraction) - 6 - ink.width(lane.step, 12, 500) >= _MARGIN
            is_right = not is_behind if lane.is_live else not has_room
            _beside(ink, lane, place.x(lane.fraction), below, lane.step, color, is_right, 500)
        x = place.x(lane.fraction)
        reach = 4 if self._has_rows else 7
        ink.line((x, place.top - reach, x, place.bottom + reach), color, 2)

    def _paint_mark(self, ink: _Ink, scene: Scene) -> None:
        mark = scene.mark
        assert mark is not None
        live, other = scene.lanes[mark.live], scene.lanes[mark.recorded]
        if not live.count or not other.count:
            return
        place, palette = self._places[mark.live], theme().palette
        x, now, color = place.x(other.fraction), place.x(live.fraction), palette.look(other.precision).color
        ends = (x, place.top - 7, x, place.bottom + 7)
        ink.line(ends, "bg1", 5)
        ink.line(ends, color, 2, (2.0, 1.5))
        _beside(ink, live, x, place.bottom + 21, mark.words, color, _is_behind(scene))
        # not beyond the counter
        left, right = min(x, now), min(max(x, now), _RIGHT - _COUNTER)
        room, level = ink.width(mark.ahead, 13, 600) + 20, place.top - 12.5
        if not mark.ahead or right - left < room + 16:
            return
        middle = (left + right) / 2
        ink.write(middle, level + 4.5, mark.ahead, 13, 600, "text", "middle")
        for at in {x, now} & {left, right}:
            ink.line((at, level - 4, at, level + 3), "text3")
        ink.line((left, level, middle - room / 2, level), "text3")
        ink.line((middle + room / 2, level, right, level), "text3")

    @property
    def _unit(self) -> str:
        return "" if self.scene is None else self.scene.unit

    @property
    def _top(self) -> float:
        """The top of the number."""
        if not self._has_rows:
            return _NUMBER_TOP
        bottom = self._places[-1].bottom + 6
        return bottom + (self._height - bottom - _BELOW_ROWS) / 2

    def _paint_number(self, ink: _Ink, scene: Scene) -> None:
        if scene.number:
            self._paint_large(ink, scene.number, self._top + 179.7)
        ink.write(_CAPTION if scene.number else _MARGIN, self._top + 56, scene.title, 38, 600)
        if scene.standing is not None:
            _Growth(ink, scene, _CAPTION, self._top + 110).paint()

    def _paint_line(self, ink: _Ink, scene: Scene) -> None:
        left, top = _CAPTION if scene.number else _MARGIN, self._top
        if scene.number:
            size = 26 if ink.width("".join(scene.line), 26, 500) <= _RIGHT - left else 18
            done = ink.write(left, top + 91, scene.line[0], size, 500, "text2")
            ink.write(left + done, top + 91, scene.line[1], size, 500)
        else:
            ink.wrap(QRectF(left, top + 66, _RIGHT - left, 110), scene.line[0], 22, 500, "text2")

    def _paint_large(self, ink: _Ink, words: str, base: float) -> None:
        painter, face = ink.painter, QFont(_face(208, 700))
        face.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, -7)
        digits = words.removesuffix("×")
        width = QFontMetricsF(face).horizontalAdvance(digits)
        cross = 16 + ink.width("×", 168, 600) if digits != words else 0.0
        shrink = min(1.0, _NUMBER_WIDTH / (width + cross))
        painter.save()
        painter.translate(_NUMBER_LEFT, base)
        painter.scale(shrink, shrink)
        painter.setFont(face)
        painter.setPen(QColor(theme().palette.text))
        painter.drawText(QPointF(0, 0), digits)
        if cross:
            ink.write(width + 16, -4, "×", 168, 600)
        painter.restore()


def _is_behind(scene: Scene) -> bool:
    mark = scene.mark
    return mark is not None and scene.lanes[mark.recorded].fraction > scene.lanes[mark.live].fraction


def _beside(
    ink: _Ink,
    lane: LiveLane,
    x: float,
    base: float,
    words: str,
    color: str,
    is_right: bool,
    weight: int = 400,
) -> None:
    """Write words right or left of `x`, where they fit between the lane's start and the words at its end."""
    width, end = ink.width(words, 12, weight), _RIGHT - ink.width(lane.end_words, 12) - 16
    left = x + 6 if is_right else x - 6 - width
    if left >= _MARGIN and left + width <= end:
        ink.write(left, base, words, 12, weight, color)


class _Growth:
    """The ratio over the clock, 450 x 112 design pixels: its 95% interval, and a dotted forecast."""

    _AXIS, _LEFT, _HIGH = 72.6, 346.0, 10.0

    def __init__(self, ink: _Ink, scene: Scene, left: float, top: float) -> None:
        standing = scene.standing
        assert standing is not None
        self._ink, self._scene, self._standing = ink, scene, standing
        self._left, self._top = left, top
        # all of it, and of the band what is known now: at first it is as wide as it likes
        known = [point.ratio for point in standing.points] + [ratio for _, ratio in standing.forecast]
        self._low, self._most = min(1.0, standing.now.low, *known), max(1.0, standing.now.high, *known)
        reach = 0.1 * max(self._most - self._low, 0.02)
        self._low, self._most = self._low - (reach if self._low < 1 else 0), self._most + reach

    def _at(self, seconds: float, ratio: float) -> QPointF:
        share = (min(max(ratio, self._low), self._most) - self._low) / (self._most - self._low)
        x = self._left + self._LEFT * seconds / self._standing.seconds
        return QPointF(x, self._top + self._AXIS - share * (self._AXIS - self._HIGH))

    def paint(self) -> None:
        """Paint axis, band, line and forecast."""
        ink, standing, palette = self._ink, self._standing, theme().palette
        painter, axis = ink.painter, self._top + self._AXIS
        one = self._at(0, 1.0).y()
        ink.line((self._left, one, self._left + self._LEFT, one), "line2")
        after = self._left + self._LEFT + 8
        final = standing.forecast[-1] if standing.forecast else standing.now[:2]
        level = self._at(*final).y() + 4
        apart = abs(one + 4 - level)
        label = f"{times(final[1])}×{' forecast' if standing.forecast else ''}"
        ink.write(after, level if apart > 14 else one - 10, label, 11, 500, "text2")
        ink.write(after, one + 4, f"1.00× = {self._scene.baseline}"[:22], 11, 400, "text3")
        points = standing.points
        edges = [self._at(point.seconds, point.high) for point in points]
        edges += [self._at(point.seconds, point.low) for point in reversed(points)]
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(palette.bg3))
        painter.drawPolygon(QPolygonF(edges))
        ink.curve([self._at(point.seconds, point.ratio) for point in points], "text")
        ink.curve([self._at(*place) for place in standing.forecast], "text2", (1.0, 2.5))
        painter.setPen(QPen(QColor(palette.bg1), 1))
        painter.setBrush(QColor(palette.text))
        painter.drawEllipse(self._at(standing.now.seconds, standing.now.ratio), 5, 5)
        ticks = linear_ticks(0.0, standing.seconds, 6)
        for tick in ticks:
            x, is_last = self._at(tick.position, 1.0).x(), tick is ticks[-1]
            anchor = "start" if tick.position == 0 else "middle"
            ink.write(x, axis + 20, f"{tick.text} s" if is_last else tick.text, 11, 400, "text3", anchor)
        now = f"{times(standing.now.low)} to {times(standing.now.high)}"
        ink.write(self._left, axis + 38, f"ratio with its 95% interval, now {now}", 11, 400, "text3")


class _Ink:
    """Writes and draws in the theme's colors, in design pixels, with no text too small to read."""

    def __init__(self, painter: QPainter) -> None:
        self.painter = painter
        self._least = math.ceil(_LEAST_TEXT / painter.worldTransform().m11())

    def width(self, words: str, size: int, weight: int = 400) -> float:
        return _metrics(max(size, self._least), weight).horizontalAdvance(words)

    def write(
        self,
        x: float,
        base: float,
        words: str,
        size: int,
        weight: int = 400,
        color: str = "text",
        anchor: str = "start",
    ) -> float:
        """Write words on the line `base`, and return their width. `color` is a token or "#RRGGBB"."""
        width = self.width(words, size, weight)
        self.painter.setFont(_face(max(size, self._least), weight))
        self.painter.setPen(_color(color))
        self.painter.drawText(
            QPointF(x - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * width, base), words
        )
        return width

    def wrap(self, room: QRectF, words: str, size: int, weight: int, color: str) -> None:
        self.painter.setFont(_face(size, weight))
        self.painter.setPen(_color(color))
        self.painter.drawText(room, Qt.TextFlag.TextWordWrap, words)

    def line(
        self,
        ends: tuple[float, float, float, float],
        color: str,
        width: float = 1,
        dash: Sequence[float] = (),
    ) -> None:
        self.painter.setPen(_pen(color, width, dash))
        left, top, right, bottom = ends
        self.painter.drawLine(QPointF(left, top), QPointF(right, bottom))

    def curve(self, points: Sequence[QPointF], color: str, dash: Sequence[float] = ()) -> None:
        self.painter.setPen(_pen(color, 2, dash))
        self.painter.drawPolyline(QPolygonF(list(points)))


def _pen(color: str, width: float, dash: Sequence[float]) -> QPen:
    pen = QPen(_color(color), width)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    if dash:
        pen.setDashPattern(list(dash))
    return pen


def _color(name: str) -> QColor:
    return QColor(name if name.startswith("#") else getattr(theme().palette, name))


@lru_cache(maxsize=32)
def _face(size: int, weight: int) -> QFont:
    return font(size, weight, display=size >= 18)


@lru_cache(maxsize=32)
def _metrics(size: int, weight: int) -> QFontMetricsF:
    return QFontMetricsF(_face(size, weight))
