"""Makes the answer of a comparison once its last run has ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from PySide6.QtCore import QObject

from engine.compare.comparison import Comparison, SideReport
from engine.compare.verdict import Piece, joined
from engine.experiment.problem import Problem
from engine.store.record import RunRecord, Status
from engine.words.numbers import clock_text, duration
from gui.compare.reading import ComparedRuns, Wanted, read_and_compare
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.train.answer import Answer
from gui.train.panel import LivePanel


class AnswerController(QObject):
    """Reads the runs in a thread: none of it may wait for the store."""

    def __init__(
        self, store_path: Path, experiments: Experiments, live: LivePanel, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._store_path, self._experiments, self._live = store_path, experiments, live
        self._background = Background(self)

    def stop(self) -> None:
        """Waits for what is being read, before the window closes."""
        self._background.stop()

    def read(self, run_ids: tuple[str, ...]) -> None:
        """Reads and compares these runs, with their repeats, and shows the answer."""
        runs = self._compared(run_ids)
        if len(runs) < 2:
            return
        ids, path = tuple(run.id for run in runs), self._store_path
        wanted, others = Wanted(ids, ids[0], None), self._experiments.runs.records()
        self._background.do(
            lambda: read_and_compare(path, wanted, runs, {}, others),
            lambda compared: self._show(run_ids, compared),
            self._report,
        )

    def _compared(self, run_ids: tuple[str, ...]) -> list[RunRecord]:
        """The runs in view with their repeats, oldest first; none while one of them is still to come."""
        records = self._experiments.runs.records()
        ended = {run.id: run for run in records}
        comparisons = {ended[run_id].comparison for run_id in run_ids if run_id in ended} - {None}
        runs = [run for run in reversed(records) if run.id in run_ids or run.comparison in comparisons]
        finished = [run for run in runs if run.status is Status.FINISHED]
        return finished if all(run.status.is_over for run in runs) else []

    def _show(self, run_ids: tuple[str, ...], compared: ComparedRuns) -> None:
        runs = [self._experiments.runs.record(run_id) for run_id in compared.wanted.run_ids]
        answer = answer_of(compared.comparison, [run for run in runs if run is not None], datetime.now())
        if answer is not None:
            self._live.show_answer(run_ids, answer)

    def _report(self, problem: Problem) -> None:
        self._experiments.problem.emit(problem)


def answer_of(comparison: Comparison, runs: Sequence[RunRecord], now: datetime) -> Answer | None:
    """What a comparison found about the side that gains most; None without a second side."""
    reports = [report for report in comparison.reports if not report.is_baseline]
    if not reports or not runs:
        return None
    report = max(reports, key=lambda report: report.verdict.speedup or 0.0)
    lines = tuple(tuple(piece for piece in line if piece.role != "aside") for line in report.verdict.lines)
    if report.verdict.outcome == "ratio" and len(lines) > 1:
        lines = ((*lines[0], Piece(",")), *lines[1:])
    ids = tuple(run.id for run in runs)
    alike = frozenset(name for name, cell in comparison.cells(report.side.id).items() if cell.within_spread)
    return Answer(ids, lines, report.side, _quiet(report), _when(runs, now), alike)


def _quiet(report: SideReport) -> tuple[str, ...]:
    """The certainty that the large lines leave out, notes, and doubts: clauses without brackets or stops."""
    asides = [piece for line in report.verdict.lines for piece in line if piece.role == "aside"]
    doubts = [doubt.sentence for doubt in report.uncited]
    clauses = [joined(asides[:1]).strip(" ()"), *report.verdict.notes, *doubts]
    return tuple(clause.removesuffix(".") for clause in dict.fromkeys(clauses) if clause)


def _when(runs: Sequence[RunRecord], now: datetime) -> str:
    ends = [run.ended for run in runs if run.ended is not None]
    begins = [run.started for run in runs if run.started is not None]
    if not ends or not begins:
        return "finished"
    took = duration((max(ends) - min(begins)).total_seconds())
    return f"finished {clock_text(max(ends).astimezone(), now.astimezone())}, took {took}"
