"""Searches on the CPU: with real workers, under a cap that makes allocations fail in earnest, and with
workers that only say so, where it is the search that is looked at."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, experiment_from, layered
from engine.experiment.own.code import OWN, Code
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import Kind
from engine.limit.driver import LimitDriver
from engine.protocol.events import Event, Failed, Log
from engine.protocol.trials import Limit, LimitResult, LimitSide
from engine.store.saved.study import Study
from engine.store.store import Store
from engine.worker.launcher import Launcher
from engine.worker.supervision import Limits

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


def tiny(**changes: Any) -> Experiment:
    return experiment_from(layered(TINY, changes))


Known = Study[Limit] | Event


def ask(experiment: Experiment, granularity: int = 1, margin_fraction: float = 0.1) -> Study[Limit]:
    side = LimitSide(label="FP32", experiment=experiment, granularity=granularity)
    return Study(answer=Limit(sides=(side,), margin_fraction=margin_fraction))


def follow(driver: LimitDriver, experiment: Experiment, *options: Any) -> list[Known]:
    return list(driver.follow(ask(experiment, *options)))


def sides(known: list[Known]) -> list[LimitSide]:
    """The side in each snapshot."""
    return [study.answer.sides[0] for study in known if isinstance(study, Study)]


def result_of(known: list[Known]) -> LimitResult:
    result = sides(known)[-1].result
    assert result is not None
    return result


def tried(known: list[Known]) -> list[int]:
    """The batches whose trials began."""
    trying = [side.trying for side in sides(known)]
    return [batch for before, batch in pairwise([None, *trying]) if batch is not None and batch != before]


def saved(store: Store) -> LimitSide:
    (entry,) = store.studies.newest("limit")
    side: LimitSide = store.studies.find(entry.id).answer.sides[0]
    return side


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_answer_passed_the_next_one_failed_and_both_meet_the_budget(driver, store):
    # pictures so large that what each thread takes is little beside eight of them
    events = follow(driver, tiny(image_size=64, memory_cap_gib=0.085), 8, 0.2)
    result = result_of(events)
    outcomes = {each.batch_size: each for each in result.trials}
    assert result.verified and result.bound_by == "memory"
    assert outcomes[result.largest_batch].fits and outcomes[result.largest_batch].steps >= 3
    assert result.first_failure == result.largest_batch + 8
    assert outcomes[result.first_failure].cause == "memory"
    assert result.budget_mib == pytest.approx(0.085 * 1024)
    assert result.peak_mib is not None and 0.8 * result.budget_mib < result.peak_mib <= result.budget_mib
    assert result.recommended_batch is not None and result.recommended_batch < result.largest_batch

    assert tried(events) == [trial.batch_size for trial in result.trials]
    assert saved(store).result == result and saved(store).trials == result.trials


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_cap_smaller_than_the_model_names_what_the_model_needs(driver):
    # of so many classes that the last layer is nearly all of it
    wide = tiny(num_classes=2_000, samples=1, memory_cap_gib=0.03)
    result = result_of(follow(driver, wide))
    assert (result.largest_batch, result.verified, result.bound_by) == (0, False, "memory")
    assert result.note is not None
    assert result.note.startswith("Not even one sample fits: the model alone needs 66 MiB")


@pytest.mark.parametrize(
    ("changes", "granularity", "key"),
    [
        ({"memory_cap_gib": None}, 1, "memory_cap_gib"),
        ({"samples": 7}, 8, "granularity"),
        ({"samples": 20, "step": {"gradient_accumulation": 4}}, 8, "granularity"),
        ({"model": "resnet81"}, 1, "model"),
    ],
)
def test_what_cannot_be_searched_is_refused_and_leaves_nothing(driver, store, changes, granularity, key):
    last = follow(driver, tiny(**changes), granularity)[-1]
    assert isinstance(last, Failed) and (last.problem.kind, last.problem.key) == (Kind.REQUEST, key)
    assert store.studies.newest() == ()


PRELUDE = """
import json, os, sys, time
def say(**event):
    sys.stdout.write(json.dumps(event) + chr(10)); sys.stdout.flush()
def tried(batch, cause=None, leaked=0.0, **facts):
    trial = dict(batch_size=batch, fits=cause is None, steps=3, cause=cause)
    if cause is None:
        trial["peak_mib"] = 10.0 + batch
    say(event="tried", trial=trial, budget_mib=110.0, leaked_mib=leaked, **facts)
say(event="ready", pid=os.getpid(), python="3", torch="0", ammeter="0")
for line in sys.stdin:
    batch = json.loads(line)["experiment"]["batch_size"]
"""


def with_a_card(catalog: Catalog) -> Catalog:
    """Trials on it share a worker."""
    (cpu,) = (each for each in catalog.devices if each.name == "cpu")
    card = cpu.model_copy(update={"name": "cuda:0", "title": "a card"})
    return catalog.model_copy(update={"devices": (card, cpu)})


@pytest.fixture
def scripted(tmp_path: Path, store: Store, catalog: Catalog) -> Iterator[Callable[[str], LimitDriver]]:
    """Makes a driver whose workers are processes that behave as a script says, for the batch they get."""
    launchers: list[Launcher] = []

    def make(body: str, catalog: Catalog = catalog) -> LimitDriver:
        script = tmp_path / "worker.py"
        script.write_text(PRELUDE + textwrap.indent(textwrap.dedent(body), "    "))
        limits = Limits(ready=10.0, silence=0.6, stop=0.3, terminate=0.3)
        launchers.append(Launcher(limits=limits, command=(sys.executable, str(script))))
        return LimitDriver(store, launchers[-1], catalog)

    yield make
    for launcher in launchers:
        launcher.close()


def test_the_data_may_end_before_the_memory(scripted):
    result = result_of(follow(scripted("tried(batch)"), tiny(samples=12)))
    assert (result.largest_batch, result.verified, result.bound_by) == (12, True, "data")
    assert result.first_failure is None
    assert result.note is not None and "not the memory: synthetic has 12 samples" in result.note


def test_how_many_samples_a_file_has_only_a_trial_shows(scripted, store):
    code = Code(file="net.py", folder="/", text="def model(): ...\ndef dataset(): ...\n")
    TrustedCode().add(code)
    experiment = tiny(model="net.py", code=code.to_json(), dataset=OWN, image_size=None, num_classes=None)
    result = result_of(follow(scripted("tried(batch, train_samples=12)"), experiment))
    assert (result.largest_batch, result.bound_by) == (12, "data")
    assert result.note is not None and "not the memory: its own data has no more samples." in result.note


WAITS_TO_BE_STOPPED = """
if batch <= 8:
    tried(batch)
else:
    assert json.loads(sys.stdin.readline())["job"] == "stop"
    say(event="finished", summary={}, stopped=True)
"""


def test_a_search_that_is_stopped_keeps_what_it_knows(scripted, store):
    driver = scripted(WAITS_TO_BE_STOPPED)
    events: list[Known] = []
    for event in driver.follow(ask(tiny())):
        events.append(event)
        if len(tried(events)) == 2:
            driver.stop()
    result = result_of(events)
    assert (result.largest_batch, result.verified, result.bound_by) == (8, False, "stopped")
    assert saved(store).result == result


def test_a_search_that_is_left_is_saved_with_what_it_knows(scripted, store):
    search = scripted("tried(batch)").follow(ask(tiny()))
    assert isinstance(search, Generator)
    next(known for known in search if isinstance(known, Study) and known.is_known)
    search.close()
    assert [trial.batch_size for trial in saved(store).trials] == [8] and not saved(store).is_proven
    assert store.studies.newest()[0].is_over


@pytest.mark.parametrize(
    ("ends", "bound", "verified"),
    [
        ("tried(batch, 'memory')", "memory", True),
        ("tried(batch, 'spill')", "memory", True),
        ("sys.stderr.write('std::bad_alloc'); sys.exit(134)", "memory", True),
        ("os.abort()", "death", False),
        ("time.sleep(60)", "hang", False),
        ("say(event='heartbeat', step=1, has_spilled=True); time.sleep(60)", "memory", True),
        (
            "say(event='failed', problem=dict(kind='internal', message='No kernel for it.', remedy='.'))",
            "error",
            True,
        ),
    ],
)
def test_the_search_goes_on_after_any_end_of_a_trial_and_tells_it(
    ends, bound, verified, scripted
):
    body = f"""
    if batch <= 77:
        tried(batch)
    else:
        {ends}
    """
    result = result_of(follow(scripted(body), tiny()))
    assert (result.largest_batch, result.first_failure) == (77, 78)
    assert (result.bound_by, result.verified) == (bound, verified)


def test_a_crash_under_a_batch_that_was_refused_memory_is_one_of_memory_too(scripted):
    result = result_of(follow(scripted("tried(batch, 'memory') if batch > 1 else os.abort()"), tiny()))
    assert (result.largest_batch, result.first_failure, result.bound_by) == (0, 1, "memory")
    assert result.note == "Not even one sample fits."


KEEPS_MEMORY = "tried(batch, None if batch < 9 else 'memory', leaked=30.0)"


def test_a_worker_that_keeps_memory_is_replaced_and_named(scripted, catalog):
    driver = scripted(KEEPS_MEMORY, with_a_card(catalog))
    events = follow(driver, tiny(device="cuda:0"))
    replaced = [log.message for log in events if isinstance(log, Log) and log.level == "warning"]
    assert len(replaced) == len(tried(events)) and all("30 MiB" in message for message in replaced)


def test_what_a_worker_keeps_that_ends_with_its_trial_is_no_matter(scripted):
    events = follow(scripted(KEEPS_MEMORY), tiny())
    assert tried(events) and not any(isinstance(log, Log) and log.level == "warning" for log in events)


def test_what_fails_whatever_the_batch_is_the_searchs_own_failure(scripted, store):
    problem = "dict(kind='internal', message='The shapes do not fit.', remedy='Choose another model.')"
    events = follow(scripted(f"say(event='failed', problem={problem})"), tiny())
    last = events[-1]
    assert isinstance(last, Failed) and last.problem.message == "The shapes do not fit."
    assert len(tried(events)) == 1
    result = saved(store).result
    assert result is not None and (result.largest_batch, result.note) == (0, "The shapes do not fit.")


def test_the_first_trial_begins_when_its_worker_is_ready(tmp_path, store, catalog):
    script, ready = tmp_path / "worker.py", tmp_path / "ready"
    getting_ready = f"import pathlib; pathlib.Path({str(ready)!r}).touch()"
    script.write_text(
        PRELUDE.replace('say(event="ready"', f'{getting_ready}\nsay(event="ready"') + "    tried(batch)"
    )
    with Launcher(command=(sys.executable, str(script))) as launcher:
        search = LimitDriver(store, launcher, catalog).follow(ask(tiny(samples=12)))
        assert isinstance(search, Generator)
        begun = next(known for known in search if isinstance(known, Study) and known.answer.sides[0].trying)
        assert "trying" in begun.doing and ready.exists()
        search.close()


# compiled and uncompiled have limits of their own
COMPILES = """
compiled = "fast" in line
tried(batch, None if batch <= ({compiled} if compiled else {uncompiled}) else 'memory')
"""


@pytest.mark.parametrize(("uncompiled", "compiled"), [(77, 77), (77, 90), (77, 60), (0, 3), (5, 0)])
def test_what_compiles_is_searched_uncompiled_and_proven_compiled(
    uncompiled, compiled, scripted, store, catalog
):
    driver = scripted(COMPILES.format(uncompiled=uncompiled, compiled=compiled), with_a_card(catalog))
    result = result_of(follow(driver, tiny(device="cuda:0", step={"recipe": "fast"})))
    assert (result.largest_batch, result.first_failure) == (compiled, compiled + 1)
    assert result.verified is (compiled > 0) and result.bound_by == "memory"
    later = [trial.uncompiled for trial in result.trials].index(False)
    assert later > 0 and not any(trial.uncompiled for trial in result.trials[later:])
    assert result.trials[later].batch_size == max(1, uncompiled)
    first = f"{later} trials" if later > 1 else "trial"
    told = f"To save time, the first {first} ran uncompiled; the answer rests on compiled ones."
    assert result.note is not None and result.note.endswith(told)
    assert saved(store).result == result


def test_a_recipe_that_does_not_compile_is_searched_once(scripted, catalog):
    driver = scripted(COMPILES.format(uncompiled=77, compiled=0), with_a_card(catalog))
    result = result_of(follow(driver, tiny(device="cuda:0", step={"recipe": "fused+capture"})))
    assert result.largest_batch == 77 and result.note is None
    assert not any(trial.uncompiled for trial in result.trials)


NEVER_COMPILES = """
if "fast" not in line:
    tried(batch, None if batch <= 77 else 'memory')
else:
"""


def test_a_search_that_is_stopped_before_it_compiled_proves_nothing(scripted, catalog):
    waits = """
    say(event='phase', name='compiling')
    json.loads(sys.stdin.readline())
    say(event='finished', summary={}, stopped=True)
"""
    driver = scripted(NEVER_COMPILES + waits, with_a_card(catalog))
    events: list[Known] = []
    for event in driver.follow(ask(tiny(device="cuda:0", step={"recipe": "fast"}))):
        events.append(event)
        if tried(events).count(77) == 2:
            driver.stop()
    result = result_of(events)
    assert (result.largest_batch, result.verified, result.bound_by) == (77, False, "stopped")
    assert result.note is not None and "compiled, the largest batch may differ" in result.note


def test_a_compiled_trial_that_fails_of_itself_is_the_searchs_failure(scripted, store, catalog):
    problem = "dict(kind='internal', message='No such kernel.', remedy='Go without.')"
    driver = scripted(NEVER_COMPILES + f"    say(event='failed', problem={problem})", with_a_card(catalog))
    last = follow(driver, tiny(device="cuda:0", step={"recipe": "fast"}))[-1]
    assert isinstance(last, Failed) and last.problem.message == "No such kernel."
    result = saved(store).result
    assert result is not None and not result.verified
    assert (result.largest_batch, result.bound_by, result.note) == (77, "error", "No such kernel.")
