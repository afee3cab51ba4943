"""Each run says in which dtypes its matmuls computed, and by which attention kernels it trained."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from engine.experiment.experiment import Experiment
from engine.protocol.summary import AttentionUse
from engine.training.measuring.formats import FormatRecord
from engine.training.models.recompute import Offload
from engine.training.runs.run import Run
from engine.training.steps.recipe import build_step
from engine.training.steps.rehearsal import rehearse
from tests.engine.training.conftest import Trained

OFF, IN_BF16 = "torch.autocast('cpu', enabled=False)", "torch.autocast('cpu', dtype=torch.bfloat16)"
FILE = """
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 24)

    def forward(self, x):
        hidden = self.first(x).relu()
        return self.last(hidden)

def model():
    return Net()

def batch(size):
    return torch.randn(size, 8), torch.randint(24, (size,))
"""
FORWARD = """        hidden = self.first(x).relu()
        return self.last(hidden)"""
WITHIN = "        with {}:\n            return self.last(self.first(x.float()).relu())"
STEP = """
def step(train, batch):
    with {}:
        loss = nn.functional.cross_entropy(train.model(batch[0]), batch[1])
    train.backward(loss)
    train.step(train.optimizer)
"""
ATTENTION = """        part = self.first(x).unflatten(1, (1, 2, 8)).transpose(1, 2)
        part = scaled_dot_product_attention(part, part, part{})
        return self.last(part.transpose(1, 2).flatten(1))"""


def changed(before: str, after: str) -> str:
    assert before in FILE
    return FILE.replace(before, after)


def shares(run: Trained) -> dict[str, float]:
    return {dtype: round(share, 3) for dtype, share in run.summary.formats.items()}


@pytest.mark.parametrize(
    ("text", "precision", "settings", "formats", "reason"),
    [
        (FILE, "fp32", {}, {"float32": 1.0}, ""),
        (FILE, "bf16", {}, {"bfloat16": 1.0}, ""),
        (FILE, "fp16", {"step": {"gradient_accumulation": 2}}, {"float16": 1.0}, ""),
        (FILE, "bf16-pure", {}, {"bfloat16": 1.0}, ""),
        (FILE + STEP.format("train.autocast()"), "bf16", {}, {"bfloat16": 1.0}, ""),
        (
            FILE + STEP.format("torch.no_grad() if False else torch.enable_grad()"),
            "bf16",
            {},
            {"float32": 1.0},
            "step(train, batch) does not enter train.autocast()",
        ),
        (
            changed(FORWARD, WITHIN.format(OFF)),
            "bf16",
            {},
            {"float32": 1.0},
            "line 12 of net.py turns autocast off",
        ),
        (
            changed(FORWARD, WITHIN.format(IN_BF16)),
            "fp32",
            {},
            {"bfloat16": 1.0},
            "line 12 of net.py enters autocast",
        ),
        (
            changed(FORWARD, WITHIN.format(IN_BF16)),
            "fp16",
            {},
            {"bfloat16": 1.0},
            "line 12 of net.py enters autocast",
        ),
        (
            changed("return Net()", "return Net().bfloat16()").replace("size, 8)", "size, 8).bfloat16()"),
            "fp32",
            {},
            {"bfloat16": 1.0},
            "the model has weights in bfloat16",
        ),
        # the first layer needs no gradient of its inputs: 2 of the 5 products of 8 x 16 and 16 x 24 numbers
        (
            FILE,
            "bf16",
            {"step": {"fp32_modules": ["last"]}},
            {"float32": 0.818, "bfloat16": 0.182},
            "Modules kept in FP32 is set",
        ),
    ],
)
def test_the_share_of_flops_by_dtype_with_the_reason(own, text, precision, settings, formats, reason) -> None:
    run = own.run(text, precision=precision, steps=2, **settings)
    assert shares(run) == formats and run.summary.formats_reason == reason


@pytest.mark.parametrize(
    ("arguments", "settings", "kernel", "dtype"),
    [
        ("", {}, "flash", "float32"),
        ("", {"precision": "bf16"}, "flash", "bfloat16"),
        (", is_causal=True", {"step": {"attention": "math"}}, "math", "float32"),
        # the math kernel casts 16-bit inputs up
        ("", {"precision": "bf16", "step": {"attention": "math"}}, "math", "float32"),
        (", dropout_p=0.5", {}, "math", "float32"),
        ("", {"step": {"activation_checkpointing": True}}, "flash", "float32"),
    ],
)
def test_the_attention_kernel_that_ran_is_named(own, arguments, settings, kernel, dtype) -> None:
    text = changed(FORWARD, ATTENTION.format(arguments))
    text = text.replace("class Net(nn.Module):", "class Part(nn.Module):").replace(
        "return Net()", "return nn.Sequential(Part())"
    )
    run = own.run(text, steps=2, **settings)
    assert run.summary.attention == (AttentionUse(kernel=kernel, dtype=dtype, calls=1),)


BLOCKS = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)

    def forward(self, pictures):
        return self.norm(self.convolution(pictures)).relu()

def model():
    return nn.Sequential(Block(), Block(), nn.Flatten(), nn.Linear(3 * 8 * 8, 4))

def batch(size):
    return torch.randn(size, 3, 8, 8), torch.randint(4, (size,))
"""


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (FILE, {"precision": "bf16"}),
        (BLOCKS, {"precision": "fp16", "step": {"activation_checkpointing": True}}),
        (changed(FORWARD, ATTENTION.format("")), {}),
    ],
    ids=["plain", "recomputed, with statistics", "attention"],
)
def test_a_recorded_run_trains_to_the_last_bit_as_one_that_is_not(own, monkeypatch, text, settings) -> None:
    recorded = own.run(text, steps=3, **settings)
    monkeypatch.setattr(Run, "record_formats", lambda run: None)
    plain = own.run(text, steps=3, **settings)
    assert recorded.losses == plain.losses and recorded.summary.formats and not plain.summary.formats
    assert recorded.summary.final_grad_scale == plain.summary.final_grad_scale


RANDOM = (
    changed(FORWARD, "        x = x * (1 + random.random() + np.random.rand())\n" + FORWARD)
    .replace("import torch\n", "import random\n\nimport numpy as np\nimport torch\n", 1)
    .replace(
        "nn.Linear(8, 16), nn.Linear(16, 24)",
        "nn.Linear(8, 16), nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(16), nn.Linear(16, 24))",
    )
)


@pytest.mark.usefixtures("traced")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("text", [RANDOM, RANDOM + "# torch.compile\n"])
@pytest.mark.parametrize("recipe", ["plain", "compile"])
def test_a_pass_before_training_shows_what_is_compiled_and_leaves_no_trace(
    own, monkeypatch, text, recipe
) -> None:
    settings = {"precision": "bf16", "step": {"recipe": recipe}, "steps": 3}
    recorded = own.run(text, **settings)
    monkeypatch.setattr(Run, "record_formats", lambda run: None)
    assert own.run(text, **settings).losses == recorded.losses and shares(recorded) == {"bfloat16": 1.0}


def test_a_pass_before_training_is_in_no_training_time(own, monkeypatch) -> None:
    clock, passed, entered = time.perf_counter, [0.0], FormatRecord.__enter__

    def enter(record: FormatRecord) -> FormatRecord:
        passed[0] += 1e4  # as if the pass took hours
        return entered(record)

    monkeypatch.setattr(time, "perf_counter", lambda: clock() + passed[0])
    monkeypatch.setattr(FormatRecord, "__enter__", enter)
    run = own.run(FILE + "# torch.compile\n", steps=3)
    assert shares(run) and passed == [1e4]
    assert 0 < run.samples.seconds[0] < run.samples.seconds[-1] < 1e4


@pytest.mark.usefixtures("traced")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_an_uncompiled_model_does_not_pass_before_one_with_a_budget(own) -> None:
    step = {"recipe": "compile", "activation_checkpointing": "0.5"}
    run = own.run(FILE, steps=2, step=step)
    assert run.summary.formats == {} and not run.summary.left_out


def test_a_pass_before_training_offloads_as_the_step_does() -> None:
    experiment = Experiment.model_validate({"step": {"offload_activations": True}})
    device, batch = torch.device("cpu"), (torch.randn(64, 64), torch.randn(64, 64))
    step = build_step(nn.Linear(64, 64), mse_loss, experiment, device, is_convolutional=False)
    offload, moved = step._stores, list[Any]()
    assert isinstance(offload, Offload)
    pack = offload.pack_hook
    offload.pack_hook = lambda tensor: (moved.append(tensor), pack(tensor))[1]
    rehearse(step, batch, nullcontext())
    assert any(tensor is batch[0] for tensor in moved)


def test_a_run_without_a_warm_up_records_nothing(own) -> None:
    assert own.run(FILE, measure={"warmup_steps": 0}).summary.formats == {}


def test_an_optimizer_that_multiplies_does_not_count(own) -> None:
    muon = "    return torch.optim.Muon([part.weight for part in model.children()], lr=0.01)\n"
    run = own.run(
        FILE.replace("nn.Linear(16, 24)", "nn.Linear(16, 24, bias=False)")
        + "\ndef optimizer(model):\n"
        + muon
    )
    assert shares(run) == {"float32": 1.0} and torch.is_grad_enabled()


BUFFER = changed(
    FORWARD,
    "        self.mean = 0.5 * self.mean + x.detach().mean()\n        x = x - self.mean\n" + FORWARD,
).replace(
    "nn.Linear(16, 24)\n",
    'nn.Linear(16, 24)\n        self.register_buffer("mean", torch.zeros(()))\n',
)
CLOSURE = STEP.format("train.autocast()").replace(
    "train.step(train.optimizer)", "train.optimizer.step(lambda: loss)"
)


def test_a_pass_before_training_leaves_a_buffer_that_the_model_replaces(own, monkeypatch) -> None:
    recorded = own.run(BUFFER + "# torch.compile\n", steps=3)
    monkeypatch.setattr(Run, "record_formats", lambda run: None)
    assert own.run(BUFFER + "# torch.compile\n", steps=3).losses == recorded.losses and shares(recorded)


def test_recurrent_layers_and_passes_within_an_optimizer_count(own) -> None:
    recurrent = changed(FORWARD, "        return self.last(self.first(x[:, None])[0][:, 0])")
    recurrent = recurrent.replace("nn.Linear(8, 16)", "nn.LSTM(8, 16)")
    run = own.run(recurrent, precision="bf16", step={"fp32_modules": ["last"]})
    # 4 gates of 8 inputs and 16 states, beside 24 outputs
    assert shares(run) == {"bfloat16": 0.8, "float32": 0.2}
    lbfgs = "\ndef optimizer(model):\n    return torch.optim.LBFGS(model.parameters(), max_iter=2)\n"
    assert shares(own.run(FILE + lbfgs + CLOSURE)) == {"float32": 1.0}
