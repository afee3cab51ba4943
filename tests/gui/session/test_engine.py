"""The session without an engine: what is queued waits and says so, until an installation is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.installation.installed import CURRENT, State
from engine.store.record import Status
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.session.experiments import WAITS_FOR_ENGINE, Experiments
from tests.installations import put_installation


@pytest.fixture
def experiments(no_engine: Path, store: Store) -> Iterator[Experiments]:
    with Launcher(Target.THREAD) as launcher:
        experiments = Experiments(store, launcher)
        experiments.load()
        yield experiments
        experiments.shut_down()


def test_what_is_queued_waits_for_the_engine_and_then_begins(
    qtbot: QtBot, experiments: Experiments, no_engine: Path, tiny: Experiment
) -> None:
    with qtbot.assertNotEmitted(experiments.problem), qtbot.waitSignal(experiments.idle):
        experiments.start()
    (run_id,) = experiments.submit("", [("", tiny)])
    assert experiments.engine.state is State.ABSENT
    assert why(experiments, run_id) == WAITS_FOR_ENGINE
    put_installation(no_engine)
    with qtbot.waitSignals([experiments.catalog_known, experiments.ended], timeout=60_000):
        experiments.start_engine()
    assert experiments.engine.state is State.READY
    run = experiments.runs.record(run_id)
    assert run is not None and run.status is Status.FINISHED


def test_nothing_fails_for_an_engine_that_is_removed_meanwhile(
    qtbot: QtBot, experiments: Experiments, no_engine: Path, tiny: Experiment
) -> None:
    put_installation(no_engine)
    experiments.start_engine()
    with qtbot.waitSignals([experiments.catalog_known, experiments.idle], timeout=60_000):
        experiments.start()
    (no_engine / CURRENT).unlink()
    with qtbot.waitSignal(experiments.engine_changed, timeout=60_000):
        (run_id,) = experiments.submit("", [("", tiny)])
    assert why(experiments, run_id) == WAITS_FOR_ENGINE


def why(experiments: Experiments, run_id: str) -> str | None:
    run = experiments.runs.record(run_id)
    assert run is not None and run.status is Status.QUEUED
    return experiments.why_not_started(run)
