"""What the window offers to do about runs by itself: what waits from last time, what ran out of memory."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, Signal

from gui.experiments import Experiments
from gui.oom_retries import Retry
from gui.panels.setup import Request
from gui.widgets.notice import Notice


class RunOffers(QObject):
    """Speaks through the window's notice. `wanted` carries the Request of an offer that was taken."""

    wanted = Signal(object)

    def __init__(self, notice: Notice, experiments: Experiments, parent: QObject) -> None:
        super().__init__(parent)
        self._notice, self._experiments = notice, experiments

    def waiting(self) -> None:
        """Offers to begin the runs that an earlier window left in the queue."""
        left = self._experiments.left_waiting()
        if not left:
            return
        text = "1 run is" if len(left) == 1 else f"{len(left)} runs are"
        self._notice.tell(
            f"{text} still in the queue from last time.",
            action="Run now",
            do=lambda: self._experiments.resume_waiting(left),
        )

    def retry(self, run_id: str) -> None:
        """Offers what would fit, where a run ran out of memory and a forecast knows it."""
        record = self._experiments.runs.record(run_id)
        if record is None or record.problem is None:
            return
        offers = [(retry.words, partial(self._take, retry)) for retry in self._experiments.retries(run_id)]
        if offers:
            (words, do), other = offers[0], offers[1] if len(offers) > 1 else None
            self._notice.tell(record.problem.message, record.problem.remedy, words, do, other=other)

    def _take(self, retry: Retry) -> None:
        label = retry.experiment.precision.label
        self.wanted.emit(Request("", ((label, retry.experiment),), is_comparison=False))
