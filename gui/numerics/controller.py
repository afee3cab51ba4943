"""Connects the form, the page Numerics and the session's numerics studies."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject

from engine.experiment.experiment import Experiment
from engine.experiment.presets import Preset
from engine.export.formats import NUMERICS
from engine.export.kinds.numerics import TITLES
from engine.protocol.numerics import FIRST_STEPS, Numerics, Part
from engine.store.record import RunRecord
from gui.answer.controller import StudyController
from gui.numerics.map_view import KEY
from gui.numerics.panel import NumericsPanel
from gui.session.experiments import Experiments
from gui.session.views import StudyView
from gui.setup.panel import SetupPanel

_NO_PARTS = "Select at least one part."


class NumericsController(StudyController[StudyView[Numerics]]):
    """Queues numerics studies of the form's experiment, shows them and exports them."""

    kind = NUMERICS

    def __init__(
        self,
        setup: SetupPanel,
        panel: NumericsPanel,
        experiments: Experiments,
        parent: QObject | None = None,
        *,
        follows: bool = True,
    ) -> None:
        super().__init__(experiments, "numerics", panel.show_view, panel.head, parent, follows=follows)
        self._setup, self._panel = setup, panel
        self._connect(follows)
        self._show_kept()

    def submit(self, experiment: Experiment, parts: Sequence[Part], run_id: str | None = None) -> None:
        """Queue a study of these parts and show it."""
        if not parts:
            self._refuse(_NO_PARTS)
            return
        # all steps of a run are searched for the first NaN or Inf
        steps = FIRST_STEPS if run_id is None else None
        wanted = Numerics(experiment=experiment, parts=tuple(parts), run_id=run_id, steps=steps)
        self._enqueue([experiment], lambda: self._experiments.submit_study(wanted))

    def find_nonfinite(self, run: RunRecord) -> None:
        """Search a run for its first NaN or Inf."""
        self._panel.tabs.open(TITLES["nan"])
        self.submit(run.experiment, ("nan",), run.id)

    def _connect(self, follows: bool) -> None:
        if follows:
            self._setup.register_handler(
                "numerics", lambda experiment: self.submit(experiment, self._panel.parts()), self._refuse
            )
            self._setup.preset_chosen.connect(self._choose_parts)
            self._panel.study_wanted.connect(lambda: self._setup.submit("numerics"))
        else:
            self._panel.study_wanted.connect(self._go_deeper)
        self._setup.draft_changed.connect(self._show_kept)
        self._panel.changes_wanted.connect(self._setup.use_changes)

    def _go_deeper(self) -> None:
        if (view := self._panel.view()) is not None:
            self.submit(view.study.experiments[0], self._panel.parts())

    def _choose_parts(self, preset: Preset) -> None:
        if preset.parts:
            self._panel.choose(preset.parts, only=True)
            self._panel.tabs.open(TITLES[preset.parts[0]])

    def _show_kept(self) -> None:
        patterns = self._setup.text(KEY).split(",")
        self._panel.show_kept([pattern.strip() for pattern in patterns if pattern.strip()])
