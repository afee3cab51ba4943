"""Autocast contexts of the file itself are found, with the share of the work in them."""

from __future__ import annotations

import pytest
import torch

from engine.experiment.catalog import Precision
from engine.protocol.advice import Finding, FindingKind
from engine.training.checks.passes import Pass, Subject, small_batches
from engine.training.doctor import read_catalog
from engine.training.runs.plan import RunPlan
from tests.engine.training.conftest import line_of

from .conftest import CLEAN, FORWARD, LAST, STEP

OFF, OWN_BF16 = "torch.autocast('cpu', enabled=False)", "torch.autocast(x.device.type, dtype=torch.bfloat16)"
WHOLE = f"{FORWARD}\n        {LAST}"
WITH = "with {}:\n            hidden = self.first(x.float()).relu()\n            return self.last(hidden)"
OF_WORK = "the FLOPs of matmuls and convolutions"
ALL, HALF = f"all {OF_WORK}", f"50% of {OF_WORK}"
KEPT = (
    "kept = torch.autocast('cpu', dtype=torch.bfloat16)\n        with kept:\n"
    f"            hidden = self.first(x).relu()\n        hidden = hidden.float()\n        {LAST}"
)
ALSO_FP16 = "with train.autocast(), torch.autocast('cpu', dtype=torch.float16):"


def autocasts_told(own, precision: str, before: str, after: str, device: str = "cpu") -> list[Finding]:
    experiment = own.asked((CLEAN + STEP).replace(before, after), precision=precision)
    plan = RunPlan(experiment, read_catalog())
    plan.device = torch.device(device)
    subject = Subject(plan, plan.workload.build().train(), small_batches(plan))
    found = []
    for one in (Precision.FP32, Precision.BF16):
        counts = one.is_autocast == experiment.precision.is_autocast
        made = Pass(subject, subject.batches[0], one, counts=counts, has_backward=True)
        made.run()
        found += [each for each in made.findings if each.kind is FindingKind.AUTOCAST]
    return found


@pytest.mark.parametrize(
    ("before", "after", "part", "fp32", "bf16"),
    [
        (WHOLE, WITH.format(OFF), OFF, "", f"{ALL} in float32"),
        ("def forward", f"@{OFF}\n    def forward", OFF, "", f"{ALL} in float32"),
        (LAST, f"with {OFF}:\n            return self.last(hidden.float())", OFF, "", f"{HALF} in float32"),
        (WHOLE, WITH.format(OWN_BF16), OWN_BF16, f"{ALL} in bfloat16", ""),
        (LAST, f"with {OWN_BF16}:\n            {LAST}", OWN_BF16, f"{HALF} in bfloat16", ""),
        (LAST, f"with {OFF}: hidden = hidden.float() / hidden.float().norm()\n        {LAST}", "", "", ""),
        (WHOLE, KEPT, "self.first(x)", f"{HALF} in bfloat16", ""),
        ("with train.autocast():", "if True:", "self.first(x)", "", f"{ALL} in float32"),
        ("with train.autocast():", ALSO_FP16, ALSO_FP16, f"{ALL} in float16", f"{ALL} in float16"),
    ],
)
def test_autocast_of_the_code_itself_is_found_with_its_extent(own, before, after, part, fp32, bf16) -> None:
    for precision, said in (("fp32", fp32), ("bf16", bf16)):
        warned = [one for one in autocasts_told(own, precision, before, after) if one.severity == "warning"]
        assert bool(warned) == bool(said)
        if said:
            lines = (own.folder / "net.py").read_text(encoding="utf-8").splitlines()
            assert said in warned[0].message and part in lines[warned[0].line - 1]


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
    assert {one.line for one in found} == {line_of((own.folder / "net.py").read_text(), context)}
