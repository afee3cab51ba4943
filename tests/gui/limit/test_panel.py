"""The workspace Memory limit with a search fed in, event by event, and opened again from the store."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import pytest
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QGuiApplication, QImage, QPainter
from PySide6.QtWidgets import QAbstractButton, QLabel
from pytestqt.qtbot import QtBot

from engine.experiment.checks import DeviceEntry, PrecisionEntry
from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, Log, Phase, PhaseName
from engine.protocol.memory_lines import MemoryLine
from engine.protocol.trials import (
    Bound,
    Cause,
    ProbeEnded,
    ProbeResult,
    ProbeStarted,
    Trial,
    TrialBegun,
    TrialEnded,
)
from engine.store.searches import ProbeRecord
from gui.charts.text_places import TextPlaces
from gui.limit.cards import OtherSize
from gui.limit.chart import MemoryPainter
from gui.limit.chart_content import MemoryContent, MemorySide, failed_place, forecast_points, memory_range
from gui.limit.panel import MemoryLimitPanel
from gui.limit.words import picture_heading, progress, proof, sentence
from gui.session.engine_thread import SearchOrder
from gui.session.log_lines import search_lines
from gui.session.searches import SearchView, SideView
from gui.theme.theme import theme

BUDGET_MIB = 24 * 1024.0
PLANS = {Precision.FP32: (64, 256, 320, 290, 289), Precision.FP16: (64, 256, 512, 640, 562, 561)}
LINES = {Precision.FP32: (6_100.0, 63.9), Precision.FP16: (380.0, 43.1)}


def experiment(precision: Precision) -> Experiment:
    return experiment_from({"precision": precision.value, "memory_cap_gib": 24.0, "device": "cuda:0"})


def trial(precision: Precision, batch: int, cause: Cause = "memory") -> Trial:
    fixed, slope = LINES[precision]
    needed = fixed + slope * batch
    if needed > BUDGET_MIB:
        return Trial(batch_size=batch, fits=False, seconds=1.2, steps=0, cause=cause)
    return Trial(batch_size=batch, fits=True, peak_mib=needed, seconds=2.5, steps=3)


def begun(*precisions: Precision) -> SearchView:
    order = SearchOrder("abc", tuple((one.label, experiment(one)) for one in precisions))
    return SearchView.of_order(order)


def searched(view: SearchView, side: int, count: int | None = None) -> SearchView:
    """The view after `count` trials of one side; after all of them and the result for None."""
    precision = view.sides[side].precision
    view = view.after(
        side,
        ProbeStarted(
            probe_id="p",
            experiment=experiment(precision),
            precision=precision,
            granularity=1,
            budget_mib=BUDGET_MIB,
        ),
    )
    for batch in PLANS[precision][:count]:
        view = view.after(side, TrialBegun(batch_size=batch))
        view = view.after(side, TrialEnded(trial=trial(precision, batch), budget_mib=BUDGET_MIB))
    return view if count is not None else view.after(side, ended(precision))


def ended(precision: Precision, bound: Bound = "memory", note: str | None = None) -> ProbeEnded:
    trials = tuple(trial(precision, batch) for batch in PLANS[precision])
    passed = [one.batch_size for one in trials if one.fits]
    result = ProbeResult(
        precision=precision,
        largest_batch=max(passed),
        verified=bound in ("memory", "data"),
        first_failure=min(one.batch_size for one in trials if not one.fits),
        bound_by=bound,
        trials=trials,
        seconds=13.4,
        note=note,
    )
    return ProbeEnded(probe_id="p", result=result)


def both() -> SearchView:
    view = searched(searched(begun(Precision.FP32, Precision.FP16), 0), 1)
    return replace(view, is_live=False)


def card(memory_gib: float = 139.8, name: str = "cuda:0") -> DeviceEntry:
    entries = tuple(PrecisionEntry(precision=one, available=True) for one in Precision)
    return DeviceEntry(name=name, title="A device", memory_mib=memory_gib * 1024, precisions=entries)


@pytest.fixture
def panel(qtbot: QtBot) -> MemoryLimitPanel:
    panel = MemoryLimitPanel()
    qtbot.addWidget(panel)
    panel.resize(1100, 600)
    panel.show_card(card(), "24")
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


def test_the_answer_is_a_sentence_a_ratio_and_a_proof(panel: MemoryLimitPanel) -> None:
    panel.show_search(both())
    text = panel.result.text()
    assert text.startswith("FP32 fits 289, FP16 AMP fits 561: 1.94 times the batch.")
    assert "289 was trained and passed, 290 was trained and failed" in text
    assert panel.result.ratio_text() == "1.94×"
    assert panel.chart.accessibleName().startswith("FP32 fits 289, FP16 AMP fits 561")
    assert panel.stop.isHidden()


def test_each_trial_stands_in_the_table_and_on_the_chart_as_it_ends(panel: MemoryLimitPanel) -> None:
    view = begun(Precision.FP32, Precision.FP16)
    for count in range(1, 6):
        view = searched(begun(Precision.FP32, Precision.FP16), 0, count)
        panel.show_search(view)
        side = panel.chart.content().sides[0]
        assert len(side.passed) + len(side.failed) == count == panel.trials.model.rowCount()
    assert panel.result.ratio_text() == ""
    assert panel.stop.isVisible()
    assert panel.trials.model.lines()[3][:4] == ["FP32", "320", "Out of memory", "over 24"]


def test_what_is_tried_now_is_told_with_what_its_worker_does() -> None:
    view = begun(Precision.FP32)
    assert progress(view) == "waits for its turn"
    view = searched(view, 0, 2).after(0, TrialBegun(batch_size=320))
    assert progress(view) == "2 trials, trying 320 in FP32 (starting a process)"
    view = view.after(0, Phase(name=PhaseName.COMPILING))
    assert progress(view).endswith("(compiling)")


def used(panel: MemoryLimitPanel, qtbot: QtBot) -> list[int]:
    """The batches that the buttons Use put into the form."""
    asked: list[int] = []
    panel.use_requested.connect(asked.append)
    qtbot.waitUntil(lambda: panel.result.stops()[-1].isVisible())
    for button in panel.result.findChildren(QAbstractButton):
        if button.accessibleName().startswith("Use batch") and button.isVisible():
            qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    panel.use_requested.disconnect(asked.append)
    return asked


def shown_texts(panel: MemoryLimitPanel) -> list[str]:
    return [one.text() for one in panel.result.findChildren(QLabel) if one.isVisible()]


def test_use_puts_the_batch_with_the_chosen_margin_into_the_form(
    panel: MemoryLimitPanel, qtbot: QtBot
) -> None:
    panel.show_search(both())
    small, large = used(panel, qtbot)
    assert 200 < small < 289 and 450 < large < 561
    panel.result.set_margin(0.3)
    assert all(less < more for less, more in zip(used(panel, qtbot), (small, large), strict=True))
    panel.result.set_margin(0.0)
    assert used(panel, qtbot) == [289, 561]


def test_use_puts_one_of_the_chosen_multiples_into_the_form(panel: MemoryLimitPanel, qtbot: QtBot) -> None:
    panel.show_search(both())
    panel.result.set_margin(0.0)
    panel.granularity_box.setEditText("64")
    assert used(panel, qtbot) == [256, 512]
    assert shown_texts(panel).count("a multiple of 64 that fits") == 2
    panel.granularity_box.setEditText("400")
    panel.result.set_margin(0.1)
    assert used(panel, qtbot) == [400]
    assert "no multiple of 400 fits and leaves 10 % free" in shown_texts(panel)


def test_a_larger_margin_recommends_a_smaller_batch() -> None:
    side = both().sides[0]
    margins = [side.recommended_batch(fraction) for fraction in (0.0, 0.1, 0.2, 0.3)]
    assert margins == sorted(margins, reverse=True) and margins[0] <= 289 and margins[-1] > 0


def test_an_answer_bound_by_the_data_or_stopped_claims_no_ratio_and_is_called_a_least() -> None:
    cases: tuple[tuple[Bound, str], ...] = (
        ("data", "It is the data that end here."),
        ("stopped", "The search was stopped."),
    )
    for bound, note in cases:
        view = searched(begun(Precision.FP32, Precision.FP16), 0)
        view = searched(view, 1, 6).after(1, ended(Precision.FP16, bound, note))
        assert view.ratio is None
        assert "FP16 AMP fits at least 561" in sentence(view) and "times the batch" not in sentence(view)
        assert proof(view.sides[1]) == note


def test_nothing_that_fits_is_told_with_what_the_model_needs() -> None:
    note = "Not even one sample fits: the model alone needs 30.0 GiB."
    result = ProbeResult(
        precision=Precision.FP32, largest_batch=0, verified=False, bound_by="memory", note=note
    )
    failed = Trial(batch_size=1, fits=False, cause="memory")
    view = begun(Precision.FP32).after(0, TrialEnded(trial=failed, budget_mib=BUDGET_MIB))
    view = view.after(0, ProbeEnded(probe_id="p", result=result))
    assert sentence(view) == "FP32 fits nothing."
    assert proof(view.sides[0]) == note


def test_a_search_that_could_not_be_made_says_why(panel: MemoryLimitPanel) -> None:
    problem = Problem(kind=Kind.REQUEST, message="The folder is gone.", remedy="Choose another.")
    view = begun(Precision.FP32).after(0, Failed(problem=problem))
    panel.show_search(replace(view, is_live=False))
    assert panel.result.text() == "The folder is gone."


def test_what_keeps_every_precision_from_being_searched_is_said_once(panel: MemoryLimitPanel) -> None:
    view = begun(Precision.FP32, Precision.FP16)
    failed = Failed(problem=Problem(kind=Kind.REQUEST, message="granularity is 9.", remedy="Lower it."))
    panel.show_search(view.after(0, failed).after(1, failed))
    assert panel.result.text() == "granularity is 9."


def test_a_saved_search_reads_as_it_did(panel: MemoryLimitPanel) -> None:
    live = both()
    records = [
        ProbeRecord(
            id=str(number),
            number=number,
            series="abc",
            created=datetime.now(UTC),
            experiment=side.experiment,
            granularity=1,
            margin_fraction=0.1,
            device_name="A device",
            budget_mib=BUDGET_MIB,
            trials=side.trials,
            result=side.result,
        )
        for number, side in enumerate(live.sides)
    ]
    saved = SearchView.of_records(records[::-1])
    assert [side.label for side in saved.sides] == ["FP32", "FP16 AMP"]
    panel.show_search(live)
    told, content = panel.result.text(), panel.chart.content()
    panel.show_search(saved)
    assert (panel.result.text(), panel.chart.content()) == (told, content)

    panel.menu.set_source(lambda: (saved,))
    panel.menu.aboutToShow.emit()
    opened: list[str] = []
    deleted: list[str] = []
    panel.saved_opened.connect(opened.append)
    panel.delete_requested.connect(deleted.append)
    action, _, delete = panel.menu.actions()
    assert action.text().startswith("small-cnn on a 24 GB card: FP32 fits 289") and action.isChecked()
    action.trigger()
    delete.trigger()
    assert opened == deleted == ["abc"]
    panel.show_search(None)
    panel.menu.aboutToShow.emit()
    assert not panel.menu.actions()[-1].isEnabled(), "nothing is shown that could be deleted"


def test_the_cards_that_are_offered_make_sense_on_the_device(panel: MemoryLimitPanel) -> None:
    assert panel.cards.choices() == ("8", "12", "16", "24", "48", "80", "This GPU", "Other…")
    assert panel.cards.value() == "24"
    panel.show_card(card(11.6), "")
    assert panel.cards.choices() == ("2", "4", "6", "8", "This GPU", "Other…")
    assert panel.cards.value() == ""
    panel.show_card(card(11.6), "10")
    assert panel.cards.choices() == ("2", "4", "6", "8", "10", "This GPU", "Other…")
    assert panel.cards.value() == "10"
    panel.show_card(card(9.0, "cpu"), "2.0")
    assert panel.cards.choices() == ("0.5", "1", "2", "4", "Other…") and panel.cards.value() == "2"


def test_a_cpu_starts_at_a_limit_that_its_memory_has_room_for(panel: MemoryLimitPanel) -> None:
    for gib, usual in ((64.0, "1"), (1.5, "0.5"), (0.8, "0.4")):
        panel.show_card(card(gib, "cpu"), "")
        assert panel.cards.value() == usual
    panel.show_card(card(64.0, "cpu"), "nonsense")
    assert panel.cards.value() == "1"


def test_any_other_size_can_be_typed(panel: MemoryLimitPanel, qtbot: QtBot) -> None:
    panel.cards.choose("other")
    assert panel.cards.value() == "24"
    (dialog,) = panel.cards.findChildren(OtherSize)
    dialog.edit.setText("3,5")
    with qtbot.waitSignal(panel.card_chosen) as chosen:
        dialog.accept()
    assert chosen.args == ["3.5"]


@pytest.mark.parametrize("typed", ["abc", "", "-5", "0", "nan", "inf", "140", "999999999999", "1e3"])
def test_what_is_no_size_is_refused_in_words_and_stays_to_be_mended(
    panel: MemoryLimitPanel, qtbot: QtBot, typed: str
) -> None:
    panel.cards.choose("other")
    (dialog,) = panel.cards.findChildren(OtherSize)
    dialog.edit.setText(typed)
    with qtbot.assertNotEmitted(panel.card_chosen):
        dialog.accept()
    assert dialog.isVisible() and dialog.edit.text() == typed
    assert (dialog.field.problem() or "").endswith(" a number from 0.1 to 139.8.")
    dialog.edit.setText("12")
    assert dialog.field.problem() is None
    dialog.reject()


def test_a_card_is_chosen_for_the_form(panel: MemoryLimitPanel, qtbot: QtBot) -> None:
    with qtbot.waitSignal(panel.card_chosen) as chosen:
        panel.cards.choose("48")
    assert chosen.args == ["48"]


def test_the_table_is_copied_as_a_spreadsheet_takes_it(panel: MemoryLimitPanel, qtbot: QtBot) -> None:
    panel.show_search(both())
    panel.export.copy()
    lines = QGuiApplication.clipboard().text().splitlines()
    assert len(lines) == 12 and lines[5].split("\t")[:3] == ["FP32", "289", "Largest fit"]


def test_the_trials_are_saved_with_their_figures_in_full(panel: MemoryLimitPanel, tmp_path: Path) -> None:
    panel.show_search(both())
    panel.export.save_csv(tmp_path / "trials.csv")
    with (tmp_path / "trials.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 11 and rows[4]["batch_size"] == "289" and rows[4]["fits"] == "True"
    assert float(rows[4]["peak_mib"]) == pytest.approx(6_100.0 + 63.9 * 289)
    assert rows[2]["cause"] == "memory" and rows[2]["peak_mib"] == ""


def test_what_was_copied_or_saved_is_said(panel: MemoryLimitPanel, qtbot: QtBot, tmp_path: Path) -> None:
    panel.show_search(both())
    with qtbot.waitSignal(panel.copied) as copied:
        panel.export.copy()
    assert copied.args == ["The table is on the clipboard."]
    with qtbot.waitSignal(panel.exported) as saved:
        panel.export.save_csv(tmp_path / "trials.csv")
    assert saved.args == [tmp_path / "trials.csv"]


def test_the_chart_is_saved_larger_than_it_is_shown(panel: MemoryLimitPanel, tmp_path: Path) -> None:
    panel.show_search(both())
    panel.export.save_png(tmp_path / "chart.png")
    picture = QImage(str(tmp_path / "chart.png"))
    assert picture.width() > 2 * panel.chart.width()
    title, facts = picture_heading(both(), on_gpu=True)
    assert title == "Peak memory by batch size, small-cnn on fashion, in GiB"
    assert facts.startswith("On a 24 GB card. FP32 fits 289, ")
    above = range(2 * 16, picture.height() - 2 * panel.chart.height() - 2 * 16)
    ink = {picture.pixelColor(x, y).name() for x in range(32, 600) for y in above}
    assert theme().palette.text.lower() in ink
    colors = {picture.pixelColor(x, y).name() for x in range(0, 800, 3) for y in range(60, 600, 3)}
    assert theme().palette.look(Precision.FP32).color.lower() in colors


def test_a_file_that_cannot_be_written_is_told_and_leaves_nothing(
    panel: MemoryLimitPanel, qtbot: QtBot, tmp_path: Path
) -> None:
    panel.show_search(both())
    for save in (panel.export.save_csv, panel.export.save_png):
        with qtbot.waitSignal(panel.export_failed) as failed:
            save(tmp_path / "no such folder" / "file")
        assert failed.args[0].startswith("'file' could not be written there")
    assert list(tmp_path.glob("no*")) == []


def test_the_newest_trial_is_in_sight_until_a_person_looks_at_others(
    panel: MemoryLimitPanel, qtbot: QtBot
) -> None:
    panel.resize(1100, 480)
    bar = panel.trials.view.verticalScrollBar()
    panel.show_search(searched(begun(Precision.FP32, Precision.FP16), 0))
    panel.show_search(both())
    qtbot.waitUntil(lambda: bar.maximum() > 0 and bar.value() == bar.maximum())
    panel.resize(1100, 440)
    qtbot.waitUntil(lambda: bar.value() == bar.maximum())
    bar.setValue(1)
    panel.trials.show_view(both())
    assert bar.value() == 1


def test_a_narrow_table_cuts_no_words_and_hides_no_column(panel: MemoryLimitPanel) -> None:
    panel.show_search(both())
    for size in (QSize(1100, 600), QSize(740, 430)):
        panel.resize(size)
        view, model = panel.trials.view, panel.trials.model
        for row in range(model.rowCount()):
            for column in range(5):
                index = model.index(row, column)
                metrics = QFontMetrics(index.data(Qt.ItemDataRole.FontRole))
                pictured = 18 if index.data(Qt.ItemDataRole.DecorationRole) is not None else 0
                needed = metrics.horizontalAdvance(index.data()) + pictured + 8
                assert needed <= view.visualRect(index).width(), (size, index.data())


def test_a_low_window_tells_the_proof_in_a_line_and_the_rest_in_its_tooltip(panel: MemoryLimitPanel) -> None:
    panel.show_search(both())
    panel.resize(740, 430)
    assert panel.result._words.isHidden() and panel.result._short.isVisible()
    assert panel.result._short.text() == "Proven: 289 fits, 290 fails; 561 fits, 562 fails."
    assert panel.result._short.toolTip() == panel.result.text()
    panel.resize(740, 700)
    assert panel.result._short.isHidden()


def test_a_side_that_is_still_searched_claims_no_more_than_it_knows(panel: MemoryLimitPanel) -> None:
    panel.show_search(searched(searched(begun(Precision.FP32, Precision.FP16), 0), 1, 3))
    assert "FP32 fits 289, FP16 AMP fits at least 512." in panel.result.text()
    assert panel.result.ratio_text() == "" and panel.chart.content().ratio is None
    numbers = [one.text() for one in panel.result.findChildren(QLabel) if one.property("role") == "stat"]
    assert numbers == ["289", "≥ 512"]


def test_crosses_at_nearly_one_place_do_not_hide_each_other() -> None:
    failed = (290, 291, 292, 293)
    lines = (MemoryLine(fixed_mib=6_100.0, per_sample_mib=63.9),)
    side = MemorySide(Precision.FP32, "FP32", ((64, 10.0), (289, 23.99)), failed, lines, 289)
    picture = QImage(400, 300, QImage.Format.Format_ARGB32)
    painter = QPainter(picture)
    chart = MemoryPainter(painter, MemoryContent((side,), 24.0), QRectF(40, 20, 340, 250), theme().palette)
    centers = [center for _, _, center in chart.crosses()]
    painter.end()
    for one, other in combinations(centers, 2):
        assert abs(one.x() - other.x()) >= 13 or abs(one.y() - other.y()) >= 13


def test_words_keep_clear_of_each_other_of_markers_and_of_curves() -> None:
    places = TextPlaces(QRectF(0, 0, 100, 100))
    places.cross_not([QPointF(0, 100), QPointF(100, 0)])
    places.take_around(QPointF(20, 20), 10)
    on_curve, on_marker, free = QRectF(40, 40, 20, 20), QRectF(15, 15, 20, 10), QRectF(70, 70, 20, 10)
    assert not places.is_free(on_curve) and not places.is_free(on_marker)
    assert not places.is_free(QRectF(90, 90, 20, 5)), "beyond the edge"
    assert places.first_free([on_curve, on_marker, free]) == free
    assert places.first_free([free]) is None


def test_what_a_searchs_worker_says_reaches_the_log() -> None:
    said = Log(level="warning", message="A kernel was slow.")
    assert search_lines(said) == (("warning", "A kernel was slow."),)
    ended_trial = TrialEnded(
        trial=trial(Precision.FP32, 320), budget_mib=BUDGET_MIB, replaced_worker="3 MiB were not given back."
    )
    (_, tried), (level, why) = search_lines(ended_trial)
    assert tried == "Batch 320: out of memory." and level == "warning" and "3 MiB" in why
    assert search_lines(TrialBegun(batch_size=8)) == ()
    assert "289, proven" in search_lines(ended(Precision.FP32))[0][1]


def test_tab_goes_through_the_workspace_in_reading_order(panel: MemoryLimitPanel, qtbot: QtBot) -> None:
    panel.show_search(both())
    panel.show_search(replace(both(), series="another"))
    panel.activateWindow()
    qtbot.waitUntil(lambda: panel.isActiveWindow() and panel.result.stops()[-1].isVisible())
    panel.cards.stops()[3].setFocus()
    names = []
    for _ in range(8):
        qtbot.keyClick(panel.focusWidget(), Qt.Key.Key_Tab)
        names.append(panel.focusWidget().accessibleName())
    assert names == [
        "Multiples of",
        "Forecast",
        "Saved",
        "Margin",
        "Use batch 250, FP32",
        "Use batch 504, FP16 AMP",
        "Export…",
        "Trials",
    ]


def test_settings_of_the_panel_survive_and_what_is_typed_is_read(panel: MemoryLimitPanel) -> None:
    panel.granularity_box.setEditText("24")
    panel.result.set_margin(0.2)
    panel.forecast.setChecked(False)
    other = MemoryLimitPanel()
    other.restore(panel.state())
    assert (other.granularity(), other.result.margin_fraction()) == (24, 0.2)
    assert not other.forecast.isChecked()
    other.granularity_box.setEditText("")
    assert other.granularity() == 1
    other.deleteLater()


def test_the_batch_in_trial_is_in_view_however_far_it_is() -> None:
    passed = ((8, 0.02), (32, 0.03))
    side = MemorySide(Precision.FP32, "FP32", passed=passed, failed=(9_000,), trying=637)
    assert 637 < memory_range(MemoryContent(sides=(side,), capacity_gib=0.25)).batches < 1_000


def test_a_trial_that_failed_stands_over_the_limit_and_in_view() -> None:
    lines = (MemoryLine(fixed_mib=6_100.0, per_sample_mib=63.9),)
    side = MemorySide(Precision.FP32, "FP32", ((64, 10.0), (289, 23.99)), (290, 4_000), lines, 289)
    content = MemoryContent((side,), 24.0, "24 GB card")
    reach = memory_range(content)
    assert reach.batches < 500, "a far failure must not squeeze the rest"
    for batch in side.failed:
        assert 24.0 < failed_place(batch, side, content, reach) < reach.gib


def test_the_forecast_ends_where_it_leaves_the_chart() -> None:
    lines = (MemoryLine(fixed_mib=1_024, per_sample_mib=0), MemoryLine(fixed_mib=0, per_sample_mib=102.4))
    side = MemorySide(Precision.FP32, "FP32", ((8, 1.0),), (), lines)
    content = MemoryContent((side,), 2.0)
    reach = replace(memory_range(content), batches=100.0)
    points = forecast_points(side, reach)
    assert points[0] == (0.0, 1.0)
    assert points[-1][1] == pytest.approx(reach.gib)
    assert points[-1][0] == pytest.approx(reach.gib * 10, rel=0.02)


def test_trials_replace_the_forecast_once_there_are_two() -> None:
    forecast = (MemoryLine(fixed_mib=1.0, per_sample_mib=1.0),)
    side = SideView("FP32", experiment(Precision.FP32), forecast=forecast)
    assert side.lines() == forecast
    for batch in (64, 256):
        side = side.after(TrialEnded(trial=trial(Precision.FP32, batch), budget_mib=BUDGET_MIB))
    assert side.lines()[0].per_sample_mib == pytest.approx(63.9)
    assert side.lines()[0].fixed_mib == pytest.approx(6_100.0)


def test_a_side_that_was_stopped_marks_no_largest_fit(panel: MemoryLimitPanel) -> None:
    view = searched(begun(Precision.FP32, Precision.FP16), 0)
    stopped = ended(Precision.FP16, "stopped", "The search was stopped before the answer was proven.")
    panel.show_search(replace(searched(view, 1, 3).after(1, stopped), is_live=False))
    results = [(line[0], line[2]) for line in panel.trials.model.lines()]
    assert results.count(("FP32", "Largest fit")) == 1 and ("FP16 AMP", "Largest fit") not in results
    shades = [
        panel.trials.model.index(row, 0).data(Qt.ItemDataRole.BackgroundRole)
        for row in range(panel.trials.model.rowCount())
    ]
    assert sum(shade is not None for shade in shades) == 1
    assert [side.answer for side in panel.chart.content().sides] == [289, None]


def test_without_a_search_it_says_what_one_is_and_offers_it(panel: MemoryLimitPanel, qtbot: QtBot) -> None:
    panel.show_search(None)
    assert panel.empty.isVisible() and not panel.chart.isVisible()
    assert panel.empty.words().startswith("How large a batch fits into the memory")
    with qtbot.waitSignal(panel.find_wanted):
        panel.empty.button.click()
    assert panel.trials.view.accessibleDescription() and not panel.trials.export.isEnabled()
    assert "no trials" in panel.trials.export.toolTip()
    panel.show_search(both())
    assert panel.chart.isVisible() and not panel.empty.isVisible()
    assert not panel.trials.view.accessibleDescription() and panel.trials.export.isEnabled()


@pytest.mark.parametrize("size", [(1_120, 700), (780, 560), (660, 500)])
def test_the_multiples_have_their_label_and_nothing_is_cut_off(
    panel: MemoryLimitPanel, qtbot: QtBot, size: tuple[int, int]
) -> None:
    panel.resize(*size)
    panel.show_search(replace(both(), is_live=True))
    steps = next(one for one in panel.findChildren(QLabel) if one.text() == "Multiples of")
    controls = (steps, panel.forecast, panel.saved, panel.stop)
    qtbot.waitUntil(
        lambda: all(one.isVisible() and one.width() >= one.minimumSizeHint().width() for one in controls)
    )
    assert panel.granularity_box.isVisible()
    assert panel.width() == size[0], "it asks for no more room than the window has"
    rights = [one.mapTo(panel, one.rect().topRight()).x() for one in (panel.saved, panel.result)]
    assert max(rights) < panel.width()
