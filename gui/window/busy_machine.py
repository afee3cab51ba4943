"""The warning above the form's button that the machine is busy. A run can wait until it is idle."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, QTimer

from engine.busyness import LoadMonitor
from engine.experiment.problem import Problem
from gui.session.background import Background
from gui.session.request import Request
from gui.setup.panel import SetupPanel

_EVERY_MS = 2_000
_CHECKS_THAT_AGREE = 2


class BusyMachineMonitor(QObject):
    """Checks every two seconds whether other programs keep the machine busy, and delays runs until they end.

    It does not check while `may_check` returns False, as during measurements. Two checks in a row must agree,
    so a program that only starts does not count. `submit` receives a Request that has waited, once the
    machine is idle.
    """

    def __init__(
        self,
        setup: SetupPanel,
        may_check: Callable[[], bool],
        submit: Callable[[Request], object],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._setup, self._may_check, self._submit = setup, may_check, submit
        self._background = Background(self)
        self._timer = QTimer(self, interval=_EVERY_MS)
        self._timer.timeout.connect(self.check)
        self.start = self._timer.start
        self._watch: LoadMonitor | None = None
        self._was_busy, self._agreeing = False, 0
        self._waiting: Request | None = None
        # what is started at once takes the place of what waits
        setup.run_action.triggered.connect(lambda: self.wait(None))
        setup.foot.wait_button.clicked.connect(
            lambda: self.wait(None if self.is_waiting else setup.request())
        )

    def stop(self) -> None:
        """Stop, and wait for a check in progress."""
        self._timer.stop()
        self._background.stop()

    @property
    def is_waiting(self) -> bool:
        """Return True while a request waits until the machine is idle."""
        return self._waiting is not None

    def wait(self, request: Request | None) -> None:
        """Let a request wait until the machine is idle. None cancels it."""
        self._waiting = request
        self._setup.foot.set_facts(is_waiting=self.is_waiting)

    def check(self) -> None:
        """Check the load in the background. Discard the last result if checking is not allowed now."""
        if not self._may_check():
            self._watch, self._agreeing = None, 0
            self._setup.foot.set_facts(load="")
        elif not self._background.is_busy:
            device = self._setup.text("device") or "auto"
            self._background.do(partial(_check, self._watch, device), self._on_checked, self._on_failed)

    def on_checked(self, sentence: str) -> None:
        """Handle the result of a check: a sentence on what keeps the machine busy, or ""."""
        if not self._may_check():
            return  # something has begun to train
        is_busy = bool(sentence)
        self._agreeing = self._agreeing + 1 if is_busy == self._was_busy else 1
        self._was_busy = is_busy
        if self._agreeing < _CHECKS_THAT_AGREE:
            return
        self._setup.foot.set_facts(load=sentence)
        if (waiting := self._waiting) is not None and not is_busy:
            self.wait(None)
            self._submit(waiting)

    def _on_checked(self, seen: tuple[LoadMonitor, str | None]) -> None:
        self._watch, sentence = seen
        if sentence is not None:
            self.on_checked(sentence)

    def _on_failed(self, _problem: Problem) -> None:
        # it was logged; a machine that cannot be examined is not called busy
        self._timer.stop()
        self.wait(None)
        self._setup.foot.set_facts(load="")


def _check(watch: LoadMonitor | None, device: str) -> tuple[LoadMonitor, str | None]:
    # making one takes some 50 ms, and it has nothing to report before the next check
    return (LoadMonitor(), None) if watch is None else (watch, watch.measure(device).sentence)
