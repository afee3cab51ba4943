"""What leads if a measurement is unreliable, how its ratios are marked, and measuring again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.compare.comparison import compare
from engine.compare.evidence import Evidence
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, Finished, Summary
from engine.store.record import RunRecord, Status
from engine.store.store import Store
from gui.compare.controller import Awaited, AwaitedRuns
from gui.compare.headline import Headline
from gui.compare.table import MetricTable
from gui.runs.table.columns import RATIO
from gui.runs.table.model import RunsModel
from gui.runs.table.rows import RunRow, set_baselines
from gui.session.live_run import LiveRun
from gui.session.saved_runs import SavedRuns
from gui.train.figures import memory_note, speed_note
from gui.widgets.verdict_label import VerdictLabel
from gui.window.main_window import MainWindow

BUSY = "other programs used 69% of the CPU"
FP32, BF16 = Experiment(steps=200), Experiment(steps=200, precision=Precision.BF16)


@pytest.fixture
def ran(saved: Store) -> Callable[..., RunRecord]:
    def make(
        experiment: Experiment, speed: float, note: str | None = None, store: Store = saved
    ) -> RunRecord:
        run_id = store.add(experiment).id
        store.begin(run_id)
        figures = Summary(samples_per_second=speed, step_ms=64_000 / speed, speed_note=note, steps=200)
        store.record(run_id, [Finished(summary=figures)])
        return store.run(run_id)

    return make


Ran = Callable[..., RunRecord]


def large(headline: Headline) -> str:
    return headline.findChild(VerdictLabel).accessibleName()


def shown(qtbot: QtBot, *runs: RunRecord) -> tuple[Headline, MetricTable]:
    comparison = compare([Evidence(run, np.ones(9), ()) for run in runs], runs[0].id)
    headline, table = Headline(), MetricTable()
    for widget in (headline, table):
        qtbot.addWidget(widget)
    headline.show_side(comparison, comparison.sides[-1].id)
    table.show_comparison(comparison)
    return headline, table


def ratio_look(table: MetricTable) -> tuple[str, object]:
    """The ink and the sign of the ratio of the speeds."""
    look = table.grid.columns()[-1].look(table.grid.rows()[0])
    return look.ink, look.mark


def test_what_disturbed_a_pair_leads_and_its_ratio_is_pale_with_a_sign(qtbot: QtBot, ran: Ran) -> None:
    headline, table = shown(qtbot, ran(FP32, 1_000.0), ran(BF16, 120.0, BUSY))
    assert large(headline) == "Unreliable measurement" and not headline.again.isHidden()
    assert ratio_look(table) == ("text2", "info")
    headline, table = shown(qtbot, ran(FP32, 1_000.0), ran(BF16, 1_900.0))
    assert headline.again.isHidden() and ratio_look(table) == ("text", None)


def test_an_open_interval_leads_with_no_difference_and_its_ratio_is_pale(qtbot: QtBot, ran: Ran) -> None:
    runs = [
        ran(one.model_copy(update={"seed": seed}), speed)
        for seed, pair in enumerate(((1_000.0, 1_500.0), (1_000.0, 800.0), (1_000.0, 1_200.0)))
        for one, speed in zip((FP32, BF16), pair, strict=True)
    ]
    headline, table = shown(qtbot, *runs)
    assert large(headline).startswith("No significant difference in speed between BF16 AMP and FP32")
    assert ratio_look(table) == ("text2", None)


def test_the_live_page_gives_no_ratio_of_a_disturbed_pair() -> None:
    runs = []
    for experiment, note in ((FP32, None), (BF16, BUSY)):
        run = LiveRun.queued(experiment.precision.value, experiment)
        figures = Summary(samples_per_second=43.84, step_ms=10.0, speed_note=note, peak_resident_mib=2_048.0)
        run.set_status("finished", figures)
        runs.append(run)
    words, tip, is_sound = speed_note(runs)
    assert (words, is_sound) == ("unreliable", False) and BUSY in tip
    assert memory_note(runs)[0] == "1.00×"


def test_the_runs_table_marks_the_ratio_of_a_disturbed_pair(qtbot: QtBot, ran: Ran) -> None:
    base, slow, fine = ran(FP32, 1_000.0), ran(BF16, 120.0, BUSY), ran(BF16, 1_900.0)
    model = RunsModel()
    model.set_runs([replace(run, comparison="c" * 12) for run in (base, slow, fine)])
    cell = model.index_of(slow.id, RATIO)
    assert cell.data() == "0.12×" and model.is_unreliable(model.lines[slow.id])
    assert cell.data(Qt.ItemDataRole.AccessibleTextRole) == "Ratio: 0.12×, unreliable"
    assert BUSY in cell.data(Qt.ItemDataRole.ToolTipRole)
    assert not model.is_unreliable(model.lines[fine.id])


def test_a_run_keeps_the_disturbed_baseline_of_its_comparison(ran: Ran) -> None:
    disturbed, clean, side = (
        RunRow(replace(run, comparison="c" * 12))
        for run in (ran(FP32, 100.0, BUSY), ran(FP32, 1_000.0), ran(BF16, 1_900.0))
    )
    for lines in ([disturbed], [disturbed, clean], [clean, disturbed]):
        set_baselines([*lines, side])
        assert side.change() == pytest.approx(19.0) and side.disturbed() == (disturbed,)


def test_both_sides_are_queued_again_and_take_the_place_of_the_disturbed(
    qtbot: QtBot, start: Callable[[], MainWindow], store: Store, ran: Ran
) -> None:
    seeds = [(FP32.model_copy(update={"seed": n}), BF16.model_copy(update={"seed": n})) for n in (3, 4)]
    old = [ran(one, 1_000.0, BUSY, store) for pair in seeds for one in pair]
    window = start()
    window.experiments.load()
    window.runs.set_checked([run.id for run in old])
    with qtbot.waitSignal(window.others.comparisons.reader.shown):
        window.show_page("results")
        window.others.comparisons.reader.set_in_sight(True)
    headline = window.others.compare.headline
    headline.again.click()
    added = [run for run in store.runs() if run.status is Status.QUEUED]
    assert sorted((run.experiment.precision.value, run.experiment.seed) for run in added) == [
        ("bf16", 3), ("bf16", 4), ("fp32", 3), ("fp32", 4),
    ]  # fmt: skip
    assert "4 runs queued" in window.notice.text() and headline.again.text() == "Queued"
    for run in added:
        assert window.runs.checked() == tuple(one.id for one in old)
        store.begin(run.id)
        store.record(run.id, [Finished(summary=Summary(samples_per_second=1_000.0, steps=200))])
        window.experiments.runs.refresh(run.id)
    assert set(window.runs.checked()) == {run.id for run in added}


BESIDE = frozenset({"a", "b"})


def test_awaited_runs_arrive_together_once_all_have_finished(qtbot: QtBot, saved: Store) -> None:
    first, second = saved.add(BF16), saved.add(Experiment())
    runs = SavedRuns(saved)
    runs.reload()
    awaited, arrived = AwaitedRuns(runs), list[Awaited]()
    awaited.arrived.connect(arrived.append)
    awaited.add(alone := Awaited((first.id,), BESIDE), both := Awaited((first.id, second.id), BESIDE, BESIDE))
    assert awaited.experiments() == {first.experiment, second.experiment} and not arrived
    for run, left, told in ((first, {second.experiment}, [alone]), (second, set(), [alone, both])):
        saved.begin(run.id)
        saved.record(run.id, [Finished(summary=Summary(steps=1, seconds=1.0))])
        for _ in range(2):
            runs.refresh(run.id)
        assert awaited.experiments() == left and arrived == told


@pytest.mark.parametrize("is_withdrawn", [True, False])
def test_one_that_comes_to_nothing_can_be_asked_for_again(
    qtbot: QtBot, saved: Store, is_withdrawn: bool
) -> None:
    queued, runs = saved.add(BF16), SavedRuns(saved)
    runs.reload()
    awaited = AwaitedRuns(runs)
    awaited.add(Awaited((queued.id,), BESIDE))
    with qtbot.assertNotEmitted(awaited.arrived), qtbot.waitSignal(awaited.changed):
        if is_withdrawn:
            runs.withdraw(queued.id)
        else:
            saved.begin(queued.id)
            problem = Problem(kind=Kind.OUT_OF_MEMORY, message="The GPU is full.", remedy="Take less.")
            saved.record(queued.id, [Failed(problem=problem)])
            runs.refresh(queued.id)
    assert awaited.experiments() == frozenset()
