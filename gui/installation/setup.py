"""Examines the machine, plans the installation of PyTorch and performs it, in threads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import psutil
from PySide6.QtCore import QObject, Signal, SignalInstance

from engine.experiment.problem import Problem
from engine.installation.installed import Engine, Installation, State, missing_files_problem
from engine.installation.installer import Installer, Installs, remove, remove_leftovers
from engine.installation.request import Installed, InstallPlan, InstallRequest, Stopped
from engine.worker.launcher import kept_awake, try_out
from gui.session.background import Background


def local_installer() -> Installs:
    """Return an installer for this machine."""
    return Installer(None, try_out)


def remote_installer(name: str) -> Installs:
    """Return an installer for a remote machine, which copies Ammeter there if its version differs."""
    from engine.machines.machine import Machines
    from engine.machines.program import RemoteInstaller

    return RemoteInstaller(Machines().find(name))


class EngineSetup(QObject):
    """Examines a machine, then plans, carries out, checks or removes an installation of PyTorch, in threads.

    `found` carries the Description of the machine. `planned` (a Plan) and `plan_failed` (a
    Problem) answer the last request for a plan.

    `began` carries the InstallRequest of an installation that was started. It waits while `may_begin` returns
    False, until `begin_if_waiting` is called and it returns True. `progressed` carries each InstallEvent.
    At the end, `problem` carries the Problem of a failure, or `ended` the Installation, None if it was
    stopped.

    `checked` carries the Problem of an incomplete installation, or None. `removed` carries the freed bytes.
    If checking or removing fails, `refused` carries the Problem.
    """

    found = Signal(object)
    planned = Signal(object)
    plan_failed = Signal(object)
    began = Signal(object)
    progressed = Signal(object)
    ended = Signal(object)
    problem = Signal(object)
    checked = Signal(object)
    removed = Signal(object)
    refused = Signal(object)

    def __init__(
        self,
        make_installer: Callable[[], Installs],
        parent: QObject | None = None,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(parent)
        self._make_installer, self._may_begin = make_installer, may_begin
        self._background = Background(self)
        # not behind a plan, which takes as long as the network does
        self._upkeep = Background(self)
        self._work = Background(self)
        self._planner: Installs | None = None
        self._installer: Installs | None = None
        self._wanted = InstallRequest()
        self._is_stopped = False
        self.is_waiting = False
        """True while an installation waits to start."""

    @property
    def is_busy(self) -> bool:
        """True if an installation is in progress, also while it waits."""
        return self._installer is not None

    def look(self) -> None:
        """Examine this machine."""
        self._background.do(lambda: self._make_installer().describe(), self.found.emit, self.problem.emit)

    def plan(self, wanted: InstallRequest) -> None:
        """Resolve a request, in place of the last one."""
        self.drop_plan()
        planner = self._planner = self._make_installer()

        def resolve() -> InstallPlan | None:
            with suppress(Stopped):
                return planner.plan(wanted)
            return None

        def answer(signal: SignalInstance, value: object) -> None:
            if self._planner is planner:
                signal.emit(value)

        self._background.do(resolve, partial(answer, self.planned), partial(answer, self.plan_failed))

    def drop_plan(self) -> None:
        """Cancel the request that is being resolved."""
        if self._planner is not None:
            self._planner.stop()
            self._planner = None

    def check(self) -> None:
        """Check that no file of PyTorch is missing."""
        self._upkeep.do(missing_files_problem, self.checked.emit, self.refused.emit)

    def remove(self) -> None:
        """Remove PyTorch with all downloads. Does nothing during an installation."""
        if not self.is_busy:
            self._upkeep.do(remove, self.removed.emit, self.refused.emit)

    def start(self, wanted: InstallRequest) -> None:
        """Install, reusing the packages of an earlier attempt. Does nothing during an installation."""
        if self._installer is not None:
            return
        self.drop_plan()
        self._installer, self._wanted = self._make_installer(), wanted
        self._is_stopped = False
        self.is_waiting = True
        self.begin_if_waiting()
        self.began.emit(wanted)

    def begin_if_waiting(self) -> None:
        """Start the waiting installation, if it may start now."""
        if self._installer is not None and self.is_waiting and self._may_begin():
            self.is_waiting = False
            install = partial(self._install, self._installer, self._wanted)
            self._work.do(install, self._on_end, self._on_problem)

    def stop(self) -> None:
        """Stop the installation and keep the complete packages."""
        if self._installer is not None:
            self._is_stopped = True
            self._installer.stop()
            if self.is_waiting:
                self._on_end(None)

    def shut_down(self) -> None:
        """Stop, keep the complete packages, and wait for the threads. Nothing is reported any more."""
        self.drop_plan()
        self.blockSignals(True)
        if self._installer is not None:
            self._installer.stop()
        for background in (self._background, self._upkeep, self._work):
            background.stop()
        self._installer = None

    def _install(self, installer: Installs, wanted: InstallRequest) -> Installation | None:
        """Install PyTorch in the thread. Its signals arrive in the window's thread."""
        installation = None
        with kept_awake():
            for event in installer.install(wanted):
                if isinstance(event, Installed):
                    installation = event.installation
                self.progressed.emit(event)
        return installation

    def _on_problem(self, problem: Problem) -> None:
        if self._is_stopped:
            self._on_end(None)
            return
        self._installer = None
        self.problem.emit(problem)

    def _on_end(self, installation: Installation | None) -> None:
        self._installer, self.is_waiting = None, False
        self.ended.emit(installation)


_STAMP = "whole"


def look_after(engine: Engine, *, is_doubtful: bool = False) -> Problem | None:
    """Remove replaced installations of PyTorch, and return the problem of the current one, or None.

    The files of the installation are checked once after each boot, because a crash can lose them, and while
    it `is_doubtful`. That takes seconds, so a file next to them records that they were complete.
    """
    if engine.state is not State.READY or engine.packages is None:
        return engine.problem
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
