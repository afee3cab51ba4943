"""The workspace Memory limit with a search fed in, event by event, and opened again from the store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from engine.catalog import DeviceEntry, PrecisionEntry
from engine.events import Failed, Phase, PhaseName
from engine.experiment import Experiment, Precision, experiment_from
from engine.memory_lines import MemoryLine
from engine.probe_events import (
    Bound,
    Cause,
    ProbeEnded,
    ProbeResult,
    ProbeStarted,
    Trial,
    TrialBegun,
    TrialEnded,
)
from engine.problem import Kind, Problem
from engine.records.probes import ProbeRecord
from gui.panels.memory_limit import MemoryLimitPanel
from gui.panels.memory_limit_words import progress, proof, sentence
from gui.plots.memory_scale import (
    MemoryContent,
    MemorySide,
    failed_place,
    forecast_points,
    memory_range,
)
from gui.search_order import SearchOrder
from gui.search_view import SearchView, SideView

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
    assert progress(view) == "2 trials, trying 320 in FP32"
    view = view.after(0, Phase(name=PhaseName.COMPILING))
    assert progress(view).endswith("(compiling)")


def test_the_largest_batch_can_be_put_into_the_form_and_so_can_the_one_with_a_margin(
    panel: MemoryLimitPanel, qtbot: QtBot
) -> None:
    panel.show_search(both())
    asked: list[int] = []
    panel.use_requested.connect(asked.append)
    for button in panel.result.findChildren(QAbstractButton):
        if button.accessibleName().startswith("Use batch"):
            qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert {289, 561} < set(asked)
    small, large = sorted(set(asked) - {289, 561})
    assert 200 < small < 289 and 450 < large < 561

    panel.result.set_margin(0.0)
    names = [button.accessibleName() for button in panel.result.findChildren(QAbstractButton)]
    assert sum(name.startswith("Use batch 289") for name in names) >= 1


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

    panel.set_saved_source(lambda: (saved,))
    panel.saved.menu().aboutToShow.emit()
    opened: list[str] = []
    panel.saved_opened.connect(opened.append)
    (action,) = panel.saved.menu().actions()
    assert "FP32 fits 289" in action.text()
    action.trigger()
    assert opened == ["abc"]


def test_the_cards_that_are_offered_make_sense_on_the_device(panel: MemoryLimitPanel) -> None:
    assert panel.cards.choices() == ("8", "12", "16", "24", "48", "80", "This GPU")
    assert panel.cards.value() == "24"
    panel.show_card(card(11.6), "")
    assert panel.cards.choices() == ("8", "This GPU") and panel.cards.value() == ""
    panel.show_card(card(11.6), "10")
    assert panel.cards.choices() == ("8", "10", "This GPU") and panel.cards.value() == "10"
    panel.show_card(card(9.0, "cpu"), "2.0")
    assert panel.cards.choices() == ("None", "1", "2", "4") and panel.cards.value() == "2"


def test_a_card_is_chosen_for_the_form(panel: MemoryLimitPanel, qtbot: QtBot) -> None:
    with qtbot.waitSignal(panel.card_chosen) as chosen:
        panel.cards.choose("48")
    assert chosen.args == ["48"]


def test_the_table_is_copied_as_a_spreadsheet_takes_it(panel: MemoryLimitPanel, qtbot: QtBot) -> None:
    panel.show_search(both())
    panel.trials.copy.click()
    lines = QGuiApplication.clipboard().text().splitlines()
    assert len(lines) == 12 and lines[5].split("\t")[:3] == ["FP32", "289", "Largest fit"]


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
