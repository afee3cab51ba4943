"""Weights and buffers in another dtype than float32 are judged by their role and by the loss scaler."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from engine.protocol.advice import Finding, FindingKind
from engine.training.checks.check import FormatCheck, check
from engine.training.checks.passes import Subject
from engine.training.doctor import read_catalog
from engine.training.runs.plan import RunPlan
from tests.engine.training.conftest import line_of, trained

from .conftest import CLEAN, FORWARD

FIRST = "self.first = nn.Linear(8, 16)"
FROZEN = f"{FIRST}.half().requires_grad_(False)"
TO_FIRST = "self.first(x.half()).float().relu()"
TEACH = "with torch.no_grad(): hidden = self.first(x.half()).float()"
COMPLEX = f"{FIRST}; self.turn = nn.Parameter(torch.ones(16, dtype=torch.complex64))"
ONLY_LAST = "def optimizer(model):\n    return torch.optim.SGD(model.last.parameters(), lr=0.1)\n"
ALL_FUSED = "def optimizer(model):\n    return torch.optim.Adam(model.parameters(), fused=True)\n"


def formats_told(own, precision: str, first: str, forward: str, more: str = "") -> list[Finding]:
    text = CLEAN.replace(FIRST, first).replace(FORWARD, forward) + more
    checked = check(own.asked(text, precision=precision))
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
    for precision, severity in (("fp16", "note"), ("bf16", "note"), ("fp32", "warning")):
        (found,) = formats_told(own, precision, first, forward, more)
        assert (found.severity, found.count) == (severity, 2)
    run = trained(own.experiment(own.folder / "net.py", precision="fp16"))
    assert run.summary.skipped_steps == 0


@pytest.mark.parametrize(
    ("first", "forward", "more", "severity", "said"),
    [
        (f"{FIRST}.half()", TO_FIRST, "", "error", "Attempting to unscale FP16 gradients"),
        (f"{FIRST}.half()", TO_FIRST, ALL_FUSED, "warning", "small weight updates"),
        (f"{FIRST}.bfloat16()", "self.first(x.bfloat16()).float()", "", "warning", "for 'BFloat16'"),
        (f"{FIRST}.double()", "self.first(x.double()).float()", "", "warning", "autocast does not cast"),
        (COMPLEX, "(self.first(x) * self.turn).abs()", "", "error", "not implemented for 'ComplexFloat'"),
    ],
    ids=["half", "half, fused", "bfloat16", "double", "complex"],
)
def test_trained_weights_are_judged_by_what_the_loss_scaler_takes(
    own, first, forward, more, severity, said
) -> None:
    found, *others = formats_told(own, "fp16", first, f"hidden = {forward}", more)
    assert found.severity == severity and said in found.message and not others
    with pytest.raises((ValueError, RuntimeError)) if severity == "error" else nullcontext():
        trained(own.experiment(own.folder / "net.py", precision="fp16"))


@pytest.mark.parametrize(("kind", "severity"), [("cuda", "error"), ("cpu", "warning")])
def test_only_cuda_cannot_unscale_gradients_in_bfloat16(own, kind, severity) -> None:
    asked = own.asked(CLEAN.replace(FIRST, f"{FIRST}.bfloat16()"), precision="fp16")
    plan = RunPlan(asked, read_catalog())
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
    text = (own.folder / "net.py").read_text(encoding="utf-8")
    half, mean = line_of(text, ".half()"), line_of(text, "'mean'")
    assert [
        (found.severity, found.message.split(",")[0].removesuffix("."), found.line) for found in told
    ] == [
        ("warning", "The trained parameter wide is float64", half),
        ("warning", "The buffer mean is bfloat16", mean),
        ("note", "The parameter first.weight", half),
        ("note", "The constant buffer table is bfloat16", mean),
    ]


def test_pure_bf16_casts_all_weights_so_none_is_told(own) -> None:
    assert not formats_told(
        own, "bf16-pure", f"{FIRST}.bfloat16()", "hidden = self.first(x.to(self.first.weight.dtype))"
    )
