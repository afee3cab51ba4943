"""The base classes of study and sweep pages, and of their controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QStackedLayout, QWidget

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Problem, ProblemError
from engine.export.formats import Kind
from engine.words.numbers import date_text, share_text
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.session.studies import StudyView
from gui.session.work import Jobs, JobView, View
from gui.widgets import Button, ElidedLabel, ProgressLine, label, set_text
from gui.widgets.boxes import Surface, in_column, in_row, wide
from gui.widgets.buttons import ExportMenu, Format, StudyMenu
from gui.widgets.messages import may_delete


class Head(Protocol):
    """The interface of the controls on a page of studies: a stop button, a menu and an export menu."""

    stop: Button
    menu: StudyMenu

    @property
    def export(self) -> ExportMenu: ...


class StudyController(QObject, Generic[View]):
    """Connects a page of studies or sweeps to its jobs: it starts, stops, opens, exports and deletes them.

    If the page is empty, it shows a job as soon as one starts. `show_view` shows a view, or the empty state
    for None. `head` are the page's controls. `page_wanted` asks the window to show the page, `reported`
    carries a message, and `written` the path of a file.
    """

    page_wanted = Signal()
    reported = Signal(str)
    written = Signal(object)  # Path
    kind: ClassVar[Kind[Any]]

    def __init__(
        self,
        experiments: Experiments,
        work: Jobs[View],
        show_view: Callable[[View | None], object],
        head: Head,
        parent: QObject | None = None,
        *,
        follows: bool = True,
    ) -> None:
        """Without `follows`, show only work that is opened explicitly."""
        super().__init__(parent)
        self._follows = follows
        self._experiments = experiments
        self._work, self._show_view, self._menu = work, show_view, head.menu
        self._background = Background(self)
        self._key: str | None = None
        self.stop_button = head.stop
        head.stop.clicked.connect(self._stop_work)
        head.menu.delete_asked.connect(self._delete)
        head.export.asked.connect(self.export)
        work.changed.connect(self._update)
        if follows:
            work.began.connect(self._on_began)
        work.ended.connect(self._on_ended)
        work.deleted.connect(self._drop)

    def open_newest(self) -> None:
        """Show the work in progress, else the newest saved, unless some is shown."""
        keys = (self._work.running, *self._work.saved())
        if self._key is None and (key := next(filter(None, keys), None)) is not None:
            self._show(key)

    def stop(self) -> None:
        """Wait for a file that is being written, before the window closes."""
        self._background.stop()

    def export(self, path: Path) -> None:
        """Write the work that is shown, in the format of the path's ending."""
        view = self._work.view(self._key or "")
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

    def _show(self, key: str) -> None:
        """Show work of this session, or saved work."""
        self._key = key
        self._show_view(self._work.view(key))

    def open(self, key: str) -> None:
        """Show saved work, if it is still there."""
        if self._work.view(key) is not None:
            self._show(key)
            self.page_wanted.emit()

    def _on_began(self, key: str) -> None:
        self._update(key)
        self.open_newest()

    def _update(self, key: str) -> None:
        if key == self._key:
            self._show(key)

    def _on_ended(self, key: str) -> None:
        if self._work.view(key) is None:
            # it was taken out of the queue, or stopped before anything was known
            self._drop(key)
        else:
            self._update(key)

    def _stop_work(self) -> None:
        if self._key is not None:
            self._work.stop(self._key)

    def _delete(self, key: str) -> None:
        if may_delete(self._menu, self._menu.whole):
            self._work.delete(key)

    def _drop(self, key: str) -> None:
        if key == self._key:
            self._key = None
            self._show_view(None)
            if self._follows:
                self.open_newest()


class StudyHead(QWidget):
    """The bar at the top of a study's page: title, buttons and progress bar.

    It does not contain the label `problem`, which the page places itself.
    """

    def __init__(
        self, title: str, noun: str, contents: str, formats: Sequence[Format], *more: QWidget
    ) -> None:
        """Place `more` before the menu. `noun` and `contents` are as for `StudyMenu`."""
        super().__init__()
        self.note = ElidedLabel("", "legend")
        self.problem = label("", "problem", wraps=True)
        self.progress = ProgressLine(noun.capitalize())
        self.stop = Button("Stop", "strip", f"Stop the {noun} and keep the finished {contents}", "stop")
        self.menu = StudyMenu(noun, contents)
        self.export_button = Button("Export…", "strip", f"Save the {noun} as a file")
        self.export = ExportMenu(self.export_button, noun, formats)
        self.export_button.setMenu(self.export)
        self._title, self._actions = label(title, "title"), QWidget()
        buttons = (self.stop, *more, self.menu.button, self.export_button)
        in_row(wide(self.note), *buttons, parent=self._actions, spacing=8)
        strip = in_row(self._title, 4, wide(self._actions), spacing=8)
        in_column(strip, self.progress, parent=self, spacing=8)

    def hide_title(self) -> None:
        """Hide the title, because a widget above shows it."""
        self._title.hide()

    def detach_actions(self) -> QWidget:
        """Return the note and the buttons, for another head that shows the title."""
        self.hide_title()
        return self._actions

    def show_view(
        self,
        view: JobView | None,
        note: str = "",
        fraction: float = 0.0,
        precision: Precision | None = None,
        *,
        is_known: bool = False,
    ) -> None:
        """Show the work so far, or nothing for None. With `is_known`, it can be exported."""
        is_busy = view is not None and view.is_unfinished
        self.menu.set_shown(None if view is None or is_busy else view.key)
        self.note.set_whole_text(note)
        self.stop.setVisible(is_busy)
        self.progress.setVisible(is_busy)
        self.progress.set_progress(fraction, precision)
        problem = None if view is None else view.problem
        set_text(self.problem, f"{problem.message} {problem.remedy}" if problem is not None else "")
        self.problem.setVisible(problem is not None)
        self.export_button.setEnabled(is_known)


class StudyPage(Surface, Generic[View]):
    """A page for one kind of study: a `StudyHead` above a stack of pages.

    `guide_wanted` carries a page of the guide.
    """

    guide_wanted = Signal(str)

    def __init__(self, head: StudyHead, parent: QWidget | None) -> None:
        super().__init__("page", parent=parent)
        self.head = head
        self._view: View | None = None
        self._pages = QStackedLayout()

    def view(self) -> View | None:
        """Return the work that is shown."""
        return self._view

    def lay_out(self, *pages: QWidget) -> None:
        """Place the pages below the head."""
        panel = Surface("panel")
        in_column(self.head.problem, wide(self._pages), parent=panel, margins=(12, 10, 12, 8), spacing=8)
        # its first page is shown at once, and would be a window of its own before it has its place
        for page in pages:
            self._pages.addWidget(page)
        in_column(self.head, wide(panel), parent=self, margins=16, spacing=8)


def state_words(view: JobView, what: str, doing: str) -> str:
    """Return the progress of the work in words. Once it is over, return `what`, the device and the date."""
    if view.is_waiting:
        return "waiting in the queue"
    if not view.is_live:
        return ", ".join(part for part in (what, view.device_name, date_text(view.created)) if part)
    share = f", {share_text(view.fraction)}" if view.fraction is not None else ""
    return f"{doing}: {view.doing or 'starting a process'}{share}"
