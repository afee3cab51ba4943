"""What "Run demo" trains on which machine, and how it fits it to the pace that shows."""

from __future__ import annotations

import numpy as np
import pytest

from engine.experiment.checks import Catalog, DeviceEntry, ModelEntry, PrecisionEntry, problems, resolve
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Problem
from engine.race.showcase import (
    FIRST,
    LENGTHENED,
    MOST_ATTEMPTS,
    PATIENCE_SECONDS,
    SECOND,
    SHORTENED,
    Showcase,
    adapted,
    busy,
    is_hopeless,
    lengthened,
    pace_of,
    showcase,
)
from engine.training.data.datasets import dataset_entries

CPU_NOTE = "saves no time on a CPU without AVX512-BF16 or AMX"


def device(
    name: str,
    memory_gib: float = 24.0,
    *,
    tensor_cores: bool = False,
    notes: dict[Precision, str] | None = None,
) -> DeviceEntry:
    precisions = tuple(
        PrecisionEntry(
            precision=one,
            available=one is not Precision.TF32,
            reason="no" if one is Precision.TF32 else None,
            note=(notes or {}).get(one),
        )
        for one in Precision
    )
    return DeviceEntry(
        name=name,
        title=name.upper(),
        memory_mib=memory_gib * 1024,
        tensor_cores=tensor_cores,
        precisions=precisions,
    )


def catalog(first: DeviceEntry) -> Catalog:
    models = [
        ModelEntry(name=name, task="classification", parameters=1, min_image_size=28, is_convolutional=True)
        for name in ("small-cnn", "resnet18", "resnet50")
    ]
    return Catalog(devices=(first,), models=tuple(models), datasets=dataset_entries())


def settings(case: Showcase) -> tuple[str, int | None, int]:
    first = case.sides[0][1]
    return first.model, first.image_size, first.batch_size


LARGE_CARD = device("cuda:0", 139.8, tensor_cores=True)
SMALL_CARD = device("cuda:0", 8.0, tensor_cores=True)
OLD_CARD = device("cuda:0", 24.0, notes={Precision.FP16: "saves memory but little time"})
FAST_CPU = device("cpu")
SLOW_CPU = device("cpu", notes={Precision.BF16: CPU_NOTE})
MACHINES = (LARGE_CARD, SMALL_CARD, OLD_CARD, FAST_CPU, SLOW_CPU)


@pytest.mark.parametrize("machine", MACHINES, ids=["large", "small", "old", "cpu", "slow cpu"])
def test_the_two_sides_differ_in_nothing_but_the_precision_and_this_machine_can_train_them(
    machine: DeviceEntry,
) -> None:
    case = showcase(catalog(machine))
    (_, full), (_, mixed) = case.sides
    assert full.precision is Precision.FP32 and mixed.precision.is_autocast
    assert full.model_copy(update={"precision": mixed.precision}) == mixed
    assert [label for label, _ in case.sides] == [full.precision.label, mixed.precision.label]
    assert not problems(full, catalog(machine)) and not problems(mixed, catalog(machine))
    assert (full.steps or 0) >= full.least_steps
    assert full.validation.every, "without an accuracy nobody could say what mixed precision costs"


def test_a_large_card_gets_the_most_to_do_and_it_says_where_little_gain_is_likely() -> None:
    assert settings(showcase(catalog(LARGE_CARD))) == ("resnet50", 224, 64)
    assert settings(showcase(catalog(device("cuda:0", 11.9, tensor_cores=True)))) == ("resnet50", 224, 64)
    assert settings(showcase(catalog(SMALL_CARD))) == ("resnet18", 128, 32)
    assert settings(showcase(catalog(OLD_CARD))) == ("resnet18", 128, 32)
    assert settings(showcase(catalog(FAST_CPU))) == ("small-cnn", None, 64)
    assert [one.sides[1][1].precision for one in map(showcase, map(catalog, (LARGE_CARD, FAST_CPU)))] == [
        Precision.FP16,
        Precision.BF16,
    ]
    assert "should be faster" in showcase(catalog(FAST_CPU)).why
    slow = showcase(catalog(SLOW_CPU)).why
    assert CPU_NOTE in slow and "probably slower" in slow
    assert "likely little time" in showcase(catalog(OLD_CARD)).why


def test_another_format_takes_the_place_of_one_that_the_device_cannot_do() -> None:
    unable = tuple(
        one.model_copy(update={"available": False, "reason": "no"})
        if one.precision is Precision.FP16
        else one
        for one in SMALL_CARD.precisions
    )
    case = showcase(catalog(SMALL_CARD.model_copy(update={"precisions": unable})))
    assert case.sides[1][1].precision is Precision.BF16


EXPERIMENT = Experiment(steps=500)
SIZE = EXPERIMENT.step_samples


def speeds(*parts: tuple[int, float]) -> np.ndarray:
    """Steps at so many steps a second, as samples a second."""
    return np.concatenate([np.full(count, SIZE * pace) for count, pace in parts])


def test_the_pace_is_that_of_the_steps_after_the_warm_up_or_of_a_long_one() -> None:
    assert pace_of(EXPERIMENT, speeds((10, 1.0), (60, 50.0))) == pytest.approx(50)
    assert pace_of(EXPERIMENT, speeds((10, 100.0), (20, 50.0))) is None, "half a second says too little"
    assert pace_of(EXPERIMENT, []) is None
    assert pace_of(EXPERIMENT, speeds((1, 0.01), (5, 1.0))) == pytest.approx(1)
    assert pace_of(EXPERIMENT, speeds((1, 0.01), (2, 1.0))) is None
    told = speeds((10, 1.0), (30, 10.0))
    told[12:15] = np.nan, 0.0, np.inf
    assert pace_of(EXPERIMENT, told) == pytest.approx(10)


CASE = showcase(catalog(FAST_CPU))


def steps_of(case: object) -> list[int | None]:
    assert isinstance(case, Showcase)
    return [one.steps for _, one in case.sides]


def test_a_run_of_a_wrong_length_is_begun_anew_if_that_is_worth_it() -> None:
    for pace in (500 / FIRST.longest, 500 / FIRST.wanted, 500 / FIRST.shortest):
        assert adapted(CASE, FIRST, pace, 40) is None
    assert adapted(CASE, SHORTENED, 5_000.0, 40) is None, "it is short for the other one's sake"
    assert adapted(CASE, SECOND, 500 / 3.0, 40) is None, "mixed precision may be as fast as it can"
    assert adapted(CASE, FIRST, 0.001, 500) is None, "all is trained"
    assert steps_of(adapted(CASE, FIRST, 5.5, 15)) == [50, 50]
    assert steps_of(adapted(CASE, FIRST, 550.0, 300)) == [4_950, 4_950]
    assert steps_of(adapted(CASE, SECOND, 5.5, 15)) == [99, 99]
    assert steps_of(adapted(CASE, SECOND, 5.0, 15)) == [90, 90]
    assert steps_of(adapted(CASE, SECOND, 5.0, 15, 45.0)) == [140, 140], "3 s in full precision"
    assert adapted(CASE, SECOND, 5.0, 15, 450.0) is None, "it would be longer than it is"
    assert adapted(CASE, FIRST, 25.0, 300) is None


def test_a_race_of_which_a_run_was_over_in_a_moment_is_measured_longer() -> None:
    short = CASE.of_length(EXPERIMENT.model_copy(update={"steps": 30}))
    assert lengthened(CASE, (100.0, 60.0)) is None, "495 steps in 5 and 8 s"
    # a busy machine told a slow pace, and 25 steps took 0.6 s
    assert steps_of(lengthened(short, (45.0, 40.0))) == [360, 360], "8 and 9 s"
    assert steps_of(lengthened(short, (450.0, 15.0))) == [1_355, 1_355], "3 s, and as long as it takes"
    for paces in ((45.0, 40.0), (450.0, 15.0), (15.0, 9_000.0)):
        longer = lengthened(short, paces)
        assert longer is not None and lengthened(longer, paces) is None
        assert adapted(longer, LENGTHENED, max(paces), 10) is None


def test_where_the_fewest_steps_take_too_long_the_workload_is_smaller_and_at_last_the_machine_busy() -> None:
    large, seen = showcase(catalog(LARGE_CARD)), []
    while isinstance(large, Showcase):
        seen.append(settings(large))
        assert not problems(large.sides[0][1], catalog(LARGE_CARD))
        told = adapted(large, FIRST, 0.5, 3)
        assert told is not None
        large = told  # type: ignore[assignment]
    assert seen == [
        ("resnet50", 224, 64), ("resnet18", 128, 32), ("small-cnn", None, 64), ("small-cnn", None, 8),
    ]  # fmt: skip
    assert (
        isinstance(large, Problem) and "This machine is busy. Only 3 of 30 steps were done." in large.message
    )
    assert adapted(CASE, FIRST, None, 0) == CASE.lighter(), "not a single step told a pace"


@pytest.mark.parametrize("full", [0.05, 0.4, 1.0, 3.0, 20.0, 55.0, 400.0, 5_000.0])
@pytest.mark.parametrize("by", [0.1, 0.3, 1.0, 3.0])
def test_each_pace_of_a_machine_ends_in_two_whole_runs_or_in_a_machine_that_is_busy(
    full: float, by: float
) -> None:
    """`full` steps a second in full precision of the first workload, `by` times as many in mixed."""
    case: Showcase | Problem | None = CASE
    spent, span = 0.0, FIRST
    for _ in range(MOST_ATTEMPTS):
        assert isinstance(case, Showcase)
        experiment = case.sides[0][1]
        # a smaller batch is not as much faster as it is smaller
        first = full * (CASE.sides[0][1].batch_size / experiment.batch_size) ** 0.8
        steps = experiment.steps or 0
        better = adapted(case, span, first, 10)
        if better is None:
            better = adapted(case, SECOND, first * by, 10)
            span = span if better is None else SHORTENED
            spent += steps / first
        spent += 10 / first
        if better is None:
            assert steps >= experiment.least_steps
            assert max(steps / first, (steps - 10) / first / by) <= PATIENCE_SECONDS, "as seen at the step"
            return
        case = better
        if isinstance(case, Problem):
            assert full * by <= 0.4
            return
    raise AssertionError("it never came to an end")


SLOWEST = showcase(catalog(FAST_CPU)).lighter()


@pytest.mark.parametrize("pace", [0.1, 0.5])
def test_what_is_nearly_done_is_neither_begun_anew_nor_called_busy(pace: float) -> None:
    assert SLOWEST is not None
    shortest = SLOWEST.of_length(EXPERIMENT.model_copy(update={"steps": 30}))
    assert adapted(CASE.of_length(shortest.sides[0][1]), FIRST, pace, 29) is None
    assert adapted(shortest, FIRST, pace, 29) is None
    assert isinstance(adapted(shortest, FIRST, pace, 3), Problem)


def test_a_run_is_given_up_only_without_enough_steps_and_with_much_left() -> None:
    experiment = CASE.sides[0][1]
    least = experiment.least_steps
    assert is_hopeless(experiment, None, 0) and is_hopeless(experiment, 1.0, least - 1)
    assert not is_hopeless(experiment, 1.0, least) and not is_hopeless(experiment, 100.0, least - 1)
    assert not is_hopeless(experiment.model_copy(update={"steps": 20}), 0.001, 20)
    assert busy(EXPERIMENT, 300).message == "This machine is busy. The rest would take too long."


@pytest.mark.parametrize("machine", MACHINES, ids=["large", "small", "old", "cpu", "slow cpu"])
def test_its_own_runs_are_known_as_they_are_saved_once_they_have_begun(machine: DeviceEntry) -> None:
    known = catalog(machine)
    case = showcase(known)
    begun = [resolve(one, known) for _, one in case.sides]
    assert begun != [one for _, one in case.sides] and case.matches(begun)
    elsewhere = [one.model_copy(update={"path": "/pictures"}) for one in begun]
    assert not case.matches(elsewhere)


def test_its_own_runs_are_known_of_any_length_which_both_sides_share() -> None:
    lighter = CASE.lighter()
    assert lighter is not None
    assert CASE.matches(one for _, one in lighter.of_length(EXPERIMENT).sides)
    other = [one.model_copy(update={"dataset": "mnist"}) for _, one in CASE.sides]
    assert not CASE.matches(other) and not CASE.matches([CASE.sides[0][1]])
    case = showcase(catalog(FAST_CPU)).of_length(EXPERIMENT.model_copy(update={"steps": 77}))
    assert [one.steps for _, one in case.sides] == [77, 77]
    assert not [one for _, one in case.sides if one.epochs is not None]
