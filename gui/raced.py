"""A race as the workspace Show plays it, read from the store. No Qt: a thread does it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.problem import ProblemError, request_problem
from engine.records.comparison import compare
from engine.records.evidence import evidence_from
from engine.records.record import RunRecord
from engine.records.split import MOST_OTHERS
from engine.records.store import Store
from gui.compared import akin

if TYPE_CHECKING:
    from engine.records.race import Race

_MOST_TRIED = 5


@dataclass(frozen=True)
class Choice:
    """Which runs race; `baseline` is the id of any run of the full lane's side (None: as in Compare), and
    `side` that of the mixed lane's side (None: the first under autocast)."""

    run_ids: tuple[str, ...]
    baseline: str | None = None
    side: str | None = None


@dataclass(frozen=True, eq=False)
class Raced:
    """A race and grey pictures, (count, side, side), of what was trained on; None where there are none."""

    choice: Choice
    race: Race
    tiles: NDArray[np.uint8] | None


def read_race(store_path: Path, choices: Sequence[Choice]) -> Raced:
    """The first of the choices that can be raced. Raises ProblemError, of the first one, where none can."""
    first: ProblemError | None = None
    with Store(store_path) as store:
        for choice in choices:
            try:
                return _raced(store, choice)
            except ProblemError as error:
                first = first or error
    raise first or ProblemError(
        request_problem("There are no two runs to show side by side.", "Train a comparison first.")
    )


def newest_choices(runs: Iterable[RunRecord]) -> tuple[Choice, ...]:
    """The newest comparisons of which two runs are over, of `runs` from the newest to the oldest."""
    groups: dict[str, list[RunRecord]] = {}
    for run in runs:
        if run.comparison is not None and run.status.is_over:
            groups.setdefault(run.comparison, []).append(run)
    found = [tuple(run.id for run in reversed(group)) for group in groups.values() if len(group) > 1]
    return tuple(Choice(run_ids) for run_ids in found[:_MOST_TRIED])


def _raced(store: Store, choice: Choice) -> Raced:
    from engine.records.race import race_of  # the window's start does without it

    runs = [store.run(run_id) for run_id in choice.run_ids]
    curves = {run.id: store.samples(run.id) for run in runs}
    evidence = [evidence_from(run, store.events(run.id), curves[run.id]) for run in runs]
    # as in Compare: other saved runs may know how much of a gain is the recipe's
    comparison = compare(evidence, choice.baseline, others=akin(store.runs(MOST_OTHERS), runs))
    race = race_of(comparison, curves, choice.side)
    sheet = store.pictures.of_any(race.pictured)
    return Raced(choice, race, None if sheet is None else sheet.tiles())
