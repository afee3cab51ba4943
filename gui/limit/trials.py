"""The table of the trials of a search for the largest batch, in their order."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtWidgets import QWidget

from engine.experiment.value import MIB_PER_GIB
from engine.limit.result import result_words
from engine.protocol.trials import Limit, LimitSide, Trial
from engine.words.numbers import NONE, date_text, duration, gib, memory_text
from gui.session.studies import StudyView
from gui.widgets import Button, label, set_text
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, wide
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import GROWS, number_column
from gui.widgets.table.painting import PADDING
from gui.widgets.table.result_table import ROW_HEIGHT

_MARGIN = 8
_EXPORT = "Save the trials in any format, or copy the table"
_NONE = "Trials appear here as they finish."


class TrialRow(NamedTuple):
    """A row of the table of trials: a tried batch size, and the side (a precision) that it belongs to."""

    side: LimitSide
    trial: Trial

    @property
    def is_answer(self) -> bool:
        """True if this is the largest batch that is verified to fit."""
        trial = self.trial
        is_largest = self.side.is_verified and trial.batch_size == self.side.largest_batch
        return is_largest and trial.fits and not trial.is_quick

    def result(self) -> str:
        return trial_words(self.trial, self.side.largest_batch if self.side.is_verified else 0)

    def short_result(self) -> str:
        return self.result() if self.is_answer else short_result_words(self.trial)

    def peak(self) -> str:
        trial, budget_mib = self.trial, self.side.budget_mib
        if trial.peak_mib is None:
            return f"over {gib(budget_mib)}" if trial.cause == "memory" and budget_mib else NONE
        return gib(trial.peak_mib)

    def words(self) -> str:
        text = f"{self.side.label}, batch {self.trial.batch_size:,}: {self.result()}"
        return f"{text}. {self.trial.note}" if self.trial.note else text


def rows_of(view: Limit | None) -> list[TrialRow]:
    """Return the rows of all trials, side by side."""
    return [TrialRow(side, trial) for side in view.sides for trial in side.trials] if view else []


def _result_look(row: TrialRow) -> Look:
    ink, mark = ("text", "check") if row.trial.fits else ("text2", "cross-outline")
    return Look(600 if row.is_answer else 400, ink, mark)


_COLUMNS: tuple[Column[TrialRow], ...] = (
    Column(
        "Precision",
        lambda row: row.side.label,
        width=70,
        widest=240,
        look=lambda row: Look(ink="text2", mark=row.side.precision),
    ),
    number_column(
        "Batch", lambda row: row.trial.batch_size, "{:,}".format, width=50, look=lambda row: Look(600)
    ),
    Column("Result", TrialRow.result, width=86, widest=GROWS, look=_result_look, short=TrialRow.short_result),
    Column(
        "Peak GiB",
        TrialRow.peak,
        lambda row: row.trial.peak_mib,
        width=66,
        is_number=True,
        look=lambda row: Look(600) if row.trial.fits else Look(ink="text2"),
    ),
    number_column(
        "Time s",
        lambda row: row.trial.seconds,
        "{:,.1f}".format,
        width=44,
        look=lambda row: Look(ink="text2"),
    ),
)


class TrialTable(Surface):
    """The table of all batch sizes that a search has tried.

    It does not fill the menu of its button `export`: the panel that owns it does.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("panel", parent=parent)
        self._count = label("", "unit")
        self.export = Button("Export…", "link", _EXPORT)
        self.view = ResultTable[TrialRow](
            "Trials", _COLUMNS, about=TrialRow.words, shaded=lambda row: row.is_answer, empty=_NONE
        )
        self.view.setMinimumHeight(2 * ROW_HEIGHT)
        inner = _MARGIN + PADDING - 1
        head = in_row(
            label("Trials", "panelTitle"),
            self._count,
            Stretch(1),
            self.export,
            margins=(inner, 0, inner, 0),
            spacing=8,
        )
        body = in_row(self.view, margins=(_MARGIN - 1, 0, _MARGIN - 1, 0))
        in_column(head, wide(body), parent=self, margins=(1, 8, 1, 1), spacing=2)
        self._key: str | None = None
        self._follows = True
        bar = self.view.verticalScrollBar()
        bar.valueChanged.connect(self._note_place)
        # the rows are laid out later, and the panel above grows with its answer
        bar.rangeChanged.connect(self._keep_newest)

    def show_view(self, view: Limit | None, key: str | None) -> None:
        """Show the trials, scrolled to the newest unless the user has scrolled up or sorted."""
        bar, follows = self.view.verticalScrollBar(), self._follows or key != self._key
        self._key, place = key, bar.value()
        rows = rows_of(view)
        self.view.show_rows(rows)
        set_text(self._count, f"{len(rows):,}" if rows else "")
        self.export.setEnabled(bool(rows))
        self.export.setToolTip(_EXPORT if rows else "There are no trials to export yet")
        self.view.scrollToBottom()
        if not follows or self.view.is_sorted():
            bar.setValue(place)
        self._follows = follows

    def _note_place(self, place: int) -> None:
        self._follows = place == self.view.verticalScrollBar().maximum()

    def _keep_newest(self, _least: int, most: int) -> None:
        if self._follows and not self.view.is_sorted():
            self.view.verticalScrollBar().setValue(most)


_SHORT = {"memory": "OOM", "spill": "Spilled", "death": "Crashed", "hang": "Hung"}


def trial_words(trial: Trial, largest: int) -> str:
    """Return the result of a trial, or that it is the largest batch that fits."""
    if trial.fits and trial.batch_size == largest and not trial.is_quick:
        return "Largest fit"
    return result_words(trial).capitalize()


def short_result_words(trial: Trial) -> str:
    """Return the result of a trial in a word."""
    return "Fits" if trial.fits else _SHORT.get(trial.cause or "", "Failed")


def verification(side: LimitSide) -> str:
    """Return a sentence on the verification of a side's answer, or "" while nothing is known."""
    if side.problem is not None:
        return side.problem.message
    result = side.result
    if result is None:
        return ""
    if result.note and (result.bound_by != "memory" or not result.verified):
        return result.note
    if result.verified and result.first_failure is not None:
        verified = f"A trial with {side.largest_batch:,} passed, one with {result.first_failure:,} failed."
        return f"{verified} {result.note}" if result.note else verified
    return result.note or ""


def short_verification(view: Limit) -> str:
    """Return the verification of all sides in one line, or "" if any of them has a note."""
    results = [side.result for side in view.sides]
    if not all(result and result.verified and result.first_failure and not result.note for result in results):
        return ""
    proofs = [
        f"{result.largest_batch:,} fits and {result.first_failure:,} fails" for result in results if result
    ]
    return f"Verified: {', '.join(proofs)}."


def recommendation(side: LimitSide, batch: int, margin_fraction: float, multiple: int) -> str:
    """Return why to use a batch: "a multiple of 8 that leaves 10% free", or why there is none."""
    share = f"{100 * margin_fraction:.0f}%"
    if not batch:
        free = f" and leaves {share} free" if margin_fraction else ""
        return f"no multiple of {multiple:,} fits{free}"
    free = f"leaves {share} free" if margin_fraction else "fits"
    return free if multiple == 1 else f"a multiple of {multiple:,} that {free}"


def progress_text(view: StudyView[Limit]) -> str:
    """Return the progress in words, for the line next to the title."""
    if view.is_waiting:
        return "waiting in the queue"
    limit = view.answer
    count = limit.trial_count
    trials = f"{count} trial" + ("s" if count != 1 else "")
    if not view.is_live:
        when = date_text(view.created)
        return f"{trials} in {duration(limit.seconds)}, {when}"
    busy = next((side for side in limit.sides if side.trying is not None), None)
    if busy is None:
        return f"{trials}, getting ready"
    return f"{trials}, trying {busy.trying:,} in {busy.label} ({view.doing or 'starting a process'})"


def device_title(view: Limit, on_gpu: bool) -> str:
    """Return the device for a heading: "a 24 GiB GPU"."""
    cap = view.cap_gib
    if cap is None:
        return "this GPU" if on_gpu else "this machine"
    article = "an" if f"{cap:g}".startswith("8") or cap in (11, 18) else "a"
    return f"{article} {cap:g} GiB GPU" if on_gpu else f"{cap:g} GiB"


def limit_label(view: Limit, on_gpu: bool) -> tuple[str, str]:
    """Return the label of the chart's limit: its name, and an addition where there is room."""
    cap, budget = view.cap_gib, view.budget_mib
    if cap is None:
        return (f"{memory_text(budget)} free on this GPU" if budget else ""), ""
    more = " (simulated)" if on_gpu else ""
    if budget and abs(budget / MIB_PER_GIB - cap) >= 0.05:
        more = f"{more}, {memory_text(budget)} available"
    return (f"{cap:g} GiB GPU" if on_gpu else f"{cap:g} GiB limit"), more
