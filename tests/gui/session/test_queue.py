"""The window's queue: job, hold, repeat, remove, rest; what the next window finds, and what gives way."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.command import Command
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.sweep import Axis, Plan, grid_of
from engine.protocol import jobs
from engine.protocol.events import CatalogRead, Failed, Finished, Summary
from engine.protocol.profile import profiles_of
from engine.store.record import RunRecord, Status, Work
from engine.store.store import Store
from engine.sweep.order import Turn, TurnStarted
from engine.worker.launcher import Launcher, Session
from gui.session.engine_thread import EngineThread
from gui.session.experiments import Experiments
from gui.session.queue import Queue
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
    return [item.title for item in window.works.items()]


def test_what_waits_is_moved_held_and_run_next(window: Experiments) -> None:
    a, b, c = submit(window, "a", "b", "c")
    queue = window.queue
    queue.move(c, before=a)
    assert titles(window) == ["c", "a", "b"]
    queue.move(c, before=None)
    queue.pause(b, True)
    assert titles(window) == ["a", "b", "c"]
    assert [item.is_paused for item in window.works.items()] == [False, True, False]
    queue.run_next(b)
    assert titles(window) == ["b", "a", "c"] and not any(item.is_paused for item in window.works.items())
    queue.run_next(b)
    queue.move(a, before=a)
    assert window.waiting == (b, a, c), "they stay where they are"


def test_a_repeat_of_a_run_has_the_next_seed_in_the_same_comparison(window: Experiments) -> None:
    run, _ = window.submit("Two", [("FP32", Experiment()), ("BF16", Experiment(precision="bf16"))])
    window.works.repeat(run)
    window.works.repeat(run)
    repeats = [window.runs.record(item.key) for item in window.works.items()[2:]]
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
    assert [item.seconds_left for item in window.works.items()] == [None, None], "the device is not known"
    card = CATALOG.devices[0].model_copy(update={"title": CARD.device_name})
    window._thread.catalog_read.emit(CATALOG.model_copy(update={"devices": (card,)}))
    known = {item.key: item.seconds_left for item in window.works.items()}
    assert known == {twice: pytest.approx(2 * STEPS * 0.64, rel=0.02), unknown: None}
    window.shut_down()


def test_a_script_takes_as_long_as_an_earlier_run_of_its_command(
    trained: Callable[..., RunRecord], saved: Store
) -> None:
    command = {"line": "python train.py --amp", "folder": "/here"}
    trained("bf16", 100.0, settings={"command": command, "batch_size": 7})
    window = Experiments(saved, Machine())
    window.load()
    card = CATALOG.devices[0].model_copy(update={"title": CARD.device_name})
    devices = (card.model_copy(update={"title": "The usual device"}), card)
    window._thread.catalog_read.emit(CATALOG.model_copy(update={"devices": devices}))

    def seconds(**changes: Any) -> float | None:
        wanted = Experiment.model_validate({"command": command | changes, "steps": 2 * STEPS})
        return window.works.factory.expected_seconds(wanted)

    assert seconds(require="loss") == pytest.approx(2 * STEPS * 0.64, rel=0.02)
    assert seconds(line="python train.py") is seconds(folder="/there") is seconds(whole=True) is None
    window.shut_down()


def test_the_times_of_repeats_of_a_script_are_looked_up_once(
    trained: Callable[..., RunRecord], saved: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = Command(line="python train.py", folder="/here")
    for _ in range(3):
        trained("bf16", 100.0, settings={"command": command.model_dump()})
    window, read = Experiments(saved, Machine()), []
    window.load()
    card = CATALOG.devices[0].model_copy(update={"title": CARD.device_name})
    window._thread.catalog_read.emit(CATALOG.model_copy(update={"devices": (card,)}))
    assert {run.overview.model for run in window.runs.records()} == {"train.py"}
    script = Command.script.fget
    assert script is not None

    def count(command: Command) -> str:
        read.append(command.line)
        return str(script(command))

    monkeypatch.setattr(Command, "script", property(count))
    repeats = [Experiment(command=command, steps=2 * STEPS, seed=seed) for seed in range(5)]
    (seconds,) = set(map(window.works.factory.expected_seconds, repeats))
    assert seconds == pytest.approx(2 * STEPS * 0.64, rel=0.02) and read == ["python train.py"]
    window.shut_down()


def test_a_sweep_that_is_deleted_leaves_the_queue(window: Experiments) -> None:
    submit(window, "a")
    base = {"model": "linear", "dataset": "synthetic-regression", "device": "cpu"}
    grid = grid_of(base, [Axis(key="steps", values=(10, 20))])
    sweep_id = window.submit_sweep("Lengths", grid, Plan())
    assert titles(window) == ["a", "Lengths"]
    window.works.delete(sweep_id)
    assert titles(window) == ["a"] and window.works.view(sweep_id) is None


def test_a_removal_can_be_undone_in_its_place(window: Experiments) -> None:
    a, b = submit(window, "a", "b")
    key = window.submit_study(profiles_of([Experiment()]))
    window.queue.move(key, before=b)
    before = window.works.items()
    undone = [window.works.remove(a), window.works.remove(key)]
    assert titles(window) == ["b"] and window.works.view(key) is None
    for undo in reversed(undone):
        assert undo is not None
        undo()
    assert window.works.items() == before and len(window.works.of("profile")) == 1
    assert window.runs.record(a) is not None


def test_what_waits_is_left_to_the_next_window(opened: Callable[[], Experiments]) -> None:
    first = opened()
    a, b = submit(first, "a", "b")
    key = first.submit_study(profiles_of([Experiment(batch_size=7)]))
    first.queue.move(key, before=a)
    first.queue.pause(b, True)
    second = opened()
    assert titles(second) == ["b"], "what was held stays held, unasked"
    left = second.works.left()
    assert [item.key for item in left] == [key, a]
    assert second._store.studies.of_work(left[0]).experiments == (Experiment(batch_size=7),)
    second.works.claim(left, is_paused=True)
    third = opened()
    assert [(item.key, item.is_paused) for item in third.works.items()] == [(b, True), (key, True), (a, True)]
    view = third.works.view(key)
    assert third.works.left() == () and view is not None and view.is_waiting
    third.works.remove(key)
    third.works.remove(a)
    third.works.remove(b)
    assert opened().works.items() == ()


def test_an_order_that_cannot_be_read_is_told_and_the_others_are_taken_up(
    qtbot: QtBot, opened: Callable[[], Experiments]
) -> None:
    first = opened()
    first.submit_study(profiles_of([Experiment()]))
    submit(first, "a")
    with closing(sqlite3.connect(first._store.path)) as database, database:
        database.execute("UPDATE waiting SET request = '{' WHERE kind = 'profile'")
    second = opened()
    with qtbot.waitSignal(second.problem) as told:
        second.works.claim(second.works.left())
    assert "another version of Ammeter" in told.args[0].message and titles(second) == ["a"]
    second.works.discard(second.works.left())
    assert second.works.left() == ()


def test_a_waiting_run_that_is_gone_by_now_is_told_and_the_others_wait(
    qtbot: QtBot, window: Experiments
) -> None:
    with Store(window.store_path) as other:
        gone, here = other.add(Experiment()), other.add(Experiment())
        other.delete([gone.id])
    with qtbot.waitSignal(window.problem) as told:
        window.resume_waiting([gone.id, here.id])
    assert gone.id in told.args[0].message and window.waiting == (here.id,)


def test_the_queue_goes_through_all_and_tells_what_was_done(qtbot: QtBot, window: Experiments) -> None:
    good, *_ = submit(window, "a")
    (bad,) = submit(window, "too large", batch_size=666)
    (last,) = submit(window, "b")
    (held,) = submit(window, "c")
    window.queue.pause(held, True)
    assert window.queue.has_work
    with qtbot.waitSignal(window.works.finished, timeout=WAIT_MS) as told:
        window.start()
    assert told.args == ["3 runs are done. 1 failed. 1 still waiting."]
    states = [record.status for run in (good, bad, last, held) if (record := window.runs.record(run))]
    assert states == [Status.FINISHED, Status.FAILED, Status.FINISHED, Status.QUEUED]
    assert not window.queue.has_work


@pytest.mark.parametrize(
    "remove", [lambda window, run: window.dequeue(run), lambda window, run: window.delete([run])]
)
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
            assert window.works.remove(run_id) is None
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
    second.works.claim(second.works.left())
    second.start()
    qtbot.waitUntil(lambda: second.catalog is not None, timeout=WAIT_MS)
    assert second.waiting == (run,) and not second.queue.has_work
    with qtbot.waitSignal(second.works.finished, timeout=WAIT_MS):
        second.queue.is_paused = False
    assert not opened().queue.is_paused


class Turns:
    """A sweep of three turns, the next of which is that after those in its log."""

    keeps_place = True
    log: ClassVar[list[str]]
    at_first: ClassVar[Callable[[], object]]

    def __init__(self, *_: object) -> None: ...

    def stop(self) -> None: ...

    def execute(self, _work: Work, should_yield: Callable[[], bool]) -> Iterator[object]:
        while sum("turn" in line for line in self.log) < 3 and not should_yield():
            self.log.append(f"turn {sum('turn' in line for line in self.log) + 1}")
            if len(self.log) == 1:
                self.at_first()
            yield self.log[-1]


class Short(Turns):
    """A search that fails at once."""

    keeps_place = False

    def execute(self, _work: Work, should_yield: Callable[[], bool]) -> Iterator[object]:
        self.log.append("short")
        raise ProblemError(Problem(kind=Kind.INTERNAL, message="It failed.", remedy=""))


def test_a_sweep_yields_between_its_turns(qtbot: QtBot, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, is_queued, yielded = threading.Event(), threading.Event(), list[str]()
    log = Turns.log = Short.log = []
    Turns.at_first = staticmethod(lambda: (begun.set(), is_queued.wait()))
    monkeypatch.setattr("gui.session.queue.DRIVERS", drivers := {"sweep": Turns, "limit": Short})
    monkeypatch.setattr("gui.session.engine_thread.DRIVERS", drivers)
    with Store(home / "ammeter.sqlite") as store:
        queue = Queue(store)
        thread = EngineThread(store.path, Machine(), queue)
        thread.yielded.connect(yielded.append)
        queue.add([Work("sweep", "sweep", "Turns")])
        try:
            with qtbot.waitSignal(
                thread.ended, timeout=WAIT_MS, check_params_cb=lambda key, _problem: key == "sweep"
            ):
                thread.start()
                qtbot.waitUntil(begun.is_set, timeout=WAIT_MS)
                queue.add([Work("short", "limit", "Short")], goes_first=True)
                is_queued.set()
        finally:
            is_queued.set()
            thread.shut_down()
    assert log == ["turn 1", "short", "turn 2", "turn 3"] and yielded == ["sweep"]


def test_a_sweep_that_is_stopped_as_it_yields_leaves_no_run_in_training(window: Experiments) -> None:
    grid = grid_of(Experiment(device="cpu").model_dump(mode="json"), [Axis(key="steps", values=(3, 4))])
    with Store(window.store_path) as store:
        key = window.works.resume(store.sweeps.add("Steps", grid, Plan(), device_name="CPU"))
    (run_id,) = submit(window, "a")
    window.queue.start_next()
    window._thread.began.emit(key)
    window._thread.reported.emit(key, TurnStarted(turn=Turn(cell=0, kind="run", run_id=run_id)))
    assert window.running == run_id
    ended: list[str] = []
    window.ended.connect(ended.append)
    # the engine's thread is further than its signals
    window.queue.end(yields=True)
    window.works.stop(key)
    assert window.running is None and window.live is None and ended == [run_id]
