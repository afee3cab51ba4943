"""The start of the window: application, theme, store and event loop."""

from __future__ import annotations

import ctypes
import gc
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from PySide6.QtCore import QEvent, QEventLoop, Qt, QTimer, Signal
from PySide6.QtGui import QFileOpenEvent, QIcon
from PySide6.QtWidgets import QApplication, QMessageBox

from engine import __version__
from engine.experiment.problem import ProblemError
from engine.store.store import Store
from engine.worker.launcher import Launcher
from gui.session.garbage import collect_due
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.window.main_window import MainWindow
from gui.window.remembered import Key, Settings

_COLLECT_MS = 1_000


class Application(QApplication):
    """The Qt application. `file_opened` carries the path of a file that macOS asks the program to open."""

    file_opened = Signal(object)  # Path

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QFileOpenEvent) and event.file():
            self.file_opened.emit(Path(event.file()))
            return True
        return super().event(event)


def run_until(
    is_true: Callable[[], bool], asked_every_ms: int = 20, *, within_seconds: float | None = None
) -> None:
    """Run the event loop until `is_true`, for benchmarks and screenshots. Raises TimeoutError."""
    until = None if within_seconds is None else time.monotonic() + within_seconds
    loop, timer = QEventLoop(), QTimer(interval=asked_every_ms)

    def is_over() -> bool:
        return is_true() or (until is not None and time.monotonic() > until)

    timer.timeout.connect(lambda: loop.quit() if is_over() else None)
    timer.start()
    loop.exec()
    timer.stop()
    if until is not None and not is_true():
        raise TimeoutError(f"The condition was not met within {within_seconds:,.0f} s.")


def run(archives: Sequence[Path] = ()) -> int:
    """Open the window, import the archives, and return the exit status once it is closed.

    A window of this user that is open already imports them instead.
    """
    application = make_application()
    if archives:
        from gui.window.desktop import hand_over

        if hand_over(archives):
            return 0
    settings = Settings.load()
    settings.restore(Key.THEME, theme().set_mode)
    with ExitStack() as stack:
        try:
            store = stack.enter_context(Store())
            # a damaged store may open, and be found out only when the window reads it
            window = MainWindow(store, Launcher(), settings)
        except ProblemError as error:
            text = f"{error.problem.message}\n\n{error.problem.remedy}"
            box = QMessageBox(QMessageBox.Icon.Critical, "Ammeter", text)
            # a folder may be named <b>
            box.setTextFormat(Qt.TextFormat.PlainText)
            box.exec()
            return 1
        application.file_opened.connect(window.import_archive)
        window.painted.connect(lambda: _import_archives(window, archives))
        window.painted.connect(lambda: _make_rest(window))
        window.show()
        # Python's handler would only print a traceback in the next slot
        signal.signal(signal.SIGINT, lambda *_: window.close_without_asking())
        return application.exec()


def _import_archives(window: MainWindow, archives: Sequence[Path]) -> None:
    """Import archives, now and whenever another start of the program hands some over."""
    for archive in archives:
        window.import_archive(archive)
    # after the first paint, which loading a network library would delay
    from gui.window.desktop import Openings

    openings = Openings(window)
    openings.wanted.connect(window.import_archive)
    openings.listen()


def _make_rest(window: MainWindow) -> None:
    """Make the widgets that the first view does not need, so they are ready later.

    Between two parts the event loop handles the user's events.
    """
    timer = QTimer(window, interval=_COLLECT_MS)
    timer.timeout.connect(collect_due)
    parts: Iterator[Callable[[], object]] = iter(
        (
            lambda: window.live.page.ensurePolished(),
            lambda: window.setup.form.more.form.ensurePolished(),
            lambda: window.others.polish(),
            gc.freeze,
            timer.start,
        )
    )

    def make_next() -> None:
        for part in parts:
            part()
            QTimer.singleShot(0, window, make_next)
            return

    make_next()


def make_application(arguments: Sequence[str] | None = None) -> Application:
    """Return the application, new or existing, with its name, icon and theme."""
    if sys.platform == "win32":
        # otherwise the task bar counts the window as one of Python's and shows its icon
        ctypes.windll.shell32.SetCurrentProcessExplicitAppUserModelID("Ammeter")
    existing = QApplication.instance()
    words = list(arguments if arguments is not None else sys.argv[:1])
    application = existing if isinstance(existing, Application) else Application(words)
    application.setApplicationName("Ammeter")
    application.setApplicationDisplayName("Ammeter")
    application.setApplicationVersion(__version__)
    application.setDesktopFileName("org.ammeter.Ammeter")
    application.setWindowIcon(QIcon(pixmap("logo", theme().palette.text, 64, 1.0)))
    return application
