"""Each mistake with mixed precision in a workload file is found with its file and line."""

from __future__ import annotations

import threading

import pytest

from engine.experiment.problem import ProblemError
from engine.protocol.advice import Checked, FindingKind
from engine.training.checks.check import check
from tests.engine.training.conftest import line_of

from .conftest import CLEAN, FORWARD, LAST, LOSS, STEP, alarms


def checked_file(own, text: str, **settings: object) -> Checked:
    return check(own.asked(text, **settings))


def test_an_error_of_the_reading_itself_is_no_clean_file(own, monkeypatch) -> None:
    monkeypatch.setattr("engine.training.checks.static.loop_findings", lambda file, is_bf16: [][0])
    with pytest.raises(IndexError):
        checked_file(own, CLEAN)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("text", [CLEAN, CLEAN + STEP], ids=["loss", "step"])
def test_a_clean_file_gives_no_alarm(own, text: str, precision: str) -> None:
    checked = checked_file(own, text, precision=precision)
    assert alarms(checked) == []
    assert [row.name for row in checked.tree] == ["", "first", "last"]
    assert checked.parameters == 8 * 16 + 16 + 16 * 8 + 8


CAST = "hidden.to(torch.bfloat16)"
CLIPPED = "nn.BCELoss()(outputs.sigmoid(), torch.rand(outputs.shape))"


@pytest.mark.parametrize(
    ("before", "after", "part", "found"),
    [
        (FORWARD, f"{FORWARD}; scale = hidden.max().item()", "item", "warning: waits"),
        (FORWARD, f"{FORWARD}; scale = float(hidden.max())", "float(", "warning: waits"),
        (FORWARD, f"{FORWARD}; hidden.detach().cpu()", "cpu", "warning: waits"),
        (FORWARD, f"{FORWARD}; hidden.detach().tolist()", "tolist", "warning: waits"),
        (FORWARD, f"{FORWARD}; print(hidden)", "print", "warning: waits"),
        (FORWARD, f"{FORWARD}\n        if hidden.sum() > 0: pass", "if hidden", "warning: branches"),
        (LOSS, "return -outputs.softmax(-1).log().mean()", "softmax", "warning: half in the loss"),
        (LOSS, "return outputs.relu().mean()", "def loss", "warning: half in the loss"),
        (LOSS, f"return {CLIPPED}", "BCELoss", "warning: half in the loss"),
        (LOSS, "return outputs.float()", "def loss", "error: loss not scalar"),
        (LOSS, "return outputs.detach().float().mean()", "def loss", "error: no gradient"),
        (LOSS, "return outputs.float().mean() / 0", ".mean() / 0", "warning: loss not finite"),
        (FORWARD, f"{FORWARD}.half().relu().float()", ".half()", "warning: half in forward"),
        (FORWARD, f"{FORWARD}; hidden = {CAST}.relu().float()", "bfloat16", "warning: half in forward"),
        (LOSS, "return undefined", "undefined", "error: raises"),
        (LOSS, "import sys; sys.exit(3)", "sys.exit", "error: raises"),
        (LAST, f"{LAST}.argmax(-1)", "", "error: output not float"),
        (LAST, "return hidden", "", "warning: no gradient"),
        ("return Net()", "return Net().bfloat16()", "bfloat16", "warning: not float32"),
        ("return Net()", "return 3", "def model", "error: raises"),
        ("return Net()", "return Net(1)", "Net(1)", "error: raises"),
        ("import torch\n", "import torch, not_there\n", "not_there", "error: raises"),
        ("torch.randn(size, 8)", "torch.randn(size + 1, 8)", "def batch", "error: raises"),
        ("train.backward(loss)", "train.backward(loss); print(loss.item())", "print", "warning: waits"),
        ("train.step(train.optimizer)", "pass", "def step", "error: raises"),
        ("return torch.optim.SGD(model.parameters(), lr=0.1)", "return 3", "def optimizer", "error: raises"),
    ],
)
def test_a_mistake_is_found_with_its_line(own, before, after, part, found) -> None:
    text = CLEAN + (STEP if before in STEP else "")
    assert before in text
    text = text.replace(before, after)
    told = alarms(checked_file(own, text, precision="bf16"))
    lines = [one.line for one in told if f"{one.severity}: {one.kind}" == found and one.file == "net.py"]
    assert lines, told
    assert not part or line_of(text, part) in lines


@pytest.mark.parametrize(
    ("after", "part"),
    [
        ("hidden = hidden / (hidden.sum(-1, keepdim=True) + 1e-12)", "1e-12"),
        ("hidden = hidden / hidden.norm(dim=-1, keepdim=True).clamp(min=1e-8)", "1e-8"),
        ("hidden = nn.functional.normalize(hidden)", "normalize"),
    ],
)
def test_an_epsilon_that_fp16_rounds_to_0_is_found(own, after, part) -> None:
    def epsilons(text: str, precision: str) -> list[str]:
        told = alarms(checked_file(own, text, precision=precision))
        return [one.place for one in told if one.kind is FindingKind.EPSILON]

    text = CLEAN.replace(FORWARD, f"{FORWARD}\n        {after}")
    assert epsilons(text, "fp16") == [f"net.py:{line_of(text, part)}"]
    assert epsilons(text, "bf16") == epsilons(text, "fp32") == []
    text = text.replace("1e-12", "1e-6").replace("1e-8", "1e-6").replace("(hidden)\n", "(hidden.float())\n")
    assert epsilons(text, "fp16") == []


LOWEST = "torch.finfo(outputs.dtype).min"


@pytest.mark.parametrize(
    ("loss", "why", "remedy"),
    [
        ("(outputs.half() * 0 + 300).square().sum().float()", "square exceeds the largest", "float32"),
        ("(outputs.half() * 0 + 9e3).sum().float()", "sum exceeds the largest number of float16", "float32"),
        ("(outputs.float() * 0).log().mean()", "the input of log is 0", "small number"),
        ("(1 / (outputs.float() * 0)).mean()", "divides by 0", "small number"),
        (f"(outputs * 0 + {LOWEST} + {LOWEST}).softmax(-1).mean()", "become -Inf in add", "booleans"),
        ("(outputs.float() * 0 - 1).sqrt().mean()", "sqrt is the first", "sqrt"),
    ],
)
def test_where_a_loss_began_not_to_be_finite_is_told(own, loss, why, remedy) -> None:
    told = alarms(checked_file(own, CLEAN.replace(LOSS, f"return {loss}"), precision="fp16"))
    found = next(finding for finding in told if finding.kind is FindingKind.LOSS_NOT_FINITE)
    assert why in found.message and remedy in found.remedy, found
    assert "logarithm" not in found.message


def test_waits_are_counted(own) -> None:
    text = CLEAN.replace(FORWARD, f"{FORWARD}\n        for row in range(3): hidden[0, row].item()")
    (found,) = alarms(checked_file(own, text))
    assert found.count == 3


def test_a_traceback_has_the_users_frames_only(own) -> None:
    own.write("def double(x):\n    return x + 'x'\n", "layers.py")
    text = CLEAN.replace("import torch\n", "import torch\nfrom layers import double\n", 1)
    (error,) = checked_file(own, text.replace(FORWARD, f"{FORWARD}; double(x)")).errors
    assert error.place == "layers.py:2" and "TypeError" in error.message
    assert "net.py" in error.detail and "torch/nn" not in error.detail and "engine" not in error.detail


READING = """def dataset():
    while not pathlib.Path('over').exists(): torch.zeros(1)
    return [(torch.zeros(8), 0)] * 8

def batch(size):"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "severity"),
    [
        (FORWARD, f"{FORWARD}\n        while not pathlib.Path('over').exists(): x = x + 0", "error"),
        # a large file takes its time
        ("def batch(size):", READING, "warning"),
    ],
    ids=["forward", "dataset"],
)
def test_a_hang_ends_by_the_time_limit_with_its_line(own, before, after, severity) -> None:
    text = CLEAN.replace(before, after).replace("import torch\n", "import torch, pathlib\n", 1)
    checked = check(own.asked(text), limit_seconds=1.5)
    (own.folder / "over").touch()
    for thread in threading.enumerate():
        if thread.name == "check":
            thread.join()
    (found,) = alarms(checked)
    assert (found.kind, found.place) == (FindingKind.TOO_SLOW, f"net.py:{line_of(text, 'while')}")
    assert found.severity == severity


def test_settings_that_do_not_fit_are_no_finding_of_the_file(own) -> None:
    with pytest.raises(ProblemError, match="cuda:7"):
        checked_file(own, CLEAN, device="cuda:7")
    (finding,) = checked_file(
        own, "from torch import nn\ndef model():\n    return nn.Sequential(nn.Linear(6, 3))\n"
    ).errors
    assert "fashion, 2×3×28×28 float32" in finding.remedy and "batch(size)" in finding.remedy


NEVER = CLEAN.replace("super().__init__()", "super().__init__(); self.never = nn.Linear(2, 2)")
TURNS = CLEAN.replace(
    "super().__init__()", "super().__init__(); self.turn = 0; self.other = nn.Linear(16, 8)"
)
TURNS = TURNS.replace("        hidden =", "        self.turn += 1\n        hidden =").replace(
    "self.last(hidden)", "(self.last if self.turn % 2 else self.other)(hidden)"
)
FIND, STATIC, FSDP = {"find_unused_parameters": True}, {"static_graph": True}, {"strategy": "fsdp"}
IS_NEVER = "warning: The parameter never.weight, like 1 more parameter, is never"
IN_SOME_STEPS = "error: The parameter other.weight, like 3 more, gets no gradient in some steps."


@pytest.mark.parametrize(
    ("text", "devices", "ranks", "found"),
    [
        (NEVER, 1, {}, IS_NEVER),
        (NEVER, 2, {}, "error: The parameter never.weight, like 1 more, gets no gradient in a step."),
        (NEVER + STEP, 2, {}, IS_NEVER),
        *((NEVER, 2, ranks, IS_NEVER) for ranks in (FIND, STATIC, FSDP)),
        (TURNS, 1, {}, None),
        (TURNS, 2, {}, IN_SOME_STEPS),
        (TURNS, 2, FIND, None),
        (TURNS, 2, STATIC, IN_SOME_STEPS),
        (TURNS, 2, FSDP, "warning: The parameter other.weight, like 3 more parameters, is with"),
    ],
)
def test_parameters_that_several_devices_would_wait_for_are_named_beforehand(
    own, text: str, devices: int, ranks: dict[str, object], found: str | None
) -> None:
    told = alarms(checked_file(own, text, devices=devices, ranks=ranks))
    assert len(told) == (found is not None)
    for one in told:
        is_refused = one.severity == "error"
        assert f"{one.severity}: {one.message}".startswith(str(found))
        assert one.kind is FindingKind.NO_GRADIENT and one.file == "net.py"
        assert is_refused == ("ranks.find_unused_parameters" in one.remedy)
        assert (ranks is STATIC and is_refused) == ("Turn off Static graph" in one.remedy)
