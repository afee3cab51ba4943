"""The page of the limit with one fed in, its cards and its exports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QAbstractButton, QLabel
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from engine.experiment.problem import Kind, Problem
from engine.export.formats import LIMIT
from gui.limit.panel import LimitPanel, OtherSize
from gui.session.studies import StudyView
from gui.widgets import buttons
from gui.widgets.labels import plain_tip
from gui.widgets.table.painting import cell_width
from tests.gui.limit.conftest import known


def test_each_trial_stands_in_the_table_and_on_the_chart_as_it_ends(panel: LimitPanel, limits: Any) -> None:
    view = limits.begun(Precision.FP32, Precision.FP16)
    for count in range(1, 6):
        view = limits.searched(limits.begun(Precision.FP32, Precision.FP16), 0, count)
        panel.show_view(view)
        side = panel.chart.content.sides[0]
        assert len(side.passed) + len(side.failed) == count == len(panel.trials.view.rows())
    assert panel.result._large.isHidden()
    assert panel.stop.isVisible()
    assert panel.trials.view.lines()[3][:4] == ["FP32", "320", "Out of memory", "over 24.0"]


def used(panel: LimitPanel, qtbot: QtBot) -> list[int]:
    """The batches that the buttons Use put into the form."""
    asked: list[int] = []
    panel.use_requested.connect(asked.append)
    qtbot.waitUntil(lambda: panel.result.stops()[-1].isVisible())
    for button in panel.result.findChildren(QAbstractButton):
        if button.accessibleName().startswith("Use batch") and button.isVisible():
            qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    panel.use_requested.disconnect(asked.append)
    return asked


def shown_texts(panel: LimitPanel) -> list[str]:
    return [one.text() for one in panel.result.findChildren(QLabel) if one.isVisible()]


def test_use_puts_the_batch_with_the_chosen_margin_and_multiple_into_the_form(
    panel: LimitPanel, qtbot: QtBot, limits: Any
) -> None:
    panel.show_view(limits.both())
    small, large = used(panel, qtbot)
    assert 200 < small < 289 and 450 < large < 561
    panel.result.set_margin(0.3)
    assert all(less < more for less, more in zip(used(panel, qtbot), (small, large), strict=True))
    panel.result.set_margin(0.0)
    assert used(panel, qtbot) == [289, 561]
    panel.granularity_box.setEditText("64")
    assert used(panel, qtbot) == [256, 512]
    assert shown_texts(panel).count("a multiple of 64 that fits") == 2
    panel.granularity_box.setEditText("400")
    panel.result.set_margin(0.1)
    assert used(panel, qtbot) == [400]
    assert "no multiple of 400 fits and leaves 10% free" in shown_texts(panel)


def test_a_limit_that_could_not_be_made_says_why_once(panel: LimitPanel, limits: Any) -> None:
    problem = Problem(kind=Kind.REQUEST, message="The folder is gone.", remedy="Choose another.")
    panel.show_view(replace(known(limits.begun(Precision.FP32), 0, problem=problem), is_live=False))
    assert panel.result.words.text() == "The folder is gone."
    view = limits.begun(Precision.FP32, Precision.FP16)
    panel.show_view(known(known(view, 0, problem=problem), 1, problem=problem))
    assert panel.result.words.text() == "The folder is gone."


def test_a_saved_limit_reads_as_it_did(panel: LimitPanel, limits: Any) -> None:
    live = limits.both()
    saved = StudyView.of(live.study)
    panel.show_view(live)
    told, content = panel.result.words.text(), panel.chart.content
    panel.show_view(saved)
    assert (panel.result.words.text(), panel.chart.content) == (told, content)

    deleted: list[str] = []
    panel.menu.delete_asked.connect(deleted.append)
    panel.menu.actions()[-1].trigger()
    assert deleted == ["abc"] and panel.menu.button.isVisible()
    panel.show_view(None)
    assert not panel.menu.button.isVisible(), "nothing is shown that could be deleted"


def test_a_side_that_is_still_searched_claims_no_more_than_it_knows(panel: LimitPanel, limits: Any) -> None:
    panel.show_view(limits.searched(limits.searched(limits.begun(Precision.FP32, Precision.FP16), 0), 1, 3))
    assert panel.result._large.isHidden() and panel.chart.content.ratio is None
    numbers = [one.text() for one in panel.result.findChildren(QLabel) if one.property("role") == "stat"]
    assert numbers == ["289", "≥ 512"]


def test_a_side_that_was_stopped_marks_no_largest_fit(panel: LimitPanel, limits: Any) -> None:
    view = limits.searched(limits.begun(Precision.FP32, Precision.FP16), 0)
    note = "It was stopped before the answer was proven."
    result = limits.result(Precision.FP16, "stopped", note)
    panel.show_view(replace(known(limits.searched(view, 1, 3), 1, result=result), is_live=False))
    results = [(line[0], line[2]) for line in panel.trials.view.lines()]
    assert results.count(("FP32", "Largest fit")) == 1 and ("FP16 AMP", "Largest fit") not in results
    assert [row.trial.batch_size for row in panel.trials.view.rows() if row.is_answer] == [289]
    assert [side.answer for side in panel.chart.content.sides] == [289, None]


def test_without_a_search_it_says_what_one_is_and_offers_it(
    panel: LimitPanel, qtbot: QtBot, limits: Any
) -> None:
    panel.show_view(None)
    assert panel.empty.isVisible() and not panel.chart.isVisible()
    with qtbot.waitSignal(panel.find_wanted):
        panel.empty.button.click()
    assert panel.trials.view.accessibleDescription() and not panel.trials.export.isEnabled()
    panel.show_view(limits.both())
    assert panel.chart.isVisible() and not panel.empty.isVisible()
    assert not panel.trials.view.accessibleDescription() and panel.trials.export.isEnabled()


def test_settings_of_the_panel_survive_and_what_is_typed_is_read(panel: LimitPanel) -> None:
    panel.granularity_box.setEditText("24")
    panel.result.set_margin(0.2)
    panel.forecast.setChecked(False)
    other = LimitPanel()
    other.restore(panel.state())
    assert (other.granularity(), other.result.margin_fraction()) == (24, 0.2)
    assert not other.forecast.isChecked()
    other.granularity_box.setEditText("")
    assert other.granularity() == 1
    other.deleteLater()


def test_the_newest_trial_is_in_sight_until_a_person_looks_at_others(
    panel: LimitPanel, qtbot: QtBot, limits: Any
) -> None:
    panel.resize(1100, 480)
    bar = panel.trials.view.verticalScrollBar()
    panel.show_view(limits.searched(limits.begun(Precision.FP32, Precision.FP16), 0))
    panel.show_view(limits.both())
    qtbot.waitUntil(lambda: bar.maximum() > 0 and bar.value() == bar.maximum())
    panel.resize(1100, 440)
    qtbot.waitUntil(lambda: bar.value() == bar.maximum())
    bar.setValue(1)
    panel.trials.show_view(limits.both().answer, "abc")
    assert bar.value() == 1


def test_a_narrow_table_cuts_no_words_and_hides_no_column(panel: LimitPanel, limits: Any) -> None:
    panel.show_view(limits.both())
    for size in (QSize(1100, 600), QSize(740, 430)):
        panel.resize(size)
        view = panel.trials.view
        for place, column in enumerate(view.columns()):
            for row in view.rows():
                needed = cell_width(replace(column, text=column.short or column.text), row)
                assert needed <= view.columnWidth(place), (size, column.text(row))


def test_a_low_window_tells_the_proof_in_a_line_and_the_rest_in_its_tooltip(
    panel: LimitPanel, limits: Any
) -> None:
    panel.show_view(limits.both())
    panel.resize(740, 430)
    assert panel.result.words.isHidden() and panel.result._short.isVisible()
    assert panel.result._short.text() == "Verified: 289 fits and 290 fails, 561 fits and 562 fails."
    assert panel.result._short.toolTip() == plain_tip(panel.result.words.text())
    panel.resize(740, 700)
    assert panel.result._short.isHidden()


def test_tab_goes_through_the_page_in_reading_order(panel: LimitPanel, qtbot: QtBot, limits: Any) -> None:
    panel.show_view(limits.both())
    panel.show_view(replace(limits.both(), key="another"))
    panel.activateWindow()
    qtbot.waitUntil(lambda: panel.isActiveWindow() and panel.result.stops()[-1].isVisible())
    panel.forecast.setFocus()
    names = []
    for _ in range(6):
        qtbot.keyClick(panel.focusWidget(), Qt.Key.Key_Tab)
        names.append(panel.focusWidget().accessibleName())
    assert names == [
        "More about this search",
        "Margin",
        "Use batch 250, FP32",
        "Use batch 504, FP16 AMP",
        "Export…",
        "Trials",
    ]


@pytest.mark.parametrize("size", [(1_120, 700), (780, 560), (660, 500)])
def test_nothing_is_cut_off_in_a_small_window(
    panel: LimitPanel, qtbot: QtBot, size: tuple[int, int], limits: Any
) -> None:
    panel.resize(*size)
    panel.show_view(replace(limits.both(), is_live=True))
    controls = (panel.forecast, panel.stop)
    qtbot.waitUntil(
        lambda: all(one.isVisible() and one.width() >= one.minimumSizeHint().width() for one in controls)
    )
    assert panel.width() == size[0], "it asks for no more room than the window has"
    rights = [one.mapTo(panel, one.rect().topRight()).x() for one in (panel.stop, panel.result)]
    assert max(rights) < panel.width()


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


def test_a_file_in_any_format_is_asked_for(
    panel: LimitPanel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    menu = panel.export
    assert [action.text() for action in menu.actions()][: len(LIMIT.formats)] == [
        f"{form.title}…" for form in LIMIT.formats
    ]
    monkeypatch.setattr(buttons, "ask_where", lambda _parent, _title, name, _kind: tmp_path / name)
    with qtbot.waitSignal(panel.export.asked) as asked:
        menu.actions()[0].trigger()
    assert asked.args == [tmp_path / "largest-batch.html"]
