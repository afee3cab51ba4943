"""The choice of the runs to replay, which is remembered and read from the store in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from engine.compare.comparison import compare
from engine.compare.evidence import evidence_from
from engine.compare.split import MOST_OTHERS
from engine.experiment.problem import Problem, ProblemError, request_error
from engine.protocol.pictures import brightened
from engine.race.race import Race, race_of
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.compare.reading import related_runs
from gui.demo.panel import DemoPanel
from gui.session.reader import Reader
from gui.session.saved_runs import SavedRuns

_MOST_TRIED = 5


@dataclass(frozen=True)
class RaceChoice:
    """The runs to replay against each other, as ids.

    `baseline` is a run of the full-precision side, None for the baseline chosen in Results. `side` is a run
    of the mixed-precision side, None for the first side that uses autocast.
    """

    run_ids: tuple[str, ...]
    baseline: str | None = None
    side: str | None = None


@dataclass(frozen=True, eq=False)
class RaceToShow:
    """A race of two runs to replay, and gray images of the dataset (count, side, side) or None."""

    choice: RaceChoice
    race: Race
    images: NDArray[np.uint8] | None


def read_race(store_path: Path, choices: Sequence[RaceChoice]) -> RaceToShow:
    """Read the first of the choices that can be raced. Raises the first one's ProblemError if none can."""
    first: ProblemError | None = None
    with Store(store_path) as store:
        for choice in choices:
            try:
                return _race_to_show(store, choice)
            except ProblemError as error:
                first = first or error
    raise first or request_error("There are no two runs to replay side by side.", "Run a comparison first.")


def newest_choices(runs: Iterable[RunRecord]) -> tuple[RaceChoice, ...]:
    """Return the newest comparisons with at least two finished runs. `runs` are newest first."""
    groups: dict[str, list[RunRecord]] = {}
    for run in runs:
        if run.comparison is not None and run.status.is_over:
            groups.setdefault(run.comparison, []).append(run)
    pairs = [tuple(run.id for run in reversed(group)) for group in groups.values() if len(group) > 1]
    return tuple(RaceChoice(run_ids) for run_ids in pairs[:_MOST_TRIED])


def _race_to_show(store: Store, choice: RaceChoice) -> RaceToShow:
    runs = [store.run(run_id) for run_id in choice.run_ids]
    curves = {run.id: store.curves(run.id).bins() for run in runs}
    evidence = [evidence_from(run, store.events(run.id), curves[run.id]) for run in runs]
    # as in Results: other saved runs may show how much of the gain comes from the optimizations
    comparison = compare(evidence, choice.baseline, others=related_runs(store.runs(MOST_OTHERS), runs))
    race = race_of(comparison, curves, choice.side)
    sheet = store.pictures(race.pictured)
    return RaceToShow(choice, race, None if sheet is None else brightened(sheet.tiles()))


class RaceReader(QObject):
    """Chooses two runs that can be raced and reads them in a thread. `shown` is emitted when a race is shown.

    `refused` carries a Problem if none of the runs can be raced.
    """

    shown = Signal()
    refused = Signal(object)

    def __init__(
        self,
        store_path: Path,
        runs: SavedRuns,
        panel: DemoPanel,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store_path, self._runs, self._panel = store_path, runs, panel
        self._reader = Reader(self._next_work, self)
        self._reader.read.connect(self._show_race)
        self._reader.failed.connect(self._on_failed)
        self.stop = self._reader.stop
        self._choice: RaceChoice | None = None
        self.raced: RaceToShow | None = None
        """The race in the panel, or behind a measurement. `open` reads it again if it is None."""
        self._refusal: Problem | None = None
        self._is_in_sight = self._is_held = self._is_to_play = self._is_welcoming = False

    @property
    def is_busy(self) -> bool:
        return self._reader.is_busy

    def show_comparison(
        self, run_ids: Iterable[str], baseline: str | None = None, side_id: str | None = None
    ) -> None:
        """Play a side of a comparison against its baseline, both as `RaceChoice` has them."""
        self._choice = RaceChoice(tuple(run_ids), baseline, side_id)
        self.raced = self._refusal = None
        if self._is_in_sight:
            self.open()

    def set_in_sight(self, is_in_sight: bool) -> None:
        """Set whether the page is visible. Otherwise nothing is read, as reading takes a core from a run."""
        if is_in_sight == self._is_in_sight and not self._is_welcoming:
            return
        self._is_in_sight = is_in_sight
        if is_in_sight:
            self.open()
        else:
            self._refusal = None

    def welcome(self) -> None:
        """Show the welcome instead of a race, until the page is shown again."""
        if not self._is_held:
            self._is_welcoming = True
            self._reader.drop()
            self._panel.show_welcome()

    def set_measuring(self, is_measuring: bool) -> None:
        """Set whether a measurement uses the panel. Nothing is replayed meanwhile."""
        self._is_held, self._refusal = is_measuring, None
        self._reader.drop()

    def open(self) -> None:
        """Show the chosen race, else the newest comparison that can be raced, else the welcome."""
        self._is_welcoming = False
        if self._is_held:
            return
        if self._refusal is not None:
            self.refuse(self._refusal)
            return
        if self.raced is not None and self._are_there(self.raced.choice):
            self._play()
            return
        self.raced = None
        if self._choice is not None and not self._are_there(self._choice):
            self._choice = None
        self._reader.refresh()

    def refuse(self, problem: Problem) -> None:
        """Show why nothing could be measured, now and when the page is shown next."""
        self._refusal = problem
        self._panel.show_refusal(problem.message, problem.remedy, was_measured=True)

    def state(self) -> dict[str, Any]:
        """Return the state to remember: the runs shown last."""
        choice = self._choice
        if choice is None:
            return {}
        return {"runs": list(choice.run_ids), "baseline": choice.baseline, "side": choice.side}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raises ValueError for a broken one."""
        run_ids, *others = (state.get(key) for key in ("runs", "baseline", "side"))
        if run_ids is None:
            return
        if not isinstance(run_ids, list) or not all(isinstance(run_id, str) for run_id in run_ids):
            raise ValueError(run_ids)
        if not all(run_id is None or isinstance(run_id, str) for run_id in others):
            raise ValueError(others)
        self._choice = RaceChoice(tuple(run_ids), *others)

    def _are_there(self, choice: RaceChoice) -> bool:
        return all(self._runs.record(run_id) is not None for run_id in choice.run_ids)

    def _next_work(self) -> Callable[[], RaceToShow] | None:
        choices = newest_choices(self._runs.records()) if self._choice is None else (self._choice,)
        if not choices:
            self._panel.show_welcome()
            return None
        return partial(read_race, self._store_path, choices)

    def _show_race(self, raced: RaceToShow) -> None:
        self.raced = raced
        self._panel.show_race(raced.race, raced.images)
        self._is_to_play = True
        self._play()
        self.shown.emit()

    def _play(self) -> None:
        if self._is_in_sight and self._is_to_play:
            self._is_to_play = False
            self._panel.play()

    def _on_failed(self, problem: Problem) -> None:
        if self._choice is None:
            self._panel.show_welcome()
            return
        self._choice = None
        self._panel.show_refusal(problem.message, problem.remedy)
        self.refused.emit(problem)
