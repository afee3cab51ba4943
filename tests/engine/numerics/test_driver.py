"""Numerics are saved part by part; workers here only say what a script has them say."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.numerics.driver import NumericsDriver, trouble_step
from engine.protocol.events import Failed, Finished, Log, Phase, Skipped, Summary
from engine.protocol.numerics import Numerics
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.training.doctor import read_catalog
from engine.worker.launcher import Launcher

TINY = Experiment(dataset="synthetic", samples=64, device="cpu", steps=4)
SEARCHED = "say(event='diagnosed', result=dict(part='nan', sentence='All numbers are finite.'))\n"
FINISHED = "say(event='finished', summary={})\n"

Scripted = Callable[[str], Launcher]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return read_catalog()


def ask(answer: Numerics | Experiment = TINY) -> Study[Numerics]:
    return Study(answer=answer if isinstance(answer, Numerics) else Numerics(experiment=answer))


def saved(store: Store) -> Study[Numerics]:
    (entry,) = store.studies.newest("numerics")
    return store.studies.find(entry.id)


FAILED = "say(event='failed', problem=dict(kind='request', message='It failed.', remedy='Try again.'))\n"


def test_each_part_is_saved_as_it_comes(store, catalog, scripted):
    launcher = scripted(f"say(event='phase', name='diagnosing', fraction=0.5)\n{SEARCHED}{FINISHED}")
    study, seen = ask(Numerics(experiment=TINY, parts=("nan",))), list[object]()
    for known in NumericsDriver(store, launcher, catalog).follow(study):
        now = store.studies.find(study.id)
        seen += [(type(known), now.answer.has("nan"), now.is_over)] * isinstance(
            known, Study | Phase | Finished
        )
    assert seen == [
        (Study, False, False),
        (Phase, False, False),
        (Study, True, False),
        (Study, True, True),
        (Finished, True, True),
    ]
    assert saved(store).answer.parts == ("nan",)


@pytest.mark.parametrize(("devices", "words"), [(2, "2"), (0, "all")])
def test_those_of_several_devices_are_examined_on_one_and_it_says_so(
    store, catalog, scripted, devices, words
):
    several = TINY.model_copy(update={"devices": devices})
    known = list(NumericsDriver(store, scripted(SEARCHED + FINISHED), catalog).follow(ask(several)))
    told = [event.message for event in known if isinstance(event, Log)]
    assert told[0] == f"Devices is {words}, but numerics are examined on one device."
    assert saved(store).answer.experiment.devices == 1


def test_parts_known_before_a_failure_are_kept_with_its_problem(store, catalog, scripted):
    *_, last = NumericsDriver(store, scripted(SEARCHED + FAILED), catalog).follow(ask())
    assert isinstance(last, Failed) and saved(store).problem == last.problem
    assert saved(store).answer.has("nan")


def test_a_run_gives_its_settings_checkpoints_and_the_step_where_it_went_wrong(
    store, catalog, scripted, tmp_path
):
    run = store.add(TINY.model_copy(update={"seed": 7}))
    store.begin(run.id)
    store.record(run.id, [Finished(summary=Summary(first_nan_step=3))])
    driver = NumericsDriver(store, scripted(FINISHED), catalog)
    list(driver.follow(ask(Numerics(experiment=Experiment(), parts=("nan",), steps=9, run_id=run.id))))
    job = json.loads((tmp_path / "job.json").read_text())
    assert (job["experiment"]["seed"], job["trouble_step"], job["steps"]) == (7, 3, 9)
    assert job["checkpoints"] == str(store.checkpoints_folder(run.id))
    with pytest.raises(ProblemError, match="No run id"):
        list(driver.follow(ask(Numerics(experiment=TINY, run_id="f" * 12))))


@pytest.mark.parametrize(
    ("skipped", "init_scale", "steps", "step"),
    [
        ((), 2.0**16, 60, None),
        ((1, 2, 9), 2.0**16, 60, None),
        ((1, 2, *range(7, 22)), 2.0**16, 60, 7),
        (range(1, 17), 2.0**16, 60, 1),
        # on its way down from far up, but not to the end of the run
        (range(1, 21), 2.0**32, 60, None),
        (range(1, 21), 2.0**32, 20, 1),
    ],
)
def test_a_run_is_in_trouble_where_its_scaler_skips_more_steps_than_it_needs(
    store, skipped, init_scale, steps, step
):
    scaler = TINY.scaler.model_copy(update={"init_scale": init_scale})
    run = store.add(TINY.model_copy(update={"scaler": scaler}))
    store.begin(run.id)
    parts = (Skipped(steps=tuple(part)) for part in (skipped[:2], skipped[2:]))
    store.record(run.id, [*parts, Finished(summary=Summary(steps=steps))])
    assert trouble_step(store, store.run(run.id)) == step
