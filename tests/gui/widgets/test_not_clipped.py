"""Words that were cut short, or lay on what they spoke of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QAction, QColor, QImage, QPainter
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision
from engine.protocol.events import Phase, PhaseName
from gui.charts.frame import Capacity, Frame, FramePainter, Note, Trace
from gui.session.live_run import LiveRun
from gui.setup.foot import SetupFoot
from gui.theme.theme import theme
from gui.train.strip import LiveStrip, Wishes
from gui.widgets.boxes import in_column, wide
from gui.widgets.verdict_label import VerdictLabel

AREA = QRectF(60, 4, 400, 130)


def inked_rows(picture: QImage, ground: QColor) -> list[int]:
    return [
        y
        for y in range(picture.height())
        if any(picture.pixelColor(x, y) != ground for x in range(picture.width()))
    ]


@pytest.mark.parametrize("width", [300, 420, 900])
def test_the_verdicts_descenders_are_whole_after_another_one(qtbot: QtBot, width: int) -> None:
    theme().set_mode("dark")
    label = VerdictLabel()
    qtbot.addWidget(label)
    label.setStyleSheet("background: #000000")
    for words in ("FP32 trained faster", "jpgqy (jpgqy), jpgqy jpgqy jpgqy jpgqy"):
        label.show_hint(words)
        label.resize(width, label.heightForWidth(width))
        rows = inked_rows(label.grab().toImage(), QColor("#000000"))
        assert rows and rows[-1] < label.height() - 3


def test_how_a_run_stands_is_said_shorter_before_it_is_cut_off(qtbot: QtBot) -> None:
    runs = [LiveRun.queued(one, Experiment(precision=Precision(one))) for one in ("fp32", "fp16")]
    runs[1].add(Phase(name=PhaseName.VALIDATING))
    strip = LiveStrip()
    qtbot.addWidget(strip)
    strip.show()
    for width in range(1_200, 700, -20):
        strip.resize(width, 32)
        strip.show_runs("", runs, Wishes())
        strip.layout().activate()
        assert "…" not in strip.status.text() and "FP16 AMP " in strip.status.text(), width
    assert strip.status.whole_text() == "small-cnn, batch 64 · FP16 AMP running, 2 of 2 · validating"
    assert strip.status.text() != strip.status.whole_text() == strip.status.toolTip()


def painted(frame: Frame, traces: Sequence[Trace]) -> QImage:
    """The words of a frame alone: without its curves, so that what is there is ink of words."""
    picture = QImage(480, 160, QImage.Format.Format_RGB32)
    picture.fill(QColor(theme().palette.bg1))
    painter = QPainter(picture)
    painting = FramePainter(painter, frame, AREA, theme().palette, traces)
    painting.paint_behind()
    painting.paint_before(None)
    painter.end()
    return picture


def ink_along(picture: QImage, color: str, trace: Trace, frame: Frame) -> int:
    """How many pixels of a color lie within two of the curve."""
    (low, high), (least, most) = frame.x_range, frame.y_range
    columns = np.arange(int(AREA.left()) + 1, int(AREA.right()) - 1)
    levels = np.interp(low + (columns - AREA.left()) / AREA.width() * (high - low), *trace)
    rows = AREA.bottom() - (levels - least) / (most - least) * AREA.height()
    centers = zip(columns.tolist(), rows.tolist(), strict=True)
    near = [(x, round(y) + off) for x, y in centers for off in (-1, 0, 1)]
    wanted = QColor(color)
    return sum(
        sum(abs(a - b) for a, b in zip(picture.pixelColor(x, y).getRgb(), wanted.getRgb(), strict=True)) < 60
        for x, y in near
        if AREA.contains(x, y)
    )


X = np.linspace(0.0, 100.0, 400)
LIMIT, WARMUP = Capacity("GPU memory 80.0 GiB"), "warm-up, not counted"


@pytest.mark.parametrize(
    ("frame", "ink", "levels", "has_room"),
    [
        (Frame((0, 100), (0, 100), capacity=LIMIT), "text2", np.where(X > 55, 90.0, 40.0), True),
        (Frame((0, 100), (0, 100), capacity=LIMIT), "text2", np.full(400, 90.0), False),
        (Frame((0, 100), (0, 100), shade_until=10.0, shade_text=WARMUP), "text3", np.full(400, 6.0), True),
    ],
    ids=["limit", "limit without room", "warm-up"],
)
def test_the_words_of_a_frame_keep_off_its_curves(
    frame: Frame, ink: str, levels: np.ndarray, has_room: bool
) -> None:
    theme().set_mode("light")
    trace, color = (X, levels), getattr(theme().palette, ink)
    assert ink_along(painted(frame, [trace]), color, trace, frame) == 0
    assert not has_room or ink_along(painted(frame, []), color, trace, frame) > 20


def test_the_words_at_a_lines_end_keep_off_the_other_lines() -> None:
    theme().set_mode("light")
    ink = theme().palette.text
    frame = Frame((0, 100), (0, 100), notes=(Note(50.0, 50.0, "2.6 s, fast", ink),))
    trace = (X, np.full(400, 40.0))
    assert ink_along(painted(frame, [trace]), ink, trace, frame) == 0
    assert ink_along(painted(frame, []), ink, trace, frame) > 20


def test_the_button_of_the_form_is_whole_below_the_words_about_a_busy_machine(qtbot: QtBot) -> None:
    page = QWidget()
    qtbot.addWidget(page)
    foot = SetupFoot(QAction("Compare 2 precisions", page))
    in_column(wide(QWidget()), foot, parent=page)
    foot.set_facts(plan="2 runs", load="This machine is busy: other programs use 88% of the CPU.")
    page.resize(304, 600)
    page.show()
    qtbot.waitUntil(lambda: foot.height() == foot.heightForWidth(304) > foot.sizeHint().height())
