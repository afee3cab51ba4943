"""A sweep is carried on from wherever it stands; workers here only say what a script has them say."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from typing import Any

import pytest

from engine.experiment.problem import Kind, ProblemError
from engine.experiment.sweep import Axis, Grid, Plan, grid_of
from engine.protocol.events import Failed, Finished, Phase
from engine.store.record import Status
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store
from engine.sweep.order import SweepEvent, SweepStarted, TurnEnded, TurnStarted
from engine.sweep.sweeper import Sweeper
from engine.training.doctor import read_catalog
from engine.worker.launcher import Launcher
from tests.engine.sweep.conftest import OF_GRID

TRAINED = """
steps = job["experiment"]["steps"]
started()
samples(1, steps)
say(event="phase", name="validating")
say(event="epoch", epoch=1, step=steps, seconds=1.0, train_loss=0.5, validation_accuracy=0.5)
say(event="finished", summary=dict(steps=steps, epochs=1.0, seconds=steps / 100, step_ms=10.0,
    samples_per_second=400.0, peak_resident_mib=7.0, final_train_loss=0.5))
"""
FAILED = """
if job["experiment"]["precision"] == "bf16":
    started()
    say(event="failed", problem=dict(kind="%s", message="It failed.", remedy="Try again."))
    sys.exit()
"""
WAITS = """
started()
say(event="phase", name="warming up")
while json.loads(sys.stdin.readline())["job"] != "stop":
    pass
finished(2, True)
"""

known_catalog = cache(read_catalog)
PAIR = grid_of(OF_GRID, [Axis(key="precision", values=("fp32", "bf16"))])
"""Two cells, the second compared with the first."""


class Night:
    """A sweep of `PAIR`, and sweepers whose workers do as a script says."""

    def __init__(self, store: Store, scripted: Callable[[str], Launcher]) -> None:
        self.store, self._scripted = store, scripted
        self.id = ""

    def sweeper(self, script: str = TRAINED) -> Sweeper:
        return Sweeper(self.store, self._scripted(script), known_catalog())

    def prepare(self, grid: Grid = PAIR, **plan: Any) -> None:
        self.id = self.sweeper().prepare("Night", grid, Plan(**plan))

    def pilot(self) -> None:
        """Gives every cell its pilot, and nothing else."""
        self.prepare()
        for _ in range(PAIR.size):
            self.events(should_yield=lambda: True)

    def events(self, script: str = TRAINED, **options: Any) -> list[SweepEvent]:
        return list(self.sweeper(script).run(self.id, **options))

    def turns(self, script: str = TRAINED, **options: Any) -> list[tuple[int, str, int]]:
        return outline(self.events(script, **options))

    def interrupt(self, script: str, act: Callable[[Sweeper], None]) -> Finished:
        """The end of a sweep on which somebody acts in each turn's first phase."""
        sweeper, event = self.sweeper(script), None
        for event in sweeper.run(self.id):
            if isinstance(event, Phase):
                act(sweeper)
        assert isinstance(event, Finished)
        return event

    @property
    def record(self) -> SweepRecord:
        return self.store.sweeps.find(self.id)


def outline(events: list[SweepEvent]) -> list[tuple[int, str, int]]:
    ended = [event.turn for event in events if isinstance(event, TurnEnded)]
    return [(turn.cell, turn.kind, turn.repeat) for turn in ended]


@pytest.fixture
def night(store: Store, scripted: Callable[[str], Launcher]) -> Night:
    return Night(store, scripted)


def test_a_sweep_is_piloted_trained_and_ended(night):
    night.prepare(repeats=2)
    events = night.events()
    assert isinstance(events[0], SweepStarted) and events[0].estimate is None
    assert outline(events) == [
        *((cell, "pilot", 1) for cell in (0, 1)),
        *((cell, "run", 1) for cell in (0, 1)),
        *((cell, "run", 2) for cell in (1, 0)),
    ]
    assert isinstance(events[-1], Finished) and not events[-1].stopped
    record = night.record
    pilot = record.cells[1].pilot
    assert pilot is not None and pilot.validation_seconds is not None
    assert (pilot.steps, pilot.step_ms, pilot.peak_mib, pilot.final_loss) == (15, 10.0, 7.0, 0.5)
    assert record.ended is not None and not record.is_claimed and record.spent_seconds > 0
    first, second = record.cells[1].runs
    assert [run.experiment.seed for run in (first, second)] == [0, 1]
    assert first.name == "Night, BF16 AMP, repeat 1" and first.label == "BF16 AMP"
    runs = night.store.runs()
    assert {run.comparison for run in runs} == {record.comparison}
    begun = [event.turn.run_id for event in events if isinstance(event, TurnStarted)]
    assert begun[:2] == [None, None] and set(begun[2:]) == {run.id for run in runs}
    # a sweep that has ended has no turn left
    assert [type(event) for event in night.events()] == [SweepStarted, Finished]


@pytest.mark.parametrize("kind", [Kind.OUT_OF_MEMORY, Kind.REQUEST])
def test_a_failure_ends_its_own_cell_alone(night, kind):
    night.prepare()
    events = night.events(FAILED % kind + TRAINED)
    assert outline(events) == [(0, "pilot", 1), (1, "pilot", 1), (0, "run", 1)]
    problem = night.record.cells[1].problem
    assert problem is not None and problem.message == "It failed." and isinstance(events[-1], Finished)


def test_a_full_disk_ends_the_sweep_and_no_cell(night):
    night.prepare()
    events = night.events(FAILED % Kind.DISK_FULL + TRAINED)
    assert isinstance(events[-1], Failed) and night.record.problem is not None
    assert night.turns() == [(1, "pilot", 1), (0, "run", 1), (1, "run", 1)]
    assert night.record.problem is None


def test_stopped_it_goes_on_with_the_turn_in_flight(night):
    night.prepare()
    assert night.turns(should_yield=lambda: True) == [(0, "pilot", 1)]
    assert night.interrupt(WAITS, Sweeper.stop).stopped
    assert night.record.cells[1].problem is None
    assert night.turns() == [(1, "pilot", 1), (0, "run", 1), (1, "run", 1)]


def test_a_stopped_run_is_trained_anew_and_a_skipped_one_is_not(night):
    night.pilot()
    waits = f"if job['experiment']['steps'] > 15:{WAITS.replace(chr(10), chr(10) + '    ')}"
    night.interrupt(waits, Sweeper.stop)
    (stopped,) = night.store.runs()
    assert stopped.status is Status.STOPPED and stopped.cell == 0
    assert not night.interrupt(waits, Sweeper.skip).stopped
    problems = [cell.problem and cell.problem.message for cell in night.record.cells]
    assert problems == ["This combination was skipped."] * 2
    runs = night.store.runs()
    assert len(runs) == 2 and stopped.id not in {run.id for run in runs}


def test_a_left_iterator_lets_go_of_the_sweep(night):
    night.pilot()
    events = night.sweeper().run(night.id)
    assert isinstance(next(events), SweepStarted) and isinstance(next(events), TurnStarted)
    events.close()
    assert not night.record.is_claimed and len(night.turns()) == 2


def test_no_turn_begins_once_the_time_is_used_up_over_restarts_and_without_pauses(night):
    night.prepare(time_limit_seconds=1e-6)
    assert night.turns() == [(0, "pilot", 1)]
    assert night.turns() == []
    night.prepare()
    # this pause is longer than all the rest
    paused = TRAINED.replace("peak_resident_mib=7.0", "peak_resident_mib=7.0, paused_seconds=1000.0")
    night.events(paused, should_yield=lambda: True)
    assert night.record.spent_seconds < 0


def test_a_held_cell_keeps_the_sweep_open(night):
    night.pilot()
    night.store.sweeps.pause(night.id, 1, True)
    assert night.turns() == [(0, "run", 1)]
    assert night.record.ended is None
    night.store.sweeps.pause(night.id, 1, False)
    assert night.turns() == [(1, "run", 1)]


def test_cells_that_cannot_be_trained_are_left_out(night):
    night.prepare(grid_of(OF_GRID, [Axis(key="batch_size", values=(4, 65))]))
    cells = night.record.cells
    assert cells[0].left_out == "" and "64 samples" in cells[1].left_out
    with pytest.raises(ProblemError, match="None of the sweep's 2 combinations can be trained here"):
        night.prepare(grid_of(OF_GRID, [Axis(key="batch_size", values=(65, 66))]))
    assert len(night.store.sweeps.newest()) == 1


def test_folders_are_found_from_wherever_the_sweep_is_carried_on(night, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for picture in ("one/cats/a.png", "one/dogs/a.png", "two/cats/a.png", "two/dogs/a.png"):
        (tmp_path / picture).parent.mkdir(parents=True)
        (tmp_path / picture).touch()
    base = {"dataset": "image-folder", "device": "cpu", "steps": 4, "batch_size": 1, "path": "one"}
    night.prepare(grid_of(base, [Axis(key="path", values=("one", "two"))]))
    saved, whole = night.record.grid, [str(tmp_path / name) for name in ("one", "two")]
    assert [cell.experiment.path for cell in saved.cells] == whole and saved.base["path"] == whole[0]
    assert saved.axes[0].text(1) == "two"


def test_another_programs_sweep_is_not_carried_on(night, path):
    night.prepare()
    night.store.sweeps.claim(night.id)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE sweeps SET owner = json_set(owner, '$.host', 'elsewhere.example')")
    with pytest.raises(ProblemError, match="Night is running in another instance of Ammeter"):
        next(night.sweeper().run(night.id))
