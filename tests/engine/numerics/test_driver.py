"""Numerics are saved part by part; workers here only say what a script has them say."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator

import pytest

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.numerics.driver import NumericsDriver, trouble_step
from engine.protocol.events import Event, Failed, Finished, Phase, Skipped, Summary
from engine.protocol.numerics.numerics import Numerics
from engine.store.saved.study import Study
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


def failed(kind: str) -> str:
    return f"say(event='failed', problem=dict(kind='{kind}', message='It failed.', remedy='Try again.'))\n"


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


def test_parts_known_before_a_failure_are_kept_with_its_problem(store, catalog, scripted):
    *_, last = NumericsDriver(store, scripted(SEARCHED + failed("request")), catalog).follow(ask())
    assert isinstance(last, Failed) and saved(store).problem == last.problem
    assert saved(store).answer.has("nan")


@pytest.mark.parametrize(("kind", "kept"), [("request", 0), ("out-of-memory", 1)])
def test_what_is_refused_before_any_part_leaves_nothing_behind(store, catalog, scripted, kind, kept):
    list(NumericsDriver(store, scripted(failed(kind)), catalog).follow(ask()))
    assert len(store.studies.newest()) == kept


def test_one_that_is_left_at_its_first_event_leaves_nothing_behind(store, catalog, scripted):
    study = ask()
    events = NumericsDriver(store, scripted(FINISHED), catalog).follow(study)
    assert isinstance(events, Generator) and isinstance(next(events), Study)
    events.close()
    with pytest.raises(ProblemError, match="no study"):
        store.studies.find(study.id)


def test_a_stop_ends_it_with_the_parts_known(store, catalog, scripted):
    stopped = "assert json.loads(sys.stdin.readline())['job'] == 'stop'\n"
    launcher = scripted(SEARCHED + stopped + "say(event='finished', summary={}, stopped=True)\n")
    driver = NumericsDriver(store, launcher, catalog)
    last: Study[Numerics] | Event | None = None
    for last in driver.follow(ask()):
        if isinstance(last, Study) and last.is_known:
            driver.stop()
    assert isinstance(last, Finished) and last.stopped
    assert saved(store).is_over and saved(store).answer.has("nan")


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
    with pytest.raises(ProblemError, match="no run"):
        list(driver.follow(ask(Numerics(experiment=TINY, run_id="f" * 12))))


@pytest.mark.parametrize(
    ("skipped", "step"), [((), None), ((1, 2, 9), None), ((1, 2, *range(7, 22)), 7), (tuple(range(1, 17)), 1)]
)
def test_a_run_is_in_trouble_where_its_scaler_skips_step_after_step(store, skipped, step):
    run = store.add(TINY)
    store.begin(run.id)
    store.record(run.id, [Skipped(steps=skipped[:2]), Skipped(steps=skipped[2:])])
    assert trouble_step(store, store.run(run.id)) == step


@pytest.mark.parametrize(("steps", "step"), [(60, None), (20, 1)])
def test_a_scaler_that_begins_far_up_may_skip_until_it_has_its_scale_but_not_to_the_end(store, steps, step):
    run = store.add(
        TINY.model_copy(update={"scaler": TINY.scaler.model_copy(update={"init_scale": 2.0**32})})
    )
    store.begin(run.id)
    store.record(run.id, [Skipped(steps=tuple(range(1, 21))), Finished(summary=Summary(steps=steps))])
    assert trouble_step(store, store.run(run.id)) == step


def test_code_from_elsewhere_is_not_run(store, catalog, scripted):
    code = Code(file="net.py", folder="/elsewhere", text="def model(): ...\n")
    experiment = TINY.model_copy(update={"model": "net.py", "code": code.to_json()})
    with pytest.raises(ProblemError) as caught:
        list(NumericsDriver(store, scripted(FINISHED), catalog).follow(ask(experiment)))
    problem: Problem = caught.value.problem
    assert problem.kind is Kind.REQUEST and problem.key == "trust_code"
    assert store.studies.newest() == ()
