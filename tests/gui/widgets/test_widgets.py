"""The shared widgets of all panels."""

from __future__ import annotations

from itertools import product

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QLabel, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from gui.theme.theme import theme
from gui.widgets import (
    ElidedLabel,
    Field,
    Marker,
    PrecisionChip,
    Segmented,
    StatCard,
    StatRow,
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


@pytest.fixture
def card(qtbot: QtBot) -> StatCard:
    card = StatCard("Throughput", "img/s")
    qtbot.addWidget(card)
    card.resize(174, 96)
    card.show()
    return card


def test_a_stat_card_shows_a_line_a_run_and_drops_those_gone(card: StatCard) -> None:
    absent = StatRow(Precision.FP32, "FP32", "not used", absent=True)
    card.set_rows([absent, StatRow(Precision.FP16, "FP16 AMP", "3", after="of 126")])
    assert card.texts() == ("FP32 not used", "FP16 AMP 3of 126")
    assert card.accessibleName() == "Throughput img/s: FP32 not used; FP16 AMP 3 of 126"
    assert card.minimumSizeHint().height() <= 96
    usual = card.sizeHint().height()
    card.set_compact(True)
    assert card.sizeHint().height() < usual, "in a low window"
    for rows, texts in (([absent], ("FP32 not used",)), ([], ())):
        card.set_rows(rows)
        assert card.texts() == texts


def test_a_stat_card_takes_a_second_line_and_sets_figures_smaller_rather_than_lose_words(
    card: StatCard,
) -> None:
    def texts() -> list[str]:
        return [one.text() for one in card.findChildren(QLabel) if one.isVisible() and one.text()]

    def roles() -> set[str]:
        return {one.property("role") for one in card.findChildren(QLabel)} & {"stat", "statSmall"}

    assert texts() == ["Throughput", "img/s"]
    card.set_ratio("unreliable", is_sound=False)
    assert set(texts()) == {"Throughput", "img/s", "unreliable"}
    card.resize(300, 96)
    assert set(texts()) == {"Throughput", "img/s", "unreliable"}
    card.resize(174, 96)
    for title, unit in (("Epoch loss", "nats"), ("Peak memory", "GiB"), ("Waiting for data", "%")):
        card.set_title(title, unit)
        card.set_ratio("at step 12,345")
        assert set(texts()) == {title, unit, "at step 12,345"}
    card.set_title("Throughput", "img/s")
    card.set_ratio("unreliable", is_sound=False)
    for name, value, role in (("FP32", "880", "stat"), ("Default FP32", "98,948", "statSmall")) * 2:
        card.set_rows([StatRow(Precision.FP32, name, value)])
        assert roles() == {role}


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
