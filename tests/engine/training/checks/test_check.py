"""Check looks at any model of the catalog without training it."""

from __future__ import annotations

import pytest

from engine.experiment.experiment import Experiment, experiment_from
from engine.protocol.advice import FindingKind
from engine.training.checks.check import check

CATALOG = {
    "linear": {"dataset": "synthetic-regression"},
    "small-cnn": {"dataset": "fashion-mnist"},
    "causal-lm-tiny": {"dataset": "synthetic-tokens", "sequence_length": 16},
}


def experiment(model: str, **more: object) -> Experiment:
    settings = {"model": model, "device": "cpu", "samples": 64, "batch_size": 8, "steps": 1}
    return experiment_from({**settings, **CATALOG.get(model, {}), **more})


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
