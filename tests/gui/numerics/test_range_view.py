"""The view of ranges: what it says of each format and each loss scale, and what it asks for."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from engine.protocol.numerics.formats import E4M3, FP16, SMALL_FORMATS, Exponents, NumberFormat
from engine.protocol.numerics.ranges import ModuleRange, Ranges
from engine.words.numbers import share_text
from gui.numerics.range_table import content_sentence, fate_sentence, power_text
from gui.numerics.range_view import RangeView


@pytest.fixture
def view(qtbot: QtBot, ranges: Ranges) -> RangeView:
    made = RangeView()
    qtbot.addWidget(made)
    made.resize(1_000, 560)
    made.show_ranges(ranges)
    made.show()
    return made


def plain(text: str) -> str:
    """The text with spaces that may break."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


def names(view: RangeView) -> list[str]:
    return [row.name for row in view.table.rows()]


def share(view: RangeView, number: int, form: NumberFormat) -> str:
    titles, *lines = view.table.lines()
    return lines[number][titles.index(form.label)]


def test_without_ranges_the_view_says_what_they_answer_and_asks_for_them(qtbot: QtBot) -> None:
    view = RangeView()
    qtbot.addWidget(view)
    view.show()
    assert view.empty.isVisible() and "format" in view.empty.words()
    with qtbot.waitSignal(view.wanted):
        view.empty.button.click()


def test_a_move_of_the_slider_says_what_the_scale_loses_and_moves_the_histograms(view: RangeView) -> None:
    view.quantity.button("gradient").click()
    assert view.loss_scale.sentence.text().startswith("At 65,536: ")
    view.table.selectRow(1)
    before = share(view, 1, FP16)
    view.loss_scale.slider.setValue(0)
    assert plain(view.loss_scale.sentence.text()) == (
        "At 1: 25 % of the gradients become 0 in FP16, none overflows. 2^18 would lose least."
    )
    assert share(view, 1, FP16) != before
    assert view.detail.fates[FP16].text().startswith("FP16: ")
    view.loss_scale.slider.setValue(32)
    assert "the step would be skipped" in view.loss_scale.sentence.text()


def test_the_best_scale_can_be_taken_over_where_a_scaler_is_used(qtbot: QtBot, view: RangeView) -> None:
    view.quantity.button("gradient").click()
    with qtbot.waitSignal(view.changes_wanted) as asked:
        view.loss_scale.use.click()
    assert asked.args == [(("scaler.init_scale", "262144"),)]
    view.loss_scale.set_uses_scaler(False)
    assert view.loss_scale.use.isHidden()


def test_the_table_sorts_by_what_a_format_loses_below_the_row_of_all_modules(view: RangeView) -> None:
    view.quantity.button("gradient").click()
    view.loss_scale.slider.setValue(0)
    assert names(view) == ["All modules (4)", "features.0", "features.1", "features.3", "classifier"]
    column = view.table.lines()[0].index(FP16.label) + 1
    view.table.sortByColumn(column, Qt.SortOrder.AscendingOrder)
    assert names(view) == ["All modules (4)", "classifier", "features.3", "features.1", "features.0"]
    view.table.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
    assert names(view)[1] == "features.0"


def test_a_chosen_module_stays_chosen_in_another_order_and_quantity(view: RangeView) -> None:
    view.table.selectRow(4)
    view.table.sortByColumn(0, Qt.SortOrder.AscendingOrder)
    view.quantity.button("weight").click()
    chosen = view.table.chosen()
    assert chosen is not None and chosen.name == "classifier"
    assert view.detail.histogram.accessibleName().startswith("classifier. FP16: ")


def test_pointing_at_a_bar_tells_module_power_and_share(qtbot: QtBot, view: RangeView) -> None:
    area = view.table.picture_area(1)
    place = QPoint(int(view.table.axis.x(-5, area)) + 1, int(area.middle[1]))
    qtbot.mouseMove(view.table.viewport(), place)
    qtbot.waitUntil(lambda: view.readout.whole_text().startswith("features.0: "))
    assert "from 2^-5 = 0.031 up to twice that" in view.readout.whole_text()


def test_only_what_was_measured_can_be_chosen(view: RangeView, ranges: Ranges) -> None:
    view.show_ranges(Ranges(rows=ranges.of("weight"), notes=("Nothing was trained.",)))
    assert view.quantity.value() == "weight" and not view.quantity.button("gradient").isEnabled()
    view.show_ranges(Ranges())
    assert view.empty.isVisible()


def test_a_module_without_a_single_number_has_a_row(view: RangeView) -> None:
    nothing = Exponents(zeros=10, nan=2)
    view.show_ranges(
        Ranges(rows=(ModuleRange(module="", quantity="activation", exponents=nothing),), scale=1.0)
    )
    assert names(view) == ["All modules (1)", "the model"]
    assert share(view, 1, SMALL_FORMATS[0]) == "–"
    assert content_sentence(nothing) == "12 numbers, 10 of them 0, 2 NaN"


def test_shares_and_powers_are_written_as_people_read_them() -> None:
    assert [plain(share_text(share)) for share in (0, 1e-6, 0.0004, 0.012, 0.5, 0.998, 0.99999, 1)] == [
        "0 %",
        "< 0.01 %",
        "0.04 %",
        "1.2 %",
        "50 %",
        "99.8 %",
        "> 99.9 %",
        "100 %",
    ]
    assert [power_text(exponent) for exponent in (-40, -14, -1, 0, 16, 40)] == [
        "2^-40 = 9.1e-13",
        "2^-14 = 0.000061",
        "2^-1 = 0.5",
        "2^0 = 1",
        "2^16 = 65,536",
        "2^40 = 1.1e12",
    ]
    tiny = Exponents(first=-30, counts=(1, 0, 0, 0, 0, 0, 0, 0, 0, 1), smallest=2.0**-30, largest=2.0**-21)
    assert plain(fate_sentence(tiny, FP16)) == "50 % become 0, 50 % lose digits, none overflows"
    assert plain(fate_sentence(tiny, E4M3)) == "100 % become 0, none loses digits, none overflows"


def test_a_long_name_of_a_module_does_not_widen_what_is_said_of_it(
    qtbot: QtBot, view: RangeView, ranges: Ranges
) -> None:
    name = "encoder.transformer_layers_with_a_long_name.attention_block"
    view.show_ranges(ranges.model_copy(update={"notes": ("It fits.", f"{name} loses most.")}))
    view.resize(700, 500)
    detail = view.detail
    qtbot.waitUntil(lambda: 0 < detail.widget().width() <= detail.viewport().width())
