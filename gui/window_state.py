"""What of a window survives a restart: the form, the tables, the splitters, what is shown, and the theme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray

from gui.body import Body
from gui.kept import Kept, kept_bytes
from gui.motion import reduced_motion_choice, set_reduced_motion
from gui.plots.smoothing import smoothing
from gui.settings import Key
from gui.theme import theme

if TYPE_CHECKING:
    from gui.main_window import MainWindow


def kept_parts(window: MainWindow, body: Body) -> tuple[Kept, ...]:
    """The parts in the order in which they are brought back: the workspace after what it shows."""
    runs, middle = window.runs, body.middle
    return (
        Kept(Key.FORM, window.setup.state, window.setup.restore),
        Kept(Key.RUNS_TABLE, runs.state, runs.restore),
        Kept(Key.TICKED_RUNS, lambda: list(runs.checked()), runs.set_checked),
        Kept(Key.DOCK_OPEN, lambda: middle.is_open(body.workspace == "train"), runs.set_open),
        Kept(Key.DOCK_PAGE, lambda: window.dock.page, window.dock.show_page),
        kept_bytes(Key.GEOMETRY, window.saveGeometry, lambda value: _restore_geometry(window, value)),
        kept_bytes(Key.SIDE_SPLITTER, body.saveState, body.restoreState),
        Kept(Key.DOCK_HEIGHT, lambda: middle.chosen_height, middle.restore_height),
        Kept(Key.MEMORY_LIMIT, window.memory_limit.state, window.memory_limit.restore),
        Kept(Key.EXPORT, window.comparisons.state, window.comparisons.restore),
        Kept(Key.SHOW, window.shows.state, window.shows.restore),
        Kept(Key.REDUCED_MOTION, reduced_motion_choice, _restore_motion),
        Kept(Key.SMOOTHING, lambda: smoothing().steps, lambda steps: smoothing().set_steps(steps)),
        Kept(Key.WORKSPACE, lambda: body.workspace, window.show_workspace),
        Kept(Key.THEME, lambda: theme().mode, theme().set_mode),
    )


def _restore_geometry(window: MainWindow, value: QByteArray) -> bool:
    # Qt passes over that of a much smaller or larger screen, which is no fault of what is remembered
    window.restoreGeometry(value)
    return True


def _restore_motion(choice: object) -> None:
    if choice is not None and not isinstance(choice, bool):
        raise ValueError(choice)
    set_reduced_motion(choice)
