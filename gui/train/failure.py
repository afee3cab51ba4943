"""The card of a failed run or comparison, a table of its runs, and the chart behind its estimates."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QPointF, QRectF, Qt, QUrl, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QDesktopServices,
    QFont,
    QFontMetricsF,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QSizePolicy, QWidget

from engine.compare.failure import Failure, FailureRemedy, MemoryNeed, MemoryShortage, failure_of
from engine.compare.metrics import PEAK_MEMORY, SPEED, Metric, shown_metrics
from engine.drawing.shapes import Drawing
from engine.experiment.own.code import AFTER, BEFORE, CodeLocation
from engine.experiment.value import MIB_PER_GIB
from engine.limit.memory_chart import MemoryContent, memory_chart
from engine.store.record import RunRecord, Status
from engine.words.numbers import NONE, counted, memory_text
from gui.charts.painter import DrawingView
from gui.session.experiments import Experiments
from gui.theme.fonts import font
from gui.theme.icons import draw_icon, pixmap
from gui.theme.theme import theme
from gui.widgets import Button, draw_marker, label, set_property, set_text
from gui.widgets.boxes import Placed, Stretch, Surface, discard, grid_of, in_column, in_row, set_beside, wide
from gui.widgets.labels import divider, wrapped
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import GROWS
from gui.widgets.table.painting import PADDING, paint_words, text_width

_MESSAGE_HEIGHT = 220
_INDENT, _SIGN = 36, 22
_BUTTONS, _GAP, _MOST_TRIED = 3, 16, 5
_NARROW = 680
"""A card less wide has its buttons below one another."""
_TIPS = {
    "train": "Set the form to this and train all of it again",
    "open": "Open the file to fix it",
    "check": "Send one batch through the model (takes seconds)",
}


def open_file(path: Path) -> None:
    """Open a code file for reading. On Windows, which would run it, open its folder."""
    shown = path.parent if sys.platform == "win32" else path
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(shown)))


def failure_in(experiments: Experiments, run_ids: Sequence[str]) -> Failure | None:
    """Return the failure of one of these runs or of their comparison. None if none of them failed."""
    runs = experiments.runs
    records = [record for run_id in run_ids if (record := runs.record(run_id)) is not None]
    if all(record.problem is None for record in records):
        return None
    comparisons = {record.comparison for record in records} - {None}
    mates = [run for run in runs.records() if run.id in run_ids or run.comparison in comparisons]
    opened = {run.id: runs.opened(run.id) for run in mates}
    steps = {run_id: live.step for run_id, live in opened.items() if live is not None}
    catalog = experiments.catalog
    device = catalog.device(records[0].experiment.device) if catalog is not None else None
    asked = records[0].id if len(records) == 1 else None
    return failure_of(mates, experiments.forecasts(), device, steps, asked)


class FailureView(QWidget):
    """A failure's card, a table of its runs, and the memory chart that its estimates come from.

    `remedy_wanted` carries the `FailureRemedy` whose button was pressed.
    """

    remedy_wanted = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.card = FailureCard()
        self.card.remedy_wanted.connect(self.remedy_wanted)
        self.runs, self.chart = _RunsTable(), DrawingView()
        self.chart.setMinimumSize(240, 240)
        self._sides = Surface("panel", "Runs of the comparison")
        kept = label("The runs are kept in Results, also those that failed.", "hint")
        in_column(self.runs, 8, kept, Stretch(1), parent=self._sides, margins=(12, 1, 8, 10), spacing=0)
        self._from, self._words = Surface("panel"), label("", "panelTitle")
        title = in_row(self._words, label("peak memory, GiB", "unit"), Stretch(1), spacing=8)
        in_column(title, wide(self.chart), parent=self._from, margins=(12, 10, 12, 8), spacing=4)
        self._below = in_row(Placed(self._sides, 1), Placed(self._from, 1), spacing=8)
        in_column(self.card, self._below, parent=self, spacing=8)

    def show_failure(self, failure: Failure) -> None:
        """Show a failure."""
        self.card.show_failure(failure)
        self.runs.show_runs(failure)
        self._sides.setVisible(len(failure.runs) > 1)
        limits = failure.memory.limits if failure.memory is not None else ()
        self._from.setVisible(bool(limits))
        if failure.memory is not None and limits:
            set_text(self._words, "Where the estimate comes from")
            self.chart.show_drawing(partial(_draw_memory, failure.memory))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        set_beside(self._below, event.size().width() >= _SIDE_BY_SIDE)


_SIDE_BY_SIDE, _METRIC = 900, 118


def _draw_memory(memory: MemoryShortage, width: float, height: float) -> Drawing:
    gib = None if memory.budget_mib is None else memory.budget_mib / MIB_PER_GIB
    needs = [f"{need.label} {memory_text(need.mib)}" for need in memory.needs if need.mib is not None]
    words = f"Peak memory by batch size. At this batch: {', '.join(needs)}"
    return memory_chart(MemoryContent(memory.limits, gib, (memory.budget, "")), (width, height), words)


class FailureCard(Surface):
    """Shows what failed and why, what was tried, and a button for each remedy with its outcome below."""

    remedy_wanted = Signal(object)

    def __init__(self) -> None:
        super().__init__("panel")
        self._sign = QLabel()
        self._title, self._reason = wrapped("", "failure"), wrapped("", "body")
        self._bars = _MemoryBars()
        self._tried = [wrapped("", "tried") for _ in range(_MOST_TRIED)]
        self._where, self._code, self._place = label("", "strong"), _CodeBlock(), QWidget()
        self._form = label("", "legend")
        self.whole = Button("Whole message", "link", "Show or hide the whole error message")
        self.whole.setCheckable(True)
        self.detail = QPlainTextEdit()
        self.detail.setReadOnly(True)
        self.detail.setProperty("role", "code")
        self.detail.setFont(font(12, mono=True))
        self.detail.setAccessibleName("Whole message")
        self.detail.setFixedHeight(_MESSAGE_HEIGHT)
        self.detail.hide()
        self.whole.toggled.connect(self.detail.setVisible)
        self.remedies: list[_RemedyButton] = []
        self._row = grid_of(spacing=(_GAP, 8), grows=tuple(range(_BUTTONS)))
        self._lay_out()
        theme().changed.connect(self._recolor)
        self._recolor()

    def show_failure(self, failure: Failure) -> None:
        """Show a failure, its remedies as buttons."""
        set_text(self._title, failure.title)
        set_text(self._reason, failure.reason)
        self._reason.setVisible(bool(failure.reason))
        self._bars.show_memory(failure.memory)
        for number, line in enumerate(self._tried):
            set_text(line, failure.tried[number] if number < len(failure.tried) else "")
            line.setVisible(number < len(failure.tried))
        self._attempts.setVisible(bool(failure.tried))
        place = failure.place
        function = f"  in {place.function}" if place is not None and place.function else ""
        set_text(self._where, "" if place is None else f"{place.short}{function}")
        self._place.setVisible(place is not None)
        if place is not None:
            self._code.show_place(place)
        if self.detail.toPlainText() != failure.detail:
            self.detail.setPlainText(failure.detail)
        self.whole.setVisible(bool(failure.detail))
        lines = failure.detail.strip().count("\n") + 1
        self.whole.set_words(f"Whole message, {counted(lines, 'line')}")
        trains = bool(failure.remedies) and all(one.action == "train" for one in failure.remedies)
        again = "compares" if len({run.side for run in failure.runs}) > 1 else "trains"
        set_text(self._form, f"Each sets the form and {again} again" if trains else "")
        self._todo.setVisible(bool(failure.remedies))
        self._offer(failure.remedies)
        self.setAccessibleName(f"{failure.title}. {failure.reason}".strip())
        self.setAccessibleDescription(" ".join(failure.tried))

    def _offer(self, remedies: Sequence[FailureRemedy]) -> None:
        for button in self.remedies:
            discard(self._row, button, button.outcome)
        self.remedies = [_RemedyButton(remedy, is_first=not place) for place, remedy in enumerate(remedies)]
        for button in self.remedies:
            button.clicked.connect(partial(self.remedy_wanted.emit, button.remedy))
        self._place_buttons()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if (event.size().width() < _NARROW) != (event.oldSize().width() < _NARROW):
            self._place_buttons()

    def _place_buttons(self) -> None:
        is_narrow = self.width() < _NARROW
        for column in range(_BUTTONS):
            self._row.setColumnStretch(column, 1 if not is_narrow or not column else 0)
        for place, button in enumerate(self.remedies):
            row, column = (2 * place, 0) if is_narrow else (0, place)
            self._row.addWidget(button, row, column)
            self._row.addWidget(button.outcome, row + 1, column, Qt.AlignmentFlag.AlignTop)

    def _lay_out(self) -> None:
        top = Qt.AlignmentFlag.AlignTop
        head = in_row(Placed(self._sign, 0, top), wide(self._title), spacing=_INDENT - _SIGN)
        lines = in_column(*self._tried, spacing=6)
        self._attempts = QWidget()
        words = Placed(label("What was tried", "label"), 0, top)
        in_row(words, wide(lines), parent=self._attempts, margins=(0, 10, 0, 0), spacing=18)
        in_column(self._where, self._code, parent=self._place, margins=(0, 14, 0, 0), spacing=8)
        self._todo = label("What to do", "label")
        todo = in_row(self._todo, Stretch(1), self._form, self.whole, spacing=16)
        parts = (self._reason, 16, self._bars, self._attempts, self._place, 16, divider(), 14, todo)
        inner = (*parts, 8, self._row, 8, self.detail)
        below = in_column(*inner, margins=(_INDENT, 0, 0, 0), spacing=0)
        in_column(head, below, parent=self, margins=24, spacing=6)

    def _recolor(self) -> None:
        self._sign.setPixmap(pixmap("cross-outline", theme().palette.text, _SIGN, self.devicePixelRatioF()))


class _RemedyButton(Button):
    def __init__(self, remedy: FailureRemedy, *, is_first: bool) -> None:
        super().__init__(remedy.words, "primary" if is_first else "secondary", _TIPS[remedy.action])
        self.remedy, self.outcome = remedy, label(remedy.outcome, "outcome", wraps=True)
        self.setProperty("low", "true")
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setAccessibleDescription(remedy.outcome)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        room = event.size().width() - 24
        has_room = self.fontMetrics().horizontalAdvance(self.remedy.words) <= room
        self.set_words(self.remedy.words if has_room else self.remedy.brief or self.remedy.words)


class _CodeBlock(Surface):
    """Lines of code with their numbers, of which one is marked."""

    def __init__(self) -> None:
        super().__init__("chip", "The code around the error")
        self._rows = [label("", "code") for _ in range(BEFORE + AFTER + 1)]
        in_column(*self._rows, parent=self, margins=(0, 8, 0, 8), spacing=0)

    def show_place(self, place: CodeLocation) -> None:
        for number, row in enumerate(self._rows, start=place.first):
            line = number - place.first
            row.setVisible(line < len(place.lines))
            if line < len(place.lines):
                set_text(row, f"{number:>6}   {place.lines[line].expandtabs(4)}")
                set_property(row, "marked", "true" if number == place.line else "false")


class _MemoryBars(QWidget):
    """A bar for each side from 0 to the device's memory: what it may use solid, what is missing hatched."""

    _TOP, _PITCH, _BAR, _NAMES, _PLATE, _WORDS = 22, 32, 24, 100.0, 18, 112

    def __init__(self) -> None:
        super().__init__()
        self._memory: MemoryShortage | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme().changed.connect(self.update)

    def show_memory(self, memory: MemoryShortage | None) -> None:
        has_bars = memory is not None and bool(memory.budget) and any(need.mib for need in memory.needs)
        self._memory = memory if has_bars else None
        self.setVisible(has_bars)
        if memory is not None and has_bars:
            self.setFixedHeight(self._TOP + self._PITCH * len(memory.needs))
            needs = [f"{need.label} needs {memory_text(need.mib)}" for need in memory.needs if need.mib]
            self.setAccessibleName(f"{', '.join(needs)}. {memory.budget}")
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        memory = self._memory
        if memory is None or memory.budget_mib is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        names = max(QFontMetricsF(font(13, 500)).horizontalAdvance(need.label) for need in memory.needs) + 34
        left = max(self._NAMES, min(names, self.width() / 3))
        room = self.width() - left
        most = max(need.mib or 0.0 for need in memory.needs)
        # to the device's memory, or as far as leaves room for the words at the longest bar
        scale = min(room / max(memory.device_mib or 0.0, memory.budget_mib), (room - self._WORDS) / most)
        limit = left + memory.budget_mib * scale
        for place, need in enumerate(memory.needs):
            self._paint_need(painter, need, self._TOP + place * self._PITCH, left, limit, scale)
        self._paint_limits(painter, memory, left, limit, scale)
        painter.end()

    def _paint_need(
        self, painter: QPainter, need: MemoryNeed, top: float, left: float, limit: float, scale: float
    ) -> None:
        palette, right = theme().palette, float(self.width())
        ink, middle = QColor(palette.look(need.precision).color), top + self._BAR / 2
        draw_marker(painter, QPointF(7, middle), need.precision, 9)
        _write(painter, 22, middle, need.label, font(13, 500), palette.text, room=left - 34)
        painter.fillRect(QRectF(left, top, right - left, self._BAR), QColor(palette.bg2))
        if need.mib is None:
            _write(painter, left + 8, middle, "no estimate", font(12), palette.text3)
            return
        end = left + need.mib * scale
        painter.fillRect(QRectF(left, top, min(end, limit) - left, self._BAR), ink)
        words, number = "needs ", memory_text(need.mib)
        width = _width(words, font(12)) + _width(number, font(12, 600))
        if end > limit:
            missing = QRectF(limit, top, end - limit, self._BAR)
            painter.fillRect(missing, QColor(palette.bg1))
            painter.setPen(QPen(ink, 1))
            painter.setBrush(QBrush(ink, Qt.BrushStyle.BDiagPattern))
            painter.drawRect(missing.adjusted(0.5, 0.5, -0.5, -0.5))
            lacks = f"{memory_text((end - limit) / scale)} missing"
            room = _width(lacks, font(13, 600)) + 20
            if room < missing.width() - 8:
                plate = QRectF(missing.center().x() - room / 2, middle - self._PLATE / 2, room, self._PLATE)
                painter.fillRect(plate, QColor(palette.bg1))
                _write(painter, plate.left() + 10, middle, lacks, font(13, 600), ink.name())
        at = end + 8
        if at + width > right:
            return
        at += _write(painter, at, middle, words, font(12), palette.text2)
        _write(painter, at, middle, number, font(12, 600), palette.text)

    def _paint_limits(
        self, painter: QPainter, memory: MemoryShortage, left: float, limit: float, scale: float
    ) -> None:
        palette, bottom = theme().palette, self.height() - 2.0
        x = min(round(limit), self.width() - 1)
        painter.fillRect(QRectF(x - 1, self._TOP - 6, 2, bottom - self._TOP + 6), QColor(palette.text))
        width = _width(memory.budget, font(12, 600))
        start = min(x - 4.0, self.width() - width)
        _write(painter, start, 8, memory.budget, font(12, 600), palette.text)
        if memory.cap_mib is None or memory.device_mib is None:
            return
        end = min(round(left + memory.device_mib * scale), self.width()) - 0.5
        painter.setPen(QPen(QColor(palette.text2), 1, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(end, self._TOP - 6), QPointF(end, bottom))
        words = f"{memory.device} {memory_text(memory.device_mib)}"
        place = end - _width(words, font(12))
        if place > start + width + 12:
            _write(painter, place, 8, words, font(12), palette.text2)


def _width(words: str, face: QFont) -> float:
    return QFontMetricsF(face).horizontalAdvance(words)


def _write(
    painter: QPainter, left: float, middle: float, words: str, face: QFont, color: str, room: float = 0.0
) -> float:
    """Write words around the height `middle`, elided to `room` if given, and return their width."""
    metrics = QFontMetricsF(face)
    shown = metrics.elidedText(words, Qt.TextElideMode.ElideRight, room) if room else words
    painter.setFont(face)
    painter.setPen(QColor(color))
    painter.drawText(QPointF(left, middle + 0.36 * face.pixelSize()), shown)
    return metrics.horizontalAdvance(shown)


_RESULTS = {
    Status.FINISHED: ("check", "Finished"),
    Status.QUEUED: ("ring", "Not started"),
    Status.RUNNING: ("play", "Training"),
    Status.STOPPED: ("stop", "Stopped"),
    Status.INTERRUPTED: ("stop", "Interrupted"),
    Status.FAILED: ("cross-outline", "Failed"),
}


class _RunsTable(ResultTable[RunRecord]):
    """The runs of a failed comparison: what finished, what failed, and what was not started."""

    def __init__(self) -> None:
        super().__init__(
            "Runs of the comparison",
            key=lambda run: run.id,
            whole=True,
            row_height=32,
            heading_height=36,
            sorts=False,
        )

    def show_runs(self, failure: Failure) -> None:
        """Show all runs of a failure's comparison."""
        metrics = {metric.name: metric for metric in shown_metrics(failure.runs)}
        name = Column[RunRecord]("Side", lambda run: run.side, paint=_paint_side, width=110, widest=GROWS)
        batch = Column[RunRecord]("Batch", _batch, width=66, is_number=True, look=_look)
        values = [_metric_column(metrics[name]) for name in (PEAK_MEMORY.name, SPEED.name)]
        result = Column[RunRecord]("Result", _result, paint=_paint_result, width=148, gap=12)
        # the title has the batch of all
        batches = [batch] if len(set(map(_batch, failure.runs))) > 1 else []
        self.show_rows(failure.runs, [name, *batches, *values, result])


def _metric_column(metric: Metric) -> Column[RunRecord]:
    title = f"{metric.title}, {metric.unit}"
    return Column(
        title,
        lambda run: metric.text(metric.value(run)),
        width=max(_METRIC, text_width(title, 500, 11) + 2 * PADDING),
        is_number=True,
        look=_look,
    )


def _batch(run: RunRecord) -> str:
    return f"{run.overview.batch_size:,}" if run.overview.batch_size else NONE


def _look(run: RunRecord) -> Look:
    return Look(500, "text3" if run.status is Status.QUEUED else "text", size=13)


def _result(run: RunRecord) -> str:
    is_full = run.problem is not None and run.problem.kind.value == "out-of-memory"
    return "Out of memory" if is_full else _RESULTS[run.status][1]


def _paint_side(painter: QPainter, room: QRectF, run: RunRecord) -> None:
    is_next = run.status is Status.QUEUED
    place = QPointF(room.left() + 5, room.center().y())
    draw_marker(painter, place, run.overview.precision, 9, fill="hollow" if is_next else "full")
    paint_words(painter, room.adjusted(20, 0, 0, 0), run.side, _look(run))


def _paint_result(painter: QPainter, room: QRectF, run: RunRecord) -> None:
    has_failed = run.status is Status.FAILED
    ink = theme().palette.text if has_failed else theme().palette.text2
    draw_icon(painter, QRectF(room.left(), room.center().y() - 7, 14, 14), _RESULTS[run.status][0], ink)
    look = Look(600 if has_failed else 400, "text" if has_failed else "text2", size=13)
    paint_words(painter, room.adjusted(22, 0, 0, 0), _result(run), look)
