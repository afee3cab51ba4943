"""Each mistake with mixed precision in a workload file is found with its file and line."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from textwrap import dedent

import pytest
import torch

from engine.experiment.catalog import Precision
from engine.experiment.own.code import read_code
from engine.experiment.problem import ProblemError
from engine.protocol.advice import Checked, Finding, FindingKind
from engine.training.checks.check import check
from engine.training.checks.formats import FormatCheck
from engine.training.checks.passes import Pass, Subject, small_batches
from engine.training.doctor import read_catalog
from engine.training.runs.prepare import RunPlan

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
            "square exceeds the largest",
            "float32",
        ),
        (
            "(outputs.half() * 0 + 9e3).sum().float()",
            "sum exceeds the largest number of float16, 65,504",
            "float32",
        ),
        ("(outputs.float() * 0).log().mean()", "the input of log is 0", "small number"),
        ("(1 / (outputs.float() * 0)).mean()", "divides by 0", "small number"),
        (
            "(outputs * 0 + LOW + LOW).softmax(-1).mean()".replace("LOW", "torch.finfo(outputs.dtype).min"),
            "large negative numbers become -Inf in add",
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


FIRST = "self.first = nn.Linear(8, 16)"
FROZEN = f"{FIRST}.half().requires_grad_(False)"
TO_FIRST, TEACH = (
    "self.first(x.half()).float().relu()",
    "with torch.no_grad(): hidden = self.first(x.half()).float()",
)
ONLY_LAST = "def optimizer(model):\n    return torch.optim.SGD(model.last.parameters(), lr=0.1)\n"
ALL_FUSED = "def optimizer(model):\n    return torch.optim.Adam(model.parameters(), fused=True)\n"


def formats_told(own, precision: str, first: str, forward: str = "", more: str = "") -> list[Finding]:
    text = CLEAN.replace(FIRST, first).replace(FORWARD, forward or FORWARD) + more
    checked = checked_file(own, text, precision=precision)
    assert not [one for one in checked.findings if one.kind is FindingKind.HALF_IN_FORWARD]
    return [found for found in checked.findings if found.kind is FindingKind.NOT_FLOAT32]


@pytest.mark.parametrize(
    ("first", "forward", "more"),
    [
        (FROZEN, f"hidden = {TO_FIRST}", ""),
        (f"{FIRST}.half()", TEACH, ""),
        (f"{FIRST}.half()", f"hidden = {TO_FIRST}", ONLY_LAST),
    ],
    ids=["frozen", "teacher", "in no optimizer"],
)
def test_weights_in_half_that_are_not_trained_refuse_no_precision(own, first, forward, more) -> None:
    for precision, severity, said in (
        ("fp16", "note", "not trained, which saves memory"),
        ("bf16", "note", "not trained, which saves memory"),
        ("fp32", "warning", "in FP32 its values are rounded"),
    ):
        (found,) = formats_told(own, precision, first, forward, more)
        assert (found.severity, found.count) == (severity, 2) and said in found.message
    assert own.summary(own.experiment(own.folder / "net.py", precision="fp16")).skipped_steps == 0


@pytest.mark.parametrize(
    ("first", "forward", "more", "severity", "said"),
    [
        (f"{FIRST}.half()", TO_FIRST, "", "error", "Attempting to unscale FP16 gradients"),
        (f"{FIRST}.half()", TO_FIRST, ALL_FUSED, "warning", "small weight updates"),
        (
            f"{FIRST}.bfloat16()",
            "self.first(x.bfloat16()).float()",
            "",
            "warning",
            "not implemented for 'BFloat16'",
        ),
        (f"{FIRST}.double()", "self.first(x.double()).float()", "", "warning", "autocast does not cast"),
        (
            f"{FIRST}; self.turn = nn.Parameter(torch.ones(16, dtype=torch.complex64))",
            "(self.first(x) * self.turn).abs()",
            "",
            "error",
            "not implemented for 'ComplexFloat'",
        ),
    ],
    ids=["half", "half, fused", "bfloat16", "double", "complex"],
)
def test_trained_weights_are_judged_by_what_the_loss_scaler_takes(
    own, first, forward, more, severity, said
) -> None:
    found, *others = formats_told(own, "fp16", first, f"hidden = {forward}", more)
    assert found.severity == severity and said in found.message and not others
    experiment = own.experiment(own.folder / "net.py", precision="fp16")
    with pytest.raises((ValueError, RuntimeError)) if severity == "error" else nullcontext():
        own.events(experiment)


@pytest.mark.parametrize(("kind", "severity"), [("cuda", "error"), ("cpu", "warning")])
def test_only_cuda_cannot_unscale_gradients_in_bfloat16(own, kind, severity) -> None:
    own.write(CLEAN.replace(FIRST, f"{FIRST}.bfloat16()"))
    plan = RunPlan(own.experiment(own.folder / "net.py", precision="fp16"), read_catalog())
    plan.device = torch.device(kind)
    (found,) = FormatCheck(Subject(plan, plan.workload.build(), ())).findings([])
    assert found.severity == severity and "not implemented for 'BFloat16'" in found.message


def test_each_role_and_dtype_is_told_by_itself_with_its_line(own) -> None:
    first = (
        f"{FROZEN}; self.wide = nn.Parameter(torch.ones(16).double())\n"
        "        self.register_buffer('mean', torch.zeros(16, dtype=torch.bfloat16))\n"
        "        self.register_buffer('table', torch.ones(16, dtype=torch.bfloat16))"
    )
    forward = f"hidden = ({TO_FIRST} * self.wide).float() * self.table; self.mean += hidden.detach().mean(0)"
    told = formats_told(own, "bf16", first, forward)
    lines = (own.folder / "net.py").read_text(encoding="utf-8").splitlines()
    shown = [
        (found.severity, found.message.split(",")[0].removesuffix("."), lines[found.line - 1])
        for found in told
    ]
    half, mean = (next(line for line in lines if part in line) for part in (".half()", "'mean'"))
    assert shown == [
        ("warning", "The trained parameter wide is float64", half),
        ("warning", "The buffer mean is bfloat16", mean),
        ("note", "The parameter first.weight", half),
        ("note", "The constant buffer table is bfloat16", mean),
    ]


def test_pure_bf16_casts_all_weights_so_none_is_told(own) -> None:
    assert not formats_told(
        own, "bf16-pure", f"{FIRST}.bfloat16()", "hidden = self.first(x.to(self.first.weight.dtype))"
    )


OFF, OWN_BF16 = "torch.autocast('cpu', enabled=False)", "torch.autocast(x.device.type, dtype=torch.bfloat16)"
WHOLE = f"{FORWARD}\n        {LAST}"
WITH = "with {}:\n            hidden = self.first(x.float()).relu()\n            return self.last(hidden)"
OF_WORK = "the FLOPs of matmuls and convolutions"
ALL, HALF = f"all {OF_WORK}", f"50% of {OF_WORK}"


def autocasts_told(own, precision: str, before: str, after: str, device: str = "cpu") -> list[Finding]:
    experiment = own.experiment(own.write((CLEAN + STEP).replace(before, after)), precision=precision)
    plan = RunPlan(experiment, read_catalog())
    plan.device = torch.device(device)
    subject = Subject(plan, plan.workload.build().train(), small_batches(plan))
    found = []
    for one in (Precision.FP32, Precision.BF16):
        counts = one.is_autocast == experiment.precision.is_autocast
        made = Pass(subject, subject.batches[0], one, counts=counts, goes_back=True)
        made.run()
        found += [each for each in made.findings if each.kind is FindingKind.AUTOCAST]
    return found


@pytest.mark.parametrize(
    ("before", "after", "line", "fp32", "bf16"),
    [
        (WHOLE, WITH.format(OFF), "OFF", "", f"{ALL} in float32"),
        ("def forward", f"@{OFF}\n    def forward", "OFF", "", f"{ALL} in float32"),
        (LAST, f"with {OFF}:\n            return self.last(hidden.float())", "OFF", "", f"{HALF} in float32"),
        (WHOLE, WITH.format(OWN_BF16), "OWN", f"{ALL} in bfloat16", ""),
        (LAST, f"with {OWN_BF16}:\n            return self.last(hidden)", "OWN", f"{HALF} in bfloat16", ""),
        (LAST, f"with {OFF}: hidden = hidden.float() / hidden.float().norm()\n        {LAST}", "", "", ""),
        (
            WHOLE,
            "kept = torch.autocast('cpu', dtype=torch.bfloat16)\n        with kept:\n"
            f"            hidden = self.first(x).relu()\n        hidden = hidden.float()\n        {LAST}",
            "self.first(x)",
            f"{HALF} in bfloat16",
            "",
        ),
        ("with train.autocast():", "if True:", "self.first(x)", "", f"{ALL} in float32"),
        (
            "with train.autocast():",
            "with train.autocast(), torch.autocast('cpu', dtype=torch.float16):",
            "torch.float16",
            f"{ALL} in float16",
            f"{ALL} in float16",
        ),
    ],
)
def test_autocast_of_the_code_itself_is_found_with_its_extent(own, before, after, line, fp32, bf16) -> None:
    part = {"OFF": OFF, "OWN": OWN_BF16}.get(line, line)
    for precision, said in (("fp32", fp32), ("bf16", bf16)):
        warned = [one for one in autocasts_told(own, precision, before, after) if one.severity == "warning"]
        text = (own.folder / "net.py").read_text(encoding="utf-8").splitlines()
        assert [said in one.message and part in text[one.line - 1] for one in warned[:1]] == [True] * bool(
            said
        )


@pytest.mark.filterwarnings("ignore:.*(CUDA is not available|deprecated)")
@pytest.mark.parametrize(
    ("context", "told"),
    [
        ("torch.autocast('cuda', enabled=False)", f"{ALL} in float32"),
        ("torch.cuda.amp.autocast(False)", f"{ALL} in float32"),
        ("torch.autocast('cuda', dtype=torch.float16)", f"{ALL} in float16"),
        ("torch.autocast('cpu', enabled=False)", "for cpu and has no effect on cuda"),
    ],
)
def test_a_pass_on_the_cpu_tells_what_an_autocast_for_the_gpu_would_do(own, context, told) -> None:
    found = autocasts_told(own, "bf16", WHOLE, WITH.format(context), device="cuda")
    assert any(told in one.message for one in found), found
    line = next(
        n for n, it in enumerate((own.folder / "net.py").read_text().splitlines(), 1) if context in it
    )
    assert {one.line for one in found} == {line}


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


NEVER = CLEAN.replace("super().__init__()", "super().__init__(); self.never = nn.Linear(2, 2)")
TURNS = CLEAN.replace(
    "super().__init__()", "super().__init__(); self.turn = 0; self.other = nn.Linear(16, 8)"
)
TURNS = TURNS.replace("        hidden =", "        self.turn += 1\n        hidden =").replace(
    "self.last(hidden)", "(self.last if self.turn % 2 else self.other)(hidden)"
)
FIND, STATIC, FSDP = {"find_unused_parameters": True}, {"static_graph": True}, {"strategy": "fsdp"}


@pytest.mark.parametrize(
    ("text", "devices", "ranks", "found"),
    [
        (NEVER, 1, {}, ["warning: The parameter never.weight, like 1 more parameter, is never"]),
        (NEVER, 2, {}, ["error: The parameter never.weight, like 1 more, gets no gradient in a step."]),
        (NEVER + STEP, 2, {}, ["warning: The parameter never.weight, like 1 more parameter, is never"]),
        *(
            (NEVER, 2, ranks, ["warning: The parameter never.weight, like 1"])
            for ranks in (FIND, STATIC, FSDP)
        ),
        (TURNS, 1, {}, []),
        (TURNS, 2, {}, ["error: The parameter other.weight, like 3 more, gets no gradient in some steps."]),
        (TURNS, 2, FIND, []),
        (
            TURNS,
            2,
            STATIC,
            ["error: The parameter other.weight, like 3 more, gets no gradient in some steps."],
        ),
        (TURNS, 2, FSDP, ["warning: The parameter other.weight, like 3 more parameters, is with"]),
    ],
)
def test_parameters_that_several_devices_would_wait_for_are_named_beforehand(
    own, text: str, devices: int, ranks: dict[str, object], found: list[str]
) -> None:
    told = alarms(checked_file(own, text, devices=devices, ranks=ranks))
    assert [
        f"{one.severity}: {one.message}"[: len(words)] for one, words in zip(told, found, strict=True)
    ] == found
    for one in told:
        is_refused = one.severity == "error"
        assert one.kind is FindingKind.NO_GRADIENT and one.file == "net.py"
        assert is_refused == ("ranks.find_unused_parameters" in one.remedy)
        assert (ranks is STATIC and is_refused) == ("Turn off Static graph" in one.remedy)
