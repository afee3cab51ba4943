"""FP8 on a GPU that has it: it trains under each scaling."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.experiment.experiment import Precision, experiment_from
from engine.protocol.events import Event, Finished, Samples, Started
from engine.protocol.jobs import Control
from engine.training.doctor import device_entries
from engine.training.models.tensor_cores import row_scaling_refusal
from engine.training.runs.loop import train

pytestmark = [
    pytest.mark.usefixtures("compiled_in_this_process"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(600),  # compiling takes its time
    pytest.mark.skipif(
        not device_entries()[0].precision(Precision.FP8).available or not torch.cuda.is_available(),
        reason="needs a GPU of compute capability 8.9, and torchao",
    ),
]
LANGUAGE: dict[str, Any] = {
    "model": "causal-lm-tiny",
    "dataset": "synthetic-tokens",
    "num_classes": 512,
    "sequence_length": 64,
    "batch_size": 16,
    "samples": 256,
    "steps": 30,
    "device": "cuda:0",
    "optimizer": {"learning_rate": 1e-3},
}
RECIPES = ["tensorwise"]
if torch.cuda.is_available() and not row_scaling_refusal(torch.device("cuda:0")):
    RECIPES += ["rowwise", "rowwise_with_gw_hp"]


def events_of(precision: str, **step: Any) -> list[Event]:
    asked = experiment_from({**LANGUAGE, "precision": precision, "step": step})
    return list(train(asked, Control()))


def losses(events: list[Event]) -> list[float]:
    return [loss for event in events if isinstance(event, Samples) for loss in event.loss]


@pytest.mark.parametrize("recipe", ["plain", "fast"])
@pytest.mark.parametrize("scaling", RECIPES)
def test_a_language_model_trains_in_fp8_as_in_bf16(scaling: str, recipe: str) -> None:
    own = events_of("fp8", fp8_recipe=scaling, fp8_small_layers=True, recipe=recipe)
    started, finished = own[0], own[-1]
    assert isinstance(started, Started) and isinstance(finished, Finished)
    assert started.notes[0] == "FP8 in 28 of 29 linear layers. Not in the output layer."
    assert finished.summary.left_out.keys() <= {"channels_last"}
    found = losses(own)
    assert found == pytest.approx(losses(events_of("bf16")), abs=0.02 * found[0])


def test_the_last_smaller_batch_whose_tokens_fp8_cannot_sum_trains_too() -> None:
    asked = {**LANGUAGE, "precision": "fp8", "samples": 35, "sequence_length": 17, "steps": 6}
    step = {"fp8_small_layers": True}
    found = losses(list(train(experiment_from({**asked, "step": step}), Control())))
    assert len(found) == 6 and found[-1] < found[0]
