"""Connect the form, the page Tune and the session's tunings."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from engine.experiment.experiment import Experiment
from engine.export.document import Action
from engine.export.formats import TUNE
from engine.protocol.tune import Tuning
from gui.answer.controller import StudyController
from gui.session.experiments import Experiments
from gui.session.views import StudyView
from gui.setup.panel import SetupPanel
from gui.tune.panel import TunePanel
from gui.widgets.buttons import ask_where


class TuneController(StudyController[StudyView[Tuning]]):
    """Queues tunings, shows them and exports them. `comparison_wanted` carries the ids of runs to compare."""

    kind = TUNE

    comparison_wanted = Signal(object)  # tuple[str, ...]

    def __init__(
        self,
        setup: SetupPanel,
        panel: TunePanel,
        experiments: Experiments,
        parent: QObject | None = None,
        *,
        follows: bool = True,
    ) -> None:
        super().__init__(experiments, "tune", panel.show_view, panel.head, parent, follows=follows)
        self._setup, self._panel = setup, panel
        panel.head.menu.offer("Tune again", lambda: self._order(self._works.repeat))
        if follows:
            setup.register_handler("tune", self.submit, self._refuse)
            panel.head.settings.clicked.connect(self._use)
        panel.resume.clicked.connect(lambda: self._order(self._works.resume))
        setup.draft_changed.connect(self._show_devices)
        panel.asked.connect(self._on_asked)

    def submit(self, experiment: Experiment) -> None:
        options = self._panel.options
        plan, cap = options.plan(), options.memory_cap_gib()
        self._enqueue([experiment], lambda: self._experiments.submit_tuning(experiment, plan, cap))

    def _show_devices(self) -> None:
        self._panel.options.show_devices(not self._setup.has_one_device)

    def _order(self, order: Callable[[str], str]) -> None:
        if (view := self._panel.view()) is not None:
            self._enqueue([view.answer.experiment], lambda: order(view.key))

    def _use(self) -> None:
        view = self._panel.view()
        if view is not None and view.answer.winner is not None:
            self._setup.use_settings(view.answer.winner)
            self.reported.emit("The fastest settings are in the form.")

    def _on_asked(self, action: Action) -> None:
        match action.name:
            case "compare":
                self.comparison_wanted.emit(action.value)
            case "script":
                kind = "Script of the fastest settings"
                path = ask_where(self._panel, "Write the script", "tuned.py", kind)
                if path is not None:
                    self.export(path)
