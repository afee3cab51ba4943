"""The doctor: whether the package, the machine and the engine are ready, and the remedy where not."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from engine.doctor.build import engine_checks
from engine.doctor.desktop import desktop_checks
from engine.doctor.package import package_checks
from engine.doctor.surroundings import (
    compiler_check,
    disk_check,
    libc_check,
    shared_memory_check,
    store_check,
    variable_checks,
)
from engine.experiment.paths import data_folder, store_path
from engine.experiment.problem import ProblemError
from engine.experiment.value import BYTES_PER_GIB
from engine.installation.installed import engine_here
from engine.installation.machine.hardware import hardware_here
from engine.installation.place import engines_folder
from engine.protocol import jobs
from engine.protocol.events import Check, Examined, Failed
from engine.worker.launcher import Launcher, iterate

_ENGINE_BYTES = 12 * BYTES_PER_GIB
"""Roughly what downloading and unpacking the largest build takes."""


def examine(launcher: Launcher) -> tuple[Check, ...]:
    """All checks."""
    return (*own_checks(), *worker_checks(launcher))


def own_checks() -> tuple[Check, ...]:
    """The checks that need neither torch nor a window."""
    environment, system = os.environ, sys.platform
    engine, hardware = engine_here(), hardware_here()
    shared = Path("/dev/shm")
    room = _ENGINE_BYTES if not engine.is_usable else 0.0
    checks = (
        *package_checks(),
        libc_check(system, platform.libc_ver()),
        *engine_checks(engine, hardware),
        *desktop_checks(environment, system),
        *variable_checks(environment),
        store_check(store_path()),
        disk_check("Disk", data_folder()),
        disk_check("Disk of the engine", engines_folder(), room),
        shared_memory_check(shutil.disk_usage(shared).total if shared.is_dir() else None),
        compiler_check(system, environment),
    )
    return tuple(check for check in checks if check is not None)


def worker_checks(launcher: Launcher, is_unwanted: Callable[[], bool] = lambda: False) -> tuple[Check, ...]:
    """The checks that need torch, in a worker; none without a usable engine, which `own_checks` reports.

    The worker is ended once `is_unwanted`, asked several times a second, says so.
    """
    if not engine_here().is_usable:
        return ()
    try:
        return _answer(launcher, is_unwanted)
    except ProblemError as error:
        problem = error.problem
        return (Check(name="Worker", status="problem", detail=problem.message, remedy=problem.remedy),)


def _answer(launcher: Launcher, is_unwanted: Callable[[], bool]) -> tuple[Check, ...]:
    session = launcher.start(jobs.Examine())
    try:
        for event in iterate(session):
            if isinstance(event, Examined):
                return event.checks
            if isinstance(event, Failed):
                raise ProblemError(event.problem, detail=event.detail)
            if is_unwanted():
                session.stop()
    finally:
        session.close()
    return ()
