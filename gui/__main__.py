"""The program `ammeter`. It opens the window and imports archives, or runs a command."""

from __future__ import annotations

import builtins
import gc
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.__main__ import quiet_interrupt
from engine.export.archive import ARCHIVE_SUFFIX
from engine.surroundings import repair_environment


def main() -> int:
    """Run the program on sys.argv and return its exit status."""
    repair_environment()
    archives = [Path(argument) for argument in sys.argv[1:]]
    if not all(archive.suffix.lower() == ARCHIVE_SUFFIX for archive in archives):
        with quiet_interrupt("--json" in sys.argv):
            from engine.cli.app import main as run_verb
        return run_verb(sys.argv[1:])
    # the window answers Ctrl+C itself once it is open
    with quiet_interrupt():
        return _open_window(archives)


def _open_window(archives: Sequence[Path]) -> int:
    # collecting garbage again and again while a thousand modules load is a tenth of the start; the window
    # then collects it by a timer
    gc.disable()
    from engine.doctor.display import display_problem

    problem = display_problem()
    if problem is not None:
        sys.stderr.write(f"{problem.message} {problem.remedy}\n")
        return 2 if problem.key == "display" else 1
    import PySide6.QtCore  # noqa: F401

    # PySide reads the source of every module that is imported after it, in case that asks for one of its
    # `__feature__`s, which is a tenth of the start: nothing here does
    builtins.__import__ = getattr(builtins, "__orig_import__", builtins.__import__)
    from gui.window.app import run

    return run(archives)


if __name__ == "__main__":
    sys.exit(main())
