"""Searches on the CPU: with real workers, under a cap that makes allocations fail in earnest, and with
workers that only say so, where it is the search that is looked at."""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, experiment_from, layered
from engine.experiment.own.code import OWN_DATA, Code
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import Kind
from engine.limit.driver import LimitDriver, TrialRunner, trial_limits
from engine.limit.result import notes_of
from engine.protocol.events import Event, Failed, Log, PhaseName
from engine.protocol.trials import Limit, LimitResult, LimitSide, Tried
from engine.runner import Runner
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.worker.launcher import Launcher
from engine.worker.supervision import Timeouts

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
FAST = {"device": "cuda:0", "step": {"recipe": "fast"}}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux caps a CPU's memory")

Known = Study[Limit] | Event


def tiny(**changes: Any) -> Experiment:
    return experiment_from(layered(TINY, changes))


def ask(experiment: Experiment, granularity: int = 1) -> Study[Limit]:
    side = LimitSide(label="FP32", experiment=experiment, granularity=granularity)
    return Study(answer=Limit(sides=(side,), margin_fraction=0.1))


def follow(driver: LimitDriver, experiment: Experiment, granularity: int = 1) -> list[Known]:
    return list(driver.follow(ask(experiment, granularity)))


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


def stopped_once(driver: LimitDriver, experiment: Experiment, is_time: Callable[..., bool]) -> LimitResult:
    """The result of a search that is stopped once the batches tried so far are these."""
    events: list[Known] = []
    for event in driver.follow(ask(experiment)):
        events.append(event)
        if is_time(tried(events)):
            driver.stop()
    return result_of(events)


def saved(store: Store) -> LimitSide:
    (entry,) = store.studies.newest("limit")
    side: LimitSide = store.studies.find(entry.id).answer.sides[0]
    return side


@pytest.fixture
def catalog(store: Store, launcher: Launcher) -> Catalog:
    """This machine's catalog, with a card, whose trials share a worker."""
    known = Runner(store, launcher).catalog()
    (cpu,) = (each for each in known.devices if each.name == "cpu")
    card = cpu.model_copy(update={"name": "cuda:0", "title": "a card"})
    return known.model_copy(update={"devices": (card, cpu)})


@pytest.fixture
def driver(store: Store, launcher: Launcher, catalog: Catalog) -> LimitDriver:
    return LimitDriver(store, launcher, catalog)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_answer_passed_the_next_one_failed_and_both_meet_the_budget(driver, store):
    # pictures so large that what each thread takes is little beside a batch of them, and so few samples that
    # two trials prove the answer: a process for each takes seconds to import torch
    events = follow(driver, tiny(image_size=64, memory_cap_gib=0.085, samples=48), 24)
    result = result_of(events)
    passed, failed = result.trials
    assert result.verified and result.bound_by == "memory" and result.largest_batch == 24
    assert passed.batch_size == 24 and passed.fits and passed.steps >= 3
    assert failed.batch_size == result.first_failure == 48 and failed.cause == "memory"
    assert result.budget_mib == pytest.approx(0.085 * 1024)
    # twice the batch needs more than there is
    assert result.peak_mib is not None and 0.5 * result.budget_mib < result.peak_mib <= result.budget_mib
    assert tried(events) == [24, 48]
    assert saved(store).result == result and saved(store).trials == result.trials


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_cap_smaller_than_the_model_names_what_the_model_needs(driver):
    # of so many classes that the last layer is nearly all of it
    result = result_of(follow(driver, tiny(num_classes=2_000, samples=1, memory_cap_gib=0.03)))
    assert (result.largest_batch, result.verified, result.bound_by) == (0, False, "memory")
    assert (result.note or "").startswith("Not even one sample fits. The model alone needs 66 MiB")


@pytest.mark.parametrize(
    ("changes", "granularity", "key"),
    [
        ({"memory_cap_gib": None}, 1, "memory_cap_gib"),
        ({"samples": 7}, 8, "granularity"),
        ({"samples": 20, "step": {"gradient_accumulation": 4}}, 8, "granularity"),
        ({"model": "resnet81"}, 1, "model"),
        ({"precision": "fp8"}, 1, "precision"),
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
def tried(batch, cause=None, leaked=0.0, note=None, **facts):
    trial = dict(batch_size=batch, fits=cause is None, steps=3, cause=cause, note=note)
    if cause is None:
        trial["peak_mib"] = 10.0 + batch
    say(event="tried", trial=trial, budget_mib=110.0, leaked_mib=leaked, **facts)
open(os.path.join(os.path.dirname(__file__), "ready"), "w").close()
say(event="ready", pid=os.getpid(), python="3", torch="0", ammeter="0")
for line in sys.stdin:
    batch = json.loads(line)["experiment"]["batch_size"]
"""


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Launcher]]:
    """Makes launchers of processes that behave as a script says, for the batch they get."""
    launchers: list[Launcher] = []
    monkeypatch.chdir(tmp_path)

    def make(body: str) -> Launcher:
        script = tmp_path / "worker.py"
        script.write_text(PRELUDE + textwrap.indent(textwrap.dedent(body), "    "))
        limits = Timeouts(ready=10.0, silence=0.6, stop=0.3, terminate=0.3)
        launchers.append(Launcher(limits=limits, command=(sys.executable, str(script))))
        return launchers[-1]

    yield make
    for launcher in launchers:
        launcher.close()


@pytest.fixture
def scripted(store: Store, catalog: Catalog, launched: Callable[[str], Launcher]) -> Callable[..., Any]:
    return lambda body: LimitDriver(store, launched(body), catalog)


CODE = Code(file="net.py", folder="/", text="def model(): ...\ndef dataset(): ...\n")
OF_FILE = {
    "model": "net.py",
    "code": CODE.to_json(),
    "dataset": OWN_DATA,
    "image_size": None,
    "num_classes": None,
}
LOOKED = "Samples differ in size, so each trial used the largest of 24 batches."


@pytest.mark.parametrize(
    ("script", "settings", "answer", "told"),
    [
        ("tried(batch)", {"samples": 12}, (12, None, "data"), "not memory: synthetic has 12 samples"),
        ("tried(batch, note='No weight was updated.')", {"samples": 12}, (12, None, "data"), "was updated."),
        ("tried(batch, train_samples=12)", OF_FILE, (12, None, "data"), "its own data has no more samples."),
        ("tried(batch, train_samples=12, looked_through=24)", OF_FILE, (12, None, "data"), LOOKED),
        # a crash under a batch that was refused memory is one of memory too
        (
            "tried(batch, 'memory') if batch > 1 else os.abort()",
            {},
            (0, 1, "memory"),
            "Not even one sample fits.",
        ),
    ],
)
def test_the_answer_says_what_ends_it(scripted, script, settings, answer, told):
    TrustedCode().add(CODE)
    result = result_of(follow(scripted(script), tiny(**settings)))
    assert (result.largest_batch, result.first_failure, result.bound_by) == answer
    assert result.verified is (answer[2] == "data") and told in (result.note or "")


WAITS_TO_BE_STOPPED = """
if batch <= 8:
    tried(batch)
else:
    assert json.loads(sys.stdin.readline())["job"] == "stop"
    say(event="finished", summary={}, stopped=True)
"""


def test_a_search_that_is_stopped_keeps_what_it_knows(scripted, store):
    result = stopped_once(scripted(WAITS_TO_BE_STOPPED), tiny(), lambda batches: len(batches) == 2)
    assert (result.largest_batch, result.verified, result.bound_by) == (8, False, "stopped")
    assert saved(store).result == result


def test_a_side_that_the_time_limit_leaves_no_trial_is_said_to_be_unknown(catalog, launched, store):
    driver = LimitDriver(store, launched("tried(batch)"), catalog, time_limit_seconds=0.0)
    fp32, bf16 = (
        LimitSide(label=label, experiment=tiny(precision=precision))
        for label, precision in (("FP32", "fp32"), ("BF16 AMP", "bf16"))
    )
    known = list(driver.follow(Study(answer=Limit(sides=(fp32, bf16), margin_fraction=0.1))))
    answer = next(study.answer for study in reversed(known) if isinstance(study, Study))
    assert [side.result and side.result.bound_by for side in answer.sides] == ["stopped", "stopped"]
    assert notes_of(answer)[-1] == "Stopped early. The largest batch is unknown."


def test_a_search_that_is_left_is_saved_with_what_it_knows(scripted, store):
    search = scripted("tried(batch)").follow(ask(tiny()))
    next(known for known in search if isinstance(known, Study) and known.is_known)
    search.close()
    assert [trial.batch_size for trial in saved(store).trials] == [8] and not saved(store).is_verified
    assert store.studies.newest()[0].is_over


@pytest.mark.slow
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
            "say(event='failed', problem=dict(kind='internal', message='No kernel.', remedy='.'))",
            "error",
            True,
        ),
    ],
)
def test_the_search_goes_on_after_any_end_of_a_trial_and_tells_it_apart(ends, bound, verified, scripted):
    result = result_of(follow(scripted(f"if batch <= 77: tried(batch)\nelse: {ends}"), tiny()))
    assert (result.largest_batch, result.first_failure) == (77, 78)
    assert (result.bound_by, result.verified) == (bound, verified)
    # where the next batch failed shows what is usable: 88 of the 110 MiB, of which a tenth stays free
    assert result.recommended_batch == math.floor(0.9 * 88) - 10


@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
def test_a_worker_that_keeps_memory_is_replaced_unless_it_ends_with_its_trial(scripted, device):
    keeps_memory = "tried(batch, None if batch < 9 else 'memory', leaked=30.0)"
    events = follow(scripted(keeps_memory), tiny(device=device))
    replaced = [log.message for log in events if isinstance(log, Log) and log.level == "warning"]
    assert tried(events) and len(replaced) == (0 if device == "cpu" else len(tried(events)))
    assert all("30 MiB" in message for message in replaced)


def test_what_fails_at_any_batch_is_the_searchs_failure(scripted, store):
    problem = "dict(kind='internal', message='The shapes do not fit.', remedy='Choose another model.')"
    events = follow(scripted(f"say(event='failed', problem={problem})"), tiny())
    last = events[-1]
    assert isinstance(last, Failed) and last.problem.message == "The shapes do not fit."
    assert len(tried(events)) == 1
    result = saved(store).result
    assert result is not None and (result.largest_batch, result.note) == (0, "The shapes do not fit.")


def test_the_first_trial_begins_when_its_worker_is_ready(scripted, tmp_path):
    search = scripted("tried(batch)").follow(ask(tiny(samples=12)))
    begun = next(known for known in search if isinstance(known, Study) and known.answer.sides[0].trying)
    assert "trying" in begun.doing and (tmp_path / "ready").exists()
    search.close()


# the whole recipe and what leaves out a part have limits of their own
QUICK_FIRST = """
whole = json.loads(line)["searches_algorithms"] and {recipe!r} in line
tried(batch, None if batch <= ({whole} if whole else {quick}) else 'memory')
"""
NO_SEARCH = "without cuDNN's search for fast algorithms"
LANGUAGE = {"model": "causal-lm-tiny", "dataset": "synthetic-tokens", "image_size": None, "num_classes": 64}


@pytest.mark.parametrize(
    ("settings", "how", "quick", "whole"),
    [
        pytest.param(FAST, f"uncompiled and {NO_SEARCH}", 77, 77, id="fast"),
        pytest.param({**FAST, "step": {"recipe": "fused+capture"}}, NO_SEARCH, 77, 90, id="captured"),
        pytest.param({**FAST, "step": {"recipe": "channels_last"}}, NO_SEARCH, 77, 60, id="channels_last"),
        pytest.param({**FAST, **LANGUAGE}, "uncompiled", 0, 3, id="without convolutions"),
        pytest.param({**FAST, "device": "cpu"}, "uncompiled", 5, 0, id="on a CPU"),
    ],
)
def test_the_search_leaves_out_what_takes_long_and_verifies_with_the_whole_recipe(
    quick, whole, settings, how, scripted, store
):
    driver = scripted(QUICK_FIRST.format(whole=whole, quick=quick, recipe=settings["step"]["recipe"]))
    result = result_of(follow(driver, tiny(**settings)))
    assert (result.largest_batch, result.first_failure) == (whole, whole + 1)
    assert result.verified is (whole > 0) and result.bound_by == "memory"
    later = [trial.is_quick for trial in result.trials].index(False)
    assert later > 0 and not any(trial.is_quick for trial in result.trials[later:])
    assert result.trials[later].batch_size == max(1, quick)
    first = f"{later} trials" if later > 1 else "trial"
    told = f"To save time, the first {first} ran {how}. The answer was verified with all optimizations."
    assert result.note is not None and result.note.endswith(told)
    assert saved(store).result == result


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"device": "cuda:0"}, id="plain"),
        pytest.param({"device": "cpu", "step": {"recipe": "fused"}}, id="on a CPU"),
        pytest.param({"device": "cuda:0", "step": {"recipe": "fused+capture"}, **LANGUAGE}, id="language"),
    ],
)
def test_a_recipe_that_neither_compiles_nor_searches_is_searched_once(settings, scripted):
    driver = scripted(QUICK_FIRST.format(whole=77, quick=0, recipe=""))
    result = result_of(follow(driver, tiny(**settings)))
    assert result.largest_batch == 77 and result.note is None
    assert not any(trial.is_quick for trial in result.trials)


@pytest.mark.parametrize(
    ("trials", "told"),
    [
        (0, "The largest batch is unknown."),
        (1, "The largest batch is at least 8 (not verified)."),
        (3, "The largest batch is at least 32 and at most 96 (not verified)."),
    ],
)
def test_a_search_whose_time_is_over_ends_with_a_range(trials, told, scripted):
    driver = scripted("tried(batch, None if batch <= 77 else 'memory')")
    events: list[Known] = []
    for event in driver.follow(ask(tiny())):
        events.append(event)
        if isinstance(event, Study) and len(event.answer.sides[0].trials) == trials:
            driver._ends = 0.0
    result = result_of(events)
    assert len(result.trials) == trials and not result.verified and result.bound_by == "stopped"
    assert result.note == f"Stopped early. {told}"


NEVER_COMPILES = """
if "fast" not in line:
    tried(batch, None if batch <= 77 else 'memory')
else:
"""


def test_a_search_that_is_stopped_before_it_compiled_proves_nothing(scripted):
    waits = """
    say(event='phase', name='compiling')
    json.loads(sys.stdin.readline())
    say(event='finished', summary={}, stopped=True)
"""
    driver = scripted(NEVER_COMPILES + waits)
    result = stopped_once(driver, tiny(**FAST), lambda batches: batches.count(77) == 2)
    assert (result.largest_batch, result.verified, result.bound_by) == (77, False, "stopped")
    assert result.note is not None and result.note.endswith(
        f"So far the trials ran uncompiled and {NO_SEARCH}, so the largest batch may differ."
    )


def test_a_compiled_trial_that_fails_of_itself_is_the_searchs_failure(scripted, store):
    problem = "dict(kind='internal', message='No such kernel.', remedy='Go without.')"
    driver = scripted(NEVER_COMPILES + f"    say(event='failed', problem={problem})")
    last = follow(driver, tiny(**FAST))[-1]
    assert isinstance(last, Failed) and last.problem.message == "No such kernel."
    result = saved(store).result
    assert result is not None and not result.verified
    assert (result.largest_batch, result.bound_by, result.note) == (77, "error", "No such kernel.")


def answered(runner: TrialRunner, device: str, batch_size: int = 1, *, is_last: bool = False) -> str | None:
    """The pid of the worker that answered a trial, and how its memory is set up."""
    last = list(runner.run(Experiment(device=device, batch_size=batch_size), is_last=is_last))[-1]
    return last.trial.note if isinstance(last, Tried) else None


TELLS_ITSELF = """
if batch == 13:
    sys.exit(1)
tried(batch, note=f"{os.getpid()} {os.environ.get('MALLOC_ARENA_MAX')}")
"""


def test_on_an_accelerator_a_worker_takes_trials_until_it_is_replaced_or_dies(launched):
    runner = TrialRunner(launched(TELLS_ITSELF), "cuda:0")
    first = answered(runner, "cuda:0")
    assert first is not None and answered(runner, "cuda:0") == first
    runner.replace_worker()
    second = answered(runner, "cuda:0")
    assert second is not None and second != first
    assert answered(runner, "cuda:0", batch_size=13) is None
    assert answered(runner, "cuda:0") not in (None, second)
    runner.close()


def test_on_a_cpu_each_trial_has_a_worker_that_returns_its_memory_and_none_follows_the_last(
    launched, own_children
):
    runner, before = TrialRunner(launched(TELLS_ITSELF), "cpu"), own_children()
    first = answered(runner, "cpu")
    assert own_children() > before
    second = answered(runner, "cpu", is_last=True)
    assert own_children() == before
    assert first is not None and second is not None and first != second
    assert first.endswith(" 2") and second.endswith(" 2")
    runner.close()


def test_a_trial_is_waited_for_less_long_than_a_run_but_a_download_is_not():
    limits = Timeouts()
    shorter = trial_limits(limits).standstill
    assert shorter[PhaseName.WARMING_UP] < limits.standstill[PhaseName.WARMING_UP]
    assert shorter[PhaseName.DOWNLOADING] == limits.standstill[PhaseName.DOWNLOADING]
    assert not math.isinf(max(shorter.values()))
