"""Pretends that Python runs on Windows or macOS, so that the program's branches for these run on Linux.

    python elsewhere.py

As a program it imports every module of Ammeter on both, tells which failed, and is then a worker on Windows.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import os
import pkgutil
import platform
import runpy
import signal
import socket
import sys
import sysconfig
import time
import traceback
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace

PROGRAM = Path(__file__).parents[1]
FAILED = "cannot be imported on"
PROCESSOR = "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz"

_PACKAGES = ("engine", "gui", "resources")
_PLACES = tuple(str(PROGRAM / package) for package in _PACKAGES)
_UNIX_MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
_UNIX_NAMES: dict[ModuleType, str] = {
    os: "chown fchown fork forkpty getgid getloadavg getpgid getpriority getuid geteuid killpg lchown mkfifo "
    "nice openpty posix_fallocate posix_spawn pread pwrite register_at_fork sched_getaffinity sendfile "
    "setpgid setpriority setsid sysconf uname O_CLOEXEC O_DIRECTORY O_NOFOLLOW RTLD_LAZY RTLD_LOCAL RTLD_NOW",
    signal: "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 alarm "
    "pthread_kill pthread_sigmask setitimer sigwait",
    socket: "AF_UNIX",
    time: "tzset",
    faulthandler: "register",
}
_LINUX_NAMES: dict[ModuleType, str] = {os: "memfd_create posix_fallocate sched_getaffinity"}


def pretend(system: str) -> None:
    """Makes this process one of "win32" or "darwin" for all code of the program, for good."""
    # read once: later it would be looked for under the other system's name
    sysconfig.get_config_vars()
    sys.platform = system
    name, machine = {"win32": ("Windows", "AMD64"), "darwin": ("Darwin", "arm64")}[system]
    platform.system, platform.machine = lambda: name, lambda: machine
    for module, names in (_UNIX_NAMES if system == "win32" else _LINUX_NAMES).items():
        for gone in names.split():
            if hasattr(module, gone):
                delattr(module, gone)
    if system == "win32":
        sys.modules |= dict.fromkeys(_UNIX_MODULES)  # type: ignore[arg-type]
        sys.modules |= {"msvcrt": ModuleType("msvcrt"), "winreg": _registry()}
        kernel = SimpleNamespace(IsProcessorFeaturePresent=lambda feature: 1)
        ctypes.windll = SimpleNamespace(kernel32=kernel)  # type: ignore[attr-defined]
    sys.addaudithook(_hide_files_of_linux)


def _registry() -> ModuleType:
    """A registry that knows the processor."""
    registry = ModuleType("winreg")
    registry.HKEY_LOCAL_MACHINE = 0
    registry.OpenKey = lambda key, path: nullcontext(path)
    registry.QueryValueEx = lambda path, name: (PROCESSOR, 1)
    return registry


def _hide_files_of_linux(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and str(arguments[0]).startswith(("/proc/", "/sys/")):
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.endswith(("pathlib.py", "_local.py")):
            frame = frame.f_back
        if frame is not None and frame.f_code.co_filename.startswith(_PLACES):
            raise FileNotFoundError(arguments[0])


def import_all() -> Iterator[str]:
    """Imports every module of the program anew; yields a traceback for each that fails."""
    for name in [*sys.modules]:
        if name.partition(".")[0] in _PACKAGES:
            del sys.modules[name]
    for package in _PACKAGES:
        for info in pkgutil.walk_packages([str(PROGRAM / package)], f"{package}."):
            try:
                importlib.import_module(info.name)
            except BaseException:  # noqa: BLE001 - a module may even call sys.exit
                yield f"{info.name} {FAILED} {sys.platform}:\n{traceback.format_exc()}"


def main() -> None:
    """Imports all modules here, so that the libraries are this system's, then on macOS and on Windows."""
    sys.path.insert(0, str(PROGRAM))
    list(import_all())
    pretend("darwin")
    sys.stderr.writelines(import_all())
    pretend("win32")
    sys.stderr.writelines(import_all())
    sys.modules.pop("engine.worker.__main__", None)
    runpy.run_module("engine.worker", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
