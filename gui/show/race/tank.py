"""The two memory tanks of the race, side by side, filled as far as the race has come."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.experiment.experiment import Precision
from engine.words.numbers import memory_text
from gui.show.race.tank_parts import DESIGN, TankLayers, TankPlan, measured, tank_layers
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets import draw_marker
from resources.looks import MarkFill, Palette

NOT_MEASURED = "not measured"
LEFT_FREE = "left free"


class TanksView(QWidget):
    """Full precision at the left, mixed at the right, on one scale; what one leaves free is hatched."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._looks: tuple[tuple[Precision, MarkFill], ...] = (
            (Precision.FP32, "full"),
            (Precision.FP16, "full"),
        )
        self._names = ("Full", "Mixed")
        self._peaks: tuple[float | None, float | None] = (None, None)
        self._absent = NOT_MEASURED
        self._fill, self._is_final = 1.0, True
        self._layers: tuple[TankLayers, ...] = ()
        self._layers_of: tuple[object, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName("Memory used at its highest point")
        theme().changed.connect(self.update)

    @property
    def fill(self) -> float:
        return self._fill

    def set_looks(
        self,
        full: Precision,
        mixed: Precision,
        fills: tuple[MarkFill, MarkFill] = ("full", "full"),
        names: tuple[str, str] = ("Full", "Mixed"),
    ) -> None:
        """The colours of the two, and the names below them."""
        self._looks, self._names = ((full, fills[0]), (mixed, fills[1])), names
        self._describe()
        self.update()

    def set_peaks(self, full_mib: float | None, mixed_mib: float | None) -> None:
        """The measured peaks in MiB; None for one that was not measured."""
        self._peaks = (measured(full_mib), measured(mixed_mib))
        self._describe()
        self.update()

    def set_absent(self, words: str) -> None:
        """What stands in the place of a peak that there is none of."""
        if words != self._absent:
            self._absent = words
            self._describe()
            self.update()

    def set_final(self, is_final: bool) -> None:
        """Whether the peaks will stay as they are."""
        self._is_final = is_final
        self.update()

    def set_fill(self, fraction: float) -> None:
        """Fills both as far as this part of their peaks, 0 to 1."""
        fraction = min(max(fraction, 0.0), 1.0)
        if fraction != self._fill:
            self._fill = fraction
            self.update()

    def sizeHint(self) -> QSize:
        return DESIGN.toSize()

    def minimumSizeHint(self) -> QSize:
        return QSize(110, 140)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self.update()
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        plan, palette = self._plan(), theme().palette
        layers = self._painted(plan)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for which in (0, 1):
            self._draw_tank(painter, plan, which, layers[which])
        _draw_line(painter, plan, palette)
        for which in (0, 1):
            self._draw_label(painter, plan, which, palette)
            self._draw_name(painter, plan, which, palette)
        self._draw_note(painter, plan, palette)
        painter.end()

    def _plan(self) -> TankPlan:
        ratio = self.devicePixelRatioF()
        return TankPlan(
            QSizeF(self.size()),
            self._peaks,
            self._fill,
            lambda y: round(y * ratio) / ratio,
            self._is_final,
        )

    def _painted(self, plan: TankPlan) -> tuple[TankLayers, ...]:
        palette, ratio, size = theme().palette, self.devicePixelRatioF(), plan.tanks[0].size()
        wanted = (size, plan.scale, ratio, palette.name, self._looks)
        if wanted != self._layers_of:
            self._layers = tuple(
                tank_layers(size, plan.scale, ratio, palette, precision, fill)
                for precision, fill in self._looks
            )
            self._layers_of = wanted
        return self._layers

    def _draw_tank(self, painter: QPainter, plan: TankPlan, which: int, layers: TankLayers) -> None:
        tank, level = plan.tanks[which], plan.level(which)
        spared = plan.spared_rect() if plan.lower == which else None
        free = spared.top() if spared is not None else level
        ratio = self.devicePixelRatioF()
        for layer, top, bottom in (
            (layers.empty, tank.top(), free),
            (layers.hatched, free, level),
            (layers.filled, level, tank.bottom()),
        ):
            if bottom > top:
                source = QRectF(0, top * ratio, tank.width() * ratio, (bottom - top) * ratio)
                painter.drawPixmap(QPointF(tank.left(), top), layer, source)

    def _draw_label(self, painter: QPainter, plan: TankPlan, which: int, palette: Palette) -> None:
        # the peak from the start: what is reached by now is how far the replay is, and was never measured
        peak, tank = plan.peaks_mib[which], plan.tanks[which]
        if peak is None:
            painter.setPen(QColor(palette.text3))
            room = tank.adjusted(4, 0, -4, 0)
            painter.setFont(_fitting(self._absent.split()[-1], plan.text_px(14), 400, room.width()))
            flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(room, flags, self._absent)
            return
        rect = plan.label_rect(which)
        if plan.lower == which:
            _draw_plate(painter, rect, plan, palette)
        words, precision = memory_text(peak), self._looks[which][0]
        painter.setFont(_fitting(words, plan.text_px(18), 600, rect.width()))
        painter.setPen(QColor(palette.look(precision).color))
        painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, words)

    def _draw_note(self, painter: QPainter, plan: TankPlan, palette: Palette) -> None:
        rect = plan.note_rect()
        if rect is None:
            return
        _draw_plate(painter, rect, plan, palette)
        words = (plan.spared_text, LEFT_FREE)
        half = QRectF(rect.left(), rect.top() + rect.height() * 0.1, rect.width(), rect.height() * 0.45)
        for text, size, weight, ink in (
            (words[0], 16, 600, palette.text),
            (words[1], 12, 400, palette.text2),
        ):
            painter.setFont(_fitting(text, plan.text_px(size), weight, rect.width() - 4))
            painter.setPen(QColor(ink))
            painter.drawText(half, Qt.AlignmentFlag.AlignCenter, text)
            half.translate(0, rect.height() * 0.36)

    def _draw_name(self, painter: QPainter, plan: TankPlan, which: int, palette: Palette) -> None:
        rect, (precision, fill) = plan.name_rect(which), self._looks[which]
        px = plan.text_px(14)
        mark, gap = px * 0.75, px * 0.6
        lines = _lines(self._names[which], px, rect.width() - mark - gap)
        if len(lines) > 1:
            # to the middle between the tanks, where there is room to spare
            spare = (plan.tanks[1].left() - plan.tanks[0].right()) / 2 - 1
            rect = rect.adjusted(-spare * which, 0, spare * (1 - which), 0)
            px, mark, gap = round(px * 0.85), mark * 0.85, gap * 0.6
        room = rect.width() - mark - gap
        face = _fitting(max(lines, key=len), px, 500, room, least_px=11)
        metrics = QFontMetricsF(face)
        shown = [metrics.elidedText(line, Qt.TextElideMode.ElideRight, room + 1) for line in lines]
        wide = max(metrics.horizontalAdvance(line) for line in shown)
        left, middle = rect.center().x() - (mark + gap + wide) / 2, rect.center().y()
        middle -= metrics.height() * (len(shown) - 1) / 2
        draw_marker(painter, QPointF(left + mark / 2, middle), precision, mark, fill=fill)
        painter.setFont(face)
        painter.setPen(QColor(palette.text))
        for number, line in enumerate(shown):
            baseline = middle + metrics.capHeight() / 2 + number * metrics.height()
            painter.drawText(QPointF(left + mark + gap, baseline), line)

    def _describe(self) -> None:
        told = [
            f"{name}: {memory_text(peak) if peak is not None else self._absent}"
            for name, peak in zip(self._names, self._peaks, strict=True)
        ]
        self.setAccessibleDescription("; ".join(told))


def _draw_line(painter: QPainter, plan: TankPlan, palette: Palette) -> None:
    """The higher surface, carried over to the tank that needs less."""
    lower = plan.lower
    if lower is None:
        return
    higher, other = plan.tanks[1 - lower], plan.tanks[lower]
    y = plan.level(1 - lower) + 0.5
    ends = (higher.right(), other.right()) if lower == 1 else (other.left(), higher.left())
    pen = QPen(QColor(palette.text2), max(plan.scale, 1.0))
    pen.setDashPattern([4, 3])
    painter.setPen(pen)
    painter.drawLine(QLineF(ends[0], y, ends[1], y))


def _draw_plate(painter: QPainter, rect: QRectF, plan: TankPlan, palette: Palette) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(palette.bg1))
    painter.drawRoundedRect(rect, plan.length(6), plan.length(6))


def _lines(name: str, px: int, width: float) -> list[str]:
    """The name on one line, or on two where it is too long: its two parts, or what fits and the rest."""
    metrics = QFontMetricsF(font(px, 500))
    if metrics.horizontalAdvance(name) <= width:
        return [name]
    if ", " in name:
        return name.split(", ", 1)
    words = name.split()
    fitting = [
        place for place in range(1, len(words)) if metrics.horizontalAdvance(" ".join(words[:place])) <= width
    ]
    place = max(fitting, default=1)
    return [part for part in (" ".join(words[:place]), " ".join(words[place:])) if part]


def _fitting(words: str, px: int, weight: int, width: float, least_px: int = 8) -> QFont:
    """The font at `px`, or as much smaller as the width asks for."""
    face = font(px, weight, display=px >= 18)
    advance = QFontMetricsF(face).horizontalAdvance(words)
    if advance <= width:
        return face
    return font(max(int(px * width / advance), least_px), weight, display=px >= 18)
