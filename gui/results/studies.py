"""The pages of opened limits, numerics, profiles, sweeps and tunings: the views that also show them live."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from engine.export.formats import LIMIT
from engine.protocol.trials import Limit
from gui.limit.panel import LimitPanel
from gui.numerics.controller import NumericsController
from gui.numerics.panel import NumericsPanel
from gui.profile.controller import ProfileController
from gui.profile.panel import ProfilePanel
from gui.runs.table.rows import StudyKind
from gui.session.experiments import Experiments
from gui.session.studies import StudyView
from gui.session.study_page import StudyController
from gui.setup.panel import SetupPanel
from gui.sweep.controller import SweepController
from gui.sweep.panel import SweepPanel
from gui.tune.controller import TuneController
from gui.tune.panel import TunePanel


class _Limits(StudyController[StudyView[Limit]]):
    """Shows saved limits. The form's own limit is another's affair."""

    def __init__(
        self, setup: SetupPanel, panel: LimitPanel, experiments: Experiments, parent: QObject
    ) -> None:
        super().__init__(
            experiments,
            experiments.limits,
            panel.show_view,
            stop_button=panel.stop,
            menu=panel.menu,
            parent=parent,
            follows=False,
        )
        panel.use_requested.connect(setup.use_batch)
        panel.export.asked.connect(self._export)
        panel.copied.connect(self.reported)

    def _export(self, path: Path) -> None:
        view = self._experiments.limits.view(self._key or "")
        if view is not None:
            self._write(lambda: LIMIT.export(view.study, path, force=True))


StudyPanel = LimitPanel | NumericsPanel | ProfilePanel | SweepPanel | TunePanel


class StudyMaker(QObject):
    """Makes a page for a study of a kind, and tells what all of them tell.

    `reported` carries what was done, or why nothing was; `written` the path of a file; `guide_wanted` a page
    of the guide; `comparison_wanted` and `runs_wanted` run ids.
    """

    reported = Signal(str)
    written = Signal(object)
    guide_wanted = Signal(str)
    comparison_wanted = Signal(object)
    runs_wanted = Signal(object)

    def __init__(
        self, store_path: Path, setup: SetupPanel, experiments: Experiments, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._store_path, self._setup, self.experiments = store_path, setup, experiments
        self._controllers: list[StudyController[Any]] = []

    def make(self, kind: StudyKind, parent: QWidget) -> tuple[StudyPanel, StudyController[Any]]:
        """A panel in `parent`, and what fills it."""
        makers: dict[StudyKind, Callable[[QWidget], tuple[StudyPanel, StudyController[Any]]]] = {
            "limit": self._limit,
            "numerics": self._numerics,
            "profile": self._profile,
            "sweep": self._sweep,
            "tune": self._tune,
        }
        panel, controller = makers[kind](parent)
        self._controllers.append(controller)
        controller.reported.connect(self.reported)
        controller.written.connect(self.written)
        if not isinstance(panel, LimitPanel):
            panel.guide_wanted.connect(self.guide_wanted)
        return panel, controller

    def stop(self) -> None:
        """Waits for what is being read or written."""
        for controller in self._controllers:
            controller.stop()

    def _limit(self, parent: QWidget) -> tuple[StudyPanel, StudyController[Any]]:
        panel = LimitPanel(parent)
        panel.show_alone()
        return panel, _Limits(self._setup, panel, self.experiments, self)

    def _numerics(self, parent: QWidget) -> tuple[StudyPanel, StudyController[Any]]:
        panel = NumericsPanel(parent)
        return panel, NumericsController(self._setup, panel, self.experiments, self, follows=False)

    def _profile(self, parent: QWidget) -> tuple[StudyPanel, StudyController[Any]]:
        panel = ProfilePanel(parent)
        return panel, ProfileController(self._setup, panel, self.experiments, self, follows=False)

    def _sweep(self, parent: QWidget) -> tuple[StudyPanel, StudyController[Any]]:
        panel, setup, experiments = SweepPanel(parent), self._setup, self.experiments
        sweeps = SweepController(self._store_path, setup, panel, experiments, self, follows=False)
        sweeps.comparison_wanted.connect(self.comparison_wanted)
        sweeps.runs_wanted.connect(self.runs_wanted)
        return panel, sweeps

    def _tune(self, parent: QWidget) -> tuple[StudyPanel, StudyController[Any]]:
        panel = TunePanel(parent)
        tunings = TuneController(self._setup, panel, self.experiments, self, follows=False)
        tunings.comparison_wanted.connect(self.comparison_wanted)
        return panel, tunings


class StudyPages(QStackedWidget):
    """Makes a page for each kind when one of it is first opened."""

    def __init__(self, maker: StudyMaker, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._maker = maker
        self._controllers: dict[StudyKind, StudyController[Any]] = {}
        self._panels: dict[StudyKind, StudyPanel] = {}
        self._actions: dict[StudyKind, QWidget] = {}

    def open(self, kind: StudyKind, key: str) -> QWidget | None:
        """Shows a study; its note and buttons, for the head."""
        if kind not in self._controllers:
            panel, self._controllers[kind] = self._maker.make(kind, self)
            self._panels[kind] = panel
            self.addWidget(panel)
            if not isinstance(panel, LimitPanel):
                self._actions[kind] = panel.head.give_actions()
        self.setCurrentWidget(self._panels[kind])
        self._controllers[kind].open(key)
        return self._actions.get(kind)

    def set_in_sight(self, is_in_sight: bool) -> None:
        """Sets whether a study is visible: else a sweep's cells are not read."""
        sweeps = self._controllers.get("sweep")
        if isinstance(sweeps, SweepController):
            sweeps.set_in_sight(is_in_sight and self.currentWidget() is self._panels["sweep"])
