"""A run's own colour: its curves, in the window and in exports, are drawn in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from pytestqt.qtbot import QtBot

from engine.compare.sides import Side
from engine.drawing.looks import side_looks
from engine.drawing.shapes import colour
from engine.experiment.experiment import Experiment, Precision
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.charts.legend import Entry, LegendRow
from gui.charts.lines import Line, Trace
from gui.charts.overlay import OverlayPlot
from gui.session.saved_runs import SavedRuns
from gui.theme.theme import theme
from gui.widgets.stat_card import StatCard, StatRow
from resources.looks import DARK, LIGHT


def side_of(store: Store, own: str | None, precision: Precision = Precision.FP32) -> Side:
    run: RunRecord = store.add(Experiment(precision=precision))
    return Side((replace(run, colour=own),), precision.label)


def test_a_side_is_drawn_in_the_colour_of_its_first_run(store: Store) -> None:
    plain, own, unknown = side_of(store, None), side_of(store, "teal"), side_of(store, "mauve")
    looks = side_looks((plain, own, unknown))
    assert [looks[side.id].ink for side in (plain, own, unknown)] == ["fp32", "teal", "fp32"]
    assert looks[own.id].symbol == looks[plain.id].symbol and looks[own.id].fill != looks[plain.id].fill
    assert colour(DARK, "teal") == DARK.own["teal"].color
    assert colour(LIGHT, "teal-dim") == LIGHT.own["teal"].dim


def test_an_overlaid_curve_and_its_legend_have_the_colour(qtbot: QtBot) -> None:
    x = np.arange(50.0)
    trace = Trace({"step": x, "seconds": x, "samples": x}, np.linspace(2.0, 1.0, 50), smooths=False)
    plot = OverlayPlot()
    qtbot.addWidget(plot)
    traces = {"loss": trace, "accuracy": trace}
    plot.set_lines([Line("a", Precision.FP32, "FP32", traces, own_color="rose")], {})
    assert [entry.colour for entry in plot.legend.entries] == ["rose"]
    row = LegendRow()
    qtbot.addWidget(row)
    row.resize(300, 20)
    row.show_values([Entry(Precision.FP32, "FP32", "1.0", own_color="rose")], "")
    picture = row.grab().toImage()
    seen = {picture.pixelColor(x, 10).name().upper() for x in range(40)}
    assert theme().palette.own["rose"].color in seen


def test_an_open_curve_takes_the_colour_that_is_chosen(store: Store, qapp: Callable[..., object]) -> None:
    run_id = store.add(Experiment()).id
    runs = SavedRuns(store)
    runs.reload()
    live = runs.live(run_id)
    before = live.revision
    runs.set_colour((run_id,), "lime")
    assert (live.colour, live.revision > before) == ("lime", True)
    runs.set_colour((run_id,), None)
    assert live.colour is None


def test_a_figure_on_a_card_has_the_colour_of_its_curve(qtbot: QtBot) -> None:
    card = StatCard("Throughput")
    qtbot.addWidget(card)
    card.resize(200, 96)
    inks = theme().palette.own["lime"].color, theme().palette.look(Precision.FP32).color
    for own, ink, other in (("lime", *inks), (None, *reversed(inks))):
        card.set_rows([StatRow(Precision.FP32, "FP32", "880", own_color=own)])
        picture = card.grab().toImage()
        places = ((x, y) for x in range(picture.width()) for y in range(picture.height()))
        seen = {picture.pixelColor(x, y).name().upper() for x, y in places}
        assert ink in seen and other not in seen
