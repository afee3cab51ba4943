"""The engine's thread makes way at once for what is to be measured, and never loses a wish to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event as Flag

import pytest
import wakepy
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.experiment.own.code import Code
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol import jobs
from engine.protocol.events import CatalogRead, Event, Failed
from engine.protocol.trials import Limit, LimitSide
from engine.store.record import Work
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.worker.launcher import Launcher, Session
from engine.worker.site import WorkerProcess
from gui.session.engine_thread import EngineThread
from gui.session.queue import Queue
from tests.gui.machines import CATALOG, WAIT_MS, Told

LINEAR = experiment_from(
    {"model": "linear", "dataset": "synthetic-regression", "device": "cpu", "memory_cap_gib": 1.0}
)


class Machine(Launcher):
    """Forecasts take for ever here, and no trial can be made; hooks run where a worker would be started."""

    def __init__(self) -> None:
        super().__init__()
        self.starts_forecast: Callable[[], object] = lambda: None
        self.starts_trial: Callable[[], object] = lambda: None
        self.forecasts, self.trials = 0, 0
        self.says: Event | None = None

    def prepare(self) -> None: ...

    def start(self, job: jobs.Job) -> Session:
        self._check(job)
        if isinstance(job, jobs.ReadCatalog):
            return Told(CatalogRead(catalog=CATALOG))
        self.forecasts += 1
        self.starts_forecast()
        return Told(self.says)

    def fresh_worker(self, environment: dict[str, str] | None = None) -> WorkerProcess:
        self.trials += 1
        self.starts_trial()
        raise ProblemError(Problem(kind=Kind.WORKER_DIED, message="No worker.", remedy="Try again."))


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def queue(home: Path) -> Iterator[Queue]:
    with Store(home / "ammeter.sqlite") as store:
        yield Queue(store)


@pytest.fixture
def thread(machine: Machine, home: Path, queue: Queue) -> Iterator[EngineThread]:
    thread = EngineThread(home / "ammeter.sqlite", machine, queue)
    yield thread
    thread.shut_down()


def limit(*experiments: Experiment, key: str = "series") -> Work:
    sides = tuple(LimitSide(label=one.precision.label, experiment=one) for one in experiments)
    return Study(id=key, answer=Limit(sides=sides)).work


def test_a_forecast_whose_worker_is_just_starting_makes_way(
    qtbot: QtBot, thread: EngineThread, machine: Machine, queue: Queue
) -> None:
    starts, is_queued = Flag(), Flag()
    machine.starts_forecast = lambda: (starts.set(), is_queued.wait())
    with qtbot.waitSignal(thread.ended, timeout=WAIT_MS):
        thread.request_forecasts((LINEAR,))
        thread.start()
        qtbot.waitUntil(starts.is_set, timeout=WAIT_MS)
        queue.add([limit(LINEAR)])
        is_queued.set()
    # what was given up for the search is made when it is over
    qtbot.waitUntil(lambda: machine.forecasts > 1, timeout=WAIT_MS)


def test_stop_leaves_a_forecast_alone(
    qtbot: QtBot, thread: EngineThread, machine: Machine, queue: Queue
) -> None:
    made: list[object] = []
    thread.forecast_made.connect(lambda _wanted, answer: made.append(answer))
    thread.request_forecasts((LINEAR,))
    thread.start()
    qtbot.waitUntil(lambda: machine.forecasts == 1, timeout=WAIT_MS)
    thread.stop_current()
    with qtbot.waitSignal(thread.ended, timeout=WAIT_MS):
        queue.add([limit(LINEAR)])
    assert made == [], "a forecast that was given up is no answer"


def test_a_search_that_nobody_was_told_of_yet_can_be_stopped(
    qtbot: QtBot, thread: EngineThread, machine: Machine, queue: Queue
) -> None:
    taken_out: list[str] = []

    def stop() -> None:
        taken_out.extend(work.key for work in queue.take_out("waits", "series"))
        thread.stop_current("waits")
        thread.stop_current("series")

    machine.starts_trial = stop
    bf16 = LINEAR.model_copy(update={"precision": Precision.BF16})
    with qtbot.waitSignal(thread.ended, timeout=WAIT_MS):
        queue.add([limit(LINEAR, bf16), limit(LINEAR, key="waits")])
        thread.start()
    assert taken_out == ["waits"] and queue.waiting() == ()
    assert machine.trials == 1, "the second precision was searched after Stop"


def test_the_machine_is_kept_awake_until_the_queue_is_done(
    qtbot: QtBot, thread: EngineThread, machine: Machine, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEPY_FAKE_SUCCESS", "1")
    kept: list[int] = []
    machine.starts_trial = lambda: kept.append(len(wakepy.global_modes()))
    queue.add([limit(LINEAR), limit(LINEAR, key="another series")])
    thread.start()
    qtbot.waitUntil(lambda: kept == [1, 1], timeout=WAIT_MS)
    qtbot.waitUntil(lambda: not wakepy.global_modes(), timeout=WAIT_MS)


WRONG = Problem(kind=Kind.REQUEST, message="No part has it.", remedy="", key="step.fp32_modules")
UNKNOWN = Problem(kind=Kind.INTERNAL, message="It reads its numbers.", remedy="")
FROM_ELSEWHERE = experiment_from(
    {"model": "net.py", "code": Code(file="net.py", folder="/there", text="def model(): ...\n").to_json()}
)


@pytest.mark.parametrize(
    ("experiment", "problem", "is_blamed"),
    [(LINEAR, WRONG, True), (LINEAR, UNKNOWN, False), (FROM_ELSEWHERE, None, False)],
    ids=["a setting", "nobody's fault", "code from elsewhere, which no worker sees"],
)
def test_only_a_setting_is_blamed_for_a_forecast_that_cannot_be_made(
    qtbot: QtBot,
    thread: EngineThread,
    machine: Machine,
    experiment: Experiment,
    problem: Problem | None,
    is_blamed: bool,
) -> None:
    machine.says = None if problem is None else Failed(problem=problem)
    refused: list[object] = []
    thread.forecast_refused.connect(lambda *told: refused.append(told))
    with qtbot.waitSignal(thread.forecast_made, timeout=WAIT_MS) as made:
        thread.request_forecasts((experiment,))
        thread.start()
    assert made.args == [experiment, None] and refused == ([(LINEAR, WRONG)] if is_blamed else [])
    assert machine.forecasts == (0 if problem is None else 1)
