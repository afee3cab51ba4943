"""Forecasts that are kept, and what measured peaks make of them."""

from __future__ import annotations

import pytest

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import Code
from engine.protocol.events import ForecastMade, Summary
from engine.protocol.trials import MemoryLine, needed_mib
from engine.store.saved import forecasts
from engine.store.saved.forecasts import FILE_NAME, Forecasts, MeasuredPeak, calibrated, forecast_key

ASKED = experiment_from({"model": "resnet18", "dataset": "synthetic", "batch_size": 32})
RESOLVED = ASKED.model_copy(update={"device": "cuda:0", "image_size": 224, "num_classes": 1_000})


def made(experiment: Experiment = RESOLVED, quantity: str = "allocated") -> ForecastMade:
    return ForecastMade(
        experiment=experiment,
        quantity=quantity,
        parameters_mib=45,
        gradients_mib=45,
        optimizer_state_mib=90,
        activations_mib=700,
        libraries_mib=88,
        fixed_mib=268,
        per_sample_mib=23,
        needed_mib=268 + 23 * 32,
        lines=(MemoryLine(fixed_mib=268, per_sample_mib=23),),
        seconds=1.0,
    )


def peak(batch_size: int, mib: float, quantity: str = "allocated") -> MeasuredPeak:
    return MeasuredPeak(batch_size=batch_size, peak_mib=mib, quantity=quantity)


def test_another_batch_is_answered_at_once(tmp_path):
    forecasts = Forecasts(tmp_path)
    assert forecasts.find(ASKED) is None
    forecasts.keep(ASKED, made())
    found = forecasts.find(ASKED.model_copy(update={"batch_size": 100}))
    assert found is not None
    assert found.needed_mib == pytest.approx(268 + 23 * 100)
    assert found.experiment.batch_size == 100


def test_what_was_resolved_is_found_too(tmp_path):
    forecasts = Forecasts(tmp_path)
    forecasts.keep(ASKED, made())
    assert forecasts.find(RESOLVED) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"precision": "fp16"},
        {"model": "resnet34"},
        {"image_size": 160},
        {"optimizer": {"name": "sgd"}},
        {"step": {"recipe": "fast"}},
        {"step": {"gradient_accumulation": 2}},
        {"step": {"activation_checkpointing": True}},
        {"data": {"on_device": False}},
    ],
)
def test_what_changes_memory_has_a_forecast_of_its_own(change):
    assert forecast_key(experiment_from({**ASKED.model_dump(), **change})) != forecast_key(ASKED)


@pytest.mark.parametrize(
    "change", [{"batch_size": 7}, {"seed": 3}, {"epochs": 9}, {"optimizer": {"learning_rate": 0.5}}]
)
def test_what_leaves_memory_alone_shares_one(change):
    assert forecast_key(experiment_from({**ASKED.model_dump(), **change})) == forecast_key(ASKED)


def test_a_forecast_holds_for_code_in_any_folder_and_keeps_none_of_it(tmp_path):
    code = Code(file="net.py", folder="/there", text="def model(): ...\n")
    there, here = (
        experiment_from({"model": "net.py", "code": each.to_json()})
        for each in (code, code.model_copy(update={"folder": "/here"}))
    )
    known = Forecasts(tmp_path)
    known.keep(there, made(there))
    known.learn(there, there.batch_size, 5_000.0, "allocated")
    assert "def model" not in (tmp_path / FILE_NAME).read_text()
    found = known.find(here)
    assert found is not None and found.experiment == here
    assert found.needed_mib == pytest.approx(5_000.0)


def test_a_run_corrects_the_forecast_of_its_settings(tmp_path):
    forecasts = Forecasts(tmp_path)
    forecasts.keep(ASKED, made())
    forecasts.learn_run(RESOLVED, Summary(peak_allocated_mib=268 + 23 * 32 + 40))
    found = forecasts.find(ASKED)
    assert found is not None and found.needed_mib == pytest.approx(268 + 23 * 32 + 40)


def test_a_damaged_file_counts_as_empty(tmp_path):
    (tmp_path / FILE_NAME).write_text('{"forecasts": 3')
    forecasts = Forecasts(tmp_path)
    assert forecasts.find(ASKED) is None
    forecasts.keep(ASKED, made())
    assert forecasts.find(ASKED) is not None


def test_two_batches_apart_correct_the_slope_too():
    found = calibrated(made(), [peak(32, 300 + 20 * 32), peak(64, 300 + 20 * 64)])
    assert needed_mib(found.lines, 200) == pytest.approx(300 + 20 * 200)


def test_two_batches_side_by_side_do_not():
    found = calibrated(made(), [peak(63, 268 + 23 * 63 + 10), peak(64, 268 + 23 * 64 + 14)])
    assert found.per_sample_mib == 23
    assert found.fixed_mib == pytest.approx(280)


def test_what_a_compiler_saves_is_saved_on_each_sample():
    found = calibrated(made(), [peak(32, 180 + 11.5 * 32)])
    assert found.per_sample_mib == pytest.approx(11.5)
    assert found.needed_mib == pytest.approx(180 + 11.5 * 32)


def test_a_peak_of_another_quantity_corrects_nothing():
    assert calibrated(made(), [peak(32, 5_000, "resident")]) == made()


def test_the_version_of_torch_is_looked_up_once(monkeypatch):
    asked = []
    monkeypatch.setattr(forecasts, "version", lambda name: asked.append(name) or "2.99")
    forecasts._torch_version.cache_clear()
    try:
        keys = {forecast_key(ASKED) for _ in range(3)}
    finally:
        forecasts._torch_version.cache_clear()
    assert asked == ["torch"] and len(keys) == 1
