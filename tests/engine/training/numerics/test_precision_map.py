"""The precision map says what computed in which number format, and what another device would do."""

from __future__ import annotations

import pytest
import torch

from engine.experiment.catalog import OWN_DATA
from engine.experiment.own.code import read_code
from engine.protocol.numerics import Operation
from engine.protocol.ranges import LOSS, OPTIMIZER
from engine.training.numerics.precision_map import DIFFERENCES, device_notes, map_precision

from .conftest import own_settings, part_of


def test_a_cnn_under_autocast_computes_in_16_bits_but_for_its_loss(make_bench):
    made = part_of(make_bench(precision="bf16"), map_precision)
    assert made.attributed_fraction == 1.0 and made.seconds > 0
    rows = {(row.module, row.name, row.direction): row for row in made.operations}
    convolution = rows["features.0", "aten.convolution", "forward"]
    assert (convolution.inputs, convolution.outputs) == (("bfloat16",), ("bfloat16",))
    # 16 pictures of 3 by 8 by 8, 32 filters of 3 by 3 with their biases, and 32 channels of results
    assert convolution.moved_bytes == 2 * (16 * 3 * 64 + 32 * 3 * 9 + 32 + 16 * 32 * 64)
    assert rows["features.0", "aten.convolution_backward", "backward"].inputs == ("bfloat16",)
    assert rows[LOSS, "aten._log_softmax", "forward"].inputs == ("float32",)
    assert rows["", "aten.view", "forward"].moved_bytes == 0
    assert [module.name for module in made.modules][:3] == ["", "features", "features.0"]
    assert made.modules[-1].parameters == 128 * 16 * 4 + 4


def test_autocast_casts_the_pictures_and_each_weight_once(make_bench):
    made = part_of(make_bench(precision="bf16", step={"gradient_accumulation": 2}), map_precision)
    casts = [row for row in made.operations if row.is_cast and row.direction == "forward"]
    assert all(row.by_autocast for row in casts)
    counts = {row.module: row.count for row in casts}
    assert counts == {"features.0": 3, "features.3": 2, "features.6": 2, "features.8": 2, "classifier": 2} | {
        LOSS: 1
    }
    pictures, weight = 16 * 3 * 64, 32 * 3 * 9
    assert {row.module: row.moved_bytes for row in casts}["features.0"] == (4 + 2) * (pictures + weight + 32)


def test_what_is_kept_in_fp32_shows_it_and_so_do_its_parts(make_bench):
    made = part_of(make_bench(precision="bf16", step={"fp32_modules": ["features"]}), map_precision)
    kept = {module.name for module in made.modules if module.kept_in_fp32}
    assert {"features", "features.0", "features.10"} <= kept and not {"", "classifier"} & kept
    inside = [row for row in made.operations if row.module.startswith("features")]
    assert {row.inputs for row in inside if row.name.startswith("aten.convolution")} == {("float32",)}
    assert not any(row.by_autocast for row in inside)


def test_fp32_has_no_casts_and_nothing_that_differs_elsewhere(make_bench):
    made = part_of(make_bench(precision="fp32"), map_precision)
    assert not made.notes
    assert not any(row.is_cast for row in made.operations)


def test_fp8_shows_in_its_products_and_pure_bf16_in_all(make_bench, tmp_path):
    pytest.importorskip("torchao")
    own = own_settings(tmp_path, BLOCKS)
    made = part_of(make_bench(**own, precision="fp8"), map_precision)
    products = [row for row in made.operations if row.name == "aten.mm" and row.module == "1"]
    # torchao's gradients of an output are in E5M2
    assert {row.computed_in for row in products} == {"float8_e4m3fn", "float8_e5m2"}
    assert {row.computed_in for row in made.operations if "mm" in row.name and row.module == "2"} == {
        "bfloat16"
    }
    forward = next(row for row in products if row.direction == "forward")
    # 16 rows of 32 inputs and the weight in a byte each, and the output in two
    assert forward.moved_bytes == 16 * 32 + 32 * 32 + 2 * 16 * 32
    pure = part_of(make_bench(**own, precision="bf16-pure"), map_precision)
    assert {row.computed_in for row in pure.operations if row.module in ("0", "1", "2")} == {"bfloat16"}


BLOCKS = """
from torch import nn, randn

def model():
    return nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 4))

def batch(size):
    return randn(size, 8), randn(size, 4)

def loss(outputs, targets):
    return (outputs.float() - targets).square().mean()
"""

STEP = """
from torch import nn, randn
from torch.optim import SGD

def model():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

def batch(size):
    return randn(size, 4), randn(size, 1)

def optimizer(model):
    return SGD(model.parameters(), lr=0.1, foreach=False)

def step(train, batch):
    with train.autocast():
        loss = (train.model(batch[0]) - batch[1]).square().mean()
    train.backward(loss)
    train.step(train.optimizer)
    return loss
"""


def test_a_step_of_the_files_own_is_attributed_with_its_update(make_bench, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(STEP)
    settings = {"model": "own.py:model", "dataset": OWN_DATA, "image_size": None, "num_classes": None}
    made = part_of(make_bench(**settings, code=read_code(file).to_json()), map_precision)
    assert made.attributed_fraction == 1.0
    rows = [(row.module, row.name, row.direction) for row in made.operations]
    assert ("0", "aten.mm", "backward") in rows and ("1", "aten.tanh_backward", "backward") in rows
    assert (LOSS, "aten.pow", "forward") in rows and (OPTIMIZER, "aten.add_", "forward") in rows


def half(name: str, module: str = "norm", dtype: str = "bfloat16") -> Operation:
    return Operation(module=module, name=f"aten.{name}", direction="forward", inputs=(dtype,))


def test_what_cuda_would_compute_in_fp32_is_said_once_and_by_its_usual_name():
    rows = [half("native_layer_norm"), half("_softmax", "attention"), half("_softmax"), half("relu")]
    assert device_notes(rows, "cpu") == (
        "layer_norm, softmax: autocast uses FP32 on CUDA and the dtype of the inputs on a CPU.",
    )
    assert not device_notes([half("native_layer_norm", dtype="float32")], "cpu")
    assert device_notes([half("native_layer_norm", dtype="float32")], "cuda")


def test_the_softmax_of_a_cross_entropy_is_in_fp32_on_both():
    rows = [half("_log_softmax", LOSS, "float32"), half("nll_loss_forward", LOSS, "float32")]
    assert not device_notes(rows, "cuda")


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: f"{difference.cpu} on a CPU")
def test_the_lists_are_those_of_this_pytorch(difference):
    listed = {
        key: {
            name.removeprefix("aten::").split(".")[0]
            for name in torch._C._dispatch_get_registrations_for_dispatch_key(key)
        }
        for key in ("AutocastCPU", "AutocastCUDA")
    }
    names = set(difference.operators.values())
    for key, policy in (("AutocastCPU", difference.cpu), ("AutocastCUDA", difference.cuda)):
        keeps = policy == "the dtype of the inputs"
        assert not names & listed[key] if keeps else names <= listed[key]
