"""What the workspace Show plays: which runs, read in a thread once somebody looks, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from engine.problem import Problem
from gui.background import Background
from gui.panels.show import ShowPanel
from gui.raced import Choice, Raced, newest_choices, read_race
from gui.saved_runs import SavedRuns


class Showing(QObject):
    """`shown` when a race was read and stands in the panel; `refused` (Problem) where it could not be."""

    shown = Signal()
    refused = Signal(object)

    def __init__(
        self,
        store_path: Path,
        runs: SavedRuns,
        panel: ShowPanel,
        background: Background,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store_path, self._runs, self._panel, self._background = store_path, runs, panel, background
        self._choice: Choice | None = None
        self._raced: Raced | None = None
        self._refusal: Problem | None = None
        self._is_in_sight = self._is_held = self._is_to_play = self._is_welcoming = False
        self._reading = 0

    @property
    def raced(self) -> Raced | None:
        """What the panel plays, or would play if it were not held."""
        return self._raced

    def show_comparison(
        self, run_ids: Iterable[str], baseline: str | None = None, side_id: str | None = None
    ) -> None:
        """Plays a side of a comparison against its baseline, both as `Choice` has them."""
        self._choice = Choice(tuple(run_ids), baseline, side_id)
        self._raced = self._refusal = None
        if self._is_in_sight:
            self.open()

    def set_in_sight(self, is_in_sight: bool) -> None:
        """Nothing is read before somebody looks: reading takes a core from what is measured."""
        if is_in_sight == self._is_in_sight and not self._is_welcoming:
            return
        self._is_in_sight = is_in_sight
        if is_in_sight:
            self.open()
        else:
            self._refusal = None

    def welcome(self) -> None:
        """Shows the welcome, whatever could be played, until somebody looks again."""
        if not self._is_held:
            self._is_welcoming = True
            self._reading += 1
            self._panel.show_welcome()

    def hold(self, is_held: bool) -> None:
        """Leaves the panel to something else for a while."""
        self._is_held, self._refusal = is_held, None
        self._reading += 1

    def open(self) -> None:
        """Shows what was chosen, else the newest comparison that can be raced, else the welcome."""
        self._is_welcoming = False
        if self._is_held:
            return
        if self._refusal is not None:
            self.refuse(self._refusal)
            return
        if self._raced is not None and self._are_there(self._raced.choice):
            self._play()
            return
        self._raced = None
        if self._choice is not None and not self._are_there(self._choice):
            self._choice = None
        if self._choice is not None:
            self._read((self._choice,), self._refuse)
        elif newest := newest_choices(self._runs.records()):
            self._read(newest, lambda _problem: self._panel.show_welcome())
        else:
            self._panel.show_welcome()

    def refuse(self, problem: Problem) -> None:
        """Says why nothing could be measured, now or when somebody looks next."""
        self._refusal = problem
        self._panel.show_refusal(problem.message, problem.remedy, was_measured=True)

    def forget(self) -> None:
        """Shows anew at the next `open`, whatever stands in the panel now."""
        self._raced = None

    def state(self) -> dict[str, Any]:
        """What survives a restart: which race was shown last."""
        choice = self._choice
        if choice is None:
            return {}
        return {"runs": list(choice.run_ids), "baseline": choice.baseline, "side": choice.side}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes back what `state` gave. Raises ValueError for anything else."""
        run_ids, *others = (state.get(key) for key in ("runs", "baseline", "side"))
        if run_ids is None:
            return
        if not isinstance(run_ids, list) or not all(isinstance(one, str) for one in run_ids):
            raise ValueError(run_ids)
        if not all(one is None or isinstance(one, str) for one in others):
            raise ValueError(others)
        self._choice = Choice(tuple(run_ids), *others)

    def _are_there(self, choice: Choice) -> bool:
        return all(self._runs.record(run_id) is not None for run_id in choice.run_ids)

    def _read(self, choices: tuple[Choice, ...], fail: Callable[[Problem], object]) -> None:
        self._reading += 1
        number, path = self._reading, self._store_path
        self._background.do(
            lambda: read_race(path, choices), partial(self._take, number), partial(self._fail, number, fail)
        )

    def _take(self, number: int, raced: Raced) -> None:
        if number != self._reading:
            # something else was asked for meanwhile
            return
        self._raced = raced
        self._panel.show_race(raced.race, raced.tiles)
        self._is_to_play = True
        self._play()
        self.shown.emit()

    def _play(self) -> None:
        """Plays once what was read while somebody looks, or when somebody does."""
        if self._is_in_sight and self._is_to_play:
            self._is_to_play = False
            self._panel.play()

    def _fail(self, number: int, fail: Callable[[Problem], object], problem: Problem) -> None:
        if number == self._reading:
            fail(problem)

    def _refuse(self, problem: Problem) -> None:
        self._choice = None
        self._panel.show_refusal(problem.message, problem.remedy)
        self.refused.emit(problem)
