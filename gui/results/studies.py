"""The pages of opened limits, numerics, profiles, sweeps and tunings: the views that also show them live."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from gui.limit.panel import MemoryLimitPanel
from gui.numerics.controller import NumericsController
from gui.numerics.panel import NumericsPanel
from gui.runs.table.rows import StudyKind
from gui.session.experiments import Experiments
from gui.session.orders.controller import WorkController
from gui.session.orders.searches import SearchView
from gui.setup.panel import SetupPanel
from gui.sweep.controller import SweepController
from gui.sweep.fastest.controller import FastestController
from gui.sweep.fastest.panel import TunePanel
from gui.sweep.panel import SweepPanel
from gui.timing.controller import TimingController
from gui.timing.panel import TimingPanel


class _Limits(WorkController[SearchView]):
    """Shows saved limits. The form's own limit is another's affair."""

    def __init__(
        self, setup: SetupPanel, panel: MemoryLimitPanel, experiments: Experiments, parent: QObject
    ) -> None:
        super().__init__(
            experiments,
            experiments.searches,
            panel.show_search,
            stop_button=panel.stop,
            menu=panel.menu,
            parent=parent,
            follows=False,
        )
        panel.use_requested.connect(setup.use_batch)
        panel.export_failed.connect(self.reported)
        panel.copied.connect(self.reported)
        panel.exported.connect(self.written)


class StudyPages(QStackedWidget):
    """Makes a page for each kind when one of it is first opened.

    `reported` carries what was done, or why nothing was; `written` the path of a file; `guide_wanted` a page
    of the guide; `comparison_wanted` and `runs_wanted` run ids; `work_wanted` asks for the place where work
    is followed, after more of it was queued here.
    """

    reported = Signal(str)
    written = Signal(object)
    guide_wanted = Signal(str)
    comparison_wanted = Signal(object)
    runs_wanted = Signal(object)

    def __init__(
        self, store_path: Path, setup: SetupPanel, experiments: Experiments, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._store_path, self._setup, self._experiments = store_path, setup, experiments
        self._controllers: dict[StudyKind, WorkController[Any]] = {}
        self._panels: dict[StudyKind, QWidget] = {}
        self._is_in_sight = False

    def open(self, kind: StudyKind, key: str) -> None:
        """Shows a study."""
        if kind not in self._controllers:
            self._make(kind)
        self.setCurrentWidget(self._panels[kind])
        self._controllers[kind].open(key)
        self.set_in_sight(self._is_in_sight)

    def set_in_sight(self, is_in_sight: bool) -> None:
        """Sets whether a study is visible: else a sweep's cells are not read."""
        self._is_in_sight = is_in_sight
        sweeps = self._controllers.get("sweep")
        if isinstance(sweeps, SweepController):
            sweeps.set_in_sight(is_in_sight and self.currentWidget() is self._panels["sweep"])

    def stop(self) -> None:
        """Waits for what is being read or written."""
        for controller in self._controllers.values():
            controller.stop()

    def _make(self, kind: StudyKind) -> None:
        make: dict[StudyKind, Callable[[], tuple[QWidget, WorkController[Any]]]] = {
            "limit": self._limit,
            "numerics": self._numerics,
            "profile": self._profile,
            "sweep": self._sweep,
            "tune": self._tune,
        }
        panel, controller = make[kind]()
        self._panels[kind], self._controllers[kind] = panel, controller
        self.addWidget(panel)
        controller.reported.connect(self.reported)
        controller.written.connect(self.written)

    def _limit(self) -> tuple[QWidget, WorkController[Any]]:
        panel = MemoryLimitPanel(self)
        panel.show_alone()
        return panel, _Limits(self._setup, panel, self._experiments, self)

    def _numerics(self) -> tuple[QWidget, WorkController[Any]]:
        panel = NumericsPanel(self)
        panel.guide_wanted.connect(self.guide_wanted)
        return panel, NumericsController(self._setup, panel, self._experiments, self, follows=False)

    def _profile(self) -> tuple[QWidget, WorkController[Any]]:
        panel = TimingPanel(self)
        panel.guide_wanted.connect(self.guide_wanted)
        return panel, TimingController(self._setup, panel, self._experiments, self, follows=False)

    def _sweep(self) -> tuple[QWidget, WorkController[Any]]:
        panel = SweepPanel(self)
        panel.guide_wanted.connect(self.guide_wanted)
        setup, experiments = self._setup, self._experiments
        sweeps = SweepController(self._store_path, setup, panel, experiments, self, follows=False)
        sweeps.comparison_wanted.connect(self.comparison_wanted)
        sweeps.runs_wanted.connect(self.runs_wanted)
        return panel, sweeps

    def _tune(self) -> tuple[QWidget, WorkController[Any]]:
        panel = TunePanel(self)
        panel.guide_wanted.connect(self.guide_wanted)
        tunings = FastestController(self._setup, panel, self._experiments, self, follows=False)
        tunings.comparison_wanted.connect(self.comparison_wanted)
        return panel, tunings
