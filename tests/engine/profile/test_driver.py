"""Profiles are saved side by side; workers here only say what a script has them say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.own.code import Code
from engine.experiment.problem import Kind, ProblemError
from engine.profile.driver import ProfileDriver
from engine.protocol.events import Event, Failed, Finished, Phase
from engine.protocol.profile import MOST_SIDES, Profiles, profiles_of
from engine.store.saved.studies import Study, traces_of
from engine.store.store import Store
from engine.training.doctor import read_catalog
from engine.worker.launcher import Launcher

FP32 = Experiment(dataset="synthetic", samples=64, device="cpu", steps=4)
BF16 = FP32.model_copy(update={"precision": Precision.BF16})
PATH = """
import pathlib
path = pathlib.Path(job["trace"])
path.parent.mkdir(exist_ok=True)
"""
PROFILED = (
    PATH
    + """
path.touch()
limits = job["limits"] or dict(peaks=[dict(format="fp32", tflops=0.5)], gb_per_second=20.0, seconds=1.5)
say(event="profiled", profile=dict(device_type="cpu", steps=3, samples=8, step_ms=4.0, recorded_ms=4.5,
    bar=dict(parts=[dict(part="matrix", ms=4.0)]), format=job["experiment"]["precision"], limits=limits,
    notes=[] if job["limits"] is None else ["Its limits were given."]))
"""
)
FINISHED = "say(event='finished', summary={})\n"

Scripted = Callable[[str], Launcher]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return read_catalog()


def failed(kind: str) -> str:
    return f"say(event='failed', problem=dict(kind='{kind}', message='It failed.', remedy='Try again.'))\n"


def ask(experiments: Sequence[Experiment], run_ids: Sequence[str | None] = ()) -> Study[Profiles]:
    return Study(answer=profiles_of(experiments, run_ids))


def saved(store: Store) -> Study[Profiles]:
    (entry,) = store.studies.newest("profile")
    return store.studies.find(entry.id)


def traces(study: Study[Profiles]) -> list[str]:
    assert study.folder is not None
    return [path.name for path in traces_of(study.answer, study.folder)]


def test_each_side_is_saved_as_it_comes_and_the_limits_are_measured_once(store, catalog, scripted):
    launcher = scripted(f"say(event='phase', name='profiling', fraction=0.5)\n{PROFILED}{FINISHED}")
    study, seen = ask([FP32, BF16]), list[object]()
    for known in ProfileDriver(store, launcher, catalog).follow(study):
        measured = store.studies.find(study.id).answer.measured()
        if isinstance(known, Study):
            assert known.answer.measured() == measured
        seen += [(known.place, known.doing, len(measured))] if isinstance(known, Study) else []
        seen += [Phase] if isinstance(known, Phase) else []
    first_side, second_side = (0, "FP32"), (1, "BF16 AMP")
    assert seen == [
        (0, "", 0),
        (*first_side, 0),
        Phase,
        (*first_side, 1),
        (*second_side, 1),
        Phase,
        (*second_side, 2),
        (1, "", 2),
    ]
    assert isinstance(known, Finished)
    first, second = saved(store).answer.measured()
    assert saved(store).is_over and (first.format, second.format) == ("fp32", "bf16")
    assert first.limits == second.limits and (first.notes, len(second.notes)) == ((), 1)
    assert traces(saved(store)) == [store.studies.traces.path(study.id, place).name for place in range(2)]


def test_a_side_that_fails_leaves_the_others(store, catalog, scripted):
    writes = "    (path.parent / f'.{path.name}.part').touch()\n    path.touch()\n"
    fails = (
        f"if job['experiment']['precision'] == 'fp32':\n{writes}    {failed('out-of-memory')}    sys.exit()\n"
    )
    launcher = scripted(f"{PATH}{fails}{PROFILED}{FINISHED}")
    *_, last = ProfileDriver(store, launcher, catalog).follow(ask([FP32, BF16]))
    study = saved(store)
    assert isinstance(last, Finished) and study.problem is None
    assert len(study.not_done) == 1 and "FP32" in study.not_done[0]
    problem = study.answer.sides[0].problem
    assert problem is not None and problem.kind is Kind.OUT_OF_MEMORY and len(study.answer.measured()) == 1
    assert study.folder is not None and [path.name for path in study.folder.iterdir()] == traces(study)


def test_what_a_study_lacked_before_it_goes_on_stays_told(store, catalog, scripted):
    lacks = "The trace is missing."
    launcher = scripted(f"{PATH}{PROFILED}{FINISHED}")
    *_, _last = ProfileDriver(store, launcher, catalog).follow(replace(ask([FP32]), not_done=(lacks,)))
    assert saved(store).not_done == (lacks,)


@pytest.mark.parametrize(("kind", "kept"), [("request", 0), ("out-of-memory", 1)])
def test_where_all_sides_fail_the_first_problem_is_the_end(store, catalog, scripted, kind, kept):
    *_, last = ProfileDriver(store, scripted(failed(kind)), catalog).follow(ask([FP32, BF16]))
    assert isinstance(last, Failed) and last.problem.kind == kind
    assert len(store.studies.newest()) == kept


def test_a_stop_ends_it_with_the_sides_known(store, catalog, scripted):
    waits = "if job['limits']:\n    say(event='phase', name='profiling')\n    sys.stdin.readline()\n"
    stopped = "    say(event='finished', summary={}, stopped=True)\n    sys.exit()\n"
    driver = ProfileDriver(store, scripted(f"{waits}{stopped}{PROFILED}{FINISHED}"), catalog)
    last: Study[Profiles] | Event | None = None
    for last in driver.follow(ask([FP32, BF16, FP32])):
        assert not isinstance(last, Study) or last.place < 2
        if isinstance(last, Phase):
            driver.stop()
    assert isinstance(last, Finished) and last.stopped
    assert saved(store).is_over and len(saved(store).answer.measured()) == 1


def test_what_cannot_be_profiled_is_refused_before_any_event(store, catalog, scripted):
    driver = ProfileDriver(store, scripted(FINISHED), catalog)
    code = Code(file="net.py", folder="/elsewhere", text="def model(): ...\n")
    foreign = FP32.model_copy(update={"model": "net.py", "code": code.to_json()})
    with pytest.raises(ProblemError, match="profiled together"):
        ask([FP32] * (MOST_SIDES + 1))
    for sides, runs, key in (([FP32, foreign], (), "trust_code"), ([FP32], ["f" * 12], "run")):
        with pytest.raises(ProblemError) as caught:
            list(driver.follow(ask(sides, runs)))
        assert (caught.value.problem.kind, caught.value.problem.key) == (Kind.REQUEST, key)
    assert store.studies.newest() == ()


def test_several_devices_are_profiled_together_with_limits_of_their_own(store, catalog, scripted):
    several = FP32.model_copy(update={"devices": 2, "batch_size": 32})
    wanted = ask([FP32, several, several.model_copy(update={"precision": Precision.BF16})])
    list(ProfileDriver(store, scripted(PROFILED + FINISHED), catalog).follow(wanted))
    sides = saved(store).answer.sides
    assert [side.experiment.devices for side in sides] == [1, 2, 2]
    # two ranks share a processor's cores: what one process reaches is no limit of theirs
    assert [bool(side.profile and side.profile.notes) for side in sides] == [False, False, True]
