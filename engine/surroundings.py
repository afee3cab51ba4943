"""Repairs the environment that cron, services and containers give a program."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def repair_environment() -> None:
    """Open closed standard streams, leave a folder that was removed, and replace ASCII by UTF-8."""
    _open_missing_streams()
    _leave_missing_folder()
    # once: an option of Python's own may insist on ASCII
    if sys.getfilesystemencoding() == "ascii" and os.environ.get("PYTHONUTF8") != "1":
        # names of files and runs could be neither read nor written, by the workers either
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _open_missing_streams() -> None:
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # Else the next file that is opened, such as that of the saved runs, would get this number, and
            # what a library prints. The lowest that is free: the streams before this one are open by now.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def _leave_missing_folder() -> None:
    try:
        Path.cwd()
    except OSError:
        # no relative path leads anywhere from there, and nothing can be written
        os.chdir("/proc" if Path("/proc").is_dir() else "/")
        sys.stderr.write("ammeter: The current folder was removed. Relative paths do not work.\n")
