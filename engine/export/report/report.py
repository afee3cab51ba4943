"""The report as text and tables, before it becomes a page, a PDF, Markdown or LaTeX."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.compare.comparison import Comparison, SideReport
from engine.compare.evidence import Doubt
from engine.compare.sides import Side, all_runs
from engine.compare.verdict import Pieces, plain
from engine.experiment.experiment import Experiment
from engine.export.content import Content
from engine.export.report.tables import (
    FigureLine,
    RunLine,
    SettingLine,
    environment_lines,
    figure_lines,
    run_lines,
    setting_lines,
)

_MOST_TOLD = 6


@dataclass(frozen=True)
class Answer:
    """What came out for one side: the verdict in pieces, and in small print what else is known of it."""

    side: Side
    pieces: Pieces
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of it in sentences."""
        return " ".join([plain(self.pieces), *self.notes])


@dataclass(frozen=True)
class Report:
    """Everything a reader is told, in the order told; tables have a column for each of `sides`.

    `title` is what a person called it where it `is_named`. `untold` is how many sides stand in the tables
    alone. `doubts` are those that no answer tells itself, and `disturbances` what makes a measurement no
    clean one. `differing` are settings, and facts of the machine, that the sides do not share.
    """

    title: str
    is_named: bool
    subject: str
    answers: tuple[Answer, ...]
    untold: int
    doubts: tuple[str, ...]
    disturbances: tuple[str, ...]
    sides: tuple[Side, ...]
    baseline: Side
    figures: tuple[FigureLine, ...]
    differing: tuple[SettingLine, ...]
    shared: tuple[SettingLine, ...]
    environment: tuple[SettingLine, ...]
    runs: tuple[RunLine, ...]
    method: tuple[str, ...]
    made: str


def report_of(content: Content) -> Report:
    """The report of a content: the side that was chosen leads, else the fastest of the same work."""
    comparison = content.comparison
    reports = [one for one in comparison.reports if not one.is_baseline or len(comparison.sides) == 1]
    reports = sorted(reports, key=lambda one: (not one.side.holds(content.leading), *_rank(one)))
    answers = [_answer(one) for one in reports]
    settings = setting_lines(comparison.all_settings)
    environment = environment_lines(comparison.sides)
    moment = content.created.astimezone()
    return Report(
        title=content.title or _title(answers[0].side, comparison.baseline),
        is_named=bool(content.title),
        subject=subject_of(comparison),
        answers=tuple(answers[:_MOST_TOLD]),
        untold=len(answers[_MOST_TOLD:]),
        doubts=_doubts(comparison),
        disturbances=_sentences(doubt for one in comparison.reports for doubt in one.spoilers),
        sides=comparison.sides,
        baseline=comparison.baseline,
        figures=figure_lines(comparison),
        differing=tuple(line for line in (*settings, *environment) if not line.is_shared),
        shared=tuple(line for line in settings if line.is_shared),
        environment=environment,
        runs=run_lines(comparison.sides),
        method=_method(content),
        made=f"Made by Ammeter {content.version}, {moment:%Y-%m-%d %H:%M}",
    )


def untold_words(report: Report) -> str:
    """Where the sides are that no sentence was written for; "" if there are none."""
    if not report.untold:
        return ""
    return f"{report.untold:,} more {'side is' if report.untold == 1 else 'sides are'} in the tables."


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
    """What is known of a single run that has no speed, since its sentence says nothing else."""
    run = report.side.runs[0]
    if report.verdict.speedup is not None or run.summary is None or not run.summary.steps:
        return []
    loss = run.summary.final_train_loss
    reached = (
        f" to a mean loss of {loss:.3f} in the last epoch" if loss is not None and math.isfinite(loss) else ""
    )
    return [f"{report.side.title} trained {run.summary.steps:,} steps{reached}."]


def _doubts(comparison: Comparison) -> tuple[str, ...]:
    """Every doubt once, but for those that a verdict tells already."""
    told = {doubt.sentence for report in comparison.reports for doubt in report.verdict.told}
    doubts = _sentences(doubt for report in comparison.reports for doubt in report.doubts)
    return tuple(doubt for doubt in doubts if doubt not in told)


def _sentences(doubts: Iterable[Doubt]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(doubt.sentence for doubt in doubts))


def _ended(sentence: str) -> str:
    begun = sentence[:1].upper() + sentence[1:]
    return begun if begun.endswith((".", "!", "?")) else f"{begun}."


def subject_of(comparison: Comparison) -> str:
    """What was trained, as far as all sides have it in common."""
    runs = all_runs(comparison.sides)
    experiments = [run.experiment for run in runs]
    parts = [
        _common([one.model for one in experiments], "{} models"),
        _common([one.dataset for one in experiments], "{} datasets"),
        _common([f"batch {one.batch_size:,}" for one in experiments], "{} batch sizes"),
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
    measures = {(one.measure.warmup_steps, one.measure.block_steps) for one in _experiments(content)}
    warmups = _range([warmup for warmup, _block in measures])
    blocks = _range([block for _warmup, block in measures])
    sentences = [
        f"Speed is the median over blocks of {blocks} steps. The first {_steps(warmups)}"
        " warm-up, and more while compiling or capturing: they train, but are not counted.",
        "Memory is the peak of training, warm-up excluded; ratios compare peaks of one kind only.",
    ]
    if all(len(side.runs) == 1 for side in content.comparison.sides):
        sentences.append(
            "Each side was trained once. An interval says how steady that run was; how much runs differ among"
            " themselves is not known, so no interval of a ratio is given."
        )
    else:
        sentences.append(
            "Repeats are runs in processes of their own. Intervals of ratios (95 %) come from the repeats and"
            " the blocks in them; speeds, times and memory are geometric means over repeats, accuracy and"
            " loss means. The ratio of geometric means is that of the pairs in which repeats were trained,"
            " in which a drift of the machine cancels."
        )
    sentences.append(
        "The line of a loss is smoothed: at each step a straight line is fitted to the 15 steps around it,"
        " or to a fortieth of a long run. The"
        " pale band behind it reaches from the lowest to the highest value recorded."
    )
    return tuple(sentences)


def _steps(count: str) -> str:
    return "step of each run is" if count == "1" else f"{count} steps of each run are"


def _experiments(content: Content) -> list[Experiment]:
    return [run.experiment for run in content.runs]


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
