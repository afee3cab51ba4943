"""A sweep is exported as pictures, tables, data and a report."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from engine.experiment.repeats import Plan
from engine.experiment.sweep import Axis, grid_of
from engine.export.formats import SWEEP
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store


def test_a_sweep_is_a_table_data_and_a_report_with_pictures(swept: SweepRecord, tmp_path: Path) -> None:
    path = SWEEP.export(swept, tmp_path / "x.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["state"] for row in rows] == ["done", "waiting", "done", "left out"]
    assert rows[2]["precision"] == "bf16" and rows[2]["batch_size"] == "32"
    assert float(rows[2]["samples_per_second"]) == 1_500.0 and float(rows[2]["ratio"]) == 1.5
    assert rows[3]["why"] == "It will not fit." and rows[3]["ratio"] == ""
    value = json.loads(SWEEP.export(swept, tmp_path / "x.json").read_text(encoding="utf-8"))
    assert value["axes"][1] == {"key": "batch_size", "values": [32, 64]} and value["plan"]["repeats"] == 1
    best = value["cells"][2]
    assert best["values"] == {"precision": "bf16", "batch_size": 32} and best["ratio"] == 1.5
    assert value["cells"][0]["figures"]["final_train_loss"] == "NaN" and len(best["runs"]) == 1
    text = SWEEP.export(swept, tmp_path / "x.html").read_text(encoding="utf-8")
    assert text.count("<svg ") == 3 * 3
    assert all(words in text for words in ("Heat map", "Pareto", "Trade-offs"))
    assert "var(--heat-7)" in text and "--heat-7:" in text
    markdown = SWEEP.export(swept, tmp_path / "x.md").read_text(encoding="utf-8")
    assert "| BF16 AMP | 32 | 1,500 | 1.50× |" in markdown


def test_a_sweep_without_results_is_exported_too(store: Store, tmp_path: Path) -> None:
    grid = grid_of({}, [Axis(key="precision", values=("fp32", "bf16"))])
    record = store.sweeps.find(store.sweeps.add("Later", grid, Plan(), device_name="a card"))
    for form in SWEEP.formats:
        assert SWEEP.export(record, tmp_path / f"y{form.suffix}").stat().st_size
