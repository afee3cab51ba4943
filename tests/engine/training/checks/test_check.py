"""Check looks at any model of the catalog, and at the text of a file, without training it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import Code
from engine.protocol.advice import Finding, FindingKind
from engine.training.checks.check import check
from engine.training.checks.places import CodePlace, ModuleOutputs
from engine.training.checks.static import find_half_cast, find_syncs_in_text, static_findings
from engine.training.checks.watches import LossWatch, RefusalWatch
from engine.training.models.weightless import CudaSemantics
from tests.engine.training.conftest import line_of

from .conftest import CLEAN as NET
from .conftest import FORWARD as NET_FORWARD
from .conftest import LAST, LOSS, STEP

CATALOG = {
    "linear": {"dataset": "synthetic-regression"},
    "small-cnn": {"dataset": "fashion-mnist"},
    "causal-lm-tiny": {"dataset": "synthetic-tokens", "sequence_length": 16},
}


def experiment(model: str, **more: object) -> Experiment:
    settings = {"model": model, "device": "cpu", "samples": 64, "batch_size": 8, "steps": 1}
    return experiment_from({**settings, **CATALOG.get(model, {}), **more})


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("model", CATALOG)
def test_a_catalog_model_gives_no_false_alarm(model: str, precision: str) -> None:
    checked = check(experiment(model, precision=precision))
    # that this machine only emulates a precision is no false alarm
    alarms = {finding.kind for finding in checked.findings if finding.severity != "note"}
    assert alarms <= {FindingKind.EMULATED}
    assert checked.parameters == checked.tree[0].parameters > 0
    assert checked.outputs and checked.loss


def test_the_tree_has_shapes_and_formats_in_the_experiments_precision() -> None:
    rows = {row.name: row for row in check(experiment("small-cnn", precision="bf16")).tree}
    first = rows["features.0"]
    assert (first.class_name, first.output, first.dtype) == ("Conv2d", "2×32×28×28", "bfloat16")
    assert first.own[0] == "weight 32×1×3×3 float32"
    assert first.depth == 2 and rows[""].depth == 0


def _outside_autocast(outputs: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return outputs.softmax(-1)


def kinds_on_cuda(loss: Callable[[Tensor], Tensor], *, counts: bool = True) -> list[tuple[FindingKind, str]]:
    watch = LossWatch(ModuleOutputs(nn.Identity()), is_cuda=True, counts=counts)
    outputs = torch.rand(2, 4).half()
    with CudaSemantics(), torch.autocast("cpu", dtype=torch.float16), watch:
        loss(outputs)
    return [(finding.kind, finding.severity) for finding in watch.findings()]


WARNED, REFUSED = [("half in the loss", "warning")], [("raises", "error")]


def _bce(outputs: Tensor) -> Tensor:
    return functional.binary_cross_entropy(outputs.float(), torch.ones(2, 4))


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        # CUDA's autocast computes these in float32
        (lambda outputs: outputs.softmax(-1).log(), []),
        (lambda outputs: functional.cross_entropy(outputs, torch.tensor([0, 1])), []),
        (lambda outputs: functional.log_softmax(outputs, -1), []),
        (lambda outputs: outputs.float().exp_(), []),
        (functional.logsigmoid, WARNED),
        (lambda outputs: outputs.clone().exp_(), WARNED),
        (_outside_autocast, WARNED),
        (_bce, REFUSED),
    ],
)
def test_a_loss_is_judged_by_cudas_autocast(loss, found) -> None:
    assert kinds_on_cuda(loss) == found
    # trained in FP32 a refused loss ends no run
    assert found is not REFUSED or kinds_on_cuda(loss, counts=False) == [("raises", "warning")]


def _spectral(x: Tensor) -> Tensor:
    return torch.fft.rfft(functional.linear(x, torch.ones(60, 64)))


def _mixed(x: Tensor) -> Tensor:
    spectrum = torch.fft.rfft(functional.linear(x, torch.ones(64, 64)))
    return torch.einsum("bi,io->bo", spectrum[:, :4], torch.ones(4, 4, dtype=torch.cfloat))


@pytest.mark.parametrize(
    ("call", "half", "refused"),
    [
        (_spectral, torch.float16, ["CUDA refuses fft.rfft here: it takes float16 only"]),
        (_spectral, torch.bfloat16, ["CUDA refuses fft.rfft here: it has no kernel for bfloat16"]),
        (_mixed, torch.float16, ["CUDA refuses einsum here: it has no kernel for complex32"]),
        # of the lengths that a transform has, only powers of 2 are there in float16
        (lambda x: torch.fft.rfft(x.half()[:, :6]), torch.float16, ["CUDA refuses fft.rfft here"]),
        (lambda x: torch.fft.rfft(x.half()[:, :6], n=16), torch.float16, []),
        (lambda x: torch.fft.fft(x.half()[:3], dim=0), torch.float16, ["CUDA refuses fft.fft here"]),
        (lambda x: torch.fft.fft2(x.half()), torch.float16, []),
        (lambda x: torch.fft.rfftn(x.half()[:3]), torch.float16, ["CUDA refuses fft.rfftn here"]),
        (lambda x: torch.fft.irfft(torch.fft.rfft(x.half()) * 2), torch.float16, []),
        (lambda x: torch.inverse(x.T @ x), torch.float16, ["CUDA refuses inverse here"]),
        (lambda x: torch.linalg.cholesky((x.T @ x).float()), torch.float16, []),
        # CUDA's autocast computes these in float32, the CPU's does not
        (lambda x: torch.linalg.svd((x.T @ x).exp())[1], torch.float16, []),
        (lambda x: torch.fft.rfft(functional.layer_norm(x.bfloat16(), (64,))), torch.bfloat16, []),
    ],
)
def test_what_cuda_has_no_kernel_for_and_its_autocast_does_not_cast_is_an_error(call, half, refused) -> None:
    watch = RefusalWatch(half, is_cuda=True, counts=True)
    with CudaSemantics(), torch.autocast("cpu", dtype=half), watch:
        call(torch.eye(64))
    assert [finding.severity for finding in watch.findings()] == ["error"] * len(refused)
    assert all(map(str.startswith, (finding.message for finding in watch.findings()), refused))


@pytest.mark.parametrize(
    ("forward", "loss", "part"),
    [
        ("torch.fft.irfft(torch.fft.rfft(self.wide(x)), n=8)", "outputs.mean()", "fft.rfft"),
        ("torch.linalg.eigvalsh(self.wide(x).T @ self.wide(x))", "outputs.mean()", "linalg.eigvalsh"),
        ("self.wide(x)", "torch.linalg.svdvals(outputs).sum()", "linalg.svdvals"),
        ("torch.fft.rfft(self.norm(self.wide(x))).abs()", "outputs.mean()", None),
    ],
)
def test_on_a_cpu_what_would_end_the_run_on_cuda_is_a_note(forward, loss, part) -> None:
    first = "self.first = nn.Linear(8, 16)"
    text = NET.replace(first, f"{first}; self.wide, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)")
    text = text.replace(NET_FORWARD, f"return {forward}").replace(LAST, "").replace(LOSS, f"return {loss}")
    checked = check(experiment_of(text, precision="bf16", device="cpu"))
    notes = [found for found in checked.findings if "CUDA refuses" in found.message]
    assert [(found.severity, found.line) for found in notes] == (
        [] if part is None else [("note", line_of(text, part))]
    )


def test_a_cpus_loss_is_not_judged_by_what_overflows_on_cuda() -> None:
    overflows = "return (outputs * 0 + 6e4).trace() + torch.linalg.svdvals(outputs).sum().float()"
    text = NET.replace(LOSS, overflows)
    checked = check(experiment_of(text, precision="fp16", device="cpu"))
    assert FindingKind.LOSS_NOT_FINITE not in {found.kind for found in checked.findings}
    assert any("CUDA refuses" in found.message for found in checked.findings)


CLEAN = f"""{NET}{STEP}
    if not train.was_skipped(train.optimizer):
        scheduler.step()
"""


def code_of(text: str, **beside: str) -> Code:
    return Code(file="net.py", folder="/work", text=text, beside=beside)


def findings_of(text: str, **settings: object) -> list[Finding]:
    return static_findings(experiment_of(text, **settings))


def experiment_of(text: str, **settings: object) -> Experiment:
    return experiment_from({"model": "net.py", "code": code_of(text).to_json(), "dataset": "own", **settings})


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_a_clean_file_has_no_findings(precision: str) -> None:
    assert not findings_of(CLEAN, precision=precision)
    assert not find_syncs_in_text(code_of(CLEAN))


UNSCALE, IF_SKIPPED = "train.unscale(train.optimizer)", "if not train.was_skipped(train.optimizer):"
CLIP_VALUES = f"nn.utils.clip_grad_value_(train.model.parameters(), 1.0)\n    {UNSCALE}"
CLIPPING, AFTER_SKIP = FindingKind.CLIPPING_BEFORE_UNSCALING, FindingKind.SCHEDULER_AFTER_SKIP


@pytest.mark.parametrize(
    ("before", "after", "part", "kind"),
    [
        (UNSCALE, "pass", "clip_grad_norm_", CLIPPING),
        (f"{UNSCALE}\n    nn.utils.clip_grad_norm_", f"{CLIP_VALUES}\n    print", "value_", CLIPPING),
        (IF_SKIPPED, "if True:", "scheduler.step", AFTER_SKIP),
        (
            f"{IF_SKIPPED}\n        scheduler",
            "if train.count % 10 == 0:\n        decay = torch.optim.lr_scheduler.StepLR(a, 1)\n        decay",
            "decay.step",
            AFTER_SKIP,
        ),
    ],
)
def test_a_mistake_in_the_step_is_found_with_its_line(before, after, part, kind) -> None:
    assert before in CLEAN
    text = CLEAN.replace(before, after)
    (finding,) = findings_of(text, precision="fp16")
    assert (finding.kind, finding.severity) == (kind, "warning")
    assert (finding.file, finding.line) == ("net.py", line_of(text, part))


def test_a_scaler_with_bf16_is_found_in_the_file_and_in_the_settings() -> None:
    text = CLEAN + "scaler = torch.amp.GradScaler()\n"
    in_file, in_settings = findings_of(text, precision="bf16", scaler={"mode": "on"})
    assert {in_file.kind, in_settings.kind} == {FindingKind.SCALER_WITH_BF16}
    assert in_file.line == line_of(text, "GradScaler") and in_settings.file is None
    assert not findings_of(text, precision="fp16")


def test_reads_of_tensors_in_forward_are_found_and_those_elsewhere_are_not() -> None:
    text = textwrap.dedent("""
        class Net:
            def forward(self, x):
                print("fine")
                print(x)
                return x.mean().item()

        def report(x):
            return x.item()
    """)
    assert [found.line for found in find_syncs_in_text(code_of(text))] == [
        line_of(text, "print(x)"),
        line_of(text, "x.mean().item()"),
    ]


def test_the_cast_to_16_bits_is_found_in_a_module_beside_the_file() -> None:
    code = code_of("from layers import Net\n", **{"layers.py": "import torch\nnet = Net().half()\n"})
    assert find_half_cast(code) == CodePlace("layers.py", 2)
    assert find_half_cast(code_of(CLEAN)) is None


@pytest.mark.parametrize(
    "deep",
    [
        "if a == 0:\n    b = 0\n" + "".join(f"elif a == {n}:\n    b = {n}\n" for n in range(1, 1_500)),
        f"def step(train, batch):\n    if {' + '.join('a' * 900)}:\n        scheduler.step()\n",
        f"def step(train, batch):\n    a{'[0]' * 1_400} = torch.optim.lr_scheduler.StepLR(1)\n    a.step()\n",
    ],
    ids=["elif", "condition", "subscripts"],
)
def test_a_file_that_python_takes_is_not_too_deep_to_be_read(deep: str) -> None:
    text = f"a = 1\n{deep}\ndef model(): ...\n"
    compile(text, "net.py", "exec")
    assert {"a", "model"} <= code_of(text).defines
    steps = [found for found in findings_of(text) if found.kind is FindingKind.SCHEDULER_AFTER_SKIP]
    assert len(steps) == deep.count(".step()")
    assert find_half_cast(code_of(text)) is None and not find_syncs_in_text(code_of(text))


@pytest.mark.parametrize(
    "look", ["not train.was_skipped(optimizer)", "scaler.get() >= before", "s['skipped'] == 0"]
)
def test_a_condition_that_looks_for_a_skipped_step_guards_the_scheduler(look: str) -> None:
    text = CLEAN.replace("not train.was_skipped(train.optimizer)", look)
    assert not findings_of(text, precision="fp16")
    assert findings_of(text.replace(look, "train"), precision="fp16")


def test_the_classes_of_a_file_are_those_that_derive_from_torchs() -> None:
    text = """
import torch.nn as nn
from torch.nn import Sequential
class Block(nn.Sequential): ...
class Other(Sequential): ...
class Net(Block): ...
class Options(dict): ...
"""
    assert code_of(text).classes == ("Block", "Other", "Net")
