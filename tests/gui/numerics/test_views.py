"""The interactive map and ranges: what they show and request."""

from __future__ import annotations

from typing import TypeVar

import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.catalog import Precision
from engine.numerics.map_rows import kept_by, map_rows
from engine.numerics.range_words import content_sentence, fate_sentence, power_text
from engine.protocol.numerics import MappedModule, NumericsResults, Operation, PrecisionMap
from engine.protocol.ranges import E4M3, FP16, SMALL_FORMATS, Exponents, ModuleRange, NumberFormat, Ranges
from engine.words.numbers import share_text
from gui.numerics.map_tree import CLASS, MODULE, PARAMETERS, TIME
from gui.numerics.map_view import KEY, MapView
from gui.numerics.range_view import RangeView

from .conftest import view_of

W = TypeVar("W", bound=QWidget)


def shown(view: W, qtbot: QtBot, width: int) -> W:
    qtbot.addWidget(view)
    view.resize(width, 560)
    with qtbot.waitExposed(view):
        view.show()
    return view


@pytest.fixture
def mapped(qtbot: QtBot, precision_map: PrecisionMap) -> MapView:
    view = MapView()
    view.show_answer(view_of(NumericsResults(map=precision_map)).answer)
    return shown(view, qtbot, 900)


def found(mapped: MapView, name: str, column: int = MODULE) -> QModelIndex:
    model = mapped.tree.proxy
    hits = model.match(
        model.index(0, 0),
        Qt.ItemDataRole.DisplayRole,
        name,
        1,
        Qt.MatchFlag(0x0040),  # MatchRecursive
    )
    return hits[0].siblingAtColumn(column)


def rows(mapped: MapView) -> list[list[str]]:
    model = mapped.operations.model()
    shown = [column for column in range(model.columnCount()) if not mapped.operations.isColumnHidden(column)]
    return [[model.index(row, column).data() for column in shown] for row in range(model.rowCount())]


def test_a_click_on_a_module_lists_its_operations(mapped: MapView, qtbot: QtBot) -> None:
    place = mapped.tree.visualRect(found(mapped, "classifier", TIME)).center()
    qtbot.mouseClick(mapped.tree.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert mapped.title.whole_text() == "Operations of classifier"
    assert [(row[0], row[2], row[6]) for row in rows(mapped)] == [
        ("aten._to_copy", "FP32 → FP16", "by autocast"),
        ("aten.addmm", "FP16 → FP16", ""),
        ("aten.mm", "FP16 → FP16", ""),
    ]


def test_a_tick_or_the_space_bar_asks_the_form_and_patterns_are_kept(mapped: MapView, qtbot: QtBot) -> None:
    mapped.show_kept(("head.*",))
    box = mapped.tree.visualRect(found(mapped, "classifier"))
    with qtbot.waitSignal(mapped.changes_wanted) as asked:
        qtbot.mouseClick(
            mapped.tree.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(box.left() + 8, box.center().y())
        )
    assert asked.args == [((KEY, "head.*, classifier"),)]
    # the form decides: nothing is ticked until it says so
    assert found(mapped, "classifier").data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Unchecked
    mapped.show_kept(("head.*", "classifier"))
    assert found(mapped, "classifier").data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
    mapped.tree.setCurrentIndex(found(mapped, "classifier", TIME))
    with qtbot.waitSignal(mapped.changes_wanted) as asked:
        qtbot.keyClick(mapped.tree, Qt.Key.Key_Space)
    assert asked.args == [((KEY, "head.*"),)]


def test_what_a_pattern_or_a_module_around_keeps_cannot_be_let_go_alone(mapped: MapView) -> None:
    mapped.show_kept(("feat*",))
    mapped.tree.expandAll()
    index = found(mapped, "0")
    assert index.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
    assert not index.flags() & Qt.ItemFlag.ItemIsUserCheckable
    assert "because of feat*" in index.data(Qt.ItemDataRole.ToolTipRole)
    assert kept_by("features.0", ("features",)) == "features" and kept_by("classifier", ("features",)) is None


def test_it_sorts_by_time_and_filters_by_name(mapped: MapView, qtbot: QtBot) -> None:
    mapped.tree.sortByColumn(TIME, Qt.SortOrder.DescendingOrder)
    model = mapped.tree.proxy
    inside = model.index(0, 0)
    assert [model.index(row, 0, inside).data() for row in range(model.rowCount(inside))] == [
        "features",
        "classifier",
    ]
    qtbot.keyClicks(mapped.filter, "features.3")
    features = model.index(0, 0, model.index(0, 0))
    assert (model.rowCount(), model.rowCount(features)) == (1, 1)
    qtbot.keyClick(mapped.filter, Qt.Key.Key_Escape)
    assert model.rowCount() == 2


def test_a_large_model_is_shown_whole() -> None:
    names = [f"blocks.{block}.{layer}" for block in range(1_000) for layer in ("a", "b")]
    modules = [MappedModule(name=name, class_name="Linear") for name in ("", "blocks", *names)]
    modules += [MappedModule(name=f"blocks.{block}", class_name="Block") for block in range(1_000)]
    modules.sort(key=lambda module: module.name)
    operations = tuple(
        Operation(module=name, name="aten.mm", direction="forward", outputs=("float16",), seconds=1e-6)
        for name in names * 5
    )
    whole = map_rows(PrecisionMap(modules=tuple(modules), operations=operations))
    assert len(whole) == 3_002
    assert len(whole[0].operations) == 10_000 and whole[0].shares["forward"] == (("float16", 1.0),)


def test_every_text_of_the_tree_fits_and_a_narrow_one_hides_the_classes(
    mapped: MapView, qtbot: QtBot
) -> None:
    tree = mapped.tree
    assert not tree.isColumnHidden(CLASS)
    for column, name in ((CLASS, "1"), (PARAMETERS, "the model")):
        index = found(mapped, name, column)
        assert tree.columnWidth(column) >= tree.fontMetrics().horizontalAdvance(index.data()) + 12
    mapped.resize(620, 560)
    qtbot.waitUntil(lambda: tree.isColumnHidden(CLASS))
    assert "(Linear)" in found(mapped, "classifier").data(Qt.ItemDataRole.ToolTipRole)


@pytest.fixture
def ranged(qtbot: QtBot, ranges: Ranges) -> RangeView:
    view = RangeView()
    show(view, ranges)
    return shown(view, qtbot, 1_000)


def show(ranged: RangeView, ranges: Ranges) -> None:
    ranged.show_answer(view_of(NumericsResults(range=ranges)).answer)


def plain(text: str) -> str:
    """The text with spaces that may break."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


def names(ranged: RangeView) -> list[str]:
    return [row.name for row in ranged.table.rows()]


def share(ranged: RangeView, number: int, form: NumberFormat) -> str:
    titles, *lines = ranged.table.lines()
    return lines[number][titles.index(form.label)]


def test_a_move_of_the_slider_says_what_the_scale_loses_and_moves_the_histograms(ranged: RangeView) -> None:
    ranged.quantity.button("gradient").click()
    assert ranged.loss_scale.sentence.text().startswith("At 65,536: ")
    ranged.table.selectRow(1)
    before = share(ranged, 1, FP16)
    ranged.loss_scale.slider.setValue(0)
    assert plain(ranged.loss_scale.sentence.text()) == (
        "At 1: 25% of the gradients underflow in FP16, none overflows. 2¹⁸ would lose the least."
    )
    assert share(ranged, 1, FP16) != before
    assert ranged.detail.fates[FP16].text().startswith("FP16: ")
    ranged.loss_scale.slider.setValue(32)
    assert "The step would be skipped" in ranged.loss_scale.sentence.text()


def test_the_best_scale_can_be_taken_over_where_a_scaler_is_used(
    qtbot: QtBot, ranged: RangeView, ranges: Ranges
) -> None:
    ranged.quantity.button("gradient").click()
    with qtbot.waitSignal(ranged.changes_wanted) as asked:
        ranged.loss_scale.use.click()
    assert asked.args == [(("scaler.init_scale", "262144"),)]
    half = view_of(NumericsResults(range=ranges)).answer
    experiment = half.experiment.model_copy(update={"precision": Precision.BF16})
    ranged.show_answer(half.model_copy(update={"experiment": experiment}))
    assert ranged.loss_scale.use.isHidden()


def test_the_table_sorts_by_what_a_format_loses_below_the_row_of_all_modules(ranged: RangeView) -> None:
    ranged.quantity.button("gradient").click()
    ranged.loss_scale.slider.setValue(0)
    assert names(ranged) == ["All modules (4)", "features.0", "features.1", "features.3", "classifier"]
    column = ranged.table.lines()[0].index(FP16.label) + 1
    ranged.table.sortByColumn(column, Qt.SortOrder.AscendingOrder)
    assert names(ranged) == ["All modules (4)", "classifier", "features.3", "features.1", "features.0"]
    ranged.table.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
    assert names(ranged)[1] == "features.0"


def test_pointing_at_a_bar_tells_module_power_and_share(qtbot: QtBot, ranged: RangeView) -> None:
    area = ranged.table.picture_area(1)
    place = QPoint(int(ranged.table.axis.x(-5, area)) + 1, int(area.middle[1]))
    qtbot.mouseMove(ranged.table.viewport(), place)
    qtbot.waitUntil(lambda: ranged.readout.whole_text().startswith("features.0: "))
    assert "from 2⁻⁵ = 0.031 up to twice that" in ranged.readout.whole_text()


def test_only_what_was_measured_can_be_chosen(ranged: RangeView, ranges: Ranges) -> None:
    show(ranged, Ranges(rows=ranges.of("weight")))
    assert ranged.quantity.value() == "weight" and not ranged.quantity.button("gradient").isEnabled()


def test_a_module_without_a_single_number_has_a_row(ranged: RangeView) -> None:
    nothing = Exponents(zeros=10, nan=2)
    show(ranged, Ranges(rows=(ModuleRange(module="", quantity="activation", exponents=nothing),)))
    assert names(ranged) == ["All modules (1)", "the model"]
    assert share(ranged, 1, SMALL_FORMATS[0]) == "–"
    assert content_sentence(nothing) == "12 values, 10 of them 0, 2 NaN"


def test_shares_and_powers_are_written_as_people_read_them() -> None:
    assert [plain(share_text(share)) for share in (0, 1e-6, 0.0004, 0.012, 0.5, 0.998, 0.99999, 1)] == [
        "0%",
        "< 0.01%",
        "0.04%",
        "1.2%",
        "50%",
        "99.8%",
        "> 99.9%",
        "100%",
    ]
    assert [power_text(exponent) for exponent in (-40, -14, -1, 0, 16, 40)] == [
        "2⁻⁴⁰ = 9.1e-13",
        "2⁻¹⁴ = 0.000061",
        "2⁻¹ = 0.5",
        "2⁰ = 1",
        "2¹⁶ = 65,536",
        "2⁴⁰ = 1.1e12",
    ]
    tiny = Exponents(first=-30, counts=(1, 0, 0, 0, 0, 0, 0, 0, 0, 1), smallest=2.0**-30, largest=2.0**-21)
    assert plain(fate_sentence(tiny, FP16)) == "50% underflow, 50% are subnormal, none overflows"
    assert plain(fate_sentence(tiny, E4M3)) == "100% underflow, none is subnormal, none overflows"


def test_the_same_ranges_keep_the_selected_module(ranged: RangeView, ranges: Ranges) -> None:
    ranged.table.selectRow(2)
    show(ranged, ranges)
    chosen = ranged.table.chosen()
    assert chosen is not None and chosen.name == "features.1"
