"""Help > Doctor: problems of the machine, the package or PyTorch, and how to fix them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Event as Flag

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QLabel, QWidget

from engine.doctor.doctor import own_checks, report_text, worker_checks
from engine.experiment.problem import Problem
from engine.protocol.events import Check
from engine.worker.launcher import Launcher
from gui.session.background import Background
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import Button, label
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, scrolled, wide
from gui.widgets.labels import set_text, wrapped

Look = Callable[[Callable[[], bool]], tuple[Check, ...]]
"""Makes checks in a thread, and stops once the function that it gets returns True."""

_MARKS = {"ok": ("check", "OK"), "note": ("info", "Note"), "problem": ("cross", "Problem")}
_SIZE, _LEAST_SIZE = (760, 600), (520, 360)
_NAME_WIDTH = 132


def show_doctor(window: QWidget, is_measuring: Callable[[], bool], machine: str = "") -> DoctorDialog:
    """Open the doctor of this machine or of the named remote one, or bring it to the front.

    While `is_measuring`, no step is trained.
    """
    title = f"Doctor: {machine}" if machine else "Doctor"
    dialog = next((each for each in window.findChildren(DoctorDialog) if each.windowTitle() == title), None)
    if dialog is None:
        looks: tuple[tuple[str, Look], ...]
        looks = (
            ("Checking this machine…", lambda _: own_checks()),
            ("Training a step…", partial(_worker, is_measuring)),
        )
        if machine:
            looks = ((f"Checking {machine}…", partial(_remote, machine)),)
        dialog = DoctorDialog(looks, window)
        dialog.setWindowTitle(title)
    dialog.show()
    dialog.activateWindow()
    if not dialog.is_looking:
        dialog.look()
    return dialog


def _remote(machine: str, _is_unwanted: Callable[[], bool]) -> tuple[Check, ...]:
    # needed for other machines only
    from engine.machines.check import check_known

    return check_known(machine)[1]


def _worker(is_measuring: Callable[[], bool], is_unwanted: Callable[[], bool]) -> tuple[Check, ...]:
    if is_measuring():
        detail = "No step was trained, to avoid disturbing the current measurement."
        return (Check(name="Device", status="note", detail=detail, remedy="Check again when it is done."),)
    with Launcher() as launcher:
        return worker_checks(launcher, lambda: is_unwanted() or is_measuring())


class DoctorDialog(QDialog):
    """A dialog that checks the machine and lists the results.

    `looks` are the steps: each has a message to show during the step, and a function that returns checks.
    Closing the dialog cancels them. It is deleted with its window, and never delays that for long.
    """

    def __init__(self, looks: Sequence[tuple[str, Look]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Doctor")
        self._looks = tuple(looks)
        self._left: list[tuple[str, Look]] = []
        self._given_up = Flag()
        self.checks: tuple[Check, ...] = ()
        self._background = Background(self)
        self._lay_out()
        self.setMinimumSize(*_LEAST_SIZE)
        self.resize(*_SIZE)
        theme().changed.connect(self._show_checks)
        if parent is not None:
            parent.window().installEventFilter(self)

    def _lay_out(self) -> None:
        self._words = label("", "title")
        self.again = Button("Check again", "secondary", "Run all checks again", do=self.look)
        self.copy_button = Button(
            "Copy report", "secondary", "Copy a Markdown report without your names and paths"
        )
        self.copy_button.clicked.connect(self.copy)
        close = Button("Close", "secondary", "Close", do=self.close)
        self._area = scrolled("Findings")
        frame = Surface("panel")
        in_column(self._area, parent=frame, margins=1)
        foot = in_row(self.again, Stretch(1), self.copy_button, close, spacing=8)
        in_column(self._words, wide(frame), foot, parent=self, margins=16, spacing=12)

    @property
    def is_looking(self) -> bool:
        return bool(self._left) or self._background.is_busy

    def words(self) -> str:
        """Return the progress or the result as text."""
        return self._words.text()

    def look(self) -> None:
        """Run all checks, and show each as it comes."""
        self._given_up = Flag()
        self.checks, self._left = (), list(self._looks)
        self._show_checks()
        self._look_on()

    def copy(self) -> None:
        """Copy the report to the clipboard."""
        QGuiApplication.clipboard().setText(report_text(self.checks))
        set_text(self._words, "Report copied to the clipboard.")

    def stop(self) -> None:
        """Cancel the checks, and wait until they have ended."""
        self._give_up()
        self._background.stop()

    def _look_on(self) -> None:
        if not self._left:
            self._show_words()
            return
        words, look = self._left[0]
        set_text(self._words, words)
        given_up = self._given_up
        self._background.do(
            partial(look, given_up.is_set),
            partial(self._on_checks, given_up),
            partial(self._on_fail, given_up),
        )
        self._show_buttons()

    def _on_checks(self, given_up: Flag, checks: tuple[Check, ...]) -> None:
        if given_up.is_set():
            return
        self._left.pop(0)
        self.checks += checks
        self._show_checks()
        self._look_on()

    def _on_fail(self, given_up: Flag, problem: Problem) -> None:
        failed = Check(name="Doctor", status="problem", detail=problem.message, remedy=problem.remedy)
        self._on_checks(given_up, (failed,))

    def _show_words(self) -> None:
        counts = {status: sum(check.status == status for check in self.checks) for status in _MARKS}
        problems, notes = counts["problem"], counts["note"]
        words = [f"{problems} problem{'s' * (problems != 1)}"] if problems else []
        words += [f"{notes} note{'s' * (notes != 1)}"] if notes else []
        set_text(self._words, " and ".join(words) or "No problems found")
        self._show_buttons()

    def _show_buttons(self) -> None:
        self.again.setEnabled(not self._left)
        self.copy_button.setEnabled(not self._left)

    def _show_checks(self) -> None:
        self._area.setWidget(check_rows(self.checks))

    def _give_up(self) -> None:
        self._given_up.set()
        self._left = []

    def done(self, result: int) -> None:
        self._give_up()
        super().done(result)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Close with the window, but not when the window is minimized."""
        if event.type() == QEvent.Type.Hide and not event.spontaneous():
            self.close()
            self.stop()
        return False


def check_rows(checks: Sequence[Check]) -> QWidget:
    """Return a list of checks, problems first."""
    rows = QWidget()
    order = list(reversed(_MARKS))
    ordered = sorted(checks, key=lambda check: order.index(check.status))
    in_column(*map(_row, ordered), Stretch(1), parent=rows, margins=16, spacing=12)
    return rows


def _row(check: Check) -> QWidget:
    name, mark_name = _MARKS[check.status]
    row = QWidget()
    mark = QLabel()
    palette = theme().palette
    color = palette.text3 if check.status == "ok" else palette.text
    mark.setPixmap(pixmap(name, color, 16, row.devicePixelRatioF()))
    mark.setAccessibleName(mark_name)
    title = label(check.name, "body" if check.status == "ok" else "strong", wraps=True)
    title.setFixedWidth(_NAME_WIDTH)
    texts = [wrapped(check.detail, "body" if check.status == "ok" else "strong")]
    texts += [wrapped(check.remedy, "body")] if check.remedy else []
    row.setAccessibleName(f"{mark_name}: {check.name}. {check.detail} {check.remedy}".strip())
    in_row(
        in_column(mark, Stretch(1)),
        in_column(title, Stretch(1)),
        wide(in_column(*texts, Stretch(1), spacing=2)),
        parent=row,
        spacing=12,
    )
    return row
