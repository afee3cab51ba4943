"""The cause follows from the values of an operation, and the remedy from the cause."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.experiment.experiment import Experiment, layered
from engine.protocol.numerics import Cause, FirstNonfinite
from engine.protocol.ranges import LOSS, OPTIMIZER
from engine.training.numerics.causes import Circumstances, FoundCause, Origin, explain_origin, find_cause
from engine.training.numerics.watch import Call, tensors_in

from .conftest import TINY

ATEN = torch.ops.aten
MINUS_INFINITY = float("-inf")
LOW, LOWEST = torch.finfo(torch.float16).min, torch.finfo(torch.float32).min


def half(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float16)


@pytest.mark.parametrize(
    ("operator", "arguments", "cause"),
    [
        (ATEN.mul.Tensor, (half(60_000.0), half(2.0)), Cause.OVERFLOW),
        (ATEN.exp.default, (half(12.0),), Cause.OVERFLOW),
        (ATEN.log.default, (half(0.0, 1.0),), Cause.LOG_OF_ZERO),
        (ATEN.log.default, (half(-1.0),), Cause.INVALID),
        (ATEN.div.Tensor, (half(1.0), half(0.0)), Cause.DIVISION_BY_ZERO),
        (ATEN.div.Tensor, (half(0.0), half(0.0)), Cause.INVALID),
        (ATEN.div.Tensor, (half(1.0), half(1e-6)), Cause.OVERFLOW),
        (ATEN.rsqrt.default, (half(0.0),), Cause.DIVISION_BY_ZERO),
        (ATEN.sqrt.default, (half(-4.0),), Cause.INVALID),
        (ATEN._softmax.default, (half(MINUS_INFINITY, MINUS_INFINITY), 0, False), Cause.MASKED),
        (ATEN.add.Tensor, (half(LOW, 0.0), half(LOW, 1.0)), Cause.MASK),
        (ATEN.add.Tensor, (half(-30.0, 0.0), half(LOW, 1.0)), Cause.MASK),
        (ATEN.add.Tensor, (2 * (LOWEST,), 2 * (LOWEST,)), Cause.MASK),
        (ATEN.mul.Tensor, (half(1.0, 0.0), -1e9), Cause.MASK),
        (ATEN._to_copy.default, (torch.tensor([-1e9, 2.0]),), Cause.MASK),
        (ATEN.add.Tensor, (half(-60_001.0), half(-50_000.0)), Cause.OVERFLOW),
        (ATEN.add.Tensor, (half(LOW, 65_504.0), half(LOW, 65_504.0)), Cause.OVERFLOW),
        (ATEN.mul.Tensor, (half(-9.0), 1e4), Cause.OVERFLOW),
    ],
)
def test_the_values_tell_the_cause(operator, arguments, cause):
    arguments = [torch.tensor(each) if isinstance(each, tuple) else each for each in arguments]
    settings = {"dtype": torch.float16} if operator is ATEN._to_copy.default else {}
    call = Call(operator, tuple(arguments), settings, "layer", "forward")
    assert find_cause(call, call.inputs, tensors_in(call.make())).cause is cause


@pytest.mark.parametrize(
    ("operator", "values", "cause"),
    [(ATEN.mul.Tensor, (60_000.0, 2.0), Cause.WEIGHT), (ATEN.div.Tensor, (0.0, 0.0), Cause.INVALID)],
)
def test_an_update_blames_the_learning_rate_only_where_a_weight_became_too_large(operator, values, cause):
    call = Call(operator, tuple(map(half, values)), {}, OPTIMIZER, "forward")
    assert find_cause(call, call.inputs, tensors_in(call.make())).cause is cause


_AROUND = ("calm_scale", "grad_scale", "growth", "helping", "bf16_helps")


def told(found_cause: FoundCause, experiment: dict[str, Any] | None = None, **changes: Any) -> FirstNonfinite:
    """The description of an FP16 overflow in the module `layer`, or of what `changes` make of it."""
    origin = {
        "number": 1,
        "step": 3,
        "module": "layer",
        "operation": "aten.addmm",
        "direction": "forward",
        "kinds": frozenset({"inf"}),
        "inputs": ("float16",),
        "outputs": ("float16",),
        "least": -2.0,
        "most": 300.0,
        "infinite": 5,
        "found_cause": found_cause,
    }
    around = {name: changes.pop(name) for name in _AROUND if name in changes}
    settings = Experiment.model_validate(layered(TINY, experiment or {}))
    return explain_origin(
        Origin(**{**origin, **changes}), Circumstances(settings, class_name="Linear", **around)
    )


OVERFLOW = FoundCause(Cause.OVERFLOW, largest=71_200.0)


def test_modules_that_were_seen_to_help_are_kept_beside_those_that_are_already():
    first = told(OVERFLOW, {"step": {"fp32_modules": "head"}}, helping=("layer", "next"))
    assert first.changes == (("step.fp32_modules", "head, layer, next"),)
    assert first.remedy.startswith("Keep layer and next in FP32")
    assert first.sentence == (
        "In step 3, the matmul in layer (Linear) produced 5 infinite values: its result of 71,200 is "
        "beyond FP16's largest number, 65,504. Its inputs (FP16) were between -2 and 300."
    )


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ("aten._scaled_dot_product_flash_attention_for_cpu", "the flash attention in layer"),
        ("aten._scaled_dot_product_cudnn_attention", "the cudnn attention in layer"),
        ("aten._safe_softmax", "the softmax of the math attention in layer"),
    ],
)
def test_the_kernel_of_an_attention_is_named(operation, words):
    assert words in told(OVERFLOW, operation=operation).sentence


@pytest.mark.parametrize(
    ("operation", "remedy"),
    [("aten.add", "Combine the masks as booleans"), ("aten._to_copy", "Fill the mask in FP16")],
)
def test_numbers_of_a_mask_that_become_infinite_are_no_matter_of_the_activations(operation, remedy):
    found = told(FoundCause(Cause.MASK, 131_008.0), operation=operation)
    assert "a mask replaces -Inf exceed the range of FP16" in found.sentence
    assert found.remedy.startswith(remedy) and "unmasked" in found.remedy and "Clamp" not in found.remedy


def test_an_overflow_within_the_operation_is_told_from_one_of_its_result():
    sentence = told(FoundCause(Cause.OVERFLOW, largest=3.0)).sentence
    assert "on the way to its result of 3" in sentence


def test_where_no_module_helps_the_whole_run_changes_its_format():
    assert told(OVERFLOW, module=LOSS, bf16_helps=True).changes == (("precision", "bf16"),)
    assert told(OVERFLOW, module=LOSS).changes == ()


def test_a_gradient_that_a_smaller_scale_saves_needs_no_more_than_that():
    first = told(OVERFLOW, direction="backward", grad_scale=65_536.0, calm_scale=512.0)
    assert first.cause is Cause.SCALE and first.changes == (("scaler.init_scale", "512"),)


def test_weights_that_have_grown_ask_for_a_smaller_learning_rate():
    first = told(OVERFLOW, {"optimizer": {"learning_rate": 0.5}}, growth=4_000.0)
    assert first.cause is Cause.WEIGHT and first.changes == (("optimizer.learning_rate", "0.05"),)
