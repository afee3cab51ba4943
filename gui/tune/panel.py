"""The page of the question Tune: the search for the fastest settings, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QWidget

from engine.export.formats import TUNE
from engine.protocol.tune import Tuning
from gui.session.orders.head import WorkHead
from gui.session.orders.studies import StudyView
from gui.tune.options import FastestOptions
from gui.tune.page import FastestPage
from gui.tune.words import fraction_done, state
from gui.widgets import Button
from gui.widgets.boxes import in_column, wide


class TunePanel(QFrame):
    """Shows a tuning. `options` are what it may change, which stand in the form."""

    guide_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "page")
        self._view: StudyView[Tuning] | None = None
        self.options = FastestOptions()
        self.options.guide_wanted.connect(self.guide_wanted)
        self.go_on = Button("Go on", "strip", "Goes on with the search", "play")
        self.head = WorkHead("Tune", "search", "trials", TUNE.formats, self.go_on)
        self.page = FastestPage()
        panel = QFrame()
        panel.setProperty("surface", "panel")
        in_column(self.head.problem, wide(self.page), parent=panel, margins=(12, 10, 12, 8), spacing=8)
        in_column(self.head, wide(panel), parent=self, margins=16, spacing=8)
        self.show_view(None)

    def show_view(self, view: StudyView[Tuning] | None) -> None:
        """Shows how far a tuning is; None for the empty state."""
        self._view = view
        self.go_on.setVisible(view is not None and not view.is_unfinished and not view.is_complete)
        if view is None:
            self.head.show_view(None, "", 0.0, None, is_known=False)
            self.page.show_empty()
            return
        self.page.show_view(view)
        tuning = view.answer
        self.head.show_view(view, state(view), fraction_done(tuning), None, is_known=bool(tuning.trials))

    def view(self) -> StudyView[Tuning] | None:
        return self._view

    def state(self) -> dict[str, Any]:
        """What is remembered across a restart, as plain JSON values."""
        return self.options.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a `state`. Raises KeyError or TypeError for a broken one."""
        if state:
            self.options.restore(state)
