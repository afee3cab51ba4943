"""What the window offers to do about runs by itself: what is left from last time, what ran out of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QObject, Signal

from engine.records.damage import UnreadableRun
from engine.text import shortened
from gui.experiments import Experiments
from gui.oom_retries import Retry
from gui.panels.setting_names import spoken
from gui.panels.setup import Request
from gui.run_edits import RunEdits
from gui.widgets.notice import Message, Notice

_MOST_NAMED = 3


class RunOffers(QObject):
    """Speaks through the window's notice. `wanted` carries the Request of an offer that was taken."""

    wanted = Signal(object)

    def __init__(self, notice: Notice, experiments: Experiments, edits: RunEdits, parent: QObject) -> None:
        super().__init__(parent)
        self._notice, self._experiments, self._edits = notice, experiments, edits
        self._from_last_time: list[Callable[[], None]] = []
        self._stands: Message | None = None
        notice.dismissed.connect(self._next)
        experiments.runs.list_changed.connect(self._look_at_store)
        experiments.runs.run_changed.connect(self._look_at_store)

    def begin(self) -> None:
        """Offers, one after the other, to begin what waits, to bring back what was deleted, to delete what
        cannot be read."""
        deleted = self._experiments.runs.deleted()
        self._from_last_time = [self._waiting, partial(self._edits.offer, deleted), self._unreadable]
        self._next()

    def _look_at_store(self) -> None:
        """Says as long as it holds that nothing can be saved."""
        problem = self._experiments.runs.unwritable
        if problem is None:
            self._notice.take_back(self._stands)
            self._stands = None
        elif self._stands is None:
            text, why = "Saved runs can be read, but not changed.", f"{problem.message} {problem.remedy}"
            self._stands = self._notice.stand(text, why, "Try again", self._try_again)

    def _try_again(self) -> None:
        self._stands = None
        self._experiments.runs.try_to_write()
        self._look_at_store()

    def _next(self) -> None:
        while self._from_last_time and not self._notice.text():
            self._from_last_time.pop(0)()

    def _waiting(self) -> None:
        left = self._experiments.left_waiting()
        if not left:
            return
        text = "1 run is" if len(left) == 1 else f"{len(left)} runs are"
        self._notice.tell(
            f"{text} still in the queue from last time.",
            action="Run now",
            do=lambda: self._experiments.resume_waiting(left),
        )

    def _unreadable(self) -> None:
        left = self._experiments.runs.unreadable()
        if not left:
            return
        they = "it" if len(left) == 1 else "them"
        self._notice.tell(
            _left_out(left),
            f"A newer Ammeter may have written {they}.",
            action="Delete",
            do=lambda: self._edits.delete(tuple(run.id for run in left)),
        )

    def retry(self, run_id: str) -> None:
        """Offers what would fit, where a run ran out of memory and a forecast knows it."""
        record = self._experiments.runs.record(run_id)
        if record is None or record.problem is None:
            return
        offers = [(retry.words, partial(self._take, retry)) for retry in self._experiments.retries(run_id)]
        if offers:
            (words, do), other = offers[0], offers[1] if len(offers) > 1 else None
            problem = record.problem
            self._notice.tell(problem.message, spoken(problem.remedy), words, do, other=other)

    def _take(self, retry: Retry) -> None:
        label = retry.experiment.precision.label
        self.wanted.emit(Request("", ((label, retry.experiment),), is_comparison=False))


def _left_out(runs: Sequence[UnreadableRun]) -> str:
    names = ", ".join(f"“{shortened(run.name)}”" for run in runs[:_MOST_NAMED])
    if len(runs) == 1:
        return f"The saved run {names} cannot be read and is left out."
    more = len(runs) - _MOST_NAMED
    return (
        f"The saved runs {names}{f' and {more:,} more' if more > 0 else ''} cannot be read and are left out."
    )
