"""Forecasts compared with the peak of a CUDA device's allocator."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.experiment.experiment import Experiment
from engine.protocol.events import Finished
from engine.protocol.jobs import Control
from engine.training.forecast import forecast
from engine.training.runs.loop import train

pytestmark = pytest.mark.timeout(600)

AIM = 0.10
STEPS = {"steps": 6, "measure": {"warmup_steps": 3, "block_steps": 1}, "device": "cuda:0"}
PICTURES = {"dataset": "synthetic", "image_size": 224, "batch_size": 32, "samples": 32 * 8}
MODELS: dict[str, dict[str, Any]] = {
    "resnet50": PICTURES,
    "vit_b_16": PICTURES,
    "causal-lm-small": {
        "dataset": "synthetic-tokens",
        "sequence_length": 512,
        "batch_size": 8,
        "samples": 8 * 8,
    },
}


def experiment(model: str, **settings: Any) -> Experiment:
    return Experiment.model_validate({"model": model, **MODELS[model], **STEPS, **settings})


def measured_mib(asked: Experiment) -> float:
    """Return the training peak of what the allocator gave out."""
    torch.cuda.empty_cache()
    *_, last = train(asked, Control())
    assert isinstance(last, Finished) and last.summary.peak_allocated_mib is not None
    return last.summary.peak_allocated_mib


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("model", MODELS)
def test_a_forecast_is_near_the_measured_peak(model: str, precision: str) -> None:
    asked = experiment(model, precision=precision)
    told = forecast(asked)
    assert told.quantity == "allocated"
    assert told.needed_mib == pytest.approx(measured_mib(asked), rel=AIM)


def test_a_forecast_holds_for_other_batches_too() -> None:
    line = forecast(experiment("resnet50", precision="fp16"))
    larger = experiment("resnet50", precision="fp16", batch_size=64, samples=64 * 8)
    told = line.fixed_mib + 64 * line.per_sample_mib
    assert told == pytest.approx(measured_mib(larger), rel=AIM)


def test_a_forecast_takes_none_of_the_cards_memory() -> None:
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    forecast(experiment("resnet50"))
    assert torch.cuda.max_memory_allocated() == before
