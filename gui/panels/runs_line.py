"""One line of the runs table: a run at a glance, and the FP32 run that it is measured against. No Qt."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache

from engine.experiment import Precision
from engine.records.glance import Glance, glance, settings_but_precision
from engine.records.record import RunRecord, Status
from gui.panels.live_run import WITHOUT_PICTURES
from gui.panels.recipe_names import recipe_title
from gui.panels.runs_words import dataset_words, status_words


class Line:
    """A run with what the table says of it; what takes longer is worked out when it is asked for."""

    def __init__(self, run: RunRecord) -> None:
        self.run = run
        self.glance: Glance = glance(run)

    @property
    def has_pictures(self) -> bool:
        """Whether its samples are pictures, so that its speed is one of "img/s"."""
        return self.glance.dataset not in WITHOUT_PICTURES

    @cached_property
    def settings_key(self) -> tuple[str, str]:
        """The same for runs that differ in nothing but the precision, and were trained on alike devices."""
        device = self.run.environment.device_name if self.run.environment else ""
        return settings_but_precision(self.run), device

    @cached_property
    def words(self) -> str:
        """All that a word of the filter may stand in, casefolded."""
        run, seen = self.run, self.glance
        own = "\n".join((run.name, *run.tags, run.note)).casefold()
        shared = _shared_words(
            seen.model,
            seen.dataset,
            seen.image_size,
            seen.precision,
            seen.recipe,
            run.status,
            status_words(run),
        )
        return f"{own}\n{shared}"


@lru_cache(maxsize=4_096)
def _shared_words(
    model: str,
    dataset: str,
    image_size: int | None,
    precision: Precision,
    recipe: str,
    status: Status,
    how: str,
) -> str:
    # thousands of runs have the same
    told = (
        model,
        dataset_words(dataset, image_size),
        precision.value,
        precision.label,
        recipe_title(recipe),
        status.value,
        how,
    )
    return "\n".join(told).casefold()


class Baselines:
    """The FP32 run that each run is measured against: the newest finished one of the same settings.

    One that was disturbed counts only where there is no other.
    """

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self._newest: dict[tuple[str, str], Line] = {}
        for line in filter(_is_baseline, lines):
            known = self._newest.setdefault(line.settings_key, line)
            if _rank(known) < _rank(line):
                self._newest[line.settings_key] = line

    def of(self, line: Line) -> Line | None:
        """What the run is measured against; None without any."""
        return line if _is_baseline(line) else self._newest.get(line.settings_key)

    def ratio(self, line: Line) -> float | None:
        """The run's speed as a multiple of its baseline's; None where either is missing."""
        mine, baseline = line.glance.speed, self.of(line)
        theirs = baseline.glance.speed if baseline is not None else None
        return mine / theirs if mine is not None and theirs else None

    def spoiled(self, line: Line) -> tuple[Line, ...]:
        """The run and its baseline as far as they were disturbed: nothing follows from their ratio."""
        baseline = self.of(line)
        both = (line,) if baseline is None or baseline is line else (line, baseline)
        return tuple(one for one in both if one.glance.is_spoiled)


def _is_baseline(line: Line) -> bool:
    return line.glance.precision is Precision.FP32 and line.run.status is Status.FINISHED


def _rank(line: Line) -> tuple[bool, int]:
    return not line.glance.is_spoiled, line.run.number
