"""The shared widgets of all panels."""

from __future__ import annotations

from itertools import product

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from gui.theme.theme import theme
from gui.widgets import (
    ElidedLabel,
    Field,
    Marker,
    PrecisionChip,
    Segmented,
    marker_pixmap,
    precision_pen,
)
from resources.looks import MARK_FILLS


def pixel(widget: QWidget, place: QPoint) -> QColor:
    return widget.grab().toImage().pixelColor(place)


def test_a_chip_is_ticked_by_click_and_by_space_shows_its_tint_and_says_why_it_cannot_be(
    qtbot: QtBot,
) -> None:
    theme().set_mode("dark")
    chip = PrecisionChip(Precision.FP16)
    qtbot.addWidget(chip)
    chip.resize(140, 36)
    assert chip.text() == "FP16 AMP" and chip.height() == 36
    with qtbot.waitSignal(chip.toggled):
        qtbot.mouseClick(chip, Qt.MouseButton.LeftButton)
    assert pixel(chip, QPoint(chip.width() // 2, 5)) == QColor(theme().palette.look(Precision.FP16).tint)
    qtbot.keyClick(chip, Qt.Key.Key_Space)
    assert not chip.isChecked()
    assert pixel(chip, QPoint(chip.width() // 2, 5)) == QColor(theme().palette.field)
    chip.set_available(False, "a CPU has none")
    qtbot.mouseClick(chip, Qt.MouseButton.LeftButton)
    assert not chip.isChecked() and chip.toolTip() == "FP16 AMP cannot be used: a CPU has none."
    chip.set_available(True, note="Slow on this CPU.")
    assert chip.isEnabled() and "Slow on this CPU" in chip.toolTip()


def test_of_segments_one_is_chosen_and_a_click_says_which(qtbot: QtBot) -> None:
    segments = Segmented((("steps", "Steps"), ("seconds", "Time")), "Horizontal axis", "Steps or time")
    qtbot.addWidget(segments)
    assert segments.value() == "steps"
    with qtbot.waitSignal(segments.changed) as heard:
        qtbot.mouseClick(segments.button("seconds"), Qt.MouseButton.LeftButton)
    assert heard.args == ["seconds"] and segments.value() == "seconds"
    with qtbot.assertNotEmitted(segments.changed):
        segments.set_value("steps")
    assert segments.button("steps").accessibleName() == "Horizontal axis: Steps"
    with pytest.raises(KeyError):
        segments.set_value("miles")


def test_a_field_shows_its_problem_and_takes_it_back(qtbot: QtBot) -> None:
    control = QLineEdit()
    field = Field("Batch size", control)
    field.set_note("2 selected")
    qtbot.addWidget(field)
    field.show()
    plain = field.sizeHint().height()
    assert control.accessibleName() == "Batch size"
    assert plain in (62, 63, 64, 65)
    field.set_problem("batch_size is 0, but it must be 1 or more.")
    assert field.problem() == "batch_size is 0, but it must be 1 or more."
    assert control.accessibleDescription() == field.problem()
    assert field.sizeHint().height() > plain
    field.set_problem(None)
    assert field.problem() is None and field.sizeHint().height() == plain


def test_a_long_text_is_shortened_and_told_whole_in_the_tooltip(qtbot: QtBot) -> None:
    text = ElidedLabel("a rather long name of a run that does not fit")
    qtbot.addWidget(text)
    text.resize(80, 20)
    text.show()
    assert text.text().endswith("…") and text.toolTip() == text.whole_text()
    text.resize(600, 20)
    assert text.text() == text.whole_text() and not text.toolTip()
    text.resize(24, 20)
    assert not text.text() and text.toolTip() == text.whole_text(), "two letters and an ellipsis say nothing"


def test_markers_are_filled_hollow_or_dotted_in_the_precisions_colour(qtbot: QtBot) -> None:
    for precision, size in product(Precision, (8, 12)):
        color = QColor(theme().palette.look(precision).color)
        filled, hollow, dotted = (marker_pixmap(precision, size, fill).toImage() for fill in MARK_FILLS)
        middle = QPoint(filled.width() // 2, filled.height() // 2)
        assert filled.pixelColor(middle) == color
        assert hollow.pixelColor(middle).alpha() < 32
        assert dotted.pixelColor(middle).alpha() > 128
        assert len({bytes(one.constBits()) for one in (filled, hollow, dotted)}) == len(MARK_FILLS)
        qtbot.addWidget(marker := Marker(precision))
        assert not marker.grab().isNull()


def test_a_pens_dash_keeps_its_pixels_at_any_width(qtbot: QtBot) -> None:
    for width in (1.0, 2.0):
        pen = precision_pen(Precision.BF16, width)
        assert [length * width for length in pen.dashPattern()] == [10, 3, 2, 3]
        assert pen.color().alpha() == 255
    assert precision_pen(Precision.FP32).style() == Qt.PenStyle.SolidLine
