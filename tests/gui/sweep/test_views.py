"""The views of a sweep: what is chosen is drawn, a click names cells, keys lead through the heat map."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from engine.compare.metrics import LOSS, SPEED
from engine.experiment.sweep import Plan, axes_of, grid_of
from engine.export.kinds.sweep import CELLS, document
from engine.store.saved.sweeps import CellRecord, SweepRecord
from engine.sweep.chart import CellSpot
from engine.sweep.results import WEAK, CellResult, Results
from gui.session.views import SweepView
from gui.sweep.chart_view import ChartView, HeatMapView, LinesView, ScatterView
from gui.sweep.panel import SweepPanel
from tests.hostile import MARKUP, markup_in, names_in
from tests.sweeps import small_results


def shown(qtbot: QtBot, view: ChartView) -> ChartView:
    qtbot.addWidget(view)
    view.resize(900, 560)
    view.show_answer(small_results())
    with qtbot.waitExposed(view):
        view.show()
    return view


def shown_panel(qtbot: QtBot, results: Results) -> SweepPanel:
    """Return the page of a finished sweep with these results, which is 1,080 pixels wide."""
    panel, grid = SweepPanel(), results.grid
    qtbot.addWidget(panel)
    panel.resize(1_080, 700)
    with qtbot.waitExposed(panel):
        panel.show()
    cells = tuple(map(CellRecord, range(grid.size)))
    record = SweepRecord(grid, Plan(), cells, "a1", name="Night", ended=datetime.now(UTC))
    panel.show_view(SweepView.of_record(record))
    panel.show_results(results, document(record, results))
    return panel


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


def test_choosers_appear_with_the_first_results_and_show_their_whole_choice(qtbot: QtBot) -> None:
    view = HeatMapView()
    qtbot.addWidget(view)
    view.resize(900, 560)
    with qtbot.waitExposed(view):
        view.show()
    assert not view.figure.isVisible()
    view.show_answer(small_results())
    box = view.figure.box
    qtbot.waitUntil(
        lambda: box.isVisible() and box.width() >= min(box.sizeHint().width(), box.maximumWidth())
    )
    qtbot.waitUntil(lambda: view.title.text() == box.currentText())


def test_the_axes_of_a_heat_map_are_chosen_and_stay_with_new_results(qtbot: QtBot) -> None:
    view = HeatMapView()
    shown(qtbot, view)
    assert view.axes() == (1, 0) and view.at()[2] == 1
    view.other.box.setCurrentText("Learning rate")
    view.other.box.activated.emit(view.other.box.currentIndex())
    assert view.axes() == (1, 2)
    assert [spot.cell for spot in view.canvas.spots()] == [6, 7, 8, 9, 10, 11]
    view.figure.choose("peak_memory")
    view.show_answer(small_results())
    assert view.axes() == (1, 2) and view.figure.key() == "peak_memory"
    # an axis is not shown twice
    view.across.choose(2)
    view.across.changed.emit()
    assert view.axes() == (2, None)


def test_a_cell_that_is_chosen_in_one_tab_is_chosen_in_all_and_stays(qtbot: QtBot) -> None:
    panel = shown_panel(qtbot, small_results())
    panel.charts["map"].canvas.press(panel.charts["map"].canvas.spots()[2], adds=False)
    assert panel.chosen == (5,) and panel.card.isVisible()
    assert panel.card.status.whole_text() == "Failed. The loss became NaN at step 12."
    panel.tabs.open("Table")
    section = panel.tabs.views["Table"].sections[CELLS]
    assert section.table is not None and [row.place for row in section.table.selected_rows()] == [5]
    section.table.selectRow(8)
    name = "BF16 AMP, batch size 64, learning rate 0.001"
    assert panel.chosen == (8,) and panel.card.name.whole_text() == name
    record = SweepRecord(small_results().grid, Plan(), (), "a1")
    panel.show_results(small_results(), document(record, small_results()))
    assert panel.chosen == (8,) and panel.card.isVisible(), "new results change no choice"
    panel.card.close_button.click()
    assert panel.chosen == () and panel.card.isHidden()


def test_no_name_of_a_sweep_is_rendered(qtbot: QtBot) -> None:
    axes = axes_of({"precision": ("fp32", "bf16"), "model": (f"{MARKUP}a", f"{MARKUP}b", f"{MARKUP}c")})
    grid = grid_of({"steps": 60}, (*axes, *axes_of({"dataset": (f"{MARKUP}one", f"{MARKUP}two")})))
    results = small_results()
    cells = tuple(
        replace(known, name=grid.name(cell.places), why=known.why and f"{MARKUP}{known.why}")
        for known, cell in zip(results.cells, grid.cells, strict=True)
    )
    page = shown_panel(qtbot, replace(results, grid=grid, cells=cells))
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
    view.show_answer(replace(known, figures=(SPEED,)))
    assert (view.axes(), view.figure.key()) == ((0, 1), SPEED.name)
    view.show_answer(known)
    assert view.figure.key() == WEAK.name
    view.figure.choose(SPEED.name)
    view.show_answer(replace(known, figures=(SPEED, WEAK, LOSS)))
    assert view.figure.key() == SPEED.name, "what was chosen stays"
