"""The views of a sweep: what is chosen is drawn, a click names cells, keys lead through the heat map."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from engine.compare.metrics import LOSS, SPEED
from engine.experiment.sweep import axes_of, grid_of
from engine.sweep.chart import CellSpot
from engine.sweep.results import WEAK, CellResult, Results
from gui.sweep.chart_view import ChartView, HeatMapView, LinesView, ScatterView
from gui.sweep.panel import CellsView, SweepPage
from tests.hostile import MARKUP, markup_in, names_in
from tests.sweeps import small_results


def shown(qtbot: QtBot, view: ChartView) -> ChartView:
    qtbot.addWidget(view)
    view.resize(900, 560)
    view.show_results(small_results())
    with qtbot.waitExposed(view):
        view.show()
    return view


def middle(spot: CellSpot) -> QPoint:
    return QPoint(round(spot.x + spot.width / 2), round(spot.y + spot.height / 2))


@pytest.mark.parametrize("make", [HeatMapView, LinesView, ScatterView])
def test_a_click_chooses_a_cell_and_ctrl_adds_another(qtbot: QtBot, make: type[ChartView]) -> None:
    view = shown(qtbot, make())
    # the very last of a scatter lies below another
    first, second = view.canvas.spots()[0], view.canvas.spots()[-2]
    with qtbot.waitSignal(view.cells_chosen) as chosen:
        qtbot.mouseClick(view.canvas, Qt.MouseButton.LeftButton, pos=middle(first))
    assert chosen.args == [(first.cell,)]
    with qtbot.waitSignal(view.cells_chosen) as chosen:
        qtbot.mouseClick(
            view.canvas, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ControlModifier, middle(second)
        )
    assert chosen.args == [(first.cell, second.cell)]


def test_arrow_keys_lead_through_the_heat_map_and_enter_chooses(qtbot: QtBot) -> None:
    view = shown(qtbot, HeatMapView())
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Down):
        qtbot.keyClick(view.canvas, key)
    current = view.canvas.current
    assert current is not None and current.cell == 9
    assert view.canvas.accessibleDescription().startswith("BF16 AMP, batch size 64")
    with qtbot.waitSignal(view.cells_chosen) as chosen:
        qtbot.keyClick(view.canvas, Qt.Key.Key_Return)
    assert chosen.args == [(9,)]


def test_the_axes_of_a_heat_map_are_chosen_and_stay_with_new_results(qtbot: QtBot) -> None:
    view = HeatMapView()
    shown(qtbot, view)
    assert view.slice.axes() == (1, 0) and view.slice.at()[2] == 1
    view.slice.other.box.setCurrentText("Learning rate")
    view.slice.other.box.activated.emit(view.slice.other.box.currentIndex())
    assert view.slice.axes() == (1, 2)
    assert [spot.cell for spot in view.canvas.spots()] == [6, 7, 8, 9, 10, 11]
    view.slice.figure.choose("peak_memory")
    view.show_results(small_results())
    assert view.slice.axes() == (1, 2) and view.slice.figure.key() == "peak_memory"
    # an axis is not shown twice
    view.slice.x.choose(2)
    view.slice.x.changed.emit()
    assert view.slice.axes() == (2, None)


def test_the_table_is_sorted_and_filtered_by_words(qtbot: QtBot) -> None:
    view = CellsView()
    qtbot.addWidget(view)
    view.show_results(small_results())
    table = view.table
    assert len(table.rows()) == 12
    titles = [column.title for column in table.columns()]
    table.sortByColumn(titles.index("Throughput, samples/s"), Qt.SortOrder.DescendingOrder)
    assert [cell.index for cell in table.rows()][:2] == [11, 8]
    assert [cell.index for cell in table.rows()][-2:] == [5, 10]
    view.filter.setText("bf16 0.001")
    assert {cell.index for cell in table.rows()} == {6, 8, 10}
    with qtbot.waitSignal(view.cells_chosen) as chosen:
        table.selectRow(0)
    assert chosen.args == [(8,)]
    assert table.lines()[1][4] == "1.60× [1.55×, 1.65×]"
    view.show_results(small_results())
    assert view.chosen() == (8,)
    view.filter.setText("nothing has this")
    assert not table.rows() and table.accessibleDescription() == "No combination matches the filter."


def test_no_name_of_a_sweep_is_rendered(qtbot: QtBot) -> None:
    axes = axes_of({"precision": ("fp32", "bf16"), "model": (f"{MARKUP}a", f"{MARKUP}b", f"{MARKUP}c")})
    grid = grid_of({"steps": 60}, (*axes, *axes_of({"dataset": (f"{MARKUP}one", f"{MARKUP}two")})))
    results = small_results()
    cells = tuple(
        replace(known, name=grid.name(cell.places), why=known.why and f"{MARKUP}{known.why}")
        for known, cell in zip(results.cells, grid.cells, strict=True)
    )
    page = SweepPage()
    qtbot.addWidget(page)
    page.resize(1080, 700)
    with qtbot.waitExposed(page):
        page.show()
    page.show_results(replace(results, grid=grid, cells=cells))
    for place in range(page.tabs.count()):
        page.tabs.setCurrentIndex(place)
        for cell in (0, 5, 10):
            page.choose((cell,))
            assert markup_in(page) == set(), page.tabs.tabText(place)
    assert names_in(page) > 0


def test_lines_over_devices_begin_with_the_efficiency_once_it_is_known(qtbot: QtBot) -> None:
    grid = grid_of({"device": "cpu"}, axes_of({"devices": (1, 2), "batch_size": (16, 32, 64)}))
    efficient = tuple(
        CellResult(
            cell.index, cell.places, grid.name(cell.places), "done", values={SPEED.name: 9, WEAK.name: 80}
        )
        for cell in grid.cells
    )
    known, view = Results(grid, efficient, (SPEED, WEAK)), LinesView()
    qtbot.addWidget(view)
    view.show_results(replace(known, figures=(SPEED,)))
    assert (view.slice.axes(), view.slice.figure.key()) == ((0, 1), SPEED.name)
    view.show_results(known)
    assert view.slice.figure.key() == WEAK.name
    view.slice.figure.choose(SPEED.name)
    view.show_results(replace(known, figures=(SPEED, WEAK, LOSS)))
    assert view.slice.figure.key() == SPEED.name, "what was chosen stays"


def test_columns_of_cells_hold_their_headings_and_ratios_in_a_narrow_window(qtbot: QtBot) -> None:
    view = CellsView()
    qtbot.addWidget(view)
    view.resize(500, 400)
    view.show_results(small_results())
    with qtbot.waitExposed(view):
        view.show()
    table = view.table
    for place, column in enumerate(table.columns()):
        words = (column.title, *(column.text(cell) for cell in table.rows()))
        if max(map(len, words)) <= 30:
            widest = max(map(table.fontMetrics().horizontalAdvance, words))
            assert table.columnWidth(place) >= widest, column.title
