"""What continuous integration shows of a comparison: a JUnit file, and a job summary in Markdown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from engine.compare.requirement import Judgement, judge, parse
from engine.export.content import Content, content_of
from engine.export.report.ci import write_junit, write_summary
from engine.export.report.report import REQUIREMENTS, report_of
from engine.store.store import Store
from tests.golden import Golden

Trained = Callable[..., str]


@pytest.fixture
def three(exports_store: Store, trained: Trained) -> Content:
    """FP32, a faster FP16 and a disturbed BF16, two runs each, alternating."""
    note = "other programs used 34% of the GPU during the run"
    sides = {
        "fp32": (1_000.0, None, 2_048.0),
        "fp16": (2_500.0, None, 1_500.0),
        "bf16": (900.0, note, 1_600.0),
    }
    ids = [
        trained(precision, seed=seed, speed=speed + seed, speed_note=disturbed, peak_mib=peak)
        for seed, order in enumerate((list(sides), list(reversed(sides))))
        for precision in order
        for speed, disturbed, peak in (sides[precision],)
    ]
    return content_of(exports_store, ids, ids[0])


def judged(content: Content) -> Judgement:
    return judge(content.comparison, [parse("speed >= 1.5"), parse("memory <= 0.75"), parse("loss")])


def test_the_words_of_a_job_summary(three: Content, golden: Golden, tmp_path: Path) -> None:
    write_summary(three, judged(three), tmp_path / "summary.md")
    golden((tmp_path / "summary.md").read_text(encoding="utf-8"), "summary")


@pytest.mark.parametrize("name", ["requirements", "runs"])
def test_the_words_of_junit(three: Content, golden: Golden, tmp_path: Path, name: str) -> None:
    write_junit(three, judged(three) if name == "requirements" else Judgement(()), tmp_path / "junit.xml")
    golden((tmp_path / "junit.xml").read_text(encoding="utf-8"), f"junit-{name}")


def test_junit_counts_what_failed_and_stays_valid_with_any_name(hostile: Content, tmp_path: Path) -> None:
    for number, judgement in enumerate((judged(hostile), Judgement(()))):
        path = tmp_path / f"{number}.xml"
        write_junit(hostile, judgement, path)
        suite = ElementTree.parse(path).getroot()[0]
        cases = suite.findall("testcase")
        assert len(cases) == int(suite.attrib["tests"]) == (15 if judgement.outcomes else 6)
        assert len(suite.findall("testcase/skipped")) == int(suite.attrib["skipped"]) > 0
        assert len(suite.findall("testcase/failure")) == int(suite.attrib["failures"])
        assert all(case.findtext("system-out") for case in cases)


def test_saved_requirements_are_in_the_report_and_once_in_a_job_summary(
    exports_store: Store, trained: Trained, tmp_path: Path
) -> None:
    ids = [
        trained(speed=speed, command={"line": line, "folder": "nano", "require": "speed >= 1.5, loss"})
        for line, speed in (("python train.py", 1_000.0), ("python train.py --amp", 2_000.0))
    ]
    content = content_of(exports_store, ids)
    (section,) = (one for one in report_of(content).sections if one.title == REQUIREMENTS)
    assert [row[:2] for row in section.rows] == [("speed >= 1.5", "Cannot tell"), ("loss", "Cannot tell")]
    write_summary(content, judge(content.comparison, [parse("loss")]), tmp_path / "summary.md")
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert summary.count(REQUIREMENTS) == 1 and "| loss | Cannot tell |" in summary and "1.5" not in summary
