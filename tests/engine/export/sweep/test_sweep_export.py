"""A sweep is exported as pictures, tables, data and a report."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from engine.experiment.sweep.grid import Axis, grid_of
from engine.experiment.sweep.plan import Plan
from engine.export.sweep.formats import SWEEP_FORMATS
from engine.protocol.events import Finished, Summary
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store


@pytest.fixture
def record(store: Store) -> SweepRecord:
    """Two precisions and two batch sizes: one cell is left out, one waits, the loss of one diverged."""
    grid = grid_of(
        {"steps": 10},
        [Axis(key="precision", values=("fp32", "bf16")), Axis(key="batch_size", values=(32, 64))],
    )
    sweep_id = store.sweeps.add(
        "=Night", grid, Plan(), device_name="a card", left_out={3: "It will not fit."}
    )
    comparison = store.sweeps.find(sweep_id).comparison
    for index, speed, loss in ((0, 1_000.0, float("nan")), (2, 1_500.0, 0.5)):
        run = store.add(
            grid.cells[index].experiment, comparison=comparison, sweep=sweep_id, cell=index, repeat=1
        )
        store.begin(run.id)
        summary = Summary(
            steps=10, samples_per_second=speed, peak_resident_mib=2_000.0, final_train_loss=loss
        )
        store.record(run.id, [Finished(summary=summary)])
    return store.sweeps.find(sweep_id)


def test_every_format_writes_its_files(record: SweepRecord, tmp_path: Path) -> None:
    for form in SWEEP_FORMATS.formats:
        SWEEP_FORMATS.export(record, tmp_path / f"x{form.suffix}")
    names = {path.name for path in tmp_path.glob("x*")}
    pictures = {f"x{name}{end}" for name in ("", "-lines", "-scatter") for end in (".png", ".svg")}
    assert names == pictures | {"x.html", "x.csv", "x.json", "x.md"}
    with Image.open(tmp_path / "x.png") as picture:
        assert picture.text["Title"] == "=Night" and picture.width == 2 * 926
    for path in tmp_path.glob("x*.svg"):
        ElementTree.parse(path)


def test_the_table_has_a_row_for_every_cell(record: SweepRecord, tmp_path: Path) -> None:
    path = SWEEP_FORMATS.export(record, tmp_path / "x.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["state"] for row in rows] == ["done", "waiting", "done", "left out"]
    assert rows[2]["precision"] == "bf16" and rows[2]["batch_size"] == "32"
    assert float(rows[2]["samples_per_second"]) == 1_500.0 and float(rows[2]["ratio"]) == 1.5
    assert rows[3]["why"] == "It will not fit." and rows[3]["ratio"] == ""


def test_json_has_the_grid_and_the_cells(record: SweepRecord, tmp_path: Path) -> None:
    value = json.loads(SWEEP_FORMATS.export(record, tmp_path / "x.json").read_text(encoding="utf-8"))
    assert value["axes"][1] == {"key": "batch_size", "values": [32, 64]} and value["plan"]["repeats"] == 1
    best = value["cells"][2]
    assert best["values"] == {"precision": "bf16", "batch_size": 32} and best["ratio"] == 1.5
    assert value["cells"][0]["figures"]["final_train_loss"] == "NaN" and len(best["runs"]) == 1


def test_the_report_has_all_pictures_and_the_cells(record: SweepRecord, tmp_path: Path) -> None:
    text = SWEEP_FORMATS.export(record, tmp_path / "x.html").read_text(encoding="utf-8")
    assert text.count("<svg ") == 3
    for words in (
        "Heat map",
        "Pareto",
        "All axes and figures",
        "1.50 times as fast",
        "The loss diverged in FP32",
    ):
        assert words in text, words
    assert "var(--heat-19)" in text and "--heat-19:" in text
    markdown = SWEEP_FORMATS.export(record, tmp_path / "x.md").read_text(encoding="utf-8")
    assert "| BF16 AMP | 32 | 1,500 | 1.50× |" in markdown


def test_a_sweep_without_results_is_exported_too(store: Store, tmp_path: Path) -> None:
    grid = grid_of({}, [Axis(key="precision", values=("fp32", "bf16"))])
    record = store.sweeps.find(store.sweeps.add("Later", grid, Plan(), device_name="a card"))
    for form in SWEEP_FORMATS.formats:
        assert SWEEP_FORMATS.export(record, tmp_path / f"y{form.suffix}").stat().st_size
