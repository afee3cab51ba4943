"""Sweeps in the engine's thread: their runs are the window's runs, and what was stopped goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.experiment.sweep import Axis, Grid, Plan, grid_of
from engine.store.record import Status
from engine.store.store import Store
from engine.worker.launcher import Launcher
from gui.session.experiments import Experiments

WAIT_MS = 60_000


@pytest.fixture
def experiments(qtbot: QtBot, store: Store, launcher: Launcher) -> Iterator[Experiments]:
    experiments = Experiments(store, launcher)
    with qtbot.waitSignal(experiments.catalog_known, timeout=WAIT_MS):
        experiments.start()
    yield experiments
    experiments.shut_down()


def grid(base: Experiment, *steps: int) -> Grid:
    return grid_of(base.model_dump(mode="json"), [Axis(key="steps", values=steps)])


def is_paused(experiments: Experiments) -> bool:
    return experiments.live is not None and experiments.live.is_paused


@pytest.mark.slow
def test_a_sweeps_runs_are_told_like_any_other_and_its_cells_fail_alone(
    qtbot: QtBot, experiments: Experiments, store: Store, tiny: Experiment
) -> None:
    told: list[tuple[str, str]] = []
    experiments.began.connect(lambda run_id: told.append(("began", run_id)))
    experiments.ended.connect(lambda run_id: told.append(("ended", run_id)))
    problems: list[object] = []
    experiments.problem.connect(problems.append)
    failing = grid_of(
        {**tiny.model_dump(mode="json"), "steps": 20},
        [
            Axis(
                key="step.fp32_modules",
                values=("layer9.*", "none"),
                overrides=({"precision": "bf16", "step": {"fp32_modules": ["layer9.*"]}}, {}),
            )
        ],
    )
    sweep_id = experiments.submit_sweep("Modules", failing, Plan())
    assert [view.key for view in experiments.works.of("sweep")] == [sweep_id]
    qtbot.waitUntil(lambda: not experiments.works.of("sweep"), timeout=WAIT_MS)
    view = experiments.works.view(sweep_id)
    assert view is not None and view.is_over and view.problem is None and not problems
    failed, done = store.sweeps.find(sweep_id).cells
    assert failed.problem is not None and "layer9" in failed.problem.message
    experiments.works.edit_sweep(sweep_id, lambda sweeps: sweeps.pause(sweep_id, 0, False))
    assert store.sweeps.find(sweep_id).cells[0].problem is None, "it can be trained again"
    (run,) = done.runs
    assert ("began", run.id) in told and told[-1] == ("ended", run.id)
    live = experiments.runs.opened(run.id)
    assert live is not None and live.step == 20 and experiments.runs.group(run.id) == (run.id,)


@pytest.mark.slow
def test_stop_ends_the_cell_in_turn_and_stopping_the_sweep_lets_it_go_on_later(
    qtbot: QtBot, experiments: Experiments, store: Store, tiny: Experiment
) -> None:
    works = experiments.works
    endless = 100_000_000
    with qtbot.waitSignal(experiments.began, timeout=WAIT_MS):
        sweep_id = experiments.submit_sweep("Steps", grid(tiny, endless, 2 * endless, 30), Plan())
    first = experiments.running
    assert experiments.in_progress == "sweep" and "sweep" in (experiments.busy_words or "")
    with qtbot.waitSignal(experiments.pause_request_changed, timeout=WAIT_MS):
        experiments.toggle_pause()
    qtbot.waitUntil(lambda: is_paused(experiments), timeout=WAIT_MS)
    experiments.toggle_pause()
    qtbot.waitUntil(lambda: not is_paused(experiments), timeout=WAIT_MS)
    experiments.stop()
    qtbot.waitUntil(lambda: experiments.running not in (None, first), timeout=WAIT_MS)
    assert works.running == sweep_id
    works.stop(sweep_id)
    qtbot.waitUntil(lambda: works.running is None, timeout=WAIT_MS)
    assert experiments.running is None
    view = works.view(sweep_id)
    assert view is not None and not view.is_over
    skipped, stopped, waiting = store.sweeps.find(sweep_id).cells
    assert skipped.problem is not None and stopped.problem is None and not waiting.runs
    works.edit_sweep(sweep_id, lambda sweeps: sweeps.leave_out(sweep_id, 1, "It takes too long."))
    works.resume(sweep_id)
    qtbot.waitUntil(lambda: not works.of("sweep"), timeout=WAIT_MS)
    view = works.view(sweep_id)
    assert view is not None and view.is_over
    *_, last = store.sweeps.find(sweep_id).cells
    assert [run.status for run in last.runs] == [Status.FINISHED]
    assert works.saved("sweep") == (sweep_id,)
    works.delete(sweep_id)
    assert not works.saved("sweep") and experiments.runs.record(last.runs[0].id) is not None
