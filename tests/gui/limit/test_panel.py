"""The page *Largest batch*: what it shows of a search, and the choices of its recommended batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from engine.experiment.problem import Kind, Problem
from engine.export.kinds.limit import MEMORY, THROUGHPUT, TRIALS
from gui.limit.options import OtherSize
from gui.limit.panel import LimitPanel, MemoryView, ThroughputView
from tests.gui.limit.conftest import known

FULL, HALF = Precision.FP32, Precision.FP16
GONE = Problem(kind=Kind.REQUEST, message="The folder is gone.", remedy="Choose another.")


def chart_of(panel: LimitPanel) -> MemoryView:
    view = panel.section_widget(MEMORY, "")
    assert isinstance(view, MemoryView)
    return view


def table_of(panel: LimitPanel, tab: str, section: str) -> list[list[str]]:
    panel.tabs.open(tab)
    table = panel.tabs.views[tab].sections[section].table
    assert table is not None
    return table.lines()[1:]


def use_buttons(panel: LimitPanel) -> list[QAbstractButton]:
    buttons = panel.tabs.views[MEMORY].findChildren(QAbstractButton)
    return [button for button in buttons if button.text().startswith("Use") and button.isVisible()]


def test_each_trial_is_in_the_table_and_on_the_chart_as_it_ends(panel: LimitPanel, limits: Any) -> None:
    for count in range(1, 6):
        panel.show_view(limits.searched(limits.begun(FULL, HALF), 0, count))
        panel.tabs.open(MEMORY)
        side = chart_of(panel).chart.content.sides[0]
        assert len(side.passed) + len(side.failed) == count == len(table_of(panel, TRIALS, TRIALS))
    assert table_of(panel, TRIALS, TRIALS)[1] == ["FP32", "256", "Fits", "21.9", "355", "2.5"]
    assert table_of(panel, TRIALS, TRIALS)[2] == ["FP32", "320", "Out of memory", "over 24.0", "–", "1.2"]


def test_the_throughput_is_shown_once_two_batches_have_one(panel: LimitPanel, limits: Any) -> None:
    panel.show_view(limits.searched(limits.begun(FULL, HALF), 0, 1))
    assert list(panel.tabs.views) == [MEMORY, TRIALS]
    panel.show_view(limits.searched(limits.begun(FULL, HALF), 0, 2))
    assert list(panel.tabs.views) == [MEMORY, THROUGHPUT, TRIALS]
    panel.tabs.open(THROUGHPUT)
    view = panel.section_widget(THROUGHPUT, THROUGHPUT)
    assert isinstance(view, ThroughputView)
    assert [side.label for side in view.chart.content.sides] == ["FP32"]
    panel.show_view(limits.both())
    assert [side.label for side in view.chart.content.sides] == ["FP32", "FP16 AMP"]
    assert view.chart.accessibleName().startswith("FP32 is within 5% of its highest throughput from")


def test_margin_and_multiple_decide_what_is_put_into_the_form(
    panel: LimitPanel, qtbot: QtBot, limits: Any
) -> None:
    panel.show_view(limits.both())
    for margin, multiple, batches in (
        (0.1, "1", ["250", "504"]),
        (0.0, "1", ["289", "561"]),
        (0.0, "64", ["256", "512"]),
        (0.1, "400", ["400"]),
    ):
        panel.set_margin(margin)
        panel.options.granularity_box.setEditText(multiple)
        words = [f"Use {batch}" for batch in batches]
        qtbot.waitUntil(lambda words=words: [one.text() for one in use_buttons(panel)] == words)
        asked: list[str] = []
        panel.changes_wanted.connect(lambda changes, asked=asked: asked.append(dict(changes)["batch_size"]))
        for button in use_buttons(panel):
            button.click()
        assert asked == batches
    assert [row[4] for row in table_of(panel, MEMORY, "Largest batches")] == ["–", "400"]


def test_a_problem_of_all_precisions_is_said_once(panel: LimitPanel, limits: Any) -> None:
    view = limits.begun(FULL, HALF)
    panel.show_view(known(known(view, 0, problem=GONE), 1, problem=GONE))
    assert panel.quiet.text().count("The folder is gone") == 1


def test_choices_survive_and_what_is_typed_is_read(panel: LimitPanel, limits: Any) -> None:
    panel.options.granularity_box.setEditText("24")
    panel.set_margin(0.2)
    panel.show_view(limits.both())
    chart_of(panel).forecast.click()
    assert not chart_of(panel).chart.content.shows_forecast
    other = LimitPanel()
    other.restore(panel.state())
    assert (other.options.granularity(), other.margin_fraction()) == (24, 0.2)
    assert not other.shows_forecast
    other.options.granularity_box.setEditText("")
    assert other.options.granularity() == 1
    other.deleteLater()


@pytest.mark.parametrize("size", [QSize(1_120, 700), QSize(760, 560)])
def test_nothing_is_cut_off_in_a_small_window(
    panel: LimitPanel, qtbot: QtBot, size: QSize, limits: Any
) -> None:
    panel.resize(size)
    panel.show_view(replace(limits.both(), is_live=True))
    controls = (panel.margin, panel.head.stop, panel.head.export_button, chart_of(panel).forecast)
    qtbot.waitUntil(
        lambda: all(one.isVisible() and one.width() >= one.minimumSizeHint().width() for one in controls)
    )
    assert panel.size() == size, "it asks for no more room than the window has"
    assert max(one.mapTo(panel, one.rect().topRight()).x() for one in controls) < panel.width()


def offered(panel: LimitPanel) -> tuple[str, ...]:
    return tuple(text for _, text in panel.memory.box.choices())


def gib(*sizes: float) -> tuple[str, ...]:
    return tuple(f"{size:g} GiB" for size in sizes)


def test_the_cards_that_are_offered_make_sense_on_the_device(panel: LimitPanel, limits: Any) -> None:
    assert offered(panel) == (*gib(8, 12, 16, 24, 48, 80), "This GPU", "Other…")
    assert panel.memory.value == "24"
    panel.show_device(limits.card(11.6), "")
    assert offered(panel) == (*gib(2, 4, 6, 8), "This GPU", "Other…")
    assert panel.memory.value == ""
    panel.show_device(limits.card(11.6), "10")
    assert offered(panel) == (*gib(2, 4, 6, 8, 10), "This GPU", "Other…")
    assert panel.memory.value == "10"
    panel.show_device(limits.card(9.0, "cpu"), "2.0")
    assert offered(panel) == (*gib(0.5, 1, 2, 4), "Other…") and panel.memory.value == "2"
    for size, cap, usual in ((64.0, "", "1"), (1.5, "", "0.5"), (0.8, "", "0.4"), (64.0, "nonsense", "1")):
        panel.show_device(limits.card(size, "cpu"), cap)
        assert panel.memory.value == usual, "a CPU starts at a limit that its memory has room for"


def test_a_card_is_chosen_or_any_other_size_is_typed(panel: LimitPanel, qtbot: QtBot) -> None:
    panel.memory.box.edited.emit("other")
    assert panel.memory.value == "24"
    (dialog,) = panel.memory.findChildren(OtherSize)
    dialog.edit.setText("3,5")
    with qtbot.waitSignal(panel.memory_chosen) as chosen:
        dialog.accept()
    assert chosen.args == ["3.5"]
    with qtbot.waitSignal(panel.memory_chosen) as chosen:
        panel.memory.box.edited.emit("48")
    assert chosen.args == ["48"]


@pytest.mark.parametrize("typed", ["abc", "", "-5", "0", "nan", "inf", "140", "999999999999", "1e3"])
def test_what_is_no_size_is_refused_in_words_and_stays_to_be_mended(
    panel: LimitPanel, qtbot: QtBot, typed: str
) -> None:
    panel.memory.box.edited.emit("other")
    (dialog,) = panel.memory.findChildren(OtherSize)
    dialog.edit.setText(typed)
    with qtbot.assertNotEmitted(panel.memory_chosen):
        dialog.accept()
    assert dialog.isVisible() and dialog.edit.text() == typed
    assert (dialog.field.problem() or "").endswith(" a number from 0.1 to 139.8.")
    dialog.edit.setText("12")
    assert dialog.field.problem() is None
    dialog.reject()
