"""The result of a comparison for continuous integration: a JUnit file, and a job summary in Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from engine.compare.requirement import Judgement
from engine.compare.sides import Side
from engine.compare.verdict import join_pieces
from engine.experiment.value import one_line, printable
from engine.export.content import Content
from engine.export.report.report import REQUIREMENTS, machine_line, report_of, requirements_section
from engine.export.writers.text import write_markdown
from engine.store.record import Status


def write_summary(content: Content, judgement: Judgement, path: Path) -> None:
    """Write the verdict, the requirements and the metrics as Markdown."""
    report = report_of(content)
    answer = report.answers[0]
    results = (
        section for section in report.sections if section.part == "answer" and section.title != REQUIREMENTS
    )
    machine = machine_line(content.comparison.sides)
    summary = replace(
        report,
        title=join_pieces(answer.pieces),
        answers=(replace(answer, pieces=()),),
        sections=(requirements_section(judgement), *results),
        made=" · ".join(filter(None, (machine, report.made))),
    )
    write_markdown(summary, path)


def write_junit(content: Content, judgement: Judgement, path: Path) -> None:
    """Write a test case for each requirement and side, or for each run if nothing is required.

    A case fails if the requirement is not met or the run failed. It is skipped if undecided or unfinished.
    """
    cases = list(_requirement_cases(content, judgement) if judgement.outcomes else _run_cases(content))
    failures, skipped = (str(sum(case.find(tag) is not None for case in cases)) for tag in _NOT_PASSED)
    counts = {"tests": str(len(cases)), "failures": failures, "errors": "0", "skipped": skipped}
    suites = ElementTree.Element("testsuites")
    ElementTree.SubElement(suites, "testsuite", counts, name="ammeter").extend(cases)
    ElementTree.indent(suites)
    ElementTree.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)


_NOT_PASSED = ("failure", "skipped")


def _requirement_cases(content: Content, judgement: Judgement) -> Iterator[ElementTree.Element]:
    for outcome in judgement.outcomes:
        report = content.comparison.report(outcome.side.id)
        text = f"{outcome.sentence}\n{report.text}"
        yield _case(outcome.requirement.text, report.side, outcome.is_met, outcome.reason, text)


def _run_cases(content: Content) -> Iterator[ElementTree.Element]:
    for report in content.comparison.reports:
        for run in report.side.runs:
            is_done = {Status.FINISHED: True, Status.FAILED: False}.get(run.status)
            reason = run.problem.message if run.problem is not None else run.status.value
            yield _case(report.side.name_of(run), report.side, is_done, reason, report.text)


def _case(name: str, side: Side, has_passed: bool | None, reason: str, text: str) -> ElementTree.Element:
    case = ElementTree.Element("testcase", name=one_line(name), classname=one_line(side.title))
    if has_passed is not True:
        tag = _NOT_PASSED[has_passed is None]
        ElementTree.SubElement(case, tag, message=one_line(reason))
    ElementTree.SubElement(case, "system-out").text = printable(text)
    return case
