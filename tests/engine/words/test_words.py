"""Settings as they are shown, only where they mean something, and numbers as they are read aloud."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

import pytest

from engine.experiment.catalog import IMAGE_FOLDER
from engine.experiment.experiment import Experiment, Precision, all_settings, experiment_from, layered
from engine.experiment.own.code import OWN_DATA, Code
from engine.experiment.setting import FormValues
from engine.training.data.datasets import dataset_entries
from engine.words.names import applies, applying_settings, setting_text
from engine.words.numbers import (
    clock_text,
    memory_apart_text,
    memory_text,
    memory_unit_text,
    number_text,
    pace_text,
    range_text,
    seconds_text,
    times,
)


def chosen(dataset: str) -> FormValues:
    values = {"dataset": dataset, "validation.every": "1"}
    return FormValues(lambda key: values.get(key, ""), (Precision.FP32,))


# only the model itself knows its own data
@pytest.mark.parametrize(
    "entry", [entry for entry in dataset_entries() if entry.task != "own"], ids=lambda entry: entry.name
)
def test_what_applies_to_a_dataset_is_what_the_catalog_says_of_it(entry: Any) -> None:
    can_validate = entry.validation_samples is not None or entry.needs_path
    expected = {
        "path": entry.needs_path,
        "data.skip_broken": entry.name == IMAGE_FOLDER,
        "image_size": entry.image_size is not None,
        "num_classes": entry.num_classes is not None or entry.needs_path,
        "samples": entry.train_samples is None and entry.name != IMAGE_FOLDER,
        "sequence_length": entry.task == "language",
        "label_smoothing": entry.task != "regression",
        "data.on_device": entry.loads,
        "data.workers": entry.loads,
        "checkpoint.best": can_validate,
    }
    assert {key: applies(key, chosen(entry.name)) for key in expected} == expected


@pytest.mark.parametrize(
    ("settings", "absent", "present"),
    [
        ({}, {"samples", "sequence_length", "path", "steps"}, {"epochs", "data.workers", "label_smoothing"}),
        ({"steps": 9}, {"epochs"}, {"steps"}),
        ({"precision": "fp32"}, {"scaler.init_scale", "step.autocast_tf32"}, {"scaler.mode"}),
        ({"precision": "fp16"}, set(), {"scaler.init_scale", "step.fp32_modules"}),
        ({"precision": "fp16", "scaler": {"mode": "off"}}, {"scaler.growth_interval"}, {"scaler.mode"}),
        ({"optimizer": {"name": "adam"}}, {"optimizer.momentum"}, {"optimizer.weight_decay"}),
        ({"optimizer": {"name": "sgd"}}, set(), {"optimizer.momentum"}),
        ({"schedule": {"name": "step"}}, {"schedule.rise_fraction"}, {"schedule.decay_factor"}),
        ({"dataset": "synthetic-tokens"}, {"image_size", "data.workers"}, {"samples", "sequence_length"}),
        ({"data": {"on_device": True}}, {"data.workers", "data.pin_memory"}, {"data.on_device"}),
        ({"data": {"workers": 2}}, set(), {"data.persistent_workers"}),
        ({"device": "cpu"}, {"data.pin_memory"}, {"data.prefetch"}),
        ({"checkpoint": {"last": True}}, set(), {"checkpoint.every"}),
    ],
)
def test_only_settings_that_mean_something_are_shown(
    settings: dict[str, Any], absent: set[str], present: set[str]
) -> None:
    shown = applying_settings(experiment_from(layered({"precision": "fp32"}, settings))).keys()
    assert present <= shown and not absent & shown
    assert list(shown) == [key for key in all_settings() if key in shown]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("precision", "fp16", "FP16 AMP"),
        ("step.recipe", "channels_last+compile", "channels last + compiled"),
        ("optimizer.fused", None, "auto"), ("memory_cap_gib", None, "none"),
        ("step.fp32_modules", [], "none"), ("step.fp32_modules", ["fc", "layer4.*"], "fc, layer4.*"),
        ("data.augment", True, "on"), ("batch_size", 12_800, "12,800"), ("seed", 12_800, "12800"),
        ("optimizer.learning_rate", 1e-3, "0.001"), ("dataset", "own", "its own data"),
        ("dataset", "fashion", "fashion"),
    ],
)  # fmt: skip
def test_a_value_is_written_in_one_way(key: str, value: object, text: str) -> None:
    assert setting_text(key, value) == text


def own(*names: str) -> Experiment:
    text = "".join(f"def {name}(): ...\n" for name in ("model", *names))
    code = Code(file="net.py", folder="/nets", text=text)
    settings = {"model": "net.py", "dataset": OWN_DATA, "code": code.to_json(), "data": {"workers": 1}}
    return experiment_from(settings)


@pytest.mark.parametrize(
    ("names", "absent", "present"),
    [
        (("batch",), {"image_size", "num_classes", "sequence_length", "data.workers"}, {"label_smoothing"}),
        (("dataset",), {"checkpoint.best", "data.on_device"}, {"data.workers", "data.persistent_workers"}),
        (("dataset", "validation_dataset"), set(), {"checkpoint.best"}),
        (("batch", "loss"), {"label_smoothing"}, {"optimizer.name", "step.clip_norm"}),
        (("batch", "optimizer"), {"optimizer.name", "optimizer.fused"}, {"schedule.name"}),
        (("batch", "step"), {"step.gradient_accumulation", "label_smoothing"}, {"step.clip_norm"}),
    ],
)
def test_a_setting_that_the_models_file_takes_over_is_not_shown(
    names: tuple[str, ...], absent: set[str], present: set[str]
) -> None:
    shown = applying_settings(own(*names)).keys()
    assert not absent & shown and present <= shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5.7, "5.70"), (5.6818, "5.68"), (1.03, "1.03"), (1.0, "1.00"), (1.996, "2.00"), (12.34, "12.34"),
        (99.96, "99.96"), (120, "120"), (1_200, "1,200"), (1e12, "over 1,000,000,000"), (0.8, "0.80"),
        (0.996, "0.996"), (0.9996, "0.9996"), (0.99999, "0.9999"), (1 - 1e-12, "1.00"), (0.0996, "0.10"),
        (0.05, "0.05"), (0.004, "0.004"), (0.0021, "0.0021"), (1e-9, "under 0.000001"), (0, "0"),
        (math.nan, "–"), (math.inf, "–"), (-1, "–"),
    ],
)  # fmt: skip
def test_a_ratio_as_text(value: float, text: str) -> None:
    assert number_text(value) == text


def test_a_ratio_has_the_digits_that_say_something() -> None:
    shown = {1.886: "1.89", 0.0134: "0.013", 0.0: "0.00", 205.17: "205", 2.3e6: "2,300,000", 3e9: "3.00e9"}
    assert {ratio: times(ratio) for ratio in shown} == shown


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (10_444.8, "10.2 GiB"), (1_023.7, "1.0 GiB"), (1_000, "1,000 MiB"), (940, "940 MiB"),
        (3.24, "3.2 MiB"), (0.1, "0.1 MiB"), (0.04, "41.0 KiB"), (0.00016, "0.2 KiB"), (1e-9, "0.1 KiB"),
        (0, "0 MiB"), (math.nan, "–"),
    ],
)  # fmt: skip
def test_memory_as_text(mib: float, text: str) -> None:
    assert memory_text(mib) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.56, "2.6 seconds"), (0.0256, "0.026 seconds"), (119, "119 seconds"), (400, "6.7 minutes"),
        (9_000, "2.5 hours"), (864_000, "10.0 days"), (1e300, "over 1,000,000,000 days"), (0, "0 seconds"),
    ],
)  # fmt: skip
def test_a_time_in_words(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_the_ends_of_an_interval_differ_where_they_can() -> None:
    assert [range_text(5.5, 5.9), range_text(5.68, 5.72)] == ["5.50 to 5.90", "5.68 to 5.72"]
    assert range_text(2.0, 2.0) == "2.0000 to 2.0000"
    assert [pace_text(ratio) for ratio in (2.5, 1.0, 0.4, 0.0)] == [
        "2.50 times as fast",
        "1.00 times as fast",
        "2.50 times as long",
        "– times as long",
    ]


def test_the_difference_of_two_amounts_is_that_of_what_is_shown_of_them() -> None:
    assert [memory_text(10.24 * 1024), memory_text(3.16 * 1024)] == ["10.2 GiB", "3.2 GiB"]
    assert (
        memory_apart_text(10.24 * 1024, 3.16 * 1024)
        == memory_apart_text(3.16 * 1024, 10.24 * 1024)
        == "7.0 GiB"
    )
    assert memory_apart_text(10_240, 10_245) == memory_apart_text(900.0, 900.2) == ""
    assert memory_apart_text(1_100, 900) == "200 MiB"
    assert memory_unit_text(80.0, 86.0) == "1 MiB is about 1 MB"
    assert memory_unit_text(None, 2_000.0) == "1 GiB is about 1 GB"
    assert memory_unit_text(None, None) == ""


@pytest.mark.parametrize(
    ("days", "text"), [(0, "14:05"), (1, "Mon 14:05"), (6, "Sat 14:05"), (8, "30 Nov, 14:05")]
)
def test_a_time_has_its_day_where_that_is_not_today(days: int, text: str) -> None:
    now = datetime(2026, 11, 22, 14, 5)
    assert clock_text(now + timedelta(days=days), now) == text
