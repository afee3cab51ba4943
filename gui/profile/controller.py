"""Connects the form, the runs, the page Profile and the session's profiles."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject

from engine.experiment.experiment import Experiment
from engine.export.formats import PROFILE
from engine.protocol.profile import Profiles, profiles_of
from gui.answer.controller import StudyController
from gui.profile.panel import ProfilePanel
from gui.session.experiments import Experiments
from gui.session.views import StudyView
from gui.setup.panel import SetupPanel


class ProfileController(StudyController[StudyView[Profiles]]):
    """Queues profiles of the form's experiments, shows them and exports them."""

    kind = PROFILE

    def __init__(
        self,
        setup: SetupPanel,
        panel: ProfilePanel,
        experiments: Experiments,
        parent: QObject | None = None,
        *,
        follows: bool = True,
    ) -> None:
        super().__init__(experiments, "profile", panel.show_view, panel.head, parent, follows=follows)
        if follows:
            setup.register_handler("profile", self.submit, self._refuse)
            panel.profile_wanted.connect(lambda: setup.submit("profile"))
        else:
            panel.profile_wanted.connect(self._profile_again)
        panel.again.clicked.connect(self._profile_again)
        panel.changes_wanted.connect(setup.use_changes)

    def submit(self, experiments: Sequence[Experiment], run_ids: Sequence[str | None] = ()) -> None:
        """Queue profiles of experiments, or of runs, and show them."""
        self._enqueue(experiments, lambda: self._experiments.submit_study(profiles_of(experiments, run_ids)))

    def profile_runs(self, run_ids: Sequence[str]) -> None:
        """Show the newest profile of these runs side by side, or make one."""
        known = self._experiments.find_profile(run_ids)
        if known is not None:
            self._show(known)
            self.page_wanted.emit()
        elif (against := self._experiments.why_not_profiled(run_ids)) is not None:
            self._refuse(against)
        else:
            runs = [run for run_id in run_ids if (run := self._experiments.runs.record(run_id)) is not None]
            self.submit([run.experiment for run in runs], run_ids)

    def _profile_again(self) -> None:
        view = self._view(self._key)
        if view is not None:
            runs = self._experiments.runs
            # a deleted run is profiled as what it was
            run_ids = [run_id if run_id and runs.record(run_id) else None for run_id in view.answer.run_ids]
            self.submit(view.answer.experiments, run_ids)
