"""A comparison: sides relative to a baseline, with their metrics, intervals, settings and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.compare.evidence import Doubt, Evidence, doubts_of, excluded_repeats, is_disturbed
from engine.compare.metrics import (
    ACCURACY,
    LOSS,
    SPEED,
    Metric,
    MetricCell,
    MetricRow,
    metric_row,
    shown_metrics,
)
from engine.compare.observed import facts_of
from engine.compare.sides import Side, all_runs, sides_of
from engine.compare.split import KnownSpeeds, Split, split_of
from engine.compare.verdict import Verdict, verdict_of
from engine.experiment.experiment import Precision, all_settings
from engine.experiment.problem import request_error
from engine.experiment.settings import PLAIN
from engine.protocol.events import Epoch
from engine.store.record import RunRecord
from engine.words.names import applying_settings, setting_text
from engine.words.numbers import NONE

NOT_REACHED = "not reached"


def target_metrics(target_accuracy: float, epochs: Mapping[str, Sequence[Epoch]]) -> tuple[Metric, ...]:
    """Return the metrics of reaching the accuracy `target_accuracy` (a fraction) in a validation for the
    first time. `epochs` are by run id. Seconds run from the first step and include validation. Samples are
    steps times the batch size.
    """

    def first(run: RunRecord) -> Epoch | None:
        known = ((epoch, epoch.validation_accuracy) for epoch in epochs.get(run.id, ()))
        return next((epoch for epoch, at in known if at is not None and at >= target_accuracy), None)

    def seconds(run: RunRecord) -> float | None:
        epoch = first(run)
        return None if epoch is None else epoch.seconds

    def samples(run: RunRecord) -> float | None:
        epoch = first(run)
        return None if epoch is None else float(epoch.step * run.experiment.step_samples)

    goal = f"{100 * target_accuracy:g}% accuracy"
    metric = partial(Metric, has_ratio=True, needs_all=True, absent=NOT_REACHED)
    return (
        metric("seconds_to_accuracy", f"Time to {goal}", "s", None, value=seconds),
        metric("samples_to_accuracy", f"Samples to {goal}", "", 0, value=samples),
    )


_MACHINE = ("device_name", "torch", "cuda", "driver")


@dataclass(frozen=True)
class SettingRow:
    """One setting in a comparison: its value and text on each side, None and a dash where it does not apply.

    `differs` is True if sides to which the setting applies have different values.
    """

    key: str
    values: tuple[Any, ...]
    texts: tuple[str, ...]
    differs: bool


def setting_rows(sides: Sequence[Side]) -> tuple[SettingRow, ...]:
    """Return every setting that applies to any side, and the machine. Seeds of repeats are a list.

    A script's batch is not a setting, but an observation.
    """
    settings = [_settings_of(side) for side in sides]
    rows = []
    for key in (*all_settings(), *_MACHINE):
        known = [own[key] for own in settings if key in own]
        if known:
            values = tuple(own.get(key) for own in settings)
            texts = tuple(setting_text(key, own[key]) if key in own else NONE for own in settings)
            rows.append(SettingRow(key, values, texts, differs=any(value != known[0] for value in known)))
    return tuple(rows)


def _settings_of(side: Side) -> dict[str, Any]:
    run = side.runs[0]
    settings = applying_settings(run.experiment)
    if side.is_script:
        # shown with what was seen
        settings.pop("batch_size", None)
    elif len(side.runs) > 1:
        settings["seed"] = [repeat.experiment.seed for repeat in side.runs]
    for name in _MACHINE:
        value = getattr(run.environment, name, None)
        if value is not None:
            settings[name] = value
    return settings


@dataclass(frozen=True)
class SideReport:
    """The conclusions about one side of a comparison: verdict, doubts, and the gain of each change."""

    side: Side
    is_baseline: bool
    verdict: Verdict
    doubts: tuple[Doubt, ...]
    split: Split | None

    @property
    def disqualifiers(self) -> tuple[Doubt, ...]:
        """The disturbances of either side's measurement. With any, the speeds are not reliable."""
        return tuple(doubt for doubt in self.doubts if doubt.disqualifies)

    @property
    def is_disturbed(self) -> bool:
        """True if the side's own measurement was disturbed, regardless of the baseline's."""
        return any(doubt.side_id == self.side.id for doubt in self.disqualifiers)

    @property
    def unreported_doubts(self) -> tuple[Doubt, ...]:
        """The doubts that the verdict does not mention, each sentence once."""
        reported = {doubt.sentence for doubt in self.verdict.reported_doubts}
        by_sentence = {doubt.sentence: doubt for doubt in self.doubts if doubt.sentence not in reported}
        return tuple(by_sentence.values())

    def caution(self, metric: Metric) -> str:
        """Return the mark of a ratio that is not meaningful: "unreliable" or "not comparable", else ""."""
        if self.is_baseline or not metric.has_ratio:
            return ""
        if self.disqualifiers and metric.is_of_time:
            return "unreliable"
        return "not comparable" if any(doubt.kind == "workload" for doubt in self.doubts) else ""

    @property
    def text(self) -> str:
        """The verdict, where the gain comes from, and the doubts, in sentences."""
        parts = [self.verdict.sentence]
        if self.split is not None:
            parts.append(f"Where the gain comes from: {self.split.sentence}.")
        if self.unreported_doubts:
            parts.append(f"Caution: {' '.join(doubt.sentence for doubt in self.unreported_doubts)}")
        return " ".join(parts)


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`: the sides, their metrics and settings, and a report on each.

    `settings` are the rows of `all_settings` whose values differ. `observed` are the formats of runs
    and observations of scripts that differ, and `same` the others in one line: "torch 2.15 · batch 12".
    """

    sides: tuple[Side, ...]
    baseline: Side
    metrics: tuple[MetricRow, ...]
    settings: tuple[SettingRow, ...]
    all_settings: tuple[SettingRow, ...]
    reports: tuple[SideReport, ...]
    observed: tuple[MetricRow, ...] = ()
    same: str = ""

    @property
    def has_no_doubts(self) -> bool:
        """True if there is no doubt about any metric."""
        return not any(report.doubts for report in self.reports)

    @property
    def ranked(self) -> tuple[SideReport, ...]:
        """The reports of all sides except the baseline, best first.

        The best is the fastest that was undisturbed, did the same training on the same device, and is not
        known to have learned worse than the baseline.
        """

        def rank(report: SideReport) -> tuple[bool, ...]:
            speedup, kinds = report.verdict.speedup, {doubt.kind for doubt in report.doubts}
            is_unlike = not kinds.isdisjoint(("workload", "setting", "device"))
            is_worse = learned_worse(report, self.cells(report.side.id))
            return speedup is None, bool(report.disqualifiers), is_unlike, is_worse

        others = [report for report in self.reports if not report.is_baseline]
        fastest_first = sorted(others, key=lambda report: -(report.verdict.speedup or 0.0))
        return tuple(sorted(fastest_first, key=rank))

    def report(self, side_id: str) -> SideReport:
        """Return the report of a side by its id. Raises KeyError."""
        return {report.side.id: report for report in self.reports}[side_id]

    def cells(self, side_id: str) -> dict[str, MetricCell]:
        """Return the metrics and observations of one side by name. Raises KeyError."""
        place = {side.id: place for place, side in enumerate(self.sides)}[side_id]
        return {row.metric.name: row.cells[place] for row in (*self.metrics, *self.observed)}


def learned_worse(report: SideReport, cells: Mapping[str, MetricCell]) -> bool:
    """Return True if the side's loss is not finite, or if it is known to learn worse than the baseline."""
    if any(doubt.kind == "nan" and doubt.side_id == report.side.id for doubt in report.doubts):
        return True
    apart = [(cells[metric.name], sign) for metric, sign in ((ACCURACY, -1), (LOSS, 1))]
    return any(cell.within_spread is False and sign * (cell.difference or 0.0) > 0 for cell, sign in apart)


def compare(
    evidence: Sequence[Evidence],
    baseline_id: str | None = None,
    *,
    target_accuracy: float | None = None,
    others: Sequence[RunRecord] = (),
) -> Comparison:
    """Compare the runs as sides, each relative to the baseline.

    `baseline_id` is the id of any run of the baseline (None: as `baseline_of` chooses). `target_accuracy`, a
    fraction, adds the time that each side took to reach it. `others` are further saved runs that may help to
    split a gain. Times of repeats that other programs disturbed are excluded, if enough others remain. Raises
    ProblemError without runs, or if the baseline is not among them.
    """
    sides = sides_of([known.run for known in evidence])
    baseline = baseline_of(sides, baseline_id)
    blocks = {known.run.id: known.block_speeds for known in evidence}
    lines = list(shown_metrics(all_runs(sides)))
    if target_accuracy is not None:
        lines += target_metrics(target_accuracy, {known.run.id: known.epochs for known in evidence})
    excluded = excluded_repeats(sides)
    timed = [side.without(excluded) for side in sides]
    timed_baseline = timed[sides.index(baseline)]
    rows = tuple(
        metric_row(metric, timed, timed_baseline, blocks)
        if metric.is_of_time
        else metric_row(metric, sides, baseline, blocks)
        for metric in lines
    )
    by_id = {known.run.id: known for known in evidence}
    speed_row = next(row for row in rows if row.metric.name == SPEED.name)
    ratios = {side.id: cell.ratio for side, cell in zip(timed, speed_row.cells, strict=True)}
    speeds = KnownSpeeds(timed_baseline, timed, ratios, others)
    cells = [{row.metric.name: row.cells[place] for row in rows} for place in range(len(sides))]
    base_cells, is_alone = cells[sides.index(baseline)], len(sides) == 1
    reports = []
    for side, kept, own in zip(sides, timed, cells, strict=True):
        doubts = doubts_of(side, baseline, by_id, excluded)
        # a disturbed measurement has no gain to split
        split = None if is_disturbed(doubts) else split_of(kept, timed_baseline, speeds, ratios[kept.id])
        pair = kept, timed_baseline
        verdict = verdict_of(side, baseline, pair, own, base_cells, doubts, split, by_id, is_alone=is_alone)
        reports.append(SideReport(side, side is baseline, verdict, doubts, split))
    settings = setting_rows(sides)
    differing = tuple(row for row in settings if row.differs)
    observed, same = observations(sides)
    return Comparison(sides, baseline, rows, differing, settings, tuple(reports), observed, same)


def observations(sides: Sequence[Side]) -> tuple[tuple[MetricRow, ...], str]:
    """Return formats of sides and observations of scripts: rows where they differ, and the rest in a line.

    A side that has not ended yet has none.
    """
    by_side = [{fact.title: fact for fact in facts_of(side.seen)} for side in sides]
    known = [facts for facts in by_side if facts]
    is_of_scripts = any(side.observed for side in sides)
    rows, same = [], [f"torch {torch}" for torch in _shared_torch(sides)] if is_of_scripts else []
    for title, fact in {title: fact for facts in known for title, fact in facts.items()}.items():
        if all(title in facts and facts[title].text == fact.text for facts in known):
            same.append(fact.brief)
            continue
        metric = Metric(title, title, "", None, has_ratio=False, value=lambda run: None)
        texts = (facts[title].text if title in facts else NONE for facts in by_side)
        cells = tuple(MetricCell(None, (), text=text) for text in texts)
        rows.append(MetricRow(metric, cells))
    lead = f"The same in {'both' if len(known) == 2 else 'all'}: " if len(known) > 1 else ""
    line = " · ".join(filter(None, same))
    return tuple(rows), f"{lead}{line}" if line else ""


def _shared_torch(sides: Sequence[Side]) -> set[str]:
    known = {run.environment.torch for run in all_runs(sides) if run.environment is not None}
    return known if len(known) == 1 else set()


def baseline_of(sides: Sequence[Side], run_id: str | None = None) -> Side:
    """Return the side of that run, by default a plain one in strict FP32, else any in FP32, else the first.

    Of scripts it is the side that was started first. Raises ProblemError without sides, or if the run is not
    in any side.
    """
    if not sides:
        raise request_error("No runs to compare.", "Select one or more runs.")
    if run_id is None and all(side.is_script for side in sides):
        return min(sides, key=lambda side: side.runs[0].number)
    if run_id is None:
        full = [side for side in sides if side.precision is Precision.FP32]
        plain = [side for side in full if side.recipe == PLAIN]
        return (*plain, *full, *sides)[0]
    for side in sides:
        if side.contains(run_id):
            return side
    message = f"The baseline {run_id} is not among the runs to compare."
    raise request_error(message, "Select one of the runs.", key="baseline")
