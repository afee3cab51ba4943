"""A sweep is carried on from wherever it stands; workers here only say what a script has them say."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from engine.experiment.checks import Catalog
from engine.experiment.problem import Kind, ProblemError
from engine.experiment.repeats import Plan
from engine.experiment.sweep import Axis, Grid, grid_of
from engine.protocol.events import Failed, Finished, Phase
from engine.store.record import Status
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

Scripted = Callable[[str], Launcher]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return read_catalog()


@pytest.fixture
def pair() -> Grid:
    """Two cells, the second compared with the first."""
    return grid_of(OF_GRID, [Axis(key="precision", values=("fp32", "bf16"))])


def outline(events: list[SweepEvent]) -> list[tuple[int, str, int]]:
    return [
        (event.turn.cell, event.turn.kind, event.turn.repeat)
        for event in events
        if isinstance(event, TurnEnded)
    ]


def test_a_sweep_is_piloted_trained_and_ended(store, catalog, scripted, pair):
    sweeper = Sweeper(store, scripted(TRAINED), catalog)
    sweep_id = sweeper.prepare("Night", pair, Plan(repeats=2))
    events = list(sweeper.carry_on(sweep_id))
    assert isinstance(events[0], SweepStarted) and events[0].estimate is None
    assert outline(events) == [
        *((cell, "pilot", 1) for cell in (0, 1)),
        *((cell, "run", 1) for cell in (0, 1)),
        *((cell, "run", 2) for cell in (1, 0)),
    ]
    last = events[-1]
    assert isinstance(last, Finished) and not last.stopped
    record = store.sweeps.find(sweep_id)
    pilot = record.cells[1].pilot
    assert pilot is not None and pilot.validation_seconds is not None
    assert (pilot.steps, pilot.step_ms, pilot.peak_mib, pilot.final_loss) == (15, 10.0, 7.0, 0.5)
    assert record.ended is not None and not record.is_claimed and record.spent_seconds > 0
    first, second = record.cells[1].runs
    assert [run.experiment.seed for run in (first, second)] == [0, 1]
    assert first.name == "Night, BF16 AMP, repeat 1" and first.label == "BF16 AMP"
    assert {run.comparison for run in store.runs()} == {record.comparison}
    begun = [event.turn.run_id for event in events if isinstance(event, TurnStarted)]
    assert begun[:2] == [None, None] and set(begun[2:]) == {run.id for run in store.runs()}
    # a sweep that has ended has no turn left
    assert [type(event) for event in sweeper.carry_on(sweep_id)] == [SweepStarted, Finished]


@pytest.mark.parametrize("kind", [Kind.OUT_OF_MEMORY, Kind.REQUEST])
def test_a_failure_ends_its_own_cell_alone(store, catalog, scripted, pair, kind):
    sweeper = Sweeper(store, scripted(FAILED % kind + TRAINED), catalog)
    sweep_id = sweeper.prepare("", pair, Plan())
    events = list(sweeper.carry_on(sweep_id))
    assert outline(events) == [(0, "pilot", 1), (1, "pilot", 1), (0, "run", 1)]
    problem = store.sweeps.find(sweep_id).cells[1].problem
    assert problem is not None and problem.message == "It failed." and isinstance(events[-1], Finished)


def test_a_full_disk_ends_the_sweep_and_no_cell(store, catalog, scripted, pair):
    sweep_id = Sweeper(store, scripted(TRAINED), catalog).prepare("", pair, Plan())
    short = FAILED % Kind.DISK_FULL + TRAINED
    events = list(Sweeper(store, scripted(short), catalog).carry_on(sweep_id))
    assert isinstance(events[-1], Failed) and store.sweeps.find(sweep_id).problem is not None
    again = list(Sweeper(store, scripted(TRAINED), catalog).carry_on(sweep_id))
    assert outline(again) == [(1, "pilot", 1), (0, "run", 1), (1, "run", 1)]
    assert store.sweeps.find(sweep_id).problem is None


def test_stopped_it_goes_on_with_the_turn_in_flight(store, catalog, scripted, pair):
    sweeper = Sweeper(store, scripted(TRAINED), catalog)
    sweep_id = sweeper.prepare("", pair, Plan())
    assert outline(list(sweeper.carry_on(sweep_id, gives_way=lambda: True))) == [(0, "pilot", 1)]
    waiting = Sweeper(store, scripted(WAITS), catalog)
    for event in waiting.carry_on(sweep_id):
        if isinstance(event, Phase):
            waiting.stop()
    assert isinstance(event, Finished) and event.stopped
    assert store.sweeps.find(sweep_id).cells[1].problem is None
    events = list(Sweeper(store, scripted(TRAINED), catalog).carry_on(sweep_id))
    assert outline(events) == [(1, "pilot", 1), (0, "run", 1), (1, "run", 1)]


def test_a_stopped_run_is_trained_anew_and_a_skipped_one_is_not(store, catalog, scripted, pair):
    launcher = scripted(f"if job['experiment']['steps'] > 15:{WAITS.replace(chr(10), chr(10) + '    ')}")
    sweep_id = _piloted(store, catalog, scripted, pair)
    waiting = Sweeper(store, launcher, catalog)
    for event in waiting.carry_on(sweep_id):
        if isinstance(event, Phase):
            waiting.stop()
    (stopped,) = store.runs()
    assert stopped.status is Status.STOPPED and stopped.cell == 0
    skipping = Sweeper(store, launcher, catalog)
    for event in skipping.carry_on(sweep_id):
        if isinstance(event, Phase):
            skipping.skip()
    assert isinstance(event, Finished) and not event.stopped
    skipped = store.sweeps.find(sweep_id)
    assert [cell.problem and cell.problem.message for cell in skipped.cells] == ["The cell was skipped."] * 2
    assert len(store.runs()) == 2 and stopped.id not in {run.id for run in store.runs()}


def test_a_left_iterator_lets_go_of_the_sweep(store, catalog, scripted, pair):
    sweep_id = _piloted(store, catalog, scripted, pair)
    events = Sweeper(store, scripted(TRAINED), catalog).carry_on(sweep_id)
    assert isinstance(next(events), SweepStarted) and isinstance(next(events), TurnStarted)
    events.close()  # type: ignore[attr-defined]
    assert not store.sweeps.find(sweep_id).is_claimed
    assert len(outline(list(Sweeper(store, scripted(TRAINED), catalog).carry_on(sweep_id)))) == 2


def test_no_turn_begins_once_the_time_is_used_up(store, catalog, scripted, pair):
    sweeper = Sweeper(store, scripted(TRAINED), catalog)
    sweep_id = sweeper.prepare("", pair, Plan(time_limit_seconds=1e-6))
    assert outline(list(sweeper.carry_on(sweep_id))) == [(0, "pilot", 1)]
    # spent time counts over restarts
    assert outline(list(sweeper.carry_on(sweep_id))) == []


def test_a_held_cell_keeps_the_sweep_open(store, catalog, scripted, pair):
    sweep_id = _piloted(store, catalog, scripted, pair)
    store.sweeps.hold(sweep_id, 1, True)
    sweeper = Sweeper(store, scripted(TRAINED), catalog)
    assert outline(list(sweeper.carry_on(sweep_id))) == [(0, "run", 1)]
    assert store.sweeps.find(sweep_id).ended is None
    store.sweeps.hold(sweep_id, 1, False)
    assert outline(list(sweeper.carry_on(sweep_id))) == [(1, "run", 1)]


def test_cells_that_cannot_be_trained_are_left_out(store, catalog, scripted):
    sweeper = Sweeper(store, scripted(TRAINED), catalog)
    grid = grid_of(OF_GRID, [Axis(key="batch_size", values=(4, 65))])
    record = store.sweeps.find(sweeper.prepare("", grid, Plan()))
    assert record.cells[0].left_out == "" and "64 samples" in record.cells[1].left_out
    hopeless = grid_of(OF_GRID, [Axis(key="batch_size", values=(65, 66))])
    with pytest.raises(ProblemError, match="None of the sweep's 2 cells can be trained here"):
        sweeper.prepare("", hopeless, Plan())
    assert len(store.sweeps.newest()) == 1


def test_folders_are_found_from_wherever_the_sweep_is_carried_on(
    store, catalog, scripted, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        for part in ("cats", "dogs"):
            (tmp_path / name / part).mkdir(parents=True)
            (tmp_path / name / part / "a.png").touch()
    base = {"dataset": "image-folder", "device": "cpu", "steps": 4, "batch_size": 1, "path": "one"}
    sweeper = Sweeper(store, scripted(TRAINED), catalog)
    grid = grid_of(base, [Axis(key="path", values=("one", "two"))])
    saved = store.sweeps.find(sweeper.prepare("", grid, Plan())).grid
    whole = [str(tmp_path / name) for name in ("one", "two")]
    assert [cell.experiment.path for cell in saved.cells] == whole and saved.base["path"] == whole[0]
    assert saved.axes[0].text(1) == "two"


def test_another_program_s_sweep_is_not_carried_on(store, path, catalog, scripted, pair):
    sweeper = Sweeper(store, scripted(TRAINED), catalog)
    sweep_id = sweeper.prepare("Night", pair, Plan())
    store.sweeps.claim(sweep_id)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE sweeps SET owner = json_set(owner, '$.host', 'elsewhere.example')")
    with pytest.raises(ProblemError, match="Night is carried on by another Ammeter"):
        next(sweeper.carry_on(sweep_id))


def _piloted(store: Store, catalog: Catalog, scripted: Scripted, grid: Grid) -> str:
    """A sweep of which every cell has its pilot, and nothing else is done."""
    sweeper = Sweeper(store, scripted(TRAINED), catalog)
    sweep_id = sweeper.prepare("", grid, Plan())
    for _ in range(grid.size):
        list(sweeper.carry_on(sweep_id, gives_way=lambda: True))
    return sweep_id


def test_a_pause_is_no_time_spent(store, catalog, scripted, pair):
    paused = TRAINED.replace("peak_resident_mib=7.0", "peak_resident_mib=7.0, paused_seconds=1000.0")
    sweeper = Sweeper(store, scripted(paused), catalog)
    sweep_id = sweeper.prepare("", pair, Plan())
    list(sweeper.carry_on(sweep_id, gives_way=lambda: True))
    # this pause is longer than all the rest
    assert store.sweeps.find(sweep_id).spent_seconds < 0
