"""Profiles are recorded side by side; workers here only say what a script has them say."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.own.code import Code
from engine.experiment.problem import Kind, ProblemError
from engine.protocol.events import Failed, Finished, Phase
from engine.protocol.timing.profile import Profiled
from engine.protocol.timing.timing import MOST_SIDES, SideFailed, SideStarted, TimingStarted
from engine.store.store import Store
from engine.timing.profiler import Profiler
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


def test_each_side_is_saved_as_it_comes_and_the_limits_are_measured_once(
    store: Store, catalog: Catalog, scripted: Scripted
) -> None:
    launcher = scripted(f"say(event='phase', name='profiling', fraction=0.5)\n{PROFILED}{FINISHED}")
    seen = []
    for event in Profiler(store, launcher, catalog).profile([FP32, BF16]):
        (saved,) = store.timings.newest()
        seen.append((type(event), len(saved.timing.profiles())))
    assert seen == [
        (TimingStarted, 0),
        (SideStarted, 0),
        (Phase, 0),
        (Profiled, 1),
        (SideStarted, 1),
        (Phase, 1),
        (Profiled, 2),
        (Finished, 2),
    ]
    (saved,) = store.timings.newest()
    first, second = saved.timing.profiles()
    assert saved.is_over and (first.format, second.format) == ("fp32", "bf16")
    assert first.limits == second.limits and (first.notes, len(second.notes)) == ((), 1)
    assert saved.traces() == tuple(store.timings.trace_path(saved.id, place) for place in range(2))


def test_a_side_that_fails_leaves_the_others(store: Store, catalog: Catalog, scripted: Scripted) -> None:
    writes = "    (path.parent / f'.{path.name}.part').touch()\n    path.touch()\n"
    fails = (
        f"if job['experiment']['precision'] == 'fp32':\n{writes}    {failed('out-of-memory')}    sys.exit()\n"
    )
    *_, last = events = list(
        Profiler(store, scripted(f"{PATH}{fails}{PROFILED}{FINISHED}"), catalog).profile([FP32, BF16])
    )
    (problem,) = [event.problem for event in events if isinstance(event, SideFailed)]
    (saved,) = store.timings.newest()
    assert isinstance(last, Finished)
    assert saved.timing.sides[0].problem == problem and len(saved.timing.profiles()) == 1
    assert list(saved.folder.iterdir()) == list(saved.traces())


@pytest.mark.parametrize(("kind", "kept"), [("request", 0), ("out-of-memory", 1)])
def test_where_all_sides_fail_the_first_problem_is_the_end(
    store: Store, catalog: Catalog, scripted: Scripted, kind: str, kept: int
) -> None:
    *_, last = Profiler(store, scripted(failed(kind)), catalog).profile([FP32, BF16])
    assert isinstance(last, Failed) and last.problem.kind == kind
    assert len(store.timings.newest()) == kept


def test_one_that_is_left_keeps_what_is_known(store: Store, catalog: Catalog, scripted: Scripted) -> None:
    for until, kept in ((TimingStarted, 0), (Profiled, 1)):
        events = Profiler(store, scripted(PROFILED + FINISHED), catalog).profile([FP32, BF16])
        assert isinstance(events, Generator)
        assert any(isinstance(event, until) for event in events)
        events.close()
        assert len(store.timings.newest()) == kept
    (saved,) = store.timings.newest()
    assert saved.is_over and len(saved.timing.profiles()) == 1


def test_a_stop_ends_it_with_the_sides_known(store: Store, catalog: Catalog, scripted: Scripted) -> None:
    waits = "if job['limits']:\n    say(event='phase', name='profiling')\n    sys.stdin.readline()\n"
    stopped = "    say(event='finished', summary={}, stopped=True)\n    sys.exit()\n"
    profiler = Profiler(store, scripted(f"{waits}{stopped}{PROFILED}{FINISHED}"), catalog)
    sides = []
    for event in profiler.profile([FP32, BF16, FP32]):
        if isinstance(event, SideStarted):
            sides.append(event.side)
        elif isinstance(event, Phase):
            profiler.stop()
    assert isinstance(event, Finished) and event.stopped and sides == [0, 1]
    (saved,) = store.timings.newest()
    assert saved.is_over and len(saved.timing.profiles()) == 1


def test_a_run_gives_its_settings(store: Store, catalog: Catalog, scripted: Scripted) -> None:
    run = store.add(FP32.model_copy(update={"seed": 7}))
    profiler = Profiler(store, scripted(PROFILED + FINISHED), catalog)
    list(profiler.profile([FP32, Experiment()], [None, run.id]))
    (saved,) = store.timings.newest()
    assert [(side.run_id, side.experiment.seed) for side in saved.timing.sides] == [(None, 0), (run.id, 7)]


def test_what_cannot_be_profiled_is_refused_before_any_event(
    store: Store, catalog: Catalog, scripted: Scripted
) -> None:
    profiler = Profiler(store, scripted(FINISHED), catalog)
    code = Code(file="net.py", folder="/elsewhere", text="def model(): ...\n")
    foreign = FP32.model_copy(update={"model": "net.py", "code": code.to_json()})
    for sides, runs, key in (
        ([FP32, foreign], (), "trust_code"),
        ([FP32], ["f" * 12], "run"),
        ([FP32] * (MOST_SIDES + 1), (), "precision"),
    ):
        with pytest.raises(ProblemError) as caught:
            list(profiler.profile(sides, runs))
        assert (caught.value.problem.kind, caught.value.problem.key) == (Kind.REQUEST, key)
    assert store.timings.newest() == ()
