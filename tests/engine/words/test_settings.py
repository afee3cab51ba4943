"""Settings as they are shown: those that mean nothing beside the others are left out, in every place."""

from __future__ import annotations

from typing import Any

import pytest

from engine.experiment.catalog import IMAGE_FOLDER
from engine.experiment.experiment import Experiment, Precision, all_settings, experiment_from, layered
from engine.experiment.own.code import OWN, Code
from engine.experiment.setting import Chosen
from engine.training.data.datasets import dataset_entries
from engine.words.names import applies, applying_settings, setting_text


def chosen(dataset: str) -> Chosen:
    values = {"dataset": dataset, "validation.every": "1"}
    return Chosen(lambda key: values.get(key, ""), (Precision.FP32,))


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


def test_every_setting_of_an_experiment_has_a_text() -> None:
    values = applying_settings(Experiment())
    assert all(setting_text(key, value) for key, value in values.items())


def own(*names: str) -> Experiment:
    text = "".join(f"def {name}(): ...\n" for name in ("model", *names))
    code = Code(file="net.py", folder="/nets", text=text)
    settings = {"model": "net.py", "dataset": OWN, "code": code.to_json(), "data": {"workers": 1}}
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
