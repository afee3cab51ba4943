"""Smoothing of noisy curves: the number of steps, chosen once for all plots."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication

WINDOWS = (0, 5, 9, 15, 25, 45, 75, 101)
"""The choices, in steps; 0 shows the raw values. Odd, so that a window has a middle."""
_USUAL = 15


class Smoothing(QObject):
    """The number of steps over which all plots smooth noisy curves. `changed` is emitted when it changes."""

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.steps = _USUAL

    def set_steps(self, steps: int) -> None:
        """Choose one of `WINDOWS`. Raises ValueError for anything else."""
        if steps not in WINDOWS:
            raise ValueError(f"Curves are not smoothed over {steps} steps: choose one of {WINDOWS}.")
        if steps != self.steps:
            self.steps = steps
            self.changed.emit()


def smoothing() -> Smoothing:
    """Return the application's smoothing. Raises RuntimeError without a QApplication."""
    application = QApplication.instance()
    if application is None:
        raise RuntimeError("Smoothing needs a QApplication.")
    return application.findChild(Smoothing) or Smoothing(application)
