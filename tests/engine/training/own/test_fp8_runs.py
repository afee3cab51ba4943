"""Runs in FP8 on the CPU, emulated and as a GPU computes it: losses, resuming, what a run and a check say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.experiment.checks import problems
from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.protocol.advice import FindingKind, NotInFP8
from engine.protocol.events import Failed
from engine.protocol.jobs import Control, StudyNumerics
from engine.protocol.numerics import Part, PartMeasured, PrecisionMap
from engine.protocol.ranges import Ranges
from engine.training.checks.check import check
from engine.training.doctor import read_catalog
from engine.training.forecast import forecast
from engine.training.models import tensor_cores
from engine.training.models.libraries import quiet
from engine.training.numerics.study import study_numerics
from engine.training.precision import (
    EMULATED_NOTE,
    Processor,
    cpu_precisions,
    cuda_precisions,
    other_accelerator_precisions,
)
from engine.training.runs import plan
from tests.engine.training.conftest import OwnRuns, trained

MODEL = """
    import torch
    from torch import nn

    def model():
        block = lambda: nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        return nn.Sequential(nn.Embedding(64, 32), block(), block(), nn.Linear(32, 36), nn.Linear(36, 64))

    def batch(size):
        tokens = torch.randint(64, (size, 16))
        return tokens, (3 * tokens + 1) % 64

    def loss(outputs, targets):
        return nn.functional.cross_entropy(outputs.flatten(0, 1).float(), targets.flatten())
"""
LAYERS = (
    "FP8 in 4 of 6 linear layers. Not in the output layer and 1 with a size that is not a multiple of 16."
)


@pytest.fixture(scope="module", autouse=True)
def torchao() -> None:
    """Imported once: it takes seconds, and its own code warns."""
    pytest.importorskip("torchao")
    with quiet():
        import torchao.float8  # noqa: F401


@pytest.fixture
def runs(tmp_path: Path) -> OwnRuns:
    found = OwnRuns(tmp_path)
    found.write(MODEL)
    return found


def experiment(runs: OwnRuns, precision: str = "fp8", **settings: Any) -> Experiment:
    asked = {"optimizer": {"learning_rate": 0.004}, "steps": 40, "batch_size": 16, "samples": 64, **settings}
    return runs.experiment(runs.folder / "net.py", precision=precision, **asked)


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [
        {},
        {"fp8_recipe": "rowwise", "gradient_accumulation": 2, "clip_norm": 1.0},
        {"fp8_recipe": "rowwise_with_gw_hp", "activation_checkpointing": True},
    ],
)
def test_a_model_learns_in_fp8_nearly_as_in_bf16_and_a_little_differently(
    runs: OwnRuns, step: dict[str, Any]
) -> None:
    bf16, fp8 = (trained(experiment(runs, name, step=step)).losses for name in ("bf16", "fp8"))
    assert fp8 != bf16
    assert len(fp8) == 40 and fp8[-1] < 0.7 * fp8[0]
    assert fp8 == pytest.approx(bf16, abs=0.02 * fp8[0])


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[torch.dtype]:
    """The formats of the FP8 matmuls of a GPU's path, which PyTorch computes on a CPU as well."""
    made: list[torch.dtype] = []
    scaled_mm = torch._scaled_mm

    def noted(first: torch.Tensor, *others: Any, **settings: Any) -> torch.Tensor:
        made.append(first.dtype)
        return scaled_mm(first, *others, **settings)

    def convert(*model: Any, is_emulated: bool) -> None:
        tensor_cores.convert(*model, is_emulated=False)

    monkeypatch.setattr(torch, "_scaled_mm", noted)
    monkeypatch.setattr(plan, "convert", convert)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "each", "formats", "off"),
    [
        # an output and two gradients of each of 4 layers, and sums of other order
        ("tensorwise", 12, {torch.float8_e4m3fn, torch.float8_e5m2}, 0.01),
        ("rowwise", 12, {torch.float8_e4m3fn}, 1e-4),
        ("rowwise_with_gw_hp", 8, {torch.float8_e4m3fn}, 1e-4),
    ],
)
def test_the_path_of_a_gpu_trains_as_the_emulated_one(
    recipe: str,
    each: int,
    formats: set[torch.dtype],
    off: float,
    runs: OwnRuns,
    request: pytest.FixtureRequest,
) -> None:
    asked = experiment(runs, step={"fp8_recipe": recipe}, steps=6)
    emulated = trained(asked).losses
    made = request.getfixturevalue("products")
    assert trained(asked).losses == pytest.approx(emulated, abs=off)
    assert len(made) == 6 * each and set(made) == formats


@pytest.mark.slow
@pytest.mark.parametrize("part", ["map", "range", "nan"])
def test_numerics_look_through_the_path_of_a_gpu(
    part: Part, runs: OwnRuns, products: list[torch.dtype]
) -> None:
    *events, last = study_numerics(
        StudyNumerics(experiment=experiment(runs, steps=4), parts=(part,)), Control()
    )
    assert not isinstance(last, Failed) and products
    *_, measured = [event.result for event in events if isinstance(event, PartMeasured)]
    if isinstance(measured, PrecisionMap):
        assert any("scaled_mm" in operation.name for operation in measured.operations)
    if isinstance(measured, Ranges):
        assert {cast.dtype for cast in measured.casts} >= {"float8_e4m3fn"}


def test_a_run_says_which_layers_are_in_fp8_and_tells_no_speed(runs: OwnRuns) -> None:
    run = trained(experiment(runs, steps=12))
    assert run.started.notes[0] == LAYERS and run.started.hardly_faster is not None
    summary = run.summary
    assert (summary.samples_per_second, summary.step_ms, summary.speed_note) == (None, None, EMULATED_NOTE)
    assert f"Throughput: {EMULATED_NOTE}" in run.logs


def test_check_lists_each_linear_layer_with_the_tokens_of_a_batch(runs: OwnRuns) -> None:
    checked = check(experiment(runs, batch_size=10))
    rows = [(row.name, row.inputs, row.outputs, row.tokens, row.reason) for row in checked.linear_layers]
    assert rows[0] == ("1.1", 32, 64, 160, None)
    assert rows[-2:] == [
        ("3", 32, 36, 160, NotInFP8.SIZE),
        ("4", 36, 64, 160, NotInFP8.OUTPUT),
    ]
    said = [finding.message for finding in checked.findings]
    assert LAYERS in said and EMULATED_NOTE in said
    table = next(finding.detail for finding in checked.findings if finding.message == LAYERS)
    assert table.splitlines()[-2].split()[:4] == ["3", "32", "36", "160"]
    assert not checked.errors
    assert not check(experiment(runs, "bf16")).linear_layers


def test_a_model_of_convolutions_is_told_that_fp8_does_nothing_for_it() -> None:
    settings = {"model": "small-cnn", "dataset": "synthetic", "image_size": 16, "samples": 8, "batch_size": 8}
    cnn = experiment_from({**settings, "precision": "fp8", "device": "cpu", "steps": 1})
    (finding,) = [found for found in check(cnn).findings if found.kind is FindingKind.FP8]
    assert finding.severity == "warning" and "no effect" in finding.message
    assert "fp8" in trained(cnn).summary.left_out


@pytest.mark.slow
def test_a_forecast_counts_what_fp8_takes_beside_bf16(runs: OwnRuns) -> None:
    mine, other = (forecast(experiment(runs, name)) for name in ("fp8", "bf16"))
    assert mine.parameters_mib == other.parameters_mib
    assert mine.needed_mib >= 0.9 * other.needed_mib


def test_fsdp_and_devices_without_fp8_are_refused_with_a_sentence(
    runs: OwnRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    sharded = experiment(runs, devices=2, ranks={"strategy": "fsdp"})
    (problem,) = [found for found in problems(sharded, read_catalog()) if found.key == "precision"]
    assert "does not yet combine FP8 with FSDP2" in problem.message

    def why(entries: Any) -> str:
        (reason,) = (entry.reason or "" for entry in entries if entry.precision is Precision.FP8)
        return reason

    assert why(cuda_precisions((8, 9))) == why(cuda_precisions((9, 0))) == ""
    assert "capability 8.9" in why(cuda_precisions((8, 6))) and "NVIDIA" in why(
        other_accelerator_precisions()
    )
    monkeypatch.setattr("engine.training.precision.find_spec", lambda name: None)
    for entries in (cuda_precisions((9, 0)), cpu_precisions(Processor("CPU", 1_024.0))):
        assert "--with torchao" in why(entries)


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_a_compiled_model_learns_in_fp8_too(runs: OwnRuns) -> None:
    plain, compiled = (
        trained(experiment(runs, step={"recipe": recipe}, steps=5)) for recipe in ("plain", "compile")
    )
    assert compiled.summary.left_out == {} and compiled.summary.recipe == "compile"
    assert compiled.losses == pytest.approx(plain.losses, rel=0.02)
