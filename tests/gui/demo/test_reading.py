"""What the workspace Show plays: chosen runs, else the newest comparison; read from the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.problem import Kind, Problem
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.demo.panel import DemoPanel
from gui.demo.reading import RaceChoice, RaceReader, newest_choices, read_race
from gui.session.saved_runs import SavedRuns
from gui.theme.theme import theme
from tests.gui.conftest import CARD

Trained = Callable[..., RunRecord]
Pair = Callable[..., tuple[RunRecord, RunRecord]]


@dataclass
class Workspace:
    """The panel with what fills it, as the window joins them."""

    qtbot: QtBot
    panel: DemoPanel
    reader: RaceReader
    runs: SavedRuns

    def look(self) -> None:
        self.runs.reload()
        self.reader.set_in_sight(True)
        self.wait()

    def show(self, *runs: RunRecord, **choice: Any) -> None:
        self.runs.reload()
        self.reader.show_comparison([run.id for run in runs], **choice)
        self.wait()

    def wait(self) -> None:
        self.qtbot.waitUntil(lambda: not self.reader.is_busy)

    def come_back(self) -> None:
        self.reader.set_in_sight(False)
        self.look()

    def ids(self) -> tuple[str, str]:
        race = self.panel.race.race
        assert race is not None
        return race.lanes[0].run.id, race.lanes[1].run.id


@pytest.fixture
def workspace(qtbot: QtBot, saved: Store) -> Iterator[Workspace]:
    panel, runs = DemoPanel(), SavedRuns(saved)
    qtbot.addWidget(panel)
    reader = RaceReader(saved.path, runs, panel)
    yield Workspace(qtbot, panel, reader, runs)
    reader.stop()
    panel.race.clock.pause()


@pytest.fixture
def pair(saved: Store, trained: Trained) -> Pair:
    """Puts a comparison of FP32 and FP16 into the store."""

    def make(full: float = 1_000.0, mixed: float = 2_500.0) -> tuple[RunRecord, RunRecord]:
        comparison = saved.add_comparison("A pair")
        return (trained("fp32", full, comparison=comparison), trained("fp16", mixed, comparison=comparison))

    return make


def test_the_newest_comparison_is_played_where_nothing_was_chosen_once_somebody_looks(
    workspace: Workspace, pair: Pair, trained: Trained
) -> None:
    workspace.look()
    assert workspace.panel.page == "welcome" and workspace.reader.state() == {}, "an empty store is welcomed"
    workspace.reader.set_in_sight(False)
    pair()
    newest = pair(1_000.0, 3_000.0)
    trained("fp32", 1_000.0)
    workspace.show(*newest)
    assert workspace.reader.raced is None, "nothing is read before"
    workspace.look()
    assert workspace.ids() == tuple(run.id for run in newest)
    race = workspace.panel.race.race
    assert workspace.panel.page == "race" and workspace.panel.race.clock.is_playing
    assert race is not None and race.ratio == pytest.approx(3.0)


def test_a_comparison_with_one_side_is_passed_over_for_the_one_before_it(
    workspace: Workspace, saved: Store, trained: Trained, pair: Pair
) -> None:
    raced = pair()
    alone = saved.add_comparison("Repeats")
    for seed in (0, 1):
        trained("fp32", 1_000.0, comparison=alone, settings={"seed": seed})
    workspace.look()
    assert workspace.ids() == tuple(run.id for run in raced)


def test_a_chosen_side_races_against_the_chosen_baseline(workspace: Workspace, trained: Trained) -> None:
    full, half, brain = trained("fp32", 1_000.0), trained("fp16", 2_000.0), trained("bf16", 1_500.0)
    workspace.look()
    workspace.show(full, half, brain, baseline=half.id, side_id=brain.id)
    assert workspace.ids() == (half.id, brain.id)
    workspace.show(full, half, brain)
    assert workspace.ids() == (full.id, half.id)


def test_one_side_alone_is_refused_in_words_and_forgotten(
    workspace: Workspace, trained: Trained, pair: Pair
) -> None:
    raced, alone = pair(), trained("fp32", 1_000.0)
    workspace.look()
    with workspace.qtbot.waitSignal(workspace.reader.refused):
        workspace.show(alone)
    assert workspace.panel.page == "refused" and len(workspace.panel.refused.words()) > 20
    workspace.come_back()
    assert workspace.ids() == tuple(run.id for run in raced)


def test_a_refusal_in_ones_absence_is_told_on_coming_back_and_then_no_more(
    workspace: Workspace, pair: Pair
) -> None:
    pair()
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It ran out of memory.", remedy="Take less.")
    workspace.reader.refuse(problem)
    workspace.look()
    assert workspace.panel.page == "refused" and "out of memory" in workspace.panel.refused.words()
    workspace.come_back()
    assert workspace.panel.page == "race"


def test_a_race_that_was_read_in_ones_absence_is_played_on_coming_back(
    workspace: Workspace, pair: Pair
) -> None:
    pair()
    workspace.runs.reload()
    workspace.reader.set_in_sight(True)
    workspace.reader.set_in_sight(False)
    workspace.wait()
    clock = workspace.panel.race.clock
    assert workspace.panel.page == "race" and not clock.is_playing
    workspace.reader.set_in_sight(True)
    assert clock.is_playing
    clock.pause()
    workspace.reader.set_in_sight(False)
    workspace.reader.set_in_sight(True)
    assert not clock.is_playing, "who has held it finds it held"


def test_runs_that_are_deleted_while_they_race_stay_on_screen_until_it_is_left(
    workspace: Workspace, saved: Store, pair: Pair
) -> None:
    raced = pair()
    workspace.look()
    newer = pair(1_000.0, 4_000.0)
    workspace.come_back()
    assert workspace.ids() == tuple(run.id for run in raced), "the race that was left is still there"
    saved.delete([run.id for run in (*raced, *newer)])
    workspace.runs.reload()
    assert workspace.panel.page == "race" and workspace.panel.race.clock.is_playing
    workspace.come_back()
    assert workspace.panel.page == "welcome" and workspace.reader.raced is None


def test_what_comes_too_late_is_not_shown(workspace: Workspace, pair: Pair) -> None:
    first, second = pair(), pair(1_000.0, 4_000.0)
    workspace.look()
    workspace.reader.show_comparison([run.id for run in first])
    workspace.show(*second)
    assert workspace.ids() == tuple(run.id for run in second)
    workspace.reader.show_comparison([run.id for run in first])
    workspace.reader.set_measuring(True)
    workspace.wait()
    assert workspace.ids() == tuple(run.id for run in second), "held for what is being measured"


def test_what_was_shown_last_survives_a_restart(workspace: Workspace, pair: Pair) -> None:
    full, mixed = pair()
    pair(1_000.0, 4_000.0)
    workspace.look()
    workspace.show(full, mixed, baseline=full.id, side_id=mixed.id)
    state = workspace.reader.state()
    again = RaceReader(workspace.runs._store.path, workspace.runs, workspace.panel)
    again.restore(state)
    assert again.state() == state
    again.set_in_sight(True)
    workspace.qtbot.waitUntil(lambda: not again.is_busy)
    assert workspace.ids() == (full.id, mixed.id)


@pytest.mark.parametrize("state", [{"runs": 3}, {"runs": [1, 2]}, {"runs": ["a"], "side": 4}])
def test_a_damaged_memory_of_it_is_refused(workspace: Workspace, state: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        workspace.reader.restore(state)
    assert workspace.reader.state() == {}


def test_runs_of_other_machines_and_lengths_race_all_the_same_and_it_is_said(
    workspace: Workspace, trained: Trained
) -> None:
    other = CARD.model_copy(update={"device_name": "Another card", "device_memory_mib": 8, "torch": "2.15"})
    full = trained("fp32", 1_000.0)
    mixed = trained("fp16", 2_000.0, machine=other, losses=[1.0] * 90, settings={"steps": 90})
    workspace.look()
    workspace.show(full, mixed)
    race = workspace.panel.race.race
    assert race is not None and race.report.doubts and race.at(race.seconds).samples[1] <= 90 * 64
    theme().toggle()
    assert workspace.panel.page == "race"
    theme().toggle()


def test_only_comparisons_of_which_two_runs_are_over_are_candidates(saved: Store, trained: Trained) -> None:
    comparison = saved.add_comparison("A pair")
    done = trained("fp32", 1_000.0, comparison=comparison)
    waiting = saved.add(done.experiment, comparison=comparison)
    assert newest_choices(saved.runs()) == ()
    mixed = trained("fp16", 2_000.0, comparison=comparison)
    (choice,) = newest_choices(saved.runs())
    assert choice.run_ids == (done.id, mixed.id) and waiting.id not in choice.run_ids


def test_other_saved_runs_tell_how_much_of_a_gain_is_the_precisions(saved: Store, trained: Trained) -> None:
    full = trained("fp32", 1_000.0)
    fast = trained("fp16", 4_000.0, settings={"step": {"recipe": "fast"}})
    trained("fp16", 2_000.0)
    race = read_race(saved.path, [RaceChoice((full.id, fast.id))]).race
    assert race.report.split is not None
    assert [part.ratio for part in race.report.split.factors] == [2.0, 2.0]
