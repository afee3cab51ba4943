"""What "Run demo" trains on which machine, and for how many steps."""

from __future__ import annotations

import numpy as np
import pytest

from engine.experiment.checks import Catalog, DeviceEntry, ModelEntry, PrecisionEntry, problems, resolve
from engine.experiment.experiment import Precision
from engine.race.showcase import SLOWER_SECONDS, Showcase, pace_of, showcase
from engine.training.data.datasets import dataset_entries

CPU_NOTE = "saves no time on a CPU without AVX512-BF16 or AMX"


def device(
    name: str,
    memory_gib: float = 24.0,
    *,
    tensor_cores: bool = False,
    notes: dict[Precision, str] | None = None,
    unable: Precision = Precision.TF32,
) -> DeviceEntry:
    precisions = tuple(
        PrecisionEntry(
            precision=one,
            available=one is not unable,
            reason="no" if one is unable else None,
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


MACHINES = {
    "large": (device("cuda:0", 139.8, tensor_cores=True), ("resnet50", 224, 64), "several times as fast"),
    "12 GiB": (device("cuda:0", 11.9, tensor_cores=True), ("resnet50", 224, 64), "several times as fast"),
    "small": (device("cuda:0", 8.0, tensor_cores=True), ("resnet18", 128, 32), "several times as fast"),
    "old": (
        device("cuda:0", 24.0, notes={Precision.FP16: "saves memory but little time"}),
        ("resnet18", 128, 32),
        "likely little time",
    ),
    "cpu": (device("cpu"), ("small-cnn", None, 64), "should be faster"),
    "slow cpu": (device("cpu", notes={Precision.BF16: CPU_NOTE}), ("small-cnn", None, 64), "probably slower"),
}


@pytest.mark.parametrize("name", MACHINES)
def test_the_two_sides_differ_in_nothing_but_the_precision_and_this_machine_can_train_them(name: str) -> None:
    machine, workload, why = MACHINES[name]
    case = showcase(catalog(machine)).of_pace(10.0)
    (_, full), (_, mixed) = case.sides
    assert full.precision is Precision.FP32 and mixed.precision.is_autocast
    assert full.model_copy(update={"precision": mixed.precision}) == mixed
    assert (full.model, full.image_size, full.batch_size) == workload and why in case.why
    assert [label for label, _ in case.sides] == [full.precision.label, mixed.precision.label]
    for one in (*case.sides, *case.pilot().sides):
        assert not problems(one[1], catalog(machine))
    assert full.validation.every, "without an accuracy nobody could say what mixed precision costs"


def test_another_format_takes_the_place_of_one_that_the_device_cannot_do() -> None:
    machine = device("cuda:0", 8.0, tensor_cores=True, unable=Precision.FP16)
    assert showcase(catalog(machine)).sides[1][1].precision is Precision.BF16


CASE = showcase(catalog(device("cpu")))
EXPERIMENT = CASE.sides[0][1]


@pytest.mark.parametrize(
    ("steps_per_second", "steps"),
    [
        (30.0, round(30 * SLOWER_SECONDS)),
        # fewer give no speed, more would show nothing new
        (0.1, EXPERIMENT.least_steps),
        (1e6, 20_000),
    ],
)
def test_the_slower_side_trains_for_some_seconds(steps_per_second: float, steps: int) -> None:
    assert [one.steps for _, one in CASE.of_pace(steps_per_second).sides] == [steps, steps]


def test_a_pilot_is_short_and_tests_nothing() -> None:
    for _, one in CASE.pilot().sides:
        assert one.steps == one.measure.warmup_steps + 20 and not one.validation.every


def test_a_pace_is_the_median_after_the_warm_up() -> None:
    size, warmup = EXPERIMENT.step_samples, EXPERIMENT.measure.warmup_steps
    warm, usual = [0.1 * size] * warmup, [50.0 * size] * 9
    assert pace_of(EXPERIMENT, np.array([*warm, *usual, 1.0, np.nan, 0.0])) == pytest.approx(50.0)
    assert pace_of(EXPERIMENT, np.array(warm)) is None


@pytest.mark.parametrize("name", MACHINES)
def test_its_own_runs_are_known_as_they_are_saved_once_they_have_begun(name: str) -> None:
    known = catalog(MACHINES[name][0])
    case: Showcase = showcase(known)
    begun = [resolve(one, known) for _, one in case.of_pace(7.0).sides]
    assert begun != [one for _, one in case.sides] and case.matches(begun)
    elsewhere = [one.model_copy(update={"path": "/pictures"}) for one in begun]
    assert not case.matches(elsewhere) and not case.matches(begun[:1])
