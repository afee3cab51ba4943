"""The base class of the controllers that connect a page of studies to its jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Generic, cast

from PySide6.QtCore import QObject, Signal

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem, ProblemError
from engine.export.formats import ResultKind
from gui.answer.page import AnswerHead
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.session.views import StudyView, View
from gui.widgets.messages import may_delete


class StudyController(QObject, Generic[View]):
    """Connects a page of studies or sweeps to the works of its `name`: starts, stops, opens and exports them.

    If the page is empty, it shows a job as soon as one starts. `show_view` shows a view, or the empty state
    for None. `head` is the page's. `page_wanted` asks the window to show the page, `reported`
    carries a message, and `written` the path of a file.
    """

    page_wanted = Signal()
    reported = Signal(str)
    written = Signal(object)  # Path
    kind: ClassVar[ResultKind[Any]]

    def __init__(
        self,
        experiments: Experiments,
        name: str,
        show_view: Callable[[View | None], object],
        head: AnswerHead,
        parent: QObject | None = None,
        *,
        follows: bool = True,
    ) -> None:
        """Without `follows`, show only work that is opened explicitly."""
        super().__init__(parent)
        self._follows = follows
        self._experiments, self._works, self._name = experiments, experiments.works, name
        self._show_view, self._menu = show_view, head.menu
        self._background = Background(self)
        self._key: str | None = None
        self.stop_button = head.stop
        head.stop.clicked.connect(self._stop_work)
        head.menu.delete_asked.connect(self._delete)
        head.export.asked.connect(self.export)
        self._works.changed.connect(self._update)
        if follows:
            self._works.began.connect(self._on_began)
        self._works.ended.connect(self._on_ended)

    def open_newest(self) -> None:
        """Show the work in progress, else the newest saved, unless some is shown."""
        if self._key is None and (key := self._works.newest(self._name)) is not None:
            self._show(key)

    def stop(self) -> None:
        """Wait for a file that is being written, before the window closes."""
        self._background.stop()

    def export(self, path: Path) -> None:
        """Write the work that is shown, in the format of the path's ending."""
        view = self._view(self._key)
        if isinstance(view, StudyView):
            # the dialog has asked whether to replace a file of that name
            self._write(lambda: self.kind.export(view.study, path, force=True))

    def _enqueue(self, experiments: Iterable[Experiment], submit: Callable[[], str]) -> str | None:
        """Queue work with `submit` and show it. Return its key, or None if it was refused."""
        try:
            self._experiments.trust.check(experiments)
            key = submit()
        except ProblemError as error:
            self._refuse(error.problem.message)
            return None
        self._show(key)
        self.page_wanted.emit()
        return key

    def _write(self, write: Callable[[], object]) -> None:
        """Write a file in the background. `write` returns its path."""
        self._background.do(write, self.written.emit, self._report)

    def _report(self, problem: Problem) -> None:
        self.reported.emit(f"{problem.message} {problem.remedy}")

    def _refuse(self, reason: str) -> None:
        self.page_wanted.emit()
        self.reported.emit(reason)

    def _view(self, key: str | None) -> View | None:
        return None if key is None else cast("View | None", self._works.view(key))

    def _show(self, key: str) -> None:
        """Show work of this session, or saved work."""
        self._key = key
        self._show_view(self._view(key))

    def open(self, key: str) -> None:
        """Show a saved study or sweep, unless it was deleted."""
        if self._view(key) is not None:
            self._show(key)
            self.page_wanted.emit()

    def _on_began(self, key: str) -> None:
        if (view := self._view(key)) is not None and view.kind == self._name:
            self._update(key)
            self.open_newest()

    def _update(self, key: str) -> None:
        if key == self._key and self._view(key) is not None:
            self._show(key)

    def _on_ended(self, key: str) -> None:
        if key == self._key and self._view(key) is None:
            # deleted, taken out of the queue, or stopped before anything was known
            self._key = None
            self._show_view(None)
            if self._follows:
                self.open_newest()

    def _stop_work(self) -> None:
        if self._key is not None:
            self._works.stop(self._key)

    def _delete(self, key: str) -> None:
        if may_delete(self._menu, self._menu.whole):
            self._works.delete(key)
