"""What the filter above the runs table finds: words anywhere, and words with a key in one place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.experiment import Experiment, Precision, Step
from engine.protocol.events import Finished, Summary
from engine.store.record import RunRecord, Status
from engine.store.store import Store
from gui.runs.table.rows import RowFilter, RunRow
from tests.gui.runs.conftest import FAULT, run

FAST = Step(recipe="fast")


def changed(number: int, settings: Experiment, **more: Any) -> RunRecord:
    whole = Summary(recipe=settings.step.recipe)
    return replace(run(number), experiment=settings, **{"summary": whole, "problem": None, **more})


RUNS = (
    changed(1, Experiment(precision=Precision.FP16, batch_size=64), tags=("Paper", "figure 2")),
    changed(2, Experiment(precision=Precision.FP16_UNSCALED, batch_size=640), note="Try: again."),
    changed(3, Experiment(model="resnet50", step=FAST), status=Status.FAILED, problem=FAULT, name="FP16?"),
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {1, 2, 3}),
        ("   ", {1, 2, 3}),
        ("fp16", {1, 2, 3}),
        ("FP16 small-cnn", {1, 2}),
        ("precision:fp16", {1}),
        ("precision:unscaled", {2}),
        ("precision:fp1", {1, 2}),
        ("batch:64", {1, 3}),
        ("tag:paper", {1}),
        ("TAG:PAP", {1}),
        ("tag:", {1}),
        ('tag:"figure 2"', {1}),
        ('tag:"figure', {1}),
        ('"figure 2" paper', {1}),
        ("tag:again", set()),
        ("note:again", {2}),
        ("again", {2}),
        ("try:", {2}),
        ("model:resnet50 status:failed", {3}),
        ("status:memory", {3}),
        ("failed", {3}),
        ("out of memory", {3}),
        ("recipe:fast", {3}),
        ("name:fp16", {3}),
        ("colour:red", set()),
        ('"', {1, 2, 3}),
    ],
)
def test_it_finds(text: str, found: set[int]) -> None:
    search = RowFilter(text)
    assert {one.number for one in RUNS if search(RunRow(one))} == found


def test_a_run_is_found_by_the_recipe_that_it_asks_for_whatever_came_of_it() -> None:
    queued = replace(RUNS[2], status=Status.QUEUED, summary=None)
    assert RowFilter("recipe:fast status:queued")(RunRow(queued))
    assert RowFilter("recipe:fast")(RunRow(replace(queued, summary=Summary(recipe="fused"))))


def test_a_run_from_the_store_is_found_as_one_that_is_known_whole(home: Path) -> None:
    with Store(home / "ammeter.sqlite") as store:
        run_id = store.add(
            Experiment(model="resnet50", precision=Precision.BF16, batch_size=96, step=FAST)
        ).id
        store.record(run_id, [Finished(summary=Summary(recipe="fast"))])
        (kept,) = store.runs()
    for text in ("resnet50", "precision:bf16", "batch:96", "recipe:fast", "status:finished"):
        assert RowFilter(text)(RunRow(kept)), text
    assert not RowFilter("batch:9")(RunRow(kept))
