"""The upkeep at each start of the window for an installation of the engine, in a thread. No Qt."""

from __future__ import annotations

from contextlib import suppress

import psutil

from engine.experiment.problem import Problem
from engine.installation.installed import Engine, State

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
