"""Searches with real workers on the CPU, under a cap that makes allocations fail in earnest."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.catalog import Catalog
from engine.events import Failed
from engine.experiment import Experiment, experiment_from, layered
from engine.launcher import Launcher
from engine.probe_events import ProbeEnded, ProbeResult, ProbeStarted, TrialBegun, TrialEnded
from engine.probing import ProbeEvent, Prober
from engine.problem import Kind, ProblemError
from engine.records.store import Store
from engine.runner import Runner
from engine.supervision import Limits

TINY: dict[str, Any] = {
    "model": "small-cnn",
    "dataset": "synthetic",
    "image_size": 28,
    "num_classes": 10,
    "samples": 100_000,
    "device": "cpu",
    "steps": 20,
    "memory_cap_gib": 0.04,
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux caps a CPU's memory")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "runs.sqlite") as store:
        yield store


@pytest.fixture
def catalog(store: Store, launcher: Launcher) -> Catalog:
    return Runner(store, launcher).catalog()


@pytest.fixture
def prober(store: Store, launcher: Launcher, catalog: Catalog) -> Prober:
    return Prober(store, launcher, catalog)


def tiny(**changes: Any) -> Experiment:
    return experiment_from(layered(TINY, changes))


def result_of(events: list[ProbeEvent]) -> ProbeResult:
    last = events[-1]
    assert isinstance(last, ProbeEnded)
    return last.result


@pytest.mark.timeout(300)
def test_the_answer_passed_the_next_one_failed_and_both_meet_the_budget(prober: Prober, store: Store) -> None:
    events = list(prober.probe(tiny(), granularity=4))
    result = result_of(events)
    outcomes = {each.batch_size: each for each in result.trials}
    assert result.verified and result.bound_by == "memory"
    assert outcomes[result.largest_batch].fits and outcomes[result.largest_batch].steps >= 3
    assert result.first_failure == result.largest_batch + 4
    assert outcomes[result.first_failure].cause == "memory"
    assert result.budget_mib == pytest.approx(0.04 * 1024)
    assert result.peak_mib is not None and 0.8 * result.budget_mib < result.peak_mib <= result.budget_mib
    assert result.recommended_batch is not None and result.recommended_batch < result.largest_batch

    started = events[0]
    assert isinstance(started, ProbeStarted) and started.granularity == 4
    begun = [event.batch_size for event in events if isinstance(event, TrialBegun)]
    assert begun == [event.trial.batch_size for event in events if isinstance(event, TrialEnded)]
    saved = store.probe(started.probe_id)
    assert saved.result == result and saved.trials == result.trials
    assert store.probes() == (saved,)


@pytest.mark.timeout(300)
def test_a_cap_smaller_than_the_model_names_what_the_model_needs(prober: Prober) -> None:
    result = result_of(list(prober.probe(tiny(memory_cap_gib=0.003))))
    assert (result.largest_batch, result.verified, result.bound_by) == (0, False, "memory")
    assert result.note is not None
    assert result.note.startswith("Not even one sample fits: the model alone needs 4 MiB")


def test_the_data_may_end_before_the_memory(prober: Prober) -> None:
    result = result_of(list(prober.probe(tiny(samples=12, memory_cap_gib=1))))
    assert (result.largest_batch, result.verified, result.bound_by) == (12, True, "data")
    assert result.first_failure is None
    assert result.note is not None and "not the memory: synthetic has 12 samples" in result.note


def test_a_search_that_is_stopped_keeps_what_it_knows(prober: Prober, store: Store) -> None:
    events: list[ProbeEvent] = []
    for event in prober.probe(tiny(memory_cap_gib=1)):
        events.append(event)
        if sum(isinstance(each, TrialBegun) for each in events) == 2:
            prober.stop()
    result = result_of(events)
    assert (result.largest_batch, result.verified, result.bound_by) == (8, False, "stopped")
    assert store.probes()[0].result == result


def test_a_search_that_is_left_is_saved_with_what_it_knows(prober: Prober, store: Store) -> None:
    search = prober.probe(tiny(memory_cap_gib=1))
    next(event for event in search if isinstance(event, TrialEnded))
    search.close()
    (saved,) = store.probes()
    assert saved.result is not None and saved.result.bound_by == "stopped"
    assert [each.batch_size for each in saved.trials] == [8]


@pytest.mark.parametrize(
    ("changes", "granularity", "key"),
    [
        ({"memory_cap_gib": None}, 1, "memory_cap_gib"),
        ({"samples": 7}, 8, "granularity"),
        ({"samples": 20, "step": {"gradient_accumulation": 4}}, 8, "granularity"),
        ({"model": "resnet81"}, 1, "model"),
    ],
)
def test_what_cannot_be_searched_is_refused_and_leaves_nothing(
    prober: Prober, store: Store, changes: dict[str, Any], granularity: int, key: str
) -> None:
    with pytest.raises(ProblemError) as caught:
        list(prober.probe(tiny(**changes), granularity))
    assert (caught.value.problem.kind, caught.value.problem.key) == (Kind.REQUEST, key)
    assert store.probes() == ()


PRELUDE = """
import json, os, sys, time
def say(**event):
    sys.stdout.write(json.dumps(event) + chr(10)); sys.stdout.flush()
def tried(batch, cause=None, leaked=0.0):
    trial = dict(batch_size=batch, fits=cause is None, steps=3, cause=cause)
    if cause is None:
        trial["peak_mib"] = 10.0 + batch
    say(event="tried", trial=trial, budget_mib=110.0, leaked_mib=leaked)
say(event="ready", pid=os.getpid(), python="3", torch="0", ammeter="0")
for line in sys.stdin:
    batch = json.loads(line)["experiment"]["batch_size"]
"""


def probe_with(body: str, tmp_path: Path, store: Store, catalog: Catalog) -> list[ProbeEvent]:
    """A search whose workers are processes that behave as `body` says, for each batch they are given."""
    script = tmp_path / "worker.py"
    script.write_text(PRELUDE + textwrap.indent(textwrap.dedent(body), "    "))
    limits = Limits(ready=10.0, silence=0.6, stop=0.3, terminate=0.3)
    with Launcher(limits=limits, command=(sys.executable, str(script))) as launcher:
        return list(Prober(store, launcher, catalog).probe(tiny(memory_cap_gib=1)))


@pytest.mark.parametrize(
    ("ends", "bound", "verified"),
    [
        ("tried(batch, 'memory')", "memory", True),
        ("tried(batch, 'spill')", "memory", True),
        ("sys.stderr.write('std::bad_alloc'); sys.exit(134)", "memory", True),
        ("os.abort()", "death", False),
        ("time.sleep(60)", "hang", False),
        (
            "say(event='failed', problem=dict(kind='internal', message='No kernel for it.', remedy='.'))",
            "error",
            True,
        ),
    ],
)
def test_the_search_goes_on_after_any_end_of_a_trial_and_tells_it_as_what_it_is(
    ends: str, bound: str, verified: bool, tmp_path: Path, store: Store, catalog: Catalog
) -> None:
    body = f"""
    if batch <= 77:
        tried(batch)
    else:
        {ends}
    """
    result = result_of(probe_with(body, tmp_path, store, catalog))
    assert (result.largest_batch, result.first_failure) == (77, 78)
    assert (result.bound_by, result.verified) == (bound, verified)


def test_a_worker_that_keeps_memory_is_named(tmp_path: Path, store: Store, catalog: Catalog) -> None:
    events = probe_with(
        "tried(batch, None if batch < 9 else 'memory', leaked=30.0)", tmp_path, store, catalog
    )
    ended = [event for event in events if isinstance(event, TrialEnded)]
    assert all("30 MiB" in (event.replaced_worker or "") for event in ended)


def test_what_fails_whatever_the_batch_is_the_searchs_own_failure(
    tmp_path: Path, store: Store, catalog: Catalog
) -> None:
    problem = "dict(kind='internal', message='The shapes do not fit.', remedy='Choose another model.')"
    events = probe_with(f"say(event='failed', problem={problem})", tmp_path, store, catalog)
    last = events[-1]
    assert isinstance(last, Failed) and last.problem.message == "The shapes do not fit."
    assert sum(isinstance(event, TrialBegun) for event in events) == 1
    result = store.probes()[0].result
    assert result is not None and (result.largest_batch, result.note) == (0, "The shapes do not fit.")
