"""Whether the machine is quiet, with no busy programs, while nothing trains; a run can wait for that."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from engine.busyness import Watch
from engine.experiment.problem import Problem
from gui.session.background import Background
from gui.session.request import Request
from gui.setup.panel import SetupPanel

_EVERY_MS = 2_000
_LOOKS_THAT_AGREE = 2


class Quiet(QObject):
    """Shows above the form's button what keeps the machine busy; `ready` carries a Request that has waited.

    A thread looks every other second while `may_look`: during a run it would disturb the measurement. Two
    looks in a row must agree, since a program that only starts is no load. Training anything else cancels the
    waiting request.
    """

    ready = Signal(object)
    looked = Signal(str)

    def __init__(
        self, setup: SetupPanel, may_look: Callable[[], bool], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._setup, self._may_look = setup, may_look
        self._background = Background(self)
        self._timer = QTimer(self, interval=_EVERY_MS)
        self._timer.timeout.connect(self.look)
        self._watch: Watch | None = None
        self._sentence = ""
        self._was_busy, self._agreeing = False, 0
        self._waiting: Request | None = None
        self.looked.connect(self.take)
        setup.foot.wait_pressed.connect(self._toggle)
        setup.run_requested.connect(lambda _request: self._wait(None))

    def start(self) -> None:
        """Starts looking."""
        self._timer.start()

    def stop(self) -> None:
        """Stops looking, and waits for a look in progress."""
        self._timer.stop()
        self._background.stop()

    @property
    def is_waiting(self) -> bool:
        """Whether a run waits until the machine is quiet."""
        return self._waiting is not None

    def look(self) -> None:
        """Looks, or forgets the last look if it may not."""
        if not self._may_look():
            self._watch, self._agreeing = None, 0
            self._say("")
        elif self._watch is None:
            # some 50 ms, and so in the thread, as a look is
            self._do(Watch, self._begin)
        else:
            device, watch = self._setup.text("device") or "auto", self._watch
            self._do(lambda: watch.look(device).sentence, self.looked.emit)

    def take(self, sentence: str) -> None:
        """Takes the result of a look: a sentence on what keeps the machine busy, or ""."""
        if not self._may_look():
            return  # something has begun to train
        is_busy = bool(sentence)
        self._agreeing = self._agreeing + 1 if is_busy == self._was_busy else 1
        self._was_busy = is_busy
        if self._agreeing < _LOOKS_THAT_AGREE:
            return
        self._say(sentence)
        waiting = self._waiting
        if waiting is not None and not is_busy:
            self._wait(None)
            self.ready.emit(waiting)

    def _begin(self, watch: Watch) -> None:
        self._watch = watch

    def _do(self, work: Callable[[], object], done: Callable[..., object]) -> None:
        if not self._background.is_busy:
            self._background.do(work, done, self._fail)

    def _fail(self, _problem: Problem) -> None:
        # it was logged; a machine that cannot be examined is not called busy
        self._timer.stop()
        self._wait(None)
        self._say("")

    def _toggle(self) -> None:
        self._wait(self._setup.request() if self._waiting is None else None)

    def _wait(self, request: Request | None) -> None:
        self._waiting = request
        self._show()

    def _say(self, sentence: str) -> None:
        self._sentence = sentence
        self._show()

    def _show(self) -> None:
        self._setup.foot.show_busy(self._sentence, is_waiting=self.is_waiting)
