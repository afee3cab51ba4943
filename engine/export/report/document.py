"""The report of a comparison as a document: verdicts, figures, charts, settings, and the method."""

from __future__ import annotations

from collections.abc import Iterator

from engine.drawing.looks import By, ChartName
from engine.export.content import Content
from engine.export.document import Document, Section
from engine.export.kinds.profile import BAR, bars_picture
from engine.export.kinds.profile import answers as answers_of_profile
from engine.export.kinds.published import published_section
from engine.export.pictures.charts import Charts
from engine.export.report.report import Report, report_of
from engine.export.report.tables import SettingLine

_CHARTS: tuple[tuple[tuple[ChartName, By], ...], ...] = (
    (("throughput", "step"), ("memory", "step")),
    (("loss", "step"), ("loss", "seconds")),
    (("accuracy", "step"), ("accuracy", "seconds")),
)


def document(content: Content) -> Document:
    """The document of runs side by side, without charts."""
    return document_of_report(content, report_of(content))


def document_of_report(content: Content, report: Report, charts: Charts | None = None) -> Document:
    """The document of a report, with the `charts` of its runs."""
    return Document(
        report.title,
        report.subject,
        tuple(_sections(content, report, charts)),
        report.made,
        answers=report.answers,
        is_named=report.is_named,
        omitted=report.omitted,
        warnings=report.doubts,
        where=_where(report),
        most_rows=1_000,
    )


def _sections(content: Content, report: Report, charts: Charts | None) -> Iterator[Section]:
    titles = tuple(side.title for side in report.sides)
    if report.figures:
        yield Section(
            f"Figures, with ratios to {report.baseline.title}" if len(titles) > 1 else "Figures",
            headings=("Metric", *titles),
            rows=tuple((line.heading, *line.cells) for line in report.figures),
            right=titles,
        )
    if content.published:
        yield published_section(content.published)
    if content.timing is not None:
        yield Section(BAR, answers_of_profile(content.timing), pictures=(bars_picture(content.timing),))
    yield from () if charts is None else _charts(charts)
    if report.differing:
        rows = tuple((line.title, *line.values) for line in report.differing)
        yield Section("What differs", headings=("Setting", *titles), rows=rows, part="setup")
    if machine := _shared(report.environment):
        yield Section("Environment", pairs=machine, part="setup")
    if report.shared:
        title = "Settings that all share" if report.differing else "Settings"
        yield Section(title, pairs=_shared(report.shared), part="setup")
    yield Section("How it was measured", report.method, part="appendix")
    yield Section(
        "Runs",
        headings=("Run", "Side", "Seed", "Status", "Started", "Id"),
        rows=tuple((run.name, run.side, run.seed, run.status, run.when, run.id) for run in report.runs),
        part="appendix",
    )


def _charts(charts: Charts) -> Iterator[Section]:
    for names in _CHARTS:
        drawable = [chart for name, by in names if (chart := charts.chart(name, by)) is not None]
        if drawable:
            yield Section("", pictures=tuple(chart.picture for chart in drawable))


def _shared(lines: tuple[SettingLine, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((line.title, line.values[0]) for line in lines if line.is_shared)


def _where(report: Report) -> str:
    lines = [line for line in report.environment if line.key in ("device_name", "torch")]
    return ", ".join(
        f"{'PyTorch ' if line.key == 'torch' else ''}{' / '.join(dict.fromkeys(line.values))}"
        for line in lines
    )
