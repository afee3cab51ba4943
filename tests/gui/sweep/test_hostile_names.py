"""Models, variants and reasons of a sweep from elsewhere may have any names, which are shown as written."""

from __future__ import annotations

from dataclasses import replace

from pytestqt.qtbot import QtBot

from engine.experiment.sweep import axes_of, grid_of
from gui.sweep.panel import SweepPage
from tests.hostile import MARKUP, markup_in, names_in
from tests.sweeps import small_results


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
