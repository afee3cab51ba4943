"""Connect the form, the page Largest batch and the session's searches."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject

from engine.experiment.checks import DeviceEntry
from engine.experiment.experiment import Experiment
from engine.experiment.value import MIB_PER_GIB
from engine.export.formats import LIMIT
from engine.protocol.trials import Limit, LimitSide
from gui.answer.controller import StudyController
from gui.limit.panel import LimitPanel
from gui.session.experiments import Experiments
from gui.session.forecaster import Need
from gui.session.request import Request
from gui.session.views import StudyView
from gui.setup.check import default_memory_cap
from gui.setup.panel import SetupPanel


class LimitController(StudyController[StudyView[Limit]]):
    """Queues and shows searches for the largest batch, and forecasts the memory of the form's experiment."""

    kind = LIMIT

    def __init__(
        self, setup: SetupPanel, panel: LimitPanel, experiments: Experiments, parent: QObject | None = None
    ) -> None:
        super().__init__(experiments, "limit", panel.show_view, panel.head, parent)
        self._setup, self._panel = setup, panel
        self._forecaster = experiments.forecaster
        self._need: Need | None = None
        self._connect()

    def refresh(self) -> None:
        """Update the page from the form: device, cap, and experiments to forecast."""
        device = self._device()
        limit = self._cpu_limit()
        self._setup.cpu_limit_gib = limit
        cap = self._setup.text("memory_cap_gib") or ("" if limit is None else f"{limit:g}")
        self._panel.show_device(device, cap)
        self._forecaster.request(self._setup.to_forecast() if self._experiments.catalog is not None else ())
        self._show_need()

    def submit(self, request: Request) -> None:
        """Queue a search in each precision of the form, and show it."""
        self._enqueue((experiment for _, experiment in request.experiments), lambda: self._submitted(request))

    def _connect(self) -> None:
        self._setup.register_handler("limit", self.submit, self._refuse)
        self._setup.draft_changed.connect(self.refresh)
        self._panel.memory_chosen.connect(self._choose_memory)
        self._panel.changes_wanted.connect(self._setup.use_changes)
        self._forecaster.need_changed.connect(self._take_need)
        self._forecaster.refused.connect(self._setup.show_refusal)
        self._forecaster.made.connect(self._setup.survey_thread.survey_again)

    def _submitted(self, request: Request) -> str:
        sides = tuple(
            LimitSide(
                label=label,
                experiment=experiment,
                granularity=self._panel.options.granularity(),
                forecast=self._forecaster.lines(experiment),
            )
            for label, experiment in _distinct(request.experiments)
        )
        wanted = Limit(sides=sides, margin_fraction=self._panel.margin_fraction())
        return self._experiments.submit_study(wanted)

    def _choose_memory(self, size: str) -> None:
        device = self._device()
        if device is None or device.name != "cpu" or self._setup.text("memory_cap_gib"):
            self._setup.set_text("memory_cap_gib", size)
            return
        # in the form it would cap the runs as well, and a capped run has no speed on a CPU
        self._panel.cpu_limit_gib = float(size)
        self.refresh()

    def _take_need(self, need: Need | None) -> None:
        self._need = need
        self._show_need()

    def _show_need(self) -> None:
        device = self._device()
        device_mib = None if device is None else device.memory_mib
        if self._setup.question == "script":
            self._setup.foot.need.show_words("")
            return
        if self._setup.question != "limit":
            # the need is that of one cell; a sweep says what all need
            if not (self._setup.is_sweeping and self._setup.survey_thread.knows_memory()):
                self._setup.foot.need.show_need(
                    self._need,
                    self._cap_mib() or device_mib,
                    per_device=not self._setup.has_one_device,
                    most=self._most(),
                )
            return
        usual = self._cpu_limit() or default_memory_cap(device)
        usual_mib = device_mib if usual is None else usual * MIB_PER_GIB
        self._setup.foot.need.show_cap(self._cap_mib() or usual_mib, device_mib)

    def _most(self) -> str:
        """Return the label of the side that needs the most memory. Empty for a single one."""
        sides = self._setup.outcome().experiments
        needs = {label: self._forecaster.needed_mib(experiment) for label, experiment in sides}
        return max(needs, key=lambda label: needs[label] or 0.0) if len(needs) > 1 else ""

    def _device(self) -> DeviceEntry | None:
        catalog = self._experiments.catalog
        return catalog.device(self._setup.text("device")) if catalog is not None else None

    def _cpu_limit(self) -> float | None:
        device, limit = self._device(), self._panel.cpu_limit_gib
        if device is None or device.name != "cpu" or limit is None:
            return None
        return limit if 0 < limit * MIB_PER_GIB <= device.memory_mib else None

    def _cap_mib(self) -> float | None:
        experiments = self._setup.outcome().experiments
        cap = experiments[0][1].memory_cap_gib if experiments else None
        return None if cap is None else cap * MIB_PER_GIB


def _distinct(sides: Sequence[tuple[str, Experiment]]) -> list[tuple[str, Experiment]]:
    labels: dict[Experiment, str] = {}
    for label, experiment in sides:
        searched = experiment.model_copy(update={"batch_size": 1, "epochs": None, "steps": 20})
        labels.setdefault(searched, label)
    precisions = [experiment.precision for experiment in labels]
    return [
        (experiment.precision.label if precisions.count(experiment.precision) == 1 else label, experiment)
        for experiment, label in labels.items()
    ]
