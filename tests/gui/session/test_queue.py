"""The window's queue: job, hold, repeat, remove, rest; what the next window finds, and what gives way."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.sweep import Axis, Plan, grid_of
from engine.protocol import jobs
from engine.protocol.events import CatalogRead, Failed, Finished, Summary
from engine.protocol.profile import profiles_of
from engine.store.record import RunRecord, Status
from engine.store.store import Store
from engine.worker.launcher import Launcher, Session
from gui.session.engine_thread import EngineThread
from gui.session.experiments import Experiments
from gui.session.jobs import QueuedJob, read_job
from tests.gui.conftest import CARD
from tests.gui.machines import CATALOG, WAIT_MS, Told

STEPS = 200


class Machine(Launcher):
    """Every run ends at once: those of batch 666 run out of memory."""

    def prepare(self) -> None: ...

    def start(self, job: jobs.Job, keep: object = None) -> Session:
        if isinstance(job, jobs.ReadCatalog):
            return Told(CatalogRead(catalog=CATALOG))
        assert isinstance(job, jobs.Train)
        if job.experiment.batch_size == 666:
            problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It does not fit.", remedy="")
            return Told(Failed(problem=problem))
        return Told(Finished(summary=Summary()))


class Gate(Machine):
    """A run that has begun waits at the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.opened = threading.Event(), threading.Event()

    def start(self, job: jobs.Job, keep: object = None) -> Session:
        if isinstance(job, jobs.Train):
            self.reached.set()
            self.opened.wait(WAIT_MS / 1000)
        return super().start(job, keep)


@pytest.fixture
def opened(home: Path) -> Iterator[Callable[[], Experiments]]:
    """Opens the session of a window, and closes the one before."""
    stores: list[Store] = []
    windows: list[Experiments] = []

    def close() -> None:
        for window in windows:
            window.shut_down()
        for store in stores:
            store.close()
        windows.clear()
        stores.clear()

    def start() -> Experiments:
        close()
        stores.append(Store(home / "ammeter.sqlite"))
        windows.append(Experiments(stores[-1], Machine()))
        windows[-1].load()
        return windows[-1]

    yield start
    close()


@pytest.fixture
def window(opened: Callable[[], Experiments]) -> Experiments:
    return opened()


def submit(window: Experiments, *names: str, **settings: Any) -> list[str]:
    experiment = Experiment(**settings)
    return [window.submit("", [("FP32", experiment)], name)[0] for name in names]


def titles(window: Experiments) -> list[str]:
    return [item.title for item in window.queue.items()]


def test_what_waits_is_moved_held_and_run_next(window: Experiments) -> None:
    a, b, c = submit(window, "a", "b", "c")
    queue = window.queue
    queue.move(c, before=a)
    assert titles(window) == ["c", "a", "b"]
    queue.move(c, before=None)
    queue.set_held(b, True)
    assert titles(window) == ["a", "b", "c"]
    assert [item.is_paused for item in queue.items()] == [False, True, False]
    queue.run_next(b)
    assert titles(window) == ["b", "a", "c"] and not any(item.is_paused for item in queue.items())
    queue.run_next(b)
    queue.move(a, before=a)
    assert window.waiting == (b, a, c), "they stay where they are"


def test_a_repeat_of_a_run_has_the_next_seed_in_the_same_comparison(window: Experiments) -> None:
    run, _ = window.submit("Two", [("FP32", Experiment()), ("BF16", Experiment(precision="bf16"))])
    window.queue.repeat(run)
    window.queue.repeat(run)
    repeats = [window.runs.record(item.key) for item in window.queue.items()[2:]]
    record = window.runs.record(run)
    assert record is not None
    assert [(one.experiment.seed, one.label, one.comparison) for one in repeats if one is not None] == [
        (seed, "FP32", record.comparison) for seed in (1, 2)
    ]


def test_a_run_takes_as_long_as_an_earlier_one_of_its_speed(
    trained: Callable[..., RunRecord], saved: Store
) -> None:
    trained("fp32", 100.0)
    trained("fp32", 100.0, machine=CARD.model_copy(update={"device_name": "Another card"}))
    window = Experiments(saved, Machine())
    window.load()
    settings: dict[str, Any] = {"precision": "fp32", "steps": 2 * STEPS}
    (twice,) = submit(window, "twice as long", **settings)
    (unknown,) = submit(window, "larger", batch_size=128, **settings)
    assert [item.seconds_left for item in window.queue.items()] == [None, None], "the device is not known"
    card = CATALOG.devices[0].model_copy(update={"title": CARD.device_name})
    window._thread.catalog_read.emit(CATALOG.model_copy(update={"devices": (card,)}))
    known = {item.key: item.seconds_left for item in window.queue.items()}
    assert known == {twice: pytest.approx(2 * STEPS * 0.64, rel=0.02), unknown: None}
    window.shut_down()


def test_a_sweep_that_is_deleted_leaves_the_queue(window: Experiments) -> None:
    submit(window, "a")
    base = {"model": "linear", "dataset": "synthetic-regression", "device": "cpu"}
    grid = grid_of(base, [Axis(key="steps", values=(10, 20))])
    sweep_id = window.submit_sweep("Lengths", grid, Plan())
    assert titles(window) == ["a", "Lengths"]
    window.sweeps.delete(sweep_id)
    assert titles(window) == ["a"] and window.sweeps.view(sweep_id) is None


def test_a_removal_can_be_undone_in_its_place(window: Experiments) -> None:
    a, b = submit(window, "a", "b")
    key = window.profiles.submit(profiles_of([Experiment()]))
    window.queue.move(key, before=b)
    before = window.queue.items()
    undone = [window.queue.remove(a), window.queue.remove(key)]
    assert titles(window) == ["b"] and window.profiles.view(key) is None
    for undo in reversed(undone):
        assert undo is not None
        undo()
    assert window.queue.items() == before and window.profiles.waiting == 1
    assert window.runs.record(a) is not None


def test_what_waits_is_left_to_the_next_window(opened: Callable[[], Experiments]) -> None:
    first = opened()
    a, b = submit(first, "a", "b")
    key = first.profiles.submit(profiles_of([Experiment(batch_size=7)]))
    first.queue.move(key, before=a)
    first.queue.set_held(b, True)
    second = opened()
    assert titles(second) == ["b"], "what was held stays held, unasked"
    left = second.queue.left()
    assert [item.key for item in left] == [key, a]
    job = read_job(left[0])
    assert job.study is not None and job.study.experiments == (Experiment(batch_size=7),)
    second.queue.enqueue_left(left, is_held=True)
    third = opened()
    assert [(item.key, item.is_paused) for item in third.queue.items()] == [(b, True), (key, True), (a, True)]
    view = third.profiles.view(key)
    assert third.queue.left() == () and view is not None and view.is_waiting
    third.queue.remove(key)
    third.queue.remove(a)
    third.queue.remove(b)
    assert opened().queue.items() == ()


def test_an_order_that_cannot_be_read_is_told_and_the_others_are_taken_up(
    qtbot: QtBot, opened: Callable[[], Experiments]
) -> None:
    first = opened()
    first.profiles.submit(profiles_of([Experiment()]))
    submit(first, "a")
    with closing(sqlite3.connect(first._store.path)) as database, database:
        database.execute("UPDATE waiting SET request = '{' WHERE kind = 'profile'")
    second = opened()
    with qtbot.waitSignal(second.queue.problem) as told:
        second.queue.enqueue_left(second.queue.left())
    assert "another version of Ammeter" in told.args[0].message and titles(second) == ["a"]
    second.queue.discard(second.queue.left())
    assert second.queue.left() == ()


def test_a_waiting_run_that_is_gone_by_now_is_told_and_the_others_wait(
    qtbot: QtBot, window: Experiments
) -> None:
    with Store(window.store_path) as other:
        gone, here = other.add(Experiment()), other.add(Experiment())
        other.delete([gone.id])
    with qtbot.waitSignal(window.queue.problem) as told:
        window.resume_waiting([gone.id, here.id])
    assert gone.id in told.args[0].message and window.waiting == (here.id,)


def test_the_queue_goes_through_all_and_tells_what_was_done(qtbot: QtBot, window: Experiments) -> None:
    good, *_ = submit(window, "a")
    (bad,) = submit(window, "too large", batch_size=666)
    (last,) = submit(window, "b")
    (held,) = submit(window, "c")
    window.queue.set_held(held, True)
    assert window.queue.has_work
    with qtbot.waitSignal(window.queue.finished, timeout=WAIT_MS) as told:
        window.start()
    assert told.args == ["3 runs are done. 1 failed. 1 still waiting."]
    states = [record.status for run in (good, bad, last, held) if (record := window.runs.record(run))]
    assert states == [Status.FINISHED, Status.FAILED, Status.FINISHED, Status.QUEUED]
    assert not window.queue.has_work


@pytest.mark.parametrize("remove", [Experiments.dequeue, lambda window, run: window.delete([run])])
def test_a_run_that_has_begun_stays_though_its_row_still_says_queued(
    qtbot: QtBot, home: Path, remove: Callable[[Experiments, str], object]
) -> None:
    machine = Gate()
    with Store(home / "ammeter.sqlite") as store:
        window = Experiments(store, machine)
        window.load()
        (run_id,) = submit(window, "a")
        with qtbot.captureExceptions() as errors:
            window.start()
            # the event loop does not run meanwhile: no signal of the run has arrived
            assert machine.reached.wait(WAIT_MS / 1000)
            assert window.running is None
            remove(window, run_id)
            assert window.queue.remove(run_id) is None
            with qtbot.waitSignal(window.ended, timeout=WAIT_MS):
                machine.opened.set()
        window.shut_down()
        assert not errors
        run = window.runs.record(run_id)
        assert run is not None and run.status is Status.FINISHED
        assert window.is_idle and window.busy_words is None


def test_a_queue_at_rest_begins_nothing_also_after_a_restart(
    qtbot: QtBot, opened: Callable[[], Experiments]
) -> None:
    first = opened()
    (run,) = submit(first, "a")
    first.queue.is_paused = True
    second = opened()
    assert second.queue.is_paused
    second.queue.enqueue_left(second.queue.left())
    second.start()
    qtbot.waitUntil(lambda: second.catalog is not None, timeout=WAIT_MS)
    assert second.waiting == (run,) and not second.queue.has_work
    with qtbot.waitSignal(second.queue.finished, timeout=WAIT_MS):
        second.queue.resume()
    assert not opened().queue.is_paused


class Turns:
    """Carries out turns, and says which."""

    def __init__(self, log: list[str], at_turn: Callable[[int], object]) -> None:
        self.log, self.at_turn = log, at_turn

    def stop(self) -> None: ...


@dataclass(frozen=True)
class Sweeping(QueuedJob):
    """Three turns, the next of which is that after those in its log."""

    kind: str = "sweep"
    title: str = "Turns"
    log: list[str] = field(default_factory=list)
    at_turn: Callable[[int], object] = lambda _turn: None

    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Any:
        return Turns(self.log, self.at_turn)

    def execute(
        self, tool: Any, store: Store, tell: object, is_stopped: object, should_yield: Callable[[], bool]
    ) -> Problem | None:
        while sum("turn" in line for line in tool.log) < 3 and not should_yield():
            tool.log.append(f"turn {sum('turn' in line for line in tool.log) + 1}")
            tool.at_turn(len(tool.log))
        return None


@dataclass(frozen=True)
class Short(Sweeping):
    kind: str = "limit"

    def execute(
        self, tool: Any, store: Store, tell: object, is_stopped: object, should_yield: Callable[[], bool]
    ) -> Problem | None:
        tool.log.append("short")
        raise ProblemError(Problem(kind=Kind.INTERNAL, message="It failed.", remedy=""))


def test_an_order_that_goes_on_gives_way_between_its_turns(qtbot: QtBot, home: Path) -> None:
    thread = EngineThread(home / "ammeter.sqlite", Machine())
    log: list[str] = []

    def at_turn(turn: int) -> None:
        if turn == 1:
            thread.enqueue_job(Short("short", log=log))
            thread.waiting_list.arrange(["short", "sweep"])

    yielded: list[str] = []
    thread.job_yielded.connect(yielded.append)
    thread.enqueue_job(Sweeping("sweep", log=log, at_turn=at_turn))
    try:
        with qtbot.waitSignal(
            thread.job_ended, timeout=WAIT_MS, check_params_cb=lambda key, _problem: key == "sweep"
        ):
            thread.start()
    finally:
        thread.shut_down()
    assert log == ["turn 1", "short", "turn 2", "turn 3"] and yielded == ["sweep"]
