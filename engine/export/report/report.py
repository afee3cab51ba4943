"""The report of a comparison: verdicts, metrics, differing settings, and the method."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.compare.comparison import Comparison, SettingRow, SideReport
from engine.compare.details import BY_DEVICE, HEADINGS, device_rows
from engine.compare.evidence import Doubt
from engine.compare.metrics import energy_of
from engine.compare.ranking import MANY, quiet_clauses
from engine.compare.requirement import Judgement, judge_saved
from engine.compare.sides import Side, all_runs
from engine.experiment.experiment import FACTS, setting_title
from engine.export.content import Content
from engine.export.document import Conclusion, Document, Section
from engine.export.kinds.profile import BAR, bars_picture, parts_table
from engine.export.kinds.profile import answers as answers_of_profile
from engine.export.report.metrics import metrics_sections
from engine.store.record import RunRecord
from engine.words.names import batch_words, dataset_words
from engine.words.numbers import NONE, memory_text


def report_of(content: Content, drawn: Iterable[Section] = ()) -> Document:
    """Return the report of a comparison, with the chosen side first, or else the best side.

    The sections `drawn` follow the metrics. Its `warnings` are the doubts that no answer mentions.
    """
    comparison = content.comparison
    sides, baseline = comparison.sides, comparison.baseline
    reports = comparison.ranked or comparison.reports
    reports = tuple(sorted(reports, key=lambda report: not report.side.contains(content.leading)))
    # the ranking tells of all other sides
    answers = (answer_of(reports[0], comparison),)
    leading = reports[0].side
    title = f"{leading.title} against {baseline.title}"
    if leading is baseline:
        title = f"{leading.runs[0].name}, {leading.title}"
    settings, environment = setting_lines(comparison.all_settings), environment_lines(sides)
    differing = [line for line in (*settings, *environment) if not line.is_shared]
    shared = [line for line in settings if line.is_shared]
    disturbed = _doubt_sentences(doubt for report in comparison.reports for doubt in report.disqualifiers)
    differ = ", ".join(f"{line.title} {' / '.join(line.values)}" for line in differing)
    made = f"Made by Ammeter {content.version}, {content.created.astimezone():%Y-%m-%d %H:%M}"
    foot = (
        f"Unreliable measurement. {' '.join(disturbed)}" if disturbed else "",
        machine_line(sides),
        f"What differs: {differ}" if differ else "",
        made,
    )
    reported = {doubt.sentence for doubt in reports[0].verdict.reported_doubts}
    doubts = _doubt_sentences(doubt for report in comparison.reports for doubt in report.doubts)
    return Document(
        title=content.title or title,
        is_named=bool(content.title),
        subject=subject_of(comparison),
        sections=(
            *_result_sections(content),
            *filter(None, (devices_section(sides),)),
            *drawn,
            *_setup(sides, settings, environment),
            Section("How it was measured", tuple(_method(content)), part="appendix"),
            _runs_section(sides),
        ),
        made=made,
        where=", ".join(
            f"{'PyTorch ' if line.key == 'torch' else ''}{_distinct_words(line.values)}"
            for line in environment
            if line.key in ("device_name", "torch")
        ),
        answers=answers,
        warnings=tuple(doubt for doubt in doubts if doubt not in reported),
        facts={
            line.key: line.values[0] if line.is_shared else list(line.values)
            for line in (*shared, *differing, *environment)
        },
        foot=tuple(filter(None, foot)),
        most_rows=1_000,
        undrawn="These runs have nothing to draw.",
    )


REQUIREMENTS = "Requirements"


def requirements_section(judgement: Judgement) -> Section:
    """Return the requirements on each side, with the outcome and its reason."""
    rows = tuple((outcome.name, outcome.word, outcome.reason) for outcome in judgement.outcomes)
    return Section(REQUIREMENTS, headings=("Requirement", "Met", "Why"), rows=rows)


def _result_sections(content: Content) -> Iterator[Section]:
    if (judgement := judge_saved(content.comparison)).outcomes:
        yield requirements_section(judgement)
    yield from metrics_sections(content.comparison)
    if content.profiles is not None:
        yield Section(BAR, answers_of_profile(content.profiles), pictures=(bars_picture(content.profiles),))
        yield parts_table(content.profiles)


@dataclass(frozen=True)
class SettingLine:
    """A row of the settings table: a setting or other fact, with one value per side of the comparison.

    `key` is the setting's name in an experiment.
    """

    key: str
    title: str
    values: tuple[str, ...]

    @property
    def is_shared(self) -> bool:
        return len(set(self.values)) == 1


def setting_lines(rows: Iterable[SettingRow]) -> tuple[SettingLine, ...]:
    """Return settings in words, without the facts of the machine."""
    return tuple(
        SettingLine(row.key, setting_title(row.key), row.texts if row.differs else _all_alike(row.texts))
        for row in rows
        if row.key not in FACTS
    )


def environment_lines(sides: Sequence[Side]) -> tuple[SettingLine, ...]:
    """Return the machine and software of each side. A value lists all variants among a side's runs."""
    lines = []
    for key, title in FACTS.items():
        values = tuple(_distinct_words(_run_fact(run, key) for run in side.runs) for side in sides)
        if any(value != NONE for value in values):
            # a run that has not begun has no machine yet
            lines.append(SettingLine(key, title, _all_alike(values)))
    return tuple(lines)


def _all_alike(texts: tuple[str, ...]) -> tuple[str, ...]:
    known = {text for text in texts if text != NONE}
    return (*known,) * len(texts) if len(known) == 1 else texts


def _run_fact(run: RunRecord, key: str) -> str:
    value = getattr(run.environment, key, None)
    if value is None:
        return NONE
    return memory_text(value) if key == "device_memory_mib" else str(value)


def _distinct_words(values: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(values))


_NAMED = {"device_name": "", "torch": "PyTorch ", "cuda": "CUDA ", "driver": "driver ", "os": ""}


def machine_line(sides: Sequence[Side]) -> str:
    """Return the machine and software that all sides share, in one line."""
    lines = (line for line in environment_lines(sides) if line.key in _NAMED and line.is_shared)
    return " · ".join(f"{_NAMED[line.key]}{line.values[0]}" for line in lines)


def devices_section(sides: Sequence[Side]) -> Section | None:
    """Return the per-device metrics of all multi-device runs, or None if there are none."""
    rows = tuple(
        (run.name, side.title, row.name, *row.cells)
        for side in sides
        for run in side.runs
        for row in device_rows(run.summary, run.experiment)
    )
    if not rows:
        return None
    return Section(BY_DEVICE, headings=("Run", "Side", *HEADINGS), rows=rows, right=HEADINGS[1:])


def _setup(
    sides: Sequence[Side], settings: Sequence[SettingLine], environment: Sequence[SettingLine]
) -> Iterator[Section]:
    differing = tuple(line for line in (*settings, *environment) if not line.is_shared)
    if differing:
        headings = ("Setting", *(side.title for side in sides))
        rows = tuple((line.title, *line.values) for line in differing)
        yield Section("What differs", headings=headings, rows=rows, part="setup")
    for title, lines in (
        ("Environment", environment),
        ("Settings that all share" if differing else "Settings", settings),
    ):
        if pairs := tuple((line.title, line.values[0]) for line in lines if line.is_shared):
            yield Section(title, pairs=pairs, part="setup")


def _runs_section(sides: Sequence[Side]) -> Section:
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


def answer_of(report: SideReport, comparison: Comparison) -> Conclusion:
    """Return the conclusion about a side with its notes.

    In a ranking, the notes on the other sides follow.
    """
    verdict, run = report.verdict, report.side.runs[0]
    notes, pieces = [*verdict.notes], verdict.pieces
    if len(comparison.sides) >= MANY:
        notes = [f"{' · '.join(clauses)}."] if (clauses := quiet_clauses(comparison, report)) else []
        pieces = tuple(piece for piece in pieces if piece.role != "aside")
    if report.split is not None:
        sentence = report.split.sentence[:1].upper() + report.split.sentence[1:]
        notes.append(sentence if sentence.endswith((".", "!", "?")) else f"{sentence}.")
    # what else is known of a single run that has no speed
    summary = run.summary
    if verdict.kind == "alone" and verdict.speedup is None and summary is not None and summary.steps:
        loss, is_script = summary.final_train_loss, report.side.is_script
        mean, where = ("loss", "at the end") if is_script else ("mean loss", "in the last epoch")
        is_known = loss is not None and math.isfinite(loss)
        reached = f" to a {mean} of {loss:.3f} {where}" if is_known else ""
        notes.append(f"{report.side.title} trained {summary.steps:,} steps{reached}.")
    return Conclusion(report.side, pieces, tuple(notes))


def _doubt_sentences(doubts: Iterable[Doubt]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(doubt.sentence for doubt in doubts))


def subject_of(comparison: Comparison) -> str:
    """Return a one-line description of the training, as far as all sides share it."""
    runs = all_runs(comparison.sides)
    parts = [
        *training_words(runs),
        _common_words([f"{run.total_steps:,} steps" if run.total_steps else "" for run in runs], "lengths"),
    ]
    repeats = sorted({len(side.runs) for side in comparison.sides})
    if repeats != [1]:
        parts.append(f"{' to '.join(map(str, dict.fromkeys((repeats[0], repeats[-1]))))} repeats")
    return " · ".join([*filter(None, parts), "warm-up excluded"])


def training_words(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """Return model, dataset and batch of the runs in words, or how many of each."""
    noun = "scripts" if all(run.overview.is_script for run in runs) else "models"
    return (
        _common_words([run.overview.model for run in runs], noun),
        _common_words([dataset_words(run.overview.dataset) for run in runs], "datasets"),
        _common_words([batch_words(run.experiment) for run in runs], "batch sizes"),
    )


def _common_words(values: Sequence[str], noun: str) -> str:
    known = sorted({value for value in values if value})
    return known[0] if len(known) == 1 else f"{len(known)} {noun}" if known else ""


def _method(content: Content) -> Iterator[str]:
    measures = [run.experiment.measure for run in content.runs]
    warmups = _range([measure.warmup_steps for measure in measures])
    blocks = _range([measure.block_steps for measure in measures])
    steps = "step of each run is" if warmups == "1" else f"{warmups} steps of each run are"
    yield (
        f"Throughput is the median over blocks of {blocks} steps. The first {steps} warm-up, which trains but"
        " is not counted. Compiling and capturing prolong it."
    )
    kinds = sorted({run.experiment.is_script for run in content.runs})
    yield " ".join((*(_PEAKS[kind] for kind in kinds), "Ratios compare only peaks of the same kind."))
    if any(energy_of(run) is not None for run in content.runs):
        yield (
            "Energy is that of the measured steps, from the device's own counter (NVML for the GPU, RAPL for"
            " the CPU packages). It includes the idle power, which was measured before the run. Energy above"
            " idle excludes it."
        )
    if all(len(side.runs) == 1 for side in content.comparison.sides):
        yield (
            "Each configuration was trained once. An interval shows how steady that run was. The variation"
            " between runs is unknown, so ratios have no interval."
        )
    else:
        yield (
            "Repeats run in separate processes. Intervals of ratios (95%) use Student's t on the logarithm of"
            " each repeat's value. Throughput, times and memory are geometric means over the repeats,"
            " accuracy and loss arithmetic means. If repeats were trained in pairs, drift of the machine"
            " cancels out."
        )
    yield (
        "Loss curves are smoothed. At each step a straight line is fitted to the 15 steps around it, or to"
        " 1/40 of a long run. The pale band behind the curve spans the lowest to the highest recorded value."
    )


_PEAKS = {
    False: "Memory is the peak of training without warm-up.",
    # the observer does not reset PyTorch's own peak
    True: "The memory of a script is the peak of its training, including the warm-up.",
}


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
