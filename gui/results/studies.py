"""The rows and pages of saved batch-size searches, numerics studies, profiles, sweeps and tunings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.experiment.sweep import Grid
from engine.export.formats import LIMIT
from engine.profile.gain import gains
from engine.protocol.numerics import Numerics, NumericsResults
from engine.protocol.profile import Profiles
from engine.protocol.trials import Limit
from engine.protocol.tune import Tuning
from engine.store.saved.studies import Study
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store
from engine.sweep.results import results_of
from engine.sweep.words import best_ratio
from engine.words.names import setting_text
from engine.words.numbers import counted, number
from gui.answer.controller import StudyController
from gui.limit.panel import LimitPanel
from gui.numerics.controller import NumericsController
from gui.numerics.panel import NumericsPanel
from gui.profile.controller import ProfileController
from gui.profile.panel import ProfilePanel
from gui.runs.table.rows import StudyKind, StudyRow
from gui.session.experiments import Experiments
from gui.session.views import StudyView
from gui.setup.panel import SetupPanel
from gui.sweep.controller import SweepController
from gui.sweep.panel import SweepPanel
from gui.tune.controller import TuneController
from gui.tune.panel import TunePanel


class _Limits(StudyController[StudyView[Limit]]):
    kind = LIMIT

    def __init__(
        self, setup: SetupPanel, panel: LimitPanel, experiments: Experiments, parent: QObject
    ) -> None:
        super().__init__(experiments, "limit", panel.show_view, panel.head, parent, follows=False)
        panel.changes_wanted.connect(setup.use_changes)


StudyPanel = LimitPanel | NumericsPanel | ProfilePanel | SweepPanel | TunePanel


class StudyMaker(QObject):
    """Makes the page and the controller for a kind of study, such as a profile or a sweep.

    `made` carries both. `reported` carries a message for the user.
    """

    made = Signal(object, object)
    reported = Signal(str)

    def __init__(
        self, store_path: Path, setup: SetupPanel, experiments: Experiments, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._store_path, self._setup, self.experiments = store_path, setup, experiments
        self._controllers: list[StudyController[Any]] = []

    def make(self, kind: StudyKind, parent: QWidget) -> tuple[StudyPanel, StudyController[Any]]:
        """Return a panel in `parent`, and its controller."""
        setup, experiments = self._setup, self.experiments
        panel: StudyPanel
        controller: StudyController[Any]
        match kind:
            case "limit":
                panel = LimitPanel(parent)
                controller = _Limits(setup, panel, experiments, self)
            case "numerics":
                panel = NumericsPanel(parent)
                controller = NumericsController(setup, panel, experiments, self, follows=False)
            case "profile":
                panel = ProfilePanel(parent)
                controller = ProfileController(setup, panel, experiments, self, follows=False)
            case "sweep":
                panel = SweepPanel(parent)
                controller = SweepController(self._store_path, setup, panel, experiments, self, follows=False)
            case "tune":
                panel = TunePanel(parent)
                controller = TuneController(setup, panel, experiments, self, follows=False)
        self._controllers.append(controller)
        self.made.emit(panel, controller)
        return panel, controller

    def stop(self) -> None:
        """Wait for reading and writing in progress."""
        for controller in self._controllers:
            controller.stop()


class StudyPages(QStackedWidget):
    """A stack with one page for each kind of study, made when a study of that kind is first opened.

    `settings_wanted` asks to put the settings of the study in front into the form.
    """

    settings_wanted = Signal()

    def __init__(self, maker: StudyMaker, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._maker = maker
        self._controllers: dict[StudyKind, StudyController[Any]] = {}
        self._panels: dict[StudyKind, StudyPanel] = {}

    def open(self, kind: StudyKind, key: str) -> None:
        """Show a study."""
        if kind not in self._controllers:
            panel, self._controllers[kind] = self._maker.make(kind, self)
            self._panels[kind] = panel
            self.addWidget(panel)
            panel.show_in_results()
            panel.head.settings.clicked.connect(self.settings_wanted)
        self.setCurrentWidget(self._panels[kind])
        self._controllers[kind].open(key)

    def set_in_sight(self, is_in_sight: bool) -> None:
        """Set whether a study is visible. Otherwise a sweep's cells are not read."""
        sweeps = self._controllers.get("sweep")
        if isinstance(sweeps, SweepController):
            sweeps.set_in_sight(is_in_sight and self.currentWidget() is self._panels["sweep"])


def read_studies(store_path: Path) -> tuple[StudyRow, ...]:
    """Return the saved studies in any order, without unreadable ones. Raises ProblemError."""
    with Store(store_path) as store:
        return tuple(_studies(store))


def _studies(store: Store) -> Iterator[StudyRow]:
    for entry in store.studies.newest():
        try:
            study = store.studies.find(entry.id)
        except ProblemError:
            # one damaged study must not hide the others
            continue
        yield study_row(study)
    for record in store.sweeps.bare.newest():
        yield _sweep_row(record, _ratio_of_sweep(store, record))


_RATIOS: dict[tuple[str, datetime], float | None] = {}
"""The ratios of finished sweeps by id and end, since their runs take long to read."""


def _ratio_of_sweep(store: Store, record: SweepRecord) -> float | None:
    """Return the best throughput over the baseline's best. None unless the sweep is over, and small."""
    if record.ended is None or record.grid.size > _MOST_READ:
        return None
    key = record.id, record.ended
    if key not in _RATIOS:
        try:
            _RATIOS[key] = best_ratio(results_of(store.sweeps.find(record.id)))
        except ProblemError:
            # a damaged sweep must not hide the others
            _RATIOS[key] = None
    return _RATIOS[key]


_MOST_READ = 200
"""The combinations of the largest sweep whose ratio is read for the list."""


def study_row(study: Study[Any]) -> StudyRow:
    answer = study.answer
    title, result, ratio, experiment = _TOLD[study.kind](answer)
    is_failed = study.problem is not None and not answer.is_known
    return StudyRow(
        study.kind,
        study.id,
        title,
        experiment.model,
        study.created,
        "failed" if is_failed else result,
        ratio,
        study.device_name,
        experiment,
        is_failed=is_failed,
        is_unfinished=not study.is_over,
    )


_Told = tuple[str, str, float | None, Experiment]
"""Title, result, ratio, and the experiment that *Use these settings* takes."""


def _limit_row(limit: Limit) -> _Told:
    best = limit.best
    sides = [limit.baseline] if best is None else [limit.baseline, best]
    sizes = " → ".join(f"{side.largest_batch:,}" for side in sides)
    return "Largest batch", f"{sizes} samples", limit.ratio, limit.baseline.experiment


def _numerics(numerics: Numerics) -> _Told:
    experiment = numerics.experiment
    return f"Numerics, {experiment.precision.label}", _finding(numerics.results), None, experiment


def _finding(results: NumericsResults) -> str:
    if results.nan is not None and (first := results.nan.first) is not None:
        return f"NaN or Inf from {first.module or first.operation}"
    if results.islands is not None and results.islands.modules is not None:
        return f"{counted(len(results.islands.modules), 'module')} need FP32"
    if results.range is not None:
        rows = results.range.rows
        losing = {row.module for row in rows if row.became_zero or row.became_nonfinite}
        modules = {row.module for row in rows}
        return f"{len(losing):,} of {counted(len(modules), 'module')} underflow or overflow"
    if results.nan is not None:
        return "no NaN or Inf"
    return "losses compared" if results.ladder is not None else "operations mapped"


_TITLES = {1: "Profile", 2: "Profile of both"}


def _profile(profiles: Profiles) -> _Told:
    first, count = profiles.sides[0].experiment, len(profiles.sides)
    title = f"Profile, {first.precision.label}" if count == 1 else _TITLES.get(count, f"Profile of {count}")
    ratios = [gain.ratio for gain in gains(profiles) if gain is not None and gain.ratio is not None]
    times = [number(profile.step_ms) for profile in profiles.measured()]
    result = f"{' → '.join(dict.fromkeys((times[0], times[-1])))} ms per step" if times else "failed"
    return title, result, max(ratios, default=None), first


def _tuning_row(tuning: Tuning) -> _Told:
    ratio = tuning.proof.speedup if tuning.proof is not None else None
    return "Tune", _fastest(tuning), ratio, tuning.winner or tuning.experiment


def _fastest(tuning: Tuning) -> str:
    if tuning.winner is None:
        return "nothing faster" if tuning.phase == "over" else "unfinished"
    return _settings_of(tuning.winner, tuple(tuning.winner_changes)) or "unchanged"


def _settings_of(experiment: Experiment, keys: Sequence[str]) -> str:
    texts = {"batch_size": f"batch {experiment.batch_size:,}", "precision": experiment.precision.label}
    recipe = setting_text("step.recipe", experiment.step.recipe)
    return ", ".join({**texts, "step.recipe": recipe}[key] for key in keys if key in {*texts, "step.recipe"})


_TOLD: dict[str, Any] = {"limit": _limit_row, "numerics": _numerics, "profile": _profile, "tune": _tuning_row}


def _sweep_row(record: SweepRecord, ratio: float | None) -> StudyRow:
    first = record.grid.cells[0].experiment
    return StudyRow(
        "sweep",
        record.id,
        record.name,
        first.model,
        record.created,
        _axes(record.grid),
        ratio,
        device=record.device_name,
        experiment=first,
        is_failed=record.problem is not None,
        is_unfinished=record.is_claimed,
    )


def _axes(grid: Grid) -> str:
    return f"{' × '.join(str(len(axis.values)) for axis in grid.axes)}, {counted(grid.size, 'combination')}"
