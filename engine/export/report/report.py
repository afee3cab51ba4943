"""The report of a comparison: verdicts, figures, what differs, and how it was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.compare.comparison import Comparison, SideReport
from engine.compare.evidence import Doubt
from engine.compare.figures import energy_of
from engine.compare.sides import Side, all_runs
from engine.experiment.experiment import Experiment
from engine.export.content import Content
from engine.export.document import Answer, Document, Section
from engine.export.kinds.profile import BAR, bars_picture
from engine.export.kinds.profile import answers as answers_of_profile
from engine.export.kinds.published import published_section
from engine.export.report.tables import SettingLine, environment_lines, figure_rows, setting_lines
from engine.words.names import dataset_words

_MOST_SIDES = 6


@dataclass(frozen=True)
class Report(Document):
    """The document of a comparison; its tables have a column for each of `sides`.

    `warnings` are the doubts that no answer mentions, and `disturbances` what makes a measurement unclean.
    `differing` are settings, and facts of the machine, that the sides do not share. `baseline` is an id.
    """

    sides: tuple[Side, ...] = ()
    baseline: str = ""
    disturbances: tuple[str, ...] = ()
    differing: tuple[SettingLine, ...] = ()
    shared: tuple[SettingLine, ...] = ()
    environment: tuple[SettingLine, ...] = ()


def report_of(content: Content, drawn: Iterable[Section] = ()) -> Report:
    """The report of a content, led by the chosen side, or else by the fastest that did the same work.

    The charts that are `drawn` follow its figures.
    """
    comparison = content.comparison
    reports = [
        report for report in comparison.reports if not report.is_baseline or len(comparison.sides) == 1
    ]
    reports = sorted(reports, key=lambda report: (not report.side.holds(content.leading), *_rank(report)))
    answers = [_answer(report) for report in reports]
    settings, environment = setting_lines(comparison.all_settings), environment_lines(comparison.sides)
    differing = tuple(line for line in (*settings, *environment) if not line.is_shared)
    shared = tuple(line for line in settings if line.is_shared)
    moment = content.created.astimezone()
    return Report(
        title=content.title or _title(answers[0].side, comparison.baseline),
        is_named=bool(content.title),
        subject=subject_of(comparison),
        sections=(
            *_results(content),
            *drawn,
            *_setup(comparison.sides, differing, shared, environment),
            Section("How it was measured", _method(content), part="appendix"),
            _runs(comparison.sides),
        ),
        made=f"Made by Ammeter {content.version}, {moment:%Y-%m-%d %H:%M}",
        where=_where(environment),
        answers=tuple(answers[:_MOST_SIDES]),
        omitted=_omitted(len(answers[_MOST_SIDES:])),
        warnings=_doubts(comparison),
        most_rows=1_000,
        undrawn="These runs have nothing to draw.",
        sides=comparison.sides,
        baseline=comparison.baseline.id,
        disturbances=_sentences(doubt for report in comparison.reports for doubt in report.spoilers),
        differing=differing,
        shared=shared,
        environment=environment,
    )


def _results(content: Content) -> Iterator[Section]:
    comparison = content.comparison
    titles = tuple(side.title for side in comparison.sides)
    if rows := figure_rows(comparison):
        against = f", with ratios to {comparison.baseline.title}" if len(titles) > 1 else ""
        headings = ("Metric", *titles)
        yield Section(
            f"Figures{against}", headings=headings, rows=rows, right=titles, template="figures.html"
        )
    if content.published:
        yield published_section(content.published)
    if content.profiles is not None:
        yield Section(BAR, answers_of_profile(content.profiles), pictures=(bars_picture(content.profiles),))


def _setup(
    sides: Sequence[Side],
    differing: Sequence[SettingLine],
    shared: Sequence[SettingLine],
    environment: Sequence[SettingLine],
) -> Iterator[Section]:
    if differing:
        headings = ("Setting", *(side.title for side in sides))
        rows = tuple((line.title, *line.values) for line in differing)
        yield Section("What differs", headings=headings, rows=rows, part="setup")
    if machine := tuple((line.title, line.values[0]) for line in environment if line.is_shared):
        yield Section("Environment", pairs=machine, part="setup")
    if shared:
        pairs = tuple((line.title, line.values[0]) for line in shared)
        yield Section("Settings that all share" if differing else "Settings", pairs=pairs, part="setup")


def _runs(sides: Sequence[Side]) -> Section:
    rows = tuple(
        (
            run.name,
            side.title,
            str(run.experiment.seed),
            run.status.value,
            f"{(run.started or run.created).astimezone():%Y-%m-%d %H:%M}",
            run.id,
        )
        for side in sides
        for run in side.runs
    )
    headings = ("Run", "Side", "Seed", "Status", "Started", "Id")
    return Section("Runs", headings=headings, rows=rows, part="appendix")


def _where(environment: Sequence[SettingLine]) -> str:
    lines = [line for line in environment if line.key in ("device_name", "torch")]
    return ", ".join(
        f"{'PyTorch ' if line.key == 'torch' else ''}{' / '.join(dict.fromkeys(line.values))}"
        for line in lines
    )


def _omitted(count: int) -> str:
    are = "side is" if count == 1 else "sides are"
    return f"{count:,} more {are} in the tables." if count else ""


def _rank(report: SideReport) -> tuple[bool, bool, float]:
    is_unlike = any(doubt.kind in ("workload", "setting", "device") for doubt in report.doubts)
    return bool(report.spoilers), is_unlike, -(report.verdict.speedup or 0.0)


def _title(leading: Side, baseline: Side) -> str:
    if leading.id == baseline.id:
        return f"{leading.runs[0].name}, {leading.title}"
    return f"{leading.title} against {baseline.title}"


def _answer(report: SideReport) -> Answer:
    notes = [*report.verdict.notes]
    if report.split is not None:
        notes.append(_ended(report.split.sentence))
    if report.verdict.outcome == "alone":
        notes += _without_speed(report)
    return Answer(report.side, report.verdict.pieces, tuple(notes))


def _without_speed(report: SideReport) -> list[str]:
    """What else is known of a single run that has no speed."""
    run = report.side.runs[0]
    if report.verdict.speedup is not None or run.summary is None or not run.summary.steps:
        return []
    loss = run.summary.final_train_loss
    reached = (
        f" to a mean loss of {loss:.3f} in the last epoch" if loss is not None and math.isfinite(loss) else ""
    )
    return [f"{report.side.title} trained {run.summary.steps:,} steps{reached}."]


def _doubts(comparison: Comparison) -> tuple[str, ...]:
    """Every doubt once, except those that a verdict mentions."""
    cited = {doubt.sentence for report in comparison.reports for doubt in report.verdict.cited}
    doubts = _sentences(doubt for report in comparison.reports for doubt in report.doubts)
    return tuple(doubt for doubt in doubts if doubt not in cited)


def _sentences(doubts: Iterable[Doubt]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(doubt.sentence for doubt in doubts))


def _ended(sentence: str) -> str:
    capitalized = sentence[:1].upper() + sentence[1:]
    return capitalized if capitalized.endswith((".", "!", "?")) else f"{capitalized}."


def subject_of(comparison: Comparison) -> str:
    """What was trained, as far as all sides share it."""
    runs = all_runs(comparison.sides)
    experiments = [run.experiment for run in runs]
    parts = [
        _common([experiment.model for experiment in experiments], "{} models"),
        _common([dataset_words(experiment.dataset) for experiment in experiments], "{} datasets"),
        _common([f"batch {experiment.batch_size:,}" for experiment in experiments], "{} batch sizes"),
        _common([_length(run.total_steps) for run in runs], "{} lengths"),
    ]
    repeats = sorted({len(side.runs) for side in comparison.sides})
    if repeats != [1]:
        parts.append(f"{' to '.join(map(str, dict.fromkeys((repeats[0], repeats[-1]))))} repeats")
    return " · ".join([*(part for part in parts if part), "warm-up excluded"])


def _common(values: Sequence[str], otherwise: str) -> str:
    known = sorted({value for value in values if value})
    return known[0] if len(known) == 1 else otherwise.format(len(known)) if known else ""


def _length(steps: int | None) -> str:
    return f"{steps:,} steps" if steps else ""


def _method(content: Content) -> tuple[str, ...]:
    """How it was measured, in sentences."""
    measures = [experiment.measure for experiment in _experiments(content)]
    warmups = _range([measure.warmup_steps for measure in measures])
    blocks = _range([measure.block_steps for measure in measures])
    sentences = [
        f"Speed is the median over blocks of {blocks} steps. The first {_steps(warmups)}"
        " warm-up, and more while compiling or capturing: they train, but are not counted.",
        "Memory is the peak of training, warm-up excluded; ratios compare only peaks of the same kind.",
    ]
    if any(energy_of(run) is not None for run in content.runs):
        sentences.append(
            "Energy is that of the measured steps, by the device's own counter: NVML's of the graphics card,"
            " or RAPL's of the processor packages. It includes what the idle device takes, which was measured"
            " before the run; the energy above idle is without it."
        )
    if all(len(side.runs) == 1 for side in content.comparison.sides):
        sentences.append(
            "Each side was trained once. An interval says how steady that run was; how much runs differ from"
            " each other is not known, so no interval of a ratio is given."
        )
    else:
        sentences.append(
            "Repeats are runs in processes of their own. Intervals of ratios (95 %) come from the repeats and"
            " the blocks in them. Speeds, times and memory are geometric means over the repeats, accuracy and"
            " loss arithmetic means. The ratio of the geometric means is that of the pairs in which the"
            " repeats were trained, so a drift of the machine cancels out."
        )
    sentences.append(
        "The line of a loss is smoothed: at each step a straight line is fitted to the 15 steps around it,"
        " or to a fortieth of a long run. The pale band behind it reaches from the lowest to the highest"
        " value recorded."
    )
    return tuple(sentences)


def _steps(count: str) -> str:
    return "step of each run is" if count == "1" else f"{count} steps of each run are"


def _experiments(content: Content) -> list[Experiment]:
    return [run.experiment for run in content.runs]


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
