"""A saved diagnosis as a report, CSV and JSON: whole, atomic, and with text that does nothing."""

from __future__ import annotations

import csv
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from engine.experiment.problem import ProblemError
from engine.export.diagnosis.formats import DIAGNOSIS_FORMATS
from engine.export.diagnosis.report import page
from engine.export.sections.formats import SavedFormat
from engine.protocol.numerics.diagnosis import Numerics
from engine.store.saved.study import Study


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)


def rows_in(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_report_shows_every_part_and_runs_nothing(saved: Study[Numerics]) -> None:
    text = page(saved)
    found = Tags(text).tags
    assert "script" not in found and "default-src &#39;none&#39;" in text
    assert found.count("table") == 5 and found.count("svg") >= 4
    for words in (
        "In step 3 fc overflowed.",
        "FP16 parts from FP32 at step 2.",
        "Only fc must stay in FP32.",
    ):
        assert words in text
    assert "&lt;script&gt;alert(1)" in text


def test_csv_has_a_file_for_each_table_and_no_formulas(saved: Study[Numerics], tmp_path: Path) -> None:
    DIAGNOSIS_FORMATS.export(saved, tmp_path / "x.csv")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"x.csv", *(f"x-{name}.csv" for name in ("map", "range", "ladder", "islands", "advice"))}
    operations = rows_in(tmp_path / "x-map.csv")
    assert [row["module"] for row in operations] == ["fc", "fc", "'=cmd|'/c calc'!A1", "(loss)"]
    assert operations[0]["is_cast"] == "True" and operations[1]["computed_in"] == "float16"
    gradients, _ = rows_in(tmp_path / "x-range.csv")
    assert gradients["float16_underflow"] == "0.25"  # at the loss scale, as in the table
    steps = rows_in(tmp_path / "x-ladder.csv")
    assert [(row["rung"], row["step"], row["loss"]) for row in steps[-2:]] == [
        ("FP16", "1", "2.0"),
        ("FP16", "2", "NaN"),
    ]
    assert rows_in(tmp_path / "x-advice.csv")[0]["changes"] == "precision: fp32"
    sentences = [row["sentence"] for row in rows_in(tmp_path / "x.csv")]
    assert "Keep fc in FP32." in sentences and "Only FP16 parts." in sentences


def test_json_has_what_the_verb_prints_and_the_experiment(saved: Study[Numerics], tmp_path: Path) -> None:
    value = json.loads(DIAGNOSIS_FORMATS.export(saved, tmp_path / "x.json").read_text(encoding="utf-8"))
    assert value["first_nonfinite"]["module"] == "fc" and value["first_nonfinite"]["most"] == "Infinity"
    assert value["fp32_modules"] == ["fc"] and len(value["map"]) == 4 and value["advice"]
    assert value["ladder"]["rungs"][0]["losses"] == [2.0, "NaN"]
    assert value["experiment"]["precision"] == "fp16" and value["device"] == "a card"
    assert value["about"]["islands"]["is_minimal"] and value["about"]["map"]["attributed_fraction"] == 0.995


@pytest.mark.parametrize("form", DIAGNOSIS_FORMATS.formats, ids=lambda form: form.suffix)
def test_what_is_there_stays_without_force(
    saved: Study[Numerics], tmp_path: Path, form: SavedFormat[Study[Numerics]]
) -> None:
    path = tmp_path / f"x{form.suffix}"
    path.write_text("mine")
    for refuse in (DIAGNOSIS_FORMATS.check, lambda to: DIAGNOSIS_FORMATS.export(saved, to)):
        with pytest.raises(ProblemError, match="already there"):
            refuse(path)
    assert path.read_text() == "mine"
    DIAGNOSIS_FORMATS.export(saved, path, force=True)
    assert path.read_text(encoding="utf-8") != "mine"


@pytest.mark.parametrize(("name", "said"), [("x.pdf", "names no format"), ("gone/x.csv", "no folder")])
def test_a_path_that_cannot_be_written_is_refused_before_the_diagnosis(
    tmp_path: Path, name: str, said: str
) -> None:
    with pytest.raises(ProblemError, match=said):
        DIAGNOSIS_FORMATS.check(tmp_path / name)
