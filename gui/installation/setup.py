"""Looks at the machine, plans the engine's installation and carries it out, in threads of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Event

import psutil
from PySide6.QtCore import QObject, QThread, Signal

from engine.experiment.problem import Problem, ProblemError
from engine.installation.control import Stopped
from engine.installation.description import Description, description_here
from engine.installation.installed import Engine, Installation, State
from engine.installation.wanted import Installed, Installs, Plan, Wanted
from engine.worker.launcher import kept_awake, try_out
from gui.session.background import Background, own_error

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Means:
    """The functions that examine, plan and install; the engine's own unless a test brings others."""

    look: Callable[[], Description]
    plan: Callable[[Wanted, Callable[[], bool]], Plan]
    installer: Callable[[], Installs]


def own_means() -> Means:
    """The engine's own, imported when they are needed: most starts of the window do without."""
    from engine.installation.installer import Installer
    from engine.installation.plan import make_plan

    def plan(wanted: Wanted, is_stopped: Callable[[], bool]) -> Plan:
        return make_plan(wanted, None, is_stopped)

    return Means(description_here, plan, lambda: Installer(None, try_out))


def far_means(name: str) -> Means:
    """Those for another machine. The program is sent there first, if it is another."""
    from engine.machines.machine import Machines
    from engine.machines.program import FarInstaller

    def installer() -> FarInstaller:
        return FarInstaller(Machines().find(name))

    return Means(
        lambda: installer().describe(), lambda wanted, _is_stopped: installer().plan(wanted), installer
    )


class EngineSetup(QObject):
    """`found` carries what this machine is; `planned` (Wanted, Plan) or `plan_failed` (Wanted, Problem) the
    answer to the choice asked about last. An installation begins with `began` (Wanted), and waits until
    `may_begin`, which is asked then and by `begin_if_waiting`; it tells by
    `progressed` (InstallEvent), and ends with `ended` (the Installation, or None if it was stopped) or
    `problem`. `paused_changed` carries whether it pauses. `checked` carries the Problem of an engine that is
    not whole, or None; `removed` the bytes that were freed; `refused` the Problem of either.
    """

    found = Signal(object)
    planned = Signal(object, object)
    plan_failed = Signal(object, object)
    began = Signal(object)
    progressed = Signal(object)
    ended = Signal(object)
    problem = Signal(object)
    paused_changed = Signal(bool)
    checked = Signal(object)
    removed = Signal(object)
    refused = Signal(object)

    def __init__(
        self, means: Means, parent: QObject | None = None, may_begin: Callable[[], bool] = lambda: True
    ) -> None:
        super().__init__(parent)
        self._means, self._may_begin = means, may_begin
        self._background = Background(self)
        # not behind a plan, which takes as long as the network does
        self._upkeep = Background(self)
        self._is_unwanted = Event()
        self._thread: _InstallThread | None = None
        self.is_paused = self.is_waiting = False
        """Whether an installation pauses, and whether it waits until it may begin."""

    @property
    def is_busy(self) -> bool:
        """True if an installation is in progress, paused and waiting or not."""
        return self._thread is not None

    def look(self) -> None:
        """Finds out what this machine is."""
        self._background.do(self._means.look, self.found.emit, self.problem.emit)

    def plan(self, wanted: Wanted) -> None:
        """Resolves a choice, in place of the one asked about before."""
        self.drop_plan()
        is_unwanted = self._is_unwanted = Event()

        def answer(signal: Callable[[Wanted, object], None], value: object) -> None:
            if not is_unwanted.is_set():
                signal(wanted, value)

        def resolve() -> Plan | None:
            try:
                return self._means.plan(wanted, is_unwanted.is_set)
            except Stopped:
                return None

        self._background.do(
            resolve,
            lambda plan: answer(self.planned.emit, plan),
            lambda problem: answer(self.plan_failed.emit, problem),
        )

    def drop_plan(self) -> None:
        """No answer is wanted any more."""
        self._is_unwanted.set()

    def check(self) -> None:
        """Looks whether all the files of the engine are there."""
        from engine.installation.installed import whole_problem

        self._upkeep.do(whole_problem, self.checked.emit, self.refused.emit)

    def remove(self) -> None:
        """Removes the engine with all downloads. Nothing happens while it is busy."""
        from engine.installation.installer import remove

        if not self.is_busy:
            self._upkeep.do(remove, self.removed.emit, self.refused.emit)

    def start(self, wanted: Wanted) -> None:
        """Installs, or goes on where an earlier attempt stopped. Nothing happens while it is busy."""
        if self._thread is not None:
            return
        self.drop_plan()
        # without a parent, as in `Background`
        self._thread = _InstallThread(self._means.installer(), wanted)
        self._thread.progressed.connect(self.progressed)
        self._thread.finished.connect(self._end)
        self.is_waiting = True
        self.begin_if_waiting()
        self.began.emit(wanted)

    def begin_if_waiting(self) -> None:
        """Begins the installation that waits, if it may begin now."""
        if self._thread is not None and self.is_waiting and self._may_begin():
            self.is_waiting = False
            self._thread.start()

    def pause(self, is_paused: bool = True) -> None:
        if self._thread is not None and is_paused != self.is_paused:
            self.is_paused = is_paused
            installer = self._thread.installer
            (installer.pause if is_paused else installer.resume)()
            self.paused_changed.emit(is_paused)

    def stop(self) -> None:
        """Asks the installation to end; what was fetched is kept."""
        if self._thread is not None:
            self._thread.stop()
            if self.is_waiting:
                self._end()

    def shut_down(self) -> None:
        """Stops, keeping what was fetched, and waits for the threads; nothing is reported any more."""
        self.drop_plan()
        self._background.stop()
        self._upkeep.stop()
        if self._thread is not None:
            self._thread.finished.disconnect(self._end)
            self._thread.progressed.disconnect(self.progressed)
            self._thread.stop()
            self._thread.wait()
            self._thread = None

    def _end(self) -> None:
        thread = self._thread
        if thread is None:
            return
        # `finished` is emitted just before the thread has ended
        thread.wait()
        self._thread = None
        self.is_waiting = False
        if self.is_paused:
            self.is_paused = False
            self.paused_changed.emit(False)
        if thread.problem is not None and not thread.is_stopped:
            self.problem.emit(thread.problem)
        else:
            self.ended.emit(thread.installation)


class _InstallThread(QThread):
    progressed = Signal(object)

    def __init__(self, installer: Installs, wanted: Wanted) -> None:
        super().__init__()
        self.setObjectName("installation")
        self.installer = installer
        self._wanted = wanted
        self.installation: Installation | None = None
        self.problem: Problem | None = None
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True
        self.installer.stop()

    def run(self) -> None:
        try:
            with kept_awake():
                for event in self.installer.install(self._wanted):
                    if isinstance(event, Installed):
                        self.installation = event.installation
                    self.progressed.emit(event)
        except ProblemError as error:
            self.problem = error.problem
        except Exception as error:  # noqa: BLE001 - an error of ours must not end the window
            _log.exception("The installation failed.")
            self.problem = own_error(error, "Setting up")


_STAMP = "whole"


def look_after(engine: Engine, *, is_doubtful: bool = False) -> Problem | None:
    """Removes installations that were replaced while they were in use; what is wrong with the current one.

    Its files are looked at once after each start of the machine, since they are lost where it crashes, and
    while it `is_doubtful`: that takes seconds. A file beside them notes that they were whole.
    """
    if engine.state is not State.READY or engine.packages is None:
        return engine.problem
    # needed once the window is open
    from engine.installation.installed import whole_problem
    from engine.installation.installer import remove_leftovers

    remove_leftovers()
    stamp = engine.packages.parent / _STAMP
    if not is_doubtful and stamp.exists() and stamp.stat().st_mtime > psutil.boot_time():
        return None
    problem = whole_problem()
    if problem is None:
        # in a place that is read-only they are looked at each time
        with suppress(OSError):
            stamp.touch()
    return problem
