"""Why a comparison failed, and the remedies that train it again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.experiment.experiment import Precision
from engine.experiment.own.code import Code, place_of
from engine.experiment.problem import Kind, Problem
from engine.store.store import Store
from tests.failures import CAPPED, CASES, LARGE, OUT_OF_MEMORY, Failures
from tests.golden import Golden

NUMBER = "9" * 5_000


@pytest.fixture
def failures(store: Store, tmp_path: Path) -> Failures:
    return Failures(store, tmp_path)


@pytest.mark.parametrize("case", CASES)
def test_the_words_of_a_failure(failures: Failures, tmp_path: Path, golden: Golden, case: str) -> None:
    golden("\n".join(failures.read(failures.case(case, tmp_path)).lines()), case)


@pytest.mark.parametrize("case", CASES)
def test_every_remedy_changes_what_failed_and_keeps_the_sides_alike(
    failures: Failures, tmp_path: Path, case: str
) -> None:
    runs = failures.case(case, tmp_path)
    remedies = failures.read(runs).remedies
    assert 0 < len(remedies) <= 3
    for remedy in (remedy for remedy in remedies if remedy.action == "train"):
        assert len(remedy.sides) == len(runs) and len({one.batch_size for _, one in remedy.sides}) == 1
        is_same = [experiment for _, experiment in remedy.sides] == [run.experiment for run in runs]
        assert is_same == (remedy.words == "Try again")


def test_one_batch_fits_both_precisions_and_accumulation_keeps_the_samples(failures: Failures) -> None:
    smaller, accumulated, raised = failures.read(failures.compared(OUT_OF_MEMORY, CAPPED)).remedies
    for label, experiment in (*smaller.sides, *raised.sides):
        assert Precision(experiment.precision).label == label
        forecast = failures.forecasts.find(experiment)
        assert forecast is not None and forecast.needed_mib <= (experiment.memory_cap_gib or 0) * 1024
    assert {one.device_step_samples for _, one in accumulated.sides} == {2_000}


def test_repeats_are_repeated(failures: Failures) -> None:
    runs = [*failures.compared(OUT_OF_MEMORY), *failures.compared(OUT_OF_MEMORY)]
    assert {remedy.repeats for remedy in failures.read(runs).remedies} == {2}


def test_a_batch_needs_an_estimate_of_the_side_that_failed(failures: Failures) -> None:
    unknown = failures.compared(OUT_OF_MEMORY, LARGE, estimated=False)
    failures.estimate(unknown[1].experiment, "bf16")
    smaller = failures.read(unknown).remedies[0]
    assert {one.batch_size for _, one in smaller.sides} == {4_000} and "not known" in smaller.outcome


def test_the_last_failure_is_explained_and_without_one_there_is_none(failures: Failures) -> None:
    runs = failures.compared(OUT_OF_MEMORY, finished=("bf16",))
    lost = Problem(kind=Kind.WORKER_DIED, message="It ended.", remedy="Train it again.")
    failure = failures.read([runs[0], replace(runs[1], problem=lost)])
    assert failure.title == "It ended" and failure.run.side == "BF16 AMP"
    with pytest.raises(AssertionError):
        failures.read([replace(run, problem=None) for run in runs])


def test_a_run_of_a_sweep_is_not_trained_again(failures: Failures) -> None:
    runs = [replace(run, sweep="sweep") for run in failures.compared(OUT_OF_MEMORY)]
    failure = failures.read(runs)
    assert failure.runs == (runs[0],) and not failure.remedies


@pytest.mark.parametrize(
    "detail",
    [
        "Tried to allocate 1..2 GiB",
        f"Tried to allocate {NUMBER} GiB",
        f"you tried to allocate {NUMBER} bytes",
        f'  File "/nowhere/net.py", line {NUMBER}, in forward',
    ],
)
def test_a_message_with_impossible_numbers_is_no_failure_of_its_own(failures, tmp_path, detail):
    code = Code(file="net.py", folder="/nowhere", text="def model(): ...\n")
    assert place_of(detail, code) is None
    runs = [replace(run, detail=detail) for run in failures.case(next(iter(CASES)), tmp_path)]
    assert "requested" not in "".join(failures.read(runs).tried)
