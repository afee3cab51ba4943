"""What is opened in Results: comparisons, studies and failures, and what can be done with each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from engine.experiment.command import Command
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.own.code import read_code
from engine.experiment.problem import Kind, Problem
from engine.experiment.sweep import Plan
from engine.protocol.answer import Answer
from engine.protocol.events import Failed, Finished, Summary
from engine.protocol.numerics import NonfiniteSearch, Numerics, NumericsResults
from engine.protocol.profile import Profiles
from engine.protocol.trials import Limit, LimitResult, LimitSide, Trial
from engine.protocol.tune import Tuning, TuningTrial
from engine.store.saved.studies import Study
from engine.store.store import Store
from gui.answer.page import StudyPage
from gui.compare import controller
from gui.compare.reading import ComparedRuns, read_and_compare
from gui.results.controller import ItemPage, ResultsController
from gui.results.place import MIDDLE, NARROW, STUDY, WIDE
from gui.results.tabs import StudyTab
from gui.runs.table.rows import Item, StudyKind
from gui.window.main_window import MainWindow
from tests.sweeps import small_grid

FAULT = Problem(kind=Kind.REQUEST, message="The shapes do not fit.", remedy="Look at that line.")
FP16 = Experiment(precision=Precision.FP16)


@dataclass
class Results:
    """A window at the place Results over a store."""

    qtbot: QtBot
    window: MainWindow

    @property
    def controller(self) -> ResultsController:
        return self.window.others.results

    def item(self, kind: str) -> Item:
        model = self.window.runs.model
        self.qtbot.waitUntil(lambda: any(item.kind == kind for item in model.items))
        return next(item for item in model.items if item.kind == kind)

    def open(self, item: Item) -> None:
        """Clicks the item's row."""
        self.window.runs.table.setCurrentIndex(self.window.runs.model.index_of(item.key))

    def compare(self, item: Item) -> None:
        with self.qtbot.waitSignal(self.window.others.comparisons.reader.shown):
            self.open(item)


def is_open(results: Results, item: Item) -> bool:
    runs = results.window.runs
    return runs.table.isExpanded(runs.model.index_of(item.key))


@pytest.fixture
def results(qtbot: QtBot, store: Store, pair: tuple[str, str], start: Callable[[], MainWindow]) -> Results:
    return opened(qtbot, start)


def opened(qtbot: QtBot, start: Callable[[], MainWindow]) -> Results:
    window = start()
    window.resize(1_440, 900)
    window.experiments.load()
    window.show_page("results")
    return Results(qtbot, window)


def test_the_end_of_a_compared_run_is_read_once(
    results: Results, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    results.compare(results.item("comparison"))
    reader, reads = results.controller.comparisons.reader, []
    run_id = reader.run_ids()[0]

    def counted(*rest: Any) -> ComparedRuns:
        reads.append(rest)
        return read_and_compare(*rest)

    monkeypatch.setattr(controller, "read_and_compare", counted)
    with results.qtbot.waitSignal(reader.shown):
        store.record(run_id, [Finished(summary=Summary(steps=20))])
        results.window.experiments.runs.refresh(run_id)
    assert len(reads) == 1


@pytest.fixture
def pair(store: Store) -> tuple[str, str]:
    """The ids of a comparison's two runs."""
    comparison = store.add_comparison("A pair")
    speeds = {Precision.FP32: 500.0, Precision.BF16: 1_000.0}
    full, half = (add_run(store, precision, comparison, speed) for precision, speed in speeds.items())
    return full, half


def put(store: Store, answer: Answer) -> None:
    store.studies.end(store.studies.begin(Study(answer=answer, device_name="A card")))


def add_limit(store: Store) -> None:
    sides = []
    for precision, size in ((Precision.FP32, 100), (Precision.FP16, 150)):
        trial = Trial(batch_size=size, fits=True, seconds=1.0, peak_mib=900.0)
        result = LimitResult(
            precision=precision, largest_batch=size, verified=True, bound_by="memory", seconds=1.0
        )
        experiment = Experiment(precision=precision)
        sides.append(LimitSide(label=precision.label, experiment=experiment, trials=(trial,), result=result))
    put(store, Limit(sides=tuple(sides)))


def add_numerics(store: Store) -> None:
    found = NumericsResults(nan=NonfiniteSearch(steps=1, sentence="Every number was finite."))
    put(store, Numerics(experiment=FP16, parts=("nan",), results=found))


def add_tuning(store: Store) -> None:
    trial = TuningTrial(round=1, changes={}, steps=9, seconds=1.0, samples_per_second=9.0, words="plain")
    winner = FP16.model_copy(update={"batch_size": 256})
    changes = {"precision": "fp16", "batch_size": 256}
    tuning = Tuning(
        experiment=Experiment(), phase="over", trials=(trial,), winner=winner, winner_changes=changes
    )
    put(store, tuning)


def add_sweep(store: Store) -> None:
    store.sweeps.add("Rates", small_grid(), Plan(), device_name="A card")


STUDIES = {
    "limit": (add_limit, "Largest batch", "100 → 150 samples", 1.5, MIDDLE),
    "numerics": (add_numerics, "Numerics, FP16 AMP", "no NaN or Inf", None, NARROW),
    "tune": (add_tuning, "Tune", "FP16 AMP, batch 256", None, MIDDLE),
    "sweep": (add_sweep, "Rates", "2 × 3 × 2, 12 combinations", None, MIDDLE),
}


def test_a_click_on_a_comparison_shows_its_answer_and_marks_its_rows(
    results: Results, pair: tuple[str, str]
) -> None:
    item = results.item("comparison")
    results.compare(item)
    page = results.controller.page
    assert page.head.title.whole_text() == "FP32 against BF16 AMP"
    assert "BF16 AMP trained 2.00 times as fast as FP32" in page.comparison.headline.text()
    assert results.window.runs.table.marked == {item.key, *pair}
    assert results.window.runs.checked() == (), "a click opens, and does not tick"
    tabs = page.comparison.tabs
    for place in range(tabs.count()):
        tabs.setCurrentIndex(place)
        assert results.window.results.table_width(1_440) == MIDDLE, "tabs stay under the mouse"


def test_ticking_compares_and_unticking_all_shows_nothing(results: Results, pair: tuple[str, str]) -> None:
    reader = results.window.others.comparisons.reader
    with results.qtbot.waitSignal(reader.shown):
        results.window.runs.set_checked(pair[:1])
    assert results.window.runs.table.marked == {pair[0]}
    with results.qtbot.waitSignal(reader.shown):
        results.window.runs.set_checked(())
    assert reader.run_ids() == () and results.window.runs.table.marked == frozenset()


def add_run(
    store: Store,
    precision: Precision = Precision.TF32,
    comparison: str | None = None,
    speed: float = 750.0,
) -> str:
    experiment = Experiment(precision=precision, steps=200)
    run_id = store.add(experiment, comparison=comparison, label=precision.label).id
    store.begin(run_id)
    store.record(run_id, [Finished(summary=Summary(samples_per_second=speed, steps=200))])
    return run_id


def nothing_is_to_be_read(results: Results) -> bool:
    reader = results.controller.comparisons.reader
    return not reader.is_busy


def shown_title(page: ItemPage) -> str:
    """The title of what is opened."""
    panel = page.studies.currentWidget()
    if isinstance(panel, StudyPage) and panel.isVisibleTo(page):
        return panel.head.title.text()
    return page.head.title.whole_text()


@pytest.mark.parametrize(
    ("opened", "others"),
    [
        *((one, 1) for one in ("a comparison", "a run of it", "a run alone", "a study")),
        # so many reset the table, which brings its current row back
        ("what is ticked", 70),
    ],
)
def test_what_is_opened_stays_when_runs_come_and_go(
    results: Results, store: Store, pair: tuple[str, str], opened: str, others: int
) -> None:
    alone = add_run(store)
    add_limit(store)
    results.window.experiments.works.ended.emit("")
    runs, model, reader = results.window.experiments.runs, results.window.runs.model, results.controller
    runs.reload()
    if opened == "what is ticked":
        # another row is the current one
        results.compare(results.item("comparison"))
        results.window.runs.set_checked([alone])
    else:
        keys = {"a run of it": pair[1], "a run alone": alone}
        kind = "limit" if opened == "a study" else "comparison"
        index = model.index_of(keys.get(opened, results.item(kind).key))
        results.window.runs.table.setCurrentIndex(index)
    results.qtbot.waitUntil(lambda: nothing_is_to_be_read(results))
    marked = results.window.runs.table.marked
    title, words = shown_title(reader.page), reader.page.comparison.headline.text()
    assert title
    added = [add_run(store) for _ in range(others)]
    for change in (
        runs.reload,
        lambda: runs.delete(added),
        lambda: results.window.runs.filter.setText("xyz"),
    ):
        change()
        results.qtbot.waitUntil(lambda: nothing_is_to_be_read(results))
        assert (shown_title(reader.page), reader.page.comparison.headline.text()) == (title, words)
        assert results.window.runs.table.marked == marked


def test_a_deleted_run_that_was_ticked_does_not_close_what_is_opened(
    results: Results, store: Store, pair: tuple[str, str]
) -> None:
    ticked = add_run(store)
    results.window.experiments.runs.reload()
    results.window.runs.set_checked([ticked])
    results.compare(results.item("comparison"))
    results.window.experiments.runs.delete([ticked])
    assert results.controller.comparisons.reader.run_ids() == pair and results.window.runs.checked() == ()


def test_a_comparison_that_is_opened_takes_in_a_run_that_joins_it_and_goes_on_without_one_that_is_deleted(
    results: Results, store: Store, pair: tuple[str, str]
) -> None:
    results.compare(results.item("comparison"))
    runs, reader = results.window.experiments.runs, results.controller.comparisons.reader
    third = add_run(store, comparison=store.run(pair[0]).comparison)
    for do, left in (
        (runs.reload, (*pair, third)),
        (lambda: runs.delete([third]), pair),
        (lambda: runs.delete([pair[1]]), pair[:1]),
        (lambda: runs.delete([pair[0]]), ()),
    ):
        with results.qtbot.waitSignal(reader.shown):
            do()
        assert reader.run_ids() == left
    assert "Train one model in two precisions" in results.controller.page.comparison.headline.text()


def test_a_click_on_a_run_shows_its_comparison_with_the_sentence_about_it(
    results: Results, pair: tuple[str, str], store: Store
) -> None:
    third = add_run(store, comparison=store.run(pair[0]).comparison)
    results.window.experiments.runs.reload()
    model = results.window.runs.model
    for run_id, words in ((pair[1], "BF16 AMP trained 2.00"), (third, "TF32 trained 1.50")):
        with results.qtbot.waitSignal(results.window.others.comparisons.reader.shown):
            results.window.runs.table.setCurrentIndex(model.index_of(run_id))
        assert words in results.controller.page.comparison.headline.text()


@pytest.mark.parametrize("end", ["finished", "failed"])
def test_the_commands_of_a_comparison_are_used_together(
    qtbot: QtBot, store: Store, start: Callable[[], MainWindow], end: str
) -> None:
    comparison, lines = store.add_comparison("Scripts"), ("python a.py", "python b.py", "python b.py --amp")
    for line in lines:
        experiment = Experiment(command=Command(line=line), steps=200)
        run_id = store.add(experiment, comparison=comparison).id
        store.begin(run_id)
        summary = Summary(samples_per_second=500.0, steps=200)
        store.record(run_id, [Finished(summary=summary) if end == "finished" else Failed(problem=FAULT)])
    results = opened(qtbot, start)
    item = results.item("comparison")
    (results.open if end == "failed" else results.compare)(item)
    results.controller.page.head.settings.click()
    assert results.window.setup.question == "script"
    assert results.window.setup.scripts.draft.lines == lines


@pytest.mark.parametrize("kind", list(STUDIES))
def test_a_study_has_a_row_with_its_result_and_opens_with_its_own_view(
    qtbot: QtBot, store: Store, start: Callable[[], MainWindow], kind: StudyKind
) -> None:
    add, title, result, ratio, width = STUDIES[kind]
    add(store)
    results = opened(qtbot, start)
    window, item = results.window, results.item(kind)
    assert (item.title, item.result, item.ratio) == (title, result, ratio)
    results.open(item)
    page = results.controller.page
    panel = page.studies.currentWidget()
    assert isinstance(panel, StudyPage) and not page.is_comparison
    view = panel.view()
    assert view is not None and item.study is not None and view.key == item.study.id
    assert window.runs.table.marked == {item.key} and window.results.table_width(1_440) == width
    panel.head.settings.click()
    assert window.place == "experiment"
    wanted = item.study.experiment if item.study is not None else None
    assert wanted is not None
    assert window.setup.text("batch_size") == f"{wanted.batch_size}"


@pytest.mark.parametrize("kind", ["limit", "tune"])
def test_the_answer_on_the_page_of_a_question_stays_when_another_one_starts(
    store: Store, start: Callable[[], MainWindow], kind: StudyKind
) -> None:
    for _ in range(2):
        STUDIES[kind][0](store)
    window = start()
    works, controller = window.experiments.works, window.others._controllers[kind]
    newest, older = works.saved(kind)
    works.began.emit(older)
    assert controller._key == newest, "an empty page shows what there is"
    controller.open(older)
    works.began.emit(newest)
    assert controller._key == older


def test_a_profile_opens_beside_a_narrow_list_is_deleted_from_its_row_and_brought_back(
    qtbot: QtBot, store: Store, start: Callable[[], MainWindow], profiles: Profiles
) -> None:
    put(store, profiles)
    results = opened(qtbot, start)
    window, item = results.window, results.item("profile")
    assert item.title == "Profile of both" and item.result.endswith("ms per step") and item.ratio is not None
    results.open(item)
    assert window.results.table_width(1_440) == NARROW
    saved = store.studies.find(item.id)
    qtbot.keyClick(window.runs.table, Qt.Key.Key_Delete)
    qtbot.waitUntil(lambda: not window.runs.model.items)
    assert store.studies.newest("profile") == ()
    assert window.notice.text() == "Deleted “Profile of both”."
    next(button for button in window.notice.findChildren(QAbstractButton) if button.text() == "Undo").click()
    assert results.item("profile") == item and store.studies.find(item.id) == saved


def test_what_failed_as_a_whole_is_one_closed_row_and_opens_why(
    results: Results, store: Store, pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison, file = store.add_comparison("Broken"), tmp_path / "net.py"
    file.write_text("from torch import nn\n\n\nclass Net(nn.Module):\n    pass\n")
    code = read_code(file)
    broken = Experiment(model="net.py:Net", code=code.to_json())
    detail = f'Traceback:\n  File "{file}", line 5, in forward\n    pass\n'
    for label in ("FP32", "BF16 AMP"):
        run_id = store.add(broken, comparison=comparison, label=label).id
        store.begin(run_id)
        store.record(run_id, [Failed(problem=FAULT, detail=detail)])
    results.window.experiments.runs.reload()
    item = next(item for item in results.window.runs.model.items if item.is_failed)
    assert item.result == "failed, net.py:5" and not is_open(results, item)
    results.open(item)
    page = results.controller.page
    assert page.failure.isVisibleTo(page) and FAULT.message in page.failure.card.accessibleName()
    file.write_text(f"{code.text}\n# mended\n")
    asked: list[Any] = []
    monkeypatch.setattr(results.window.experiments, "submit_request", asked.append)
    _, check, again = page.failure.card.remedies
    again.click()
    assert [label for label, _ in asked[0].experiments] == ["FP32", "BF16 AMP"]
    assert all("# mended" in str(experiment.code) for _, experiment in asked[0].experiments)
    check.click()
    assert results.window.place == "experiment"
    results.window.show_page("results")
    results.compare(next(item for item in results.window.runs.model.items if not item.is_failed))
    assert not page.failure.isVisibleTo(page)


def test_a_tab_offers_the_study_that_is_not_there_and_shows_the_one_that_is(
    results: Results, store: Store
) -> None:
    add_limit(store)
    results.window.experiments.works.ended.emit("")
    results.item("limit")
    results.compare(results.item("comparison"))
    tabs = results.controller.page.comparison.tabs
    assert [tabs.tabText(place) for place in range(tabs.count())] == [
        *("Metrics", "Curves", "Profile", "Numerics", "Memory")
    ]
    tabs.setCurrentIndex(2)
    profile = tabs.currentWidget()
    assert isinstance(profile, StudyTab)
    assert "Where does a step's time go?" in profile.empty.words()
    tabs.setCurrentIndex(4)
    memory = tabs.currentWidget()
    assert isinstance(memory, StudyTab) and not memory.empty.isVisibleTo(memory)


def test_the_kind_chooser_shows_one_kind(results: Results, store: Store) -> None:
    add_numerics(store)
    results.window.experiments.works.ended.emit("")
    item = results.item("numerics")
    runs = results.window.runs
    runs.choose_kind("numerics")
    assert runs.model.index_of(item.key).isValid() and len(runs.model.found) == 0
    runs.choose_kind("comparison")
    assert not runs.model.index_of(item.key).isValid() and len(runs.model.found) == 2
    runs.choose_kind("sweep")
    assert runs.pages.currentIndex() == 1
    runs.choose_kind(None)
    runs.filter.setText("numerics fp16")
    assert runs.model.index_of(item.key).isValid() and len(runs.model.found) == 0


def test_the_width_that_the_user_chose_holds_and_survives(results: Results) -> None:
    place = results.window.results
    place.splitterMoved.emit(400, 1)
    results.compare(results.item("comparison"))
    assert place.table_width(1_440) == 400 and place.state() == {"width": 400}
    place.restore({"width": 0})
    assert place.table_width(1_440) == MIDDLE
    place.want_width(WIDE)
    assert place.table_width(1_440) == WIDE
    place.want_width(MIDDLE, STUDY)
    assert place.table_width(1_440) == MIDDLE and place.table_width(1_100) == NARROW
