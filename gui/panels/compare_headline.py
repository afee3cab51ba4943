"""The answer in large type: how the chosen run stands against the baseline, and what else differs."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from engine.records.comparison import Cell, Comparison
from engine.records.record import RunRecord, Status
from gui.panels.run_words import recipe_notes
from gui.panels.setting_names import in_a_sentence
from gui.theme import theme
from gui.widgets import label, set_property

_WIDE = 900
_ON_SHOW = ("precision", "step.recipe")
"""What the heading of a run's column says, so that nobody takes it for the same."""
_PERCENT = "\N{NO-BREAK SPACE}%"


class Headline(QWidget):
    """One or two large lines and a small one. It claims no interval: one run each has none to show."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._large = QLabel()
        self._large.setTextFormat(Qt.TextFormat.RichText)
        self._large.setWordWrap(True)
        self._large.setProperty("role", "verdict")
        self._small = label("", "body")
        self._small.setWordWrap(True)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 8, 0, 8)
        column.setSpacing(8)
        column.addWidget(self._large)
        column.addWidget(self._small)
        column.addStretch(1)
        self._shown: tuple[Comparison, RunRecord] | None = None
        theme().changed.connect(self._refresh)

    def show_hint(self, text: str, small: str = "") -> None:
        """Says what to do where there is nothing to compare."""
        self._shown = None
        self._write_small(text, small)

    def show_pair(self, comparison: Comparison, run: RunRecord) -> None:
        """Speaks of `run` against the comparison's baseline."""
        self._shown = (comparison, run)
        self._refresh()

    def text(self) -> str:
        """All it says, without markup."""
        return f"{self._large.accessibleName()} {self._small.text()}".strip()

    def _refresh(self) -> None:
        if self._shown is None:
            return
        comparison, run = self._shown
        cells = {row.figure.name: row.cells[comparison.runs.index(run)] for row in comparison.figures}
        bases = {
            row.figure.name: row.cells[comparison.runs.index(comparison.baseline)]
            for row in comparison.figures
        }
        speed = cells["samples_per_second"].ratio
        if speed is None:
            reason = _why_no_speed(run) or _why_no_speed(comparison.baseline) or "A speed is missing."
            labels = (run.experiment.precision.label, comparison.baseline.experiment.precision.label)
            self._write_small(f"{labels[0]} and {labels[1]} cannot be compared in speed", reason)
            return
        recipes = recipe_notes((comparison.baseline, run))
        against = f"{speed:,.2f}× {_light('as fast as')} {_name(comparison.baseline, recipes)}"
        lines = [f"{_name(run, recipes)} {_light('trained')} {against}"]
        rest = [part for part in (_memory(cells["peak_memory"]), _accuracy(cells, bases)) if part]
        if rest:
            lines.append(_light("in ") + _light(", ").join(rest) if "memory" in rest[0] else rest[0])
        self._write("<br>".join(lines), _caution(comparison, run))

    def _write_small(self, text: str, small: str) -> None:
        self._write(f"<span style='font-size:22px'>{escape(text)}</span>", small)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        set_property(self._large, "role", "verdict" if event.size().width() >= _WIDE else "headline")

    def _write(self, markup: str, small: str) -> None:
        self._large.setText(f"<div style='line-height:100%'>{markup}</div>")
        plain = markup.replace("<br>", ", ")
        while "<" in plain:
            start = plain.index("<")
            plain = plain[:start] + plain[plain.index(">", start) + 1 :]
        self._large.setAccessibleName(plain)
        self._small.setText(small)
        self._small.setVisible(bool(small))


def _name(run: RunRecord, recipes: Mapping[str, str]) -> str:
    color = theme().palette.look(run.experiment.precision).color
    recipe = f" ({recipes[run.id].lower()})" if recipes[run.id] else ""
    return f"<span style='color:{color}'>{run.experiment.precision.label}</span>" + (
        _light(recipe) if recipe else ""
    )


def _light(text: str) -> str:
    return f"<span style='font-weight:500'>{text}</span>"


def _memory(cell: Cell) -> str:
    return "" if cell.ratio is None else f"{100 * cell.ratio:.0f}{_PERCENT} of the memory"


def _accuracy(cells: dict[str, Cell], bases: dict[str, Cell]) -> str:
    mine, theirs = cells["accuracy"].value, bases["accuracy"].value
    if mine is None or theirs is None:
        return ""
    return _light(f"accuracy {mine:.1f}{_PERCENT} against {theirs:.1f}{_PERCENT}")


def _caution(comparison: Comparison, run: RunRecord) -> str:
    """What the figures do not say: no interval, what the runs suffered from, and what else differs."""
    parts = ["One run each, so no interval of the ratio and no spread of the accuracy is known."]
    for one in (comparison.baseline, run):
        if one.summary is not None and one.summary.speed_note:
            parts.append(f"With caution: in “{one.name}” {one.summary.speed_note}.")
        if one.status is not Status.FINISHED:
            parts.append(f"“{one.name}” did not train to its end ({one.status.value}).")
    mine, theirs = comparison.runs.index(run), comparison.runs.index(comparison.baseline)
    others = [
        in_a_sentence(row.key)
        for row in comparison.settings
        if row.key != "precision" and row.values[mine] != row.values[theirs]
    ]
    if others:
        parts.append(f"More than the precision differs ({', '.join(others)}), so it is not its gain alone.")
    strangers = _other_experiments(comparison, run)
    if strangers:
        verb = "is another experiment" if len(strangers) == 1 else "are other experiments"
        parts.append(f"{' and '.join(strangers)} {verb}: ratios to the baseline say little there.")
    return " ".join(parts)


def _other_experiments(comparison: Comparison, run: RunRecord) -> list[str]:
    """The further runs that differ from the baseline in more than the heading of their column says."""
    base = comparison.runs.index(comparison.baseline)
    return [
        f"“{other.name}”"
        for place, other in enumerate(comparison.runs)
        if other not in (run, comparison.baseline)
        and any(
            row.key not in _ON_SHOW and row.values[place] != row.values[base] for row in comparison.settings
        )
    ]


def _why_no_speed(run: RunRecord) -> str | None:
    name = f"{run.name} ({run.experiment.precision.label})"
    if run.status is Status.QUEUED:
        return f"{name} has not run yet."
    if run.status is Status.RUNNING:
        return f"{name} is still running."
    if run.summary is None or run.summary.samples_per_second is None:
        note = run.summary.speed_note if run.summary else None
        return f"{name} has no speed." + (f" {note[:1].upper()}{note[1:].rstrip('.')}." if note else "")
    return None
