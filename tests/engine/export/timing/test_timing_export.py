"""A saved timing as sections, a report, CSV, JSON and traces."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from engine import __version__
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.export.sections.section import Section
from engine.export.timing.formats import TIMING_FORMATS, TRACE_FORMATS
from engine.export.timing.report import page
from engine.export.timing.tables import BAR, LIMITS, sections
from engine.protocol.timing.profile import StepProfile
from engine.protocol.timing.timing import Timing, TimingSide
from engine.store.saved.study import Study
from engine.timing.names import failures

MARKUP = "<script>alert(1)</script>"
PROBLEM = Problem(kind=Kind.OUT_OF_MEMORY, message=f"No room {MARKUP}.", remedy="Use a smaller batch.")


def record_of(timing: Timing, folder: Path) -> Study[Timing]:
    created = datetime(2026, 1, 1, tzinfo=UTC)
    return Study(id="0123456789ab", created=created, device_name="a card", answer=timing, folder=folder)


@pytest.fixture
def record(timing: Timing, tmp_path: Path) -> Study[Timing]:
    """Two sides with traces, and one that failed."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for place in range(2):
        profile = timing.sides[place].profile
        assert profile is not None
        timing = timing.with_side(place, profile=profile.model_copy(update={"trace": f"{place}.json.gz"}))
        (folder / f"{place}.json.gz").write_text(f"trace {place}")
    failed = TimingSide(experiment=timing.sides[0].experiment.model_copy(update={"seed": 3}), problem=PROBLEM)
    return record_of(Timing(sides=(*timing.sides, failed)), folder)


def by_title(timing: Timing, most_rows: int | None = None, *, brief: bool = False) -> dict[str, Section]:
    return {section.title: section for section in sections(timing, most_rows, brief=brief)}


def rows_in(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)


def test_the_sections_hold_the_sides_against_each_other(timing: Timing) -> None:
    parts = by_title(timing)
    assert list(parts) == [BAR, LIMITS, "Energy", "Kernels", "Operations", "Modules", "Advice"]
    assert parts[BAR].sentences[0].startswith("FP16 AMP is 2.")
    assert parts[BAR].rows[1][:2] == ("Matrix work without Tensor Cores", "58.0")
    assert parts[BAR].rows[-1][0] == "A validation batch, apart"
    assert [row[0] for row in parts[LIMITS].rows] == ["FP32", "FP16 AMP"] and "MFU" in parts[LIMITS].notes[0]
    norm = next(row for row in parts["Operations"].rows if row[0] == "aten::cudnn_batch_norm")
    assert norm[-1] == "1.68×" and len(norm) == len(parts["Operations"].headings)
    assert {row[0] for row in parts["Advice"].rows} == {"FP32, FP16 AMP"}


def test_tables_of_several_sides_leave_out_what_would_not_fit_a_page(timing: Timing) -> None:
    alone, both = (by_title(Timing(sides=timing.sides[:count]))["Kernels"].headings for count in (1, 2))
    assert {"Share", "Calls"} < set(alone)
    assert both[-1] == "Ratio" and not any(heading.endswith(("Share", "Calls")) for heading in both)


def test_a_terminal_gets_fewer_rows_and_columns_and_shorter_names(timing: Timing) -> None:
    whole, brief = (by_title(timing, 2, brief=is_brief)["Kernels"] for is_brief in (False, True))
    assert whole.left_out == brief.left_out == 1
    assert set(brief.headings) < set(whole.headings) and "FP16 AMP TC" in brief.headings
    assert {row[1] for row in brief.rows} == {"aten::cudnn_convolution", "aten::cudnn_batch_norm"}
    assert max(len(row[0]) for row in brief.rows) <= 40 < max(len(row[0]) for row in whole.rows)


def test_what_a_cpu_reaches_is_in_gflops_and_nothing_launches_its_kernels(
    fp32_profile: StepProfile, timing: Timing
) -> None:
    slow = tuple(
        row.model_copy(update={"ms": 1e3 * row.ms, "operation": None}) for row in fp32_profile.kernels
    )
    side = timing.sides[0].model_copy(update={"profile": fp32_profile.model_copy(update={"kernels": slow})})
    kernels = by_title(Timing(sides=(side,)), brief=True)["Kernels"]
    assert kernels.headings == ("Kernel", "ms", "TC", "GFLOP/s")
    assert kernels.rows[0][1:] == ("34,800", "no", "27.6")


def test_a_single_side_is_not_named_and_one_without_a_profile_says_why(
    fp32_profile: StepProfile, timing: Timing
) -> None:
    alone = Timing(sides=timing.sides[:1])
    parts = by_title(alone)
    assert parts[BAR].sentences[0].startswith("Matrix work") and parts["Advice"].headings[0] == "Advice"
    assert parts["Operations"].headings[1] == "Share" and "Ratio" not in parts["Kernels"].headings
    failed = alone.with_side(0, profile=None, problem=PROBLEM)
    assert sections(failed) == () and failures(failed)[0].endswith("Use a smaller batch.")


def test_the_report_has_the_bars_and_every_table_and_runs_nothing(record: Study[Timing]) -> None:
    text = page(record)
    tags = Tags(text).tags
    assert "script" not in tags and tags.count("table") == 6 and tags.count("svg") == 2
    assert "Where the time of resnet50 goes" in text and "No room &lt;script&gt;" in text


def test_a_timing_without_a_profile_is_a_page_all_the_same(timing: Timing, tmp_path: Path) -> None:
    failed = timing.with_side(0, profile=None, problem=PROBLEM).with_side(1, profile=None, problem=PROBLEM)
    assert "No part of the timing was finished." in page(record_of(failed, tmp_path))


def test_csv_has_a_row_for_each_side_beside_the_sentences(record: Study[Timing], tmp_path: Path) -> None:
    TIMING_FORMATS.export(record, tmp_path / "x.csv")
    sides = rows_in(tmp_path / "x-sides.csv")
    assert [side["side"] for side in sides] == ["FP32", "FP16 AMP"]
    assert float(sides[1]["peak_fp16_tflops"]) == 711 and 0 < float(sides[1]["mfu"]) < 1
    kernels = rows_in(tmp_path / "x-kernels.csv")
    assert len(kernels) == 4 and float(kernels[0]["tflops"]) > 0 and kernels[1]["tflops"] == ""
    wanted = ("FP32", "step", "memory")
    (memory,) = [
        row for row in rows_in(tmp_path / "x-parts.csv") if (row["side"], row["of"], row["part"]) == wanted
    ]
    assert float(memory["ms"]) == 21
    assert any(row["part"] == BAR for row in rows_in(tmp_path / "x.csv"))


def test_json_has_what_the_verb_prints_the_device_and_the_versions(
    record: Study[Timing], tmp_path: Path
) -> None:
    older = replace(record, ammeter="0.0.9")
    value = json.loads(TIMING_FORMATS.export(older, tmp_path / "x.json").read_text(encoding="utf-8"))
    assert (value["ammeter"], value["made_with"]) == (__version__, "0.0.9")
    first, second, failed = value["sides"]
    assert value["device"] == "a card" and first["experiment"]["model"] == "resnet50"
    assert first["gain"] is None and second["gain"]["ratio"] > 2 and second["verdict"]["sentence"]
    assert failed["profile"] is None and failed["problem"]["kind"] == "out-of-memory"


def test_traces_are_copied_the_second_beside_the_first(record: Study[Timing], tmp_path: Path) -> None:
    path = TRACE_FORMATS.export(record, tmp_path / "x.json.gz")
    assert (path.read_text(), (tmp_path / "x-2.json.gz").read_text()) == ("trace 0", "trace 1")
    (tmp_path / "traces" / "0.json.gz").unlink()
    (tmp_path / "traces" / "1.json.gz").unlink()
    with pytest.raises(ProblemError, match="no trace"):
        TRACE_FORMATS.export(record, path, force=True)
    assert path.read_text() == "trace 0"
