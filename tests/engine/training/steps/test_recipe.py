"""Which parts of a recipe are had on a CPU, and what becomes of the others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from engine.experiment.experiment import Experiment
from engine.training.doctor import read_catalog
from engine.training.models.build import build_model
from engine.training.runs.plan import RunPlan
from engine.training.runs.prepare import training_conditions
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import build_step, cudnn_search

CPU = torch.device("cpu")


def step_of(recipe: str, *, is_convolutional: bool = True, **settings: Any) -> PlainStep:
    model = build_model("small-cnn", image_size=8, channels=1, num_classes=4, seed=0)
    experiment = Experiment.model_validate({"step": {"recipe": recipe}, **settings})
    return build_step(model, cross_entropy, experiment, CPU, is_convolutional=is_convolutional)


def test_the_plain_recipe_leaves_nothing_out() -> None:
    step = step_of("plain")
    assert step.record.recipe == "plain" and step.record.left_out == {} and step.record.pop_notes() == []
    assert step.memory_format is torch.contiguous_format and step.next_phase() is None
    assert step.optimizer.defaults["fused"] is None
    assert (step.compile_seconds, step.capture_seconds) == (None, None)


def test_on_a_cpu_the_fast_recipe_goes_without_capture_and_says_so_once() -> None:
    step = step_of("channels_last+fused+capture")
    assert step.record.recipe == "channels_last+fused"
    assert step.record.left_out == {"capture": "only CUDA devices support CUDA graphs"}
    assert step.record.pop_notes() == ["capture is not applied: only CUDA devices support CUDA graphs."]
    step.record.leave_out("capture", "another reason")
    assert step.record.pop_notes() == [] and step.record.recipe == "channels_last+fused"


def test_on_a_cpu_the_fast_recipe_compiles_what_gains_from_it() -> None:
    convolutions, others = step_of("fast"), step_of("fast", is_convolutional=False)
    assert convolutions.record.recipe == "channels_last+fused" and "compile" in convolutions.record.left_out
    assert others.record.recipe == "fused+compile" and others.record.left_out.keys() == {
        "channels_last",
        "capture",
        "host_counters",
    }
    assert others.record.left_out["host_counters"] == "the model has no BatchNorm counters to move"
    assert step_of("compile").record.recipe == "compile"


def test_channels_last_is_for_models_with_convolutions() -> None:
    step = step_of("channels_last")
    assert step.memory_format is torch.channels_last
    kernels = [parameter for parameter in step.model.parameters() if parameter.ndim == 4]
    assert all(kernel.is_contiguous(memory_format=torch.channels_last) for kernel in kernels)
    without = step_of("channels_last", is_convolutional=False)
    assert without.record.left_out == {"channels_last": "the model has no convolutions"}
    assert without.record.recipe == "plain" and without.memory_format is torch.contiguous_format


def test_the_experiment_can_force_either_form_of_the_optimizer() -> None:
    forced = step_of("plain", optimizer={"fused": True})
    assert (
        forced.optimizer.defaults["fused"] and forced.record.recipe == "plain" and not forced.record.left_out
    )
    refused = step_of("fused", optimizer={"fused": False})
    assert refused.optimizer.defaults["fused"] is None
    assert refused.record.left_out == {"fused": "fused optimizer is off"}
    assert step_of("fused").optimizer.defaults["fused"]


def test_a_fast_step_on_a_cpu_trains_as_the_plain_one_does() -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(16, 1, 8, 8), torch.randint(4, (16,))) for _ in range(5)]
    settings = {"optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9}}
    plain, other = step_of("plain", **settings), step_of("channels_last+fused", **settings)
    for batch in batches:
        torch.testing.assert_close(other([batch]), plain([batch]), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("recipe", "searches"), [("plain", False), ("fused", True), ("fast", True)])
def test_cudnn_searches_under_every_recipe_but_plain(recipe: str, searches: bool) -> None:
    before = torch.backends.cudnn.benchmark
    plan = RunPlan(Experiment.model_validate({"device": "cpu", "step": {"recipe": recipe}}), read_catalog())
    with training_conditions(plan):
        assert torch.backends.cudnn.benchmark is searches
        with cudnn_search(False):
            assert not torch.backends.cudnn.benchmark
        assert torch.backends.cudnn.benchmark is searches
    assert torch.backends.cudnn.benchmark is before
