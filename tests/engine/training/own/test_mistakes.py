"""Each mistake with mixed precision in a workload file is found with its file and line."""

from __future__ import annotations

import threading
from textwrap import dedent

import pytest

from engine.experiment.own.code import read_code
from engine.experiment.problem import ProblemError
from engine.protocol.advice import Checked, Finding, FindingKind
from engine.training.checks.check import check

CLEAN = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.last = nn.Linear(16, 8)

    def forward(self, x):
        hidden = self.first(x).relu()
        return self.last(hidden)

def model():
    return Net()

def batch(size):
    return torch.randn(size, 8), torch.randint(8, (size,))

def loss(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets)
"""
STEP = """
def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)

def step(train, batch):
    with train.autocast():
        loss = nn.functional.cross_entropy(train.model(batch[0]), batch[1])
    train.backward(loss)
    train.unscale(train.optimizer)
    nn.utils.clip_grad_norm_(train.model.parameters(), 1.0)
    train.step(train.optimizer)
"""


def checked_file(own, text: str, **settings: object) -> Checked:
    return check(own.experiment(own.write(text), **settings))


def alarms(checked: Checked) -> list[Finding]:
    """Findings on the file; that this machine only emulates a precision is not its fault."""
    told = (*checked.errors, *checked.warnings)
    return [finding for finding in told if finding.kind is not FindingKind.EMULATED]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("text", [CLEAN, CLEAN + STEP], ids=["loss", "step"])
def test_a_clean_file_gives_no_alarm(own, text: str, precision: str) -> None:
    checked = checked_file(own, text, precision=precision)
    assert alarms(checked) == []
    assert [row.name for row in checked.tree] == ["", "first", "last"]
    assert checked.parameters == 8 * 16 + 16 + 16 * 8 + 8


FORWARD = "hidden = self.first(x).relu()"
LOSS = "return nn.functional.cross_entropy(outputs, targets)"
RANDOM, CAST, LAST = "torch.rand(outputs.shape)", "hidden.to(torch.bfloat16)", "return self.last(hidden)"


@pytest.mark.parametrize(
    ("before", "after", "part", "kind", "severity"),
    [
        (FORWARD, f"{FORWARD}; scale = hidden.max().item()", "item", FindingKind.WAITS, "warning"),
        (FORWARD, f"{FORWARD}; scale = float(hidden.max())", "float(", FindingKind.WAITS, "warning"),
        (FORWARD, f"{FORWARD}; hidden.detach().cpu()", "cpu", FindingKind.WAITS, "warning"),
        (FORWARD, f"{FORWARD}; hidden.detach().tolist()", "tolist", FindingKind.WAITS, "warning"),
        (FORWARD, f"{FORWARD}; print(hidden)", "print", FindingKind.WAITS, "warning"),
        (
            FORWARD,
            f"{FORWARD}\n        if hidden.sum() > 0: pass",
            "if hidden",
            FindingKind.BRANCHES,
            "warning",
        ),
        (LOSS, "return -outputs.softmax(-1).log().mean()", "softmax", FindingKind.HALF_IN_LOSS, "warning"),
        (LOSS, "return outputs.relu().mean()", "def loss", FindingKind.HALF_IN_LOSS, "warning"),
        (LOSS, "return outputs.float()", "def loss", FindingKind.LOSS_NOT_SCALAR, "error"),
        (LOSS, "return outputs.detach().float().mean()", "def loss", FindingKind.NO_GRADIENT, "error"),
        (LOSS, "return outputs.float().mean() / 0", ".mean() / 0", FindingKind.LOSS_NOT_FINITE, "warning"),
        (FORWARD, f"{FORWARD}.half().relu().float()", ".half()", FindingKind.HALF_IN_FORWARD, "warning"),
        (
            FORWARD,
            f"{FORWARD}; hidden = {CAST}.relu().float()",
            "bfloat16",
            FindingKind.HALF_IN_FORWARD,
            "warning",
        ),
        (
            LOSS,
            f"return nn.BCELoss()(outputs.sigmoid(), {RANDOM})",
            "BCELoss",
            FindingKind.HALF_IN_LOSS,
            "warning",
        ),
        (LOSS, "return undefined", "undefined", FindingKind.RAISES, "error"),
        (LOSS, "import sys; sys.exit(3)", "sys.exit", FindingKind.RAISES, "error"),
        (LAST, f"{LAST}.argmax(-1)", "", FindingKind.OUTPUT_NOT_FLOAT, "error"),
        (LAST, "return hidden", "", FindingKind.NO_GRADIENT, "warning"),
        ("return Net()", "return Net().bfloat16()", "bfloat16", FindingKind.NOT_FLOAT32, "warning"),
        ("return Net()", "return 3", "def model", FindingKind.RAISES, "error"),
        ("return Net()", "return Net(1)", "Net(1)", FindingKind.RAISES, "error"),
        ("import torch\n", "import torch, not_there\n", "not_there", FindingKind.RAISES, "error"),
        ("torch.randn(size, 8)", "torch.randn(size + 1, 8)", "def batch", FindingKind.RAISES, "error"),
    ],
)
def test_a_mistake_is_found_with_its_line(own, before, after, part, kind, severity) -> None:
    assert before in CLEAN
    text = CLEAN.replace(before, after)
    told = alarms(checked_file(own, text, precision="bf16"))
    found = [finding for finding in told if finding.kind is kind]
    assert [finding.severity for finding in found][:1] == [severity], told
    if part:
        lines = [number for number, line in enumerate(dedent(text).splitlines(), 1) if part in line]
        assert ("net.py", lines[0]) in [(finding.file, finding.line) for finding in found]


@pytest.mark.parametrize(
    ("after", "part"),
    [
        ("hidden = hidden / (hidden.sum(-1, keepdim=True) + 1e-12)", "1e-12"),
        ("hidden = hidden / hidden.norm(dim=-1, keepdim=True).clamp(min=1e-8)", "1e-8"),
        ("hidden = nn.functional.normalize(hidden)", "normalize"),
    ],
)
@pytest.mark.parametrize(("precision", "is_told"), [("fp16", True), ("bf16", False), ("fp32", False)])
def test_an_epsilon_that_fp16_rounds_to_0_is_found(own, after, part, precision, is_told) -> None:
    text = CLEAN.replace(FORWARD, f"{FORWARD}\n        {after}")
    found = [one for one in alarms(checked_file(own, text, precision=precision)) if one.kind == "epsilon"]
    line = next(number for number, line in enumerate(text.splitlines(), 1) if part in line)
    assert [finding.place for finding in found] == ([f"net.py:{line}"] if is_told else [])
    text = text.replace("1e-12", "1e-6").replace("1e-8", "1e-6").replace("(hidden)\n", "(hidden.float())\n")
    assert not [one for one in alarms(checked_file(own, text, precision=precision)) if one.kind == "epsilon"]


@pytest.mark.parametrize(
    ("loss", "why", "remedy"),
    [
        (
            "(outputs.half() * 0 + 300).square().sum().float()",
            "square gives more than float16 can",
            "float32",
        ),
        (
            "(outputs.half() * 0 + 9e3).sum().float()",
            "sum gives more than float16 can hold, 65,504",
            "float32",
        ),
        ("(outputs.float() * 0).log().mean()", "log is given 0", "small number"),
        ("(1 / (outputs.float() * 0)).mean()", "divides by 0", "small number"),
        (
            "(outputs * 0 + LOW + LOW).softmax(-1).mean()".replace("LOW", "torch.finfo(outputs.dtype).min"),
            "a mask stands for -Inf become -Inf in add",
            "booleans",
        ),
        ("(outputs.float() * 0 - 1).sqrt().mean()", "sqrt is the first", "sqrt"),
    ],
)
def test_where_a_loss_began_not_to_be_finite_is_told(own, loss, why, remedy) -> None:
    told = alarms(checked_file(own, CLEAN.replace(LOSS, f"return {loss}"), precision="fp16"))
    found = next(finding for finding in told if finding.kind is FindingKind.LOSS_NOT_FINITE)
    assert why in found.message and remedy in found.remedy, found
    assert "logarithm" not in found.message


def test_weights_in_half_are_an_error_where_the_scaler_would_fail_on_them(own) -> None:
    text = CLEAN.replace("return Net()", "return Net().half()")
    errors = checked_file(own, text, precision="fp16").errors
    found = next(finding for finding in errors if finding.kind is FindingKind.NOT_FLOAT32)
    assert "first.weight" in found.message and "Attempting to unscale FP16 gradients" in found.message
    assert (
        found.place == f"net.py:{text.splitlines().index('    return Net().half()') + 1}" and found.count == 4
    )


def test_waits_are_counted_and_the_files_own_step_is_watched_too(own) -> None:
    text = CLEAN.replace(FORWARD, f"{FORWARD}\n        for row in range(3): hidden[0, row].item()")
    (found,) = alarms(checked_file(own, text))
    assert found.count == 3 and "3 times" in found.message
    text = (CLEAN + STEP).replace("train.backward(loss)", "train.backward(loss); print(loss.item())")
    (found,) = alarms(checked_file(own, text, precision="bf16"))
    assert found.kind is FindingKind.WAITS and "item" in found.message
    text = (CLEAN + STEP).replace("train.step(train.optimizer)", "pass")
    (found,) = checked_file(own, text).errors
    assert "train.step" in found.message and found.file == "net.py"


def test_a_traceback_has_the_users_frames_only(own) -> None:
    own.write("def double(x):\n    return x + 'x'\n", "layers.py")
    text = CLEAN.replace("import torch\n", "import torch\nfrom layers import double\n", 1)
    (error,) = checked_file(own, text.replace(FORWARD, f"{FORWARD}; double(x)")).errors
    assert error.place == "layers.py:2" and "TypeError" in error.message
    assert "net.py" in error.detail and "torch/nn" not in error.detail and "engine" not in error.detail


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "severity"),
    [
        (FORWARD, f"{FORWARD}\n        while not pathlib.Path('over').exists(): x = x + 0", "error"),
        # a large file takes its time
        (
            "def batch(size):",
            "def dataset():\n    while not pathlib.Path('over').exists(): torch.zeros(1)\n"
            "    return [(torch.zeros(8), 0)] * 8\n\ndef batch(size):",
            "warning",
        ),
    ],
    ids=["forward", "dataset"],
)
def test_a_hang_ends_by_the_time_limit_with_its_line(own, before, after, severity) -> None:
    text = CLEAN.replace(before, after).replace("import torch\n", "import torch, pathlib\n", 1)
    checked = check(own.experiment(own.write(text)), limit_seconds=3.0)
    (own.folder / "over").touch()
    for thread in threading.enumerate():
        if thread.name == "check":
            thread.join()
    (found,) = alarms(checked)
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "while" in line)
    assert (found.kind, found.place) == (FindingKind.TOO_SLOW, f"net.py:{line}")
    assert found.severity == severity


def test_settings_that_do_not_fit_are_no_finding_of_the_file(own) -> None:
    with pytest.raises(ProblemError, match="cuda:7"):
        checked_file(own, CLEAN, device="cuda:7")
    path = own.write(
        """
        from torch import nn
        class Net(nn.Sequential):
            pass
        def model():
            return Net(nn.Linear(6, 3))
        """
    )
    (finding,) = check(own.experiment(path)).errors
    assert "fashion, 2×3×28×28 float32" in finding.remedy and "batch(size)" in finding.remedy


def test_the_classes_of_a_file_are_those_that_derive_from_torchs(own) -> None:
    path = own.write(
        """
        import torch.nn as nn
        from torch.nn import Sequential
        class Block(nn.Sequential): ...
        class Other(Sequential): ...
        class Net(Block): ...
        class Options(dict): ...
        """
    )
    assert read_code(path).classes == ("Block", "Other", "Net")


def test_what_a_step_or_an_optimizer_lacks_has_its_own_place(own) -> None:
    text = CLEAN + STEP
    for before, after, part in (
        ("train.step(train.optimizer)", "pass", "def step"),
        ("return torch.optim.SGD(model.parameters(), lr=0.1)", "return 3", "def optimizer"),
    ):
        (error,) = checked_file(own, text.replace(before, after)).errors
        line = next(number for number, line in enumerate(text.splitlines(), 1) if part in line)
        assert error.place == f"net.py:{line}"
