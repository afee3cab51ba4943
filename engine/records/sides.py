"""The sides of a comparison: repeats of one experiment taken together, each under a name of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.experiment import Precision, flattened
from engine.parts import PLAIN
from engine.records.recipe_words import recipe_words
from engine.records.record import RunRecord
from engine.text import shortened

# What a run that waits has not been given yet: it is a repeat of runs that have it.
_OPEN = {"device": "auto", "image_size": None, "num_classes": None}
_ABSENT = object()


@dataclass(frozen=True)
class Side:
    """Repeats of one experiment: runs whose settings differ in nothing but the seed, name aside.

    They were made on devices of one name by one version of torch. `runs` has at least one, oldest first;
    `title` is unique among the sides of a comparison: "FP32", or "FP16 AMP, fast" where recipes differ.
    """

    runs: tuple[RunRecord, ...]
    title: str

    @property
    def id(self) -> str:
        """The id of its oldest run."""
        return self.runs[0].id

    @property
    def precision(self) -> Precision:
        return self.runs[0].experiment.precision

    @property
    def recipe(self) -> str:
        """The recipe that was asked for, in words: "plain", "fast", or the parts of it."""
        return recipe_words(self.runs[0].experiment.step.recipe)

    @property
    def detail(self) -> str:
        """What its title says beside the precision; "" where that is all of it."""
        return self.title.partition(", ")[2]

    def holds(self, run_id: str | None) -> bool:
        """Whether the run of that id is one of its repeats."""
        return any(run.id == run_id for run in self.runs)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its runs, oldest first."""
        return tuple(run.name for run in self.runs)


def sides_of(runs: Sequence[RunRecord]) -> tuple[Side, ...]:
    """The runs as sides, in the order in which the sides first appear."""
    groups: list[_Group] = []
    for run in runs:
        settings = _telling_settings(run)
        group = next((one for one in groups if _agree(one.settings, settings)), None)
        if group is None:
            groups.append(group := _Group(settings))
        elif run.environment is not None:
            group.settings = settings
        group.runs.append(run)
    ordered = [tuple(sorted(group.runs, key=lambda run: run.number)) for group in groups]
    titles = _titles([group[0] for group in ordered])
    return tuple(Side(group, title) for group, title in zip(ordered, titles, strict=True))


_IN_TURNS = 0.5


def is_in_turns(side: Side, other: Side) -> bool:
    """Whether the repeats of two sides were begun so much in turns that a drift hits both alike.

    It is measured by Somers' D of side and order (American Sociological Review 27, 1962): 0 for A B B A, a
    half for A B A B, 1 where the whole of one side came first. It is the part of a steady drift's worst bias
    that is left in a ratio of the two, and in turns is at most a half. A side of one run has no order.
    """
    mine, theirs = (np.array([run.started for run in one.runs if run.started]) for one in (side, other))
    if min(len(mine), len(theirs)) < 2:
        return True
    is_later = mine[:, np.newaxis] > theirs
    is_earlier = mine[:, np.newaxis] < theirs
    return abs(float(is_later.mean() - is_earlier.mean())) <= _IN_TURNS




@dataclass
class _Group:
    settings: dict[str, Any]
    runs: list[RunRecord] = field(default_factory=list)


def _telling_settings(run: RunRecord) -> dict[str, Any]:
    """What repeats of one experiment have in common."""
    settings = flattened(run.experiment)
    del settings["seed"]
    if run.environment is not None:
        settings["device_name"] = run.environment.device_name
        settings["torch"] = run.environment.torch
        return settings
    return {key: value for key, value in settings.items() if _OPEN.get(key, _ABSENT) != value}


def _agree(mine: dict[str, Any], theirs: dict[str, Any]) -> bool:
    return all(mine[key] == theirs[key] for key in mine.keys() & theirs.keys())


def _titles(firsts: Sequence[RunRecord]) -> list[str]:
    """A title for the first run of each side: as short as tells them apart."""
    titles = [run.experiment.precision.label for run in firsts]
    for word in (_model, _dataset, _recipe, _batch):
        titles = _extended(titles, [word(run) for run in firsts], everywhere=True)
    for word in (_device, _torch, _learning_rate, _name):
        titles = _extended(titles, [word(run) for run in firsts], everywhere=False)
    seen: dict[str, int] = {}
    for place, title in enumerate(titles):
        seen[title] = seen.get(title, 0) + 1
        if seen[title] > 1:
            titles[place] = f"{title} ({seen[title]})"
    return titles


def _extended(titles: list[str], words: list[str], *, everywhere: bool) -> list[str]:
    """The titles with their words where these differ: among all sides, or among those of one title."""
    extended = []
    for title, word in zip(titles, words, strict=True):
        among = {other for one, other in zip(titles, words, strict=True) if everywhere or one == title}
        extended.append(f"{title}, {word}" if word and len(among) > 1 else title)
    return extended


Word = Callable[[RunRecord], str]


def _recipe(run: RunRecord) -> str:
    return recipe_words(run.experiment.step.recipe or PLAIN)


def _batch(run: RunRecord) -> str:
    return f"batch {run.experiment.batch_size:,}"


def _model(run: RunRecord) -> str:
    return run.experiment.model


def _dataset(run: RunRecord) -> str:
    return run.experiment.dataset


def _device(run: RunRecord) -> str:
    return run.environment.device_name if run.environment else ""


def _torch(run: RunRecord) -> str:
    return f"torch {run.environment.torch}" if run.environment else ""


def _learning_rate(run: RunRecord) -> str:
    return f"rate {run.experiment.optimizer.learning_rate:g}"


def _name(run: RunRecord) -> str:
    return shortened(run.name)


def all_runs(sides: Iterable[Side]) -> tuple[RunRecord, ...]:
    """Every run of the sides, side by side."""
    return tuple(run for side in sides for run in side.runs)
