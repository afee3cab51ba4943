"""Examines the machine, plans the installation of PyTorch and performs it, in threads."""

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
from engine.installation.request import Installed, InstallRequest, Installs, Plan
from engine.worker.launcher import kept_awake, try_out
from gui.session.background import Background, own_error

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class InstallerBackend:
    """The functions that examine a machine, plan an installation of PyTorch and carry it out.

    There is one backend for this machine and one for each remote machine. Tests pass their own.
    """

    look: Callable[[], Description]
    plan: Callable[[InstallRequest, Callable[[], bool]], Plan]
    installer: Callable[[], Installs]


def local_backend() -> InstallerBackend:
    """Return the functions for this machine, imported on first use."""
    from engine.installation.installer import Installer
    from engine.installation.plan import make_plan

    def plan(wanted: InstallRequest, is_stopped: Callable[[], bool]) -> Plan:
        return make_plan(wanted, None, is_stopped)

    return InstallerBackend(description_here, plan, lambda: Installer(None, try_out))


def remote_backend(name: str) -> InstallerBackend:
    """Return the functions for a remote machine. Ammeter is copied there first, if its version differs."""
    from engine.machines.machine import Machines
    from engine.machines.program import RemoteInstaller

    def installer() -> RemoteInstaller:
        return RemoteInstaller(Machines().find(name))

    return InstallerBackend(
        lambda: installer().describe(), lambda wanted, _is_stopped: installer().plan(wanted), installer
    )


class EngineSetup(QObject):
    """Examines a machine, then plans, carries out, checks or removes an installation of PyTorch, in threads.

    `found` carries the Description of the machine. `planned` (InstallRequest, Plan) and `plan_failed`
    (InstallRequest, Problem) answer the last request for a plan.

    `began` carries the InstallRequest of an installation that was started. It waits while `may_begin` returns
    False, until `begin_if_waiting` is called and it returns True. `progressed` carries each InstallEvent,
    `paused_changed` whether it is paused. At the end, `problem` carries the Problem of a failure, or `ended`
    the Installation, None if it was stopped.

    `checked` carries the Problem of an incomplete installation, or None. `removed` carries the freed bytes.
    If checking or removing fails, `refused` carries the Problem.
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
        self,
        backend: InstallerBackend,
        parent: QObject | None = None,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(parent)
        self._backend, self._may_begin = backend, may_begin
        self._background = Background(self)
        # not behind a plan, which takes as long as the network does
        self._upkeep = Background(self)
        self._is_unwanted = Event()
        self._thread: _InstallThread | None = None
        self.is_paused = self.is_waiting = False
        """Whether an installation is paused, and whether it waits to start."""

    @property
    def is_busy(self) -> bool:
        """True if an installation is in progress, also if it is paused or waits."""
        return self._thread is not None

    def look(self) -> None:
        """Examine this machine."""
        self._background.do(self._backend.look, self.found.emit, self.problem.emit)

    def plan(self, wanted: InstallRequest) -> None:
        """Resolve a request, in place of the last one."""
        self.drop_plan()
        is_unwanted = self._is_unwanted = Event()

        def answer(signal: Callable[[InstallRequest, object], None], value: object) -> None:
            if not is_unwanted.is_set():
                signal(wanted, value)

        def resolve() -> Plan | None:
            try:
                return self._backend.plan(wanted, is_unwanted.is_set)
            except Stopped:
                return None

        self._background.do(
            resolve,
            lambda plan: answer(self.planned.emit, plan),
            lambda problem: answer(self.plan_failed.emit, problem),
        )

    def drop_plan(self) -> None:
        """Cancel the request that is being resolved."""
        self._is_unwanted.set()

    def check(self) -> None:
        """Check that no file of PyTorch is missing."""
        from engine.installation.installed import missing_files_problem

        self._upkeep.do(missing_files_problem, self.checked.emit, self.refused.emit)

    def remove(self) -> None:
        """Remove PyTorch with all downloads. Does nothing during an installation."""
        from engine.installation.installer import remove

        if not self.is_busy:
            self._upkeep.do(remove, self.removed.emit, self.refused.emit)

    def start(self, wanted: InstallRequest) -> None:
        """Install, reusing the files of an earlier attempt. Does nothing during an installation."""
        if self._thread is not None:
            return
        self.drop_plan()
        # without a parent, as in `Background`
        self._thread = _InstallThread(self._backend.installer(), wanted)
        self._thread.progressed.connect(self.progressed)
        self._thread.finished.connect(self._end)
        self.is_waiting = True
        self.begin_if_waiting()
        self.began.emit(wanted)

    def begin_if_waiting(self) -> None:
        """Start the waiting installation, if it may start now."""
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
        """Stop the installation and keep the downloaded files."""
        if self._thread is not None:
            self._thread.stop()
            if self.is_waiting:
                self._end()

    def shut_down(self) -> None:
        """Stop, keep the downloaded files, and wait for the threads. Nothing is reported any more."""
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

    def __init__(self, installer: Installs, wanted: InstallRequest) -> None:
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
            self.problem = own_error(error, "The installation")


_STAMP = "whole"


def look_after(engine: Engine, *, is_doubtful: bool = False) -> Problem | None:
    """Remove replaced installations of PyTorch, and return the problem of the current one, or None.

    The files of the installation are checked once after each boot, because a crash can lose them, and while
    it `is_doubtful`. That takes seconds, so a file next to them records that they were complete.
    """
    if engine.state is not State.READY or engine.packages is None:
        return engine.problem
    # needed once the window is open
    from engine.installation.installed import missing_files_problem
    from engine.installation.installer import remove_leftovers

    remove_leftovers()
    stamp = engine.packages.parent / _STAMP
    if not is_doubtful and stamp.exists() and stamp.stat().st_mtime > psutil.boot_time():
        return None
    problem = missing_files_problem()
    if problem is None:
        # in a read-only folder they are checked each time
        with suppress(OSError):
            stamp.touch()
    return problem
