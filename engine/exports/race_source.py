"""The race in a content, for what draws it: with pictures of what was trained on, and the facts beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.exports.content import Content
from engine.exports.report import Report, report_of
from engine.exports.sheet import machine_line
from engine.patterns import patterns
from engine.problem import ProblemError
from engine.records.race import MOST_BLOCKS, Race, race_of
from engine.records.record import RunRecord
from engine.shades import brightened


@dataclass(frozen=True, eq=False)
class RaceSource:
    """A race, grey tiles (count, side, side), and lines on what was measured on what, and when."""

    race: Race
    tiles: NDArray[np.uint8]
    facts: tuple[str, ...]


def race_source(content: Content, side_id: str | None = None) -> RaceSource:
    """The race of a content's runs: of that side, else of the one that leads, else as `race_of` chooses.

    Raises ProblemError where they have none, with a sentence why.
    """
    race = race_of(content.comparison, content.curves, side_id or content.leading)
    return RaceSource(race, _tiles(content, race), _facts(content, race, report_of(content)))


def race_source_if_any(content: Content) -> RaceSource | None:
    """The race of the side that leads, else of the first in mixed precision; None where there is none."""
    sides = [answer.side for answer in report_of(content).answers]
    chosen = [side for side in sides if side.holds(content.leading)]
    for side in [*chosen, *sorted(sides, key=lambda side: not side.precision.is_autocast)]:
        try:
            return race_source(content, side.id)
        except ProblemError:
            # the baseline itself, or runs with nothing to replay
            continue
    return None


def _tiles(content: Content, race: Race) -> NDArray[np.uint8]:
    sheet = content.pictures(race.pictured)
    if sheet is not None:
        try:
            return brightened(sheet.tiles())
        except ValueError:
            # a damaged sheet is as good as none
            pass
    return patterns(MOST_BLOCKS)


def _facts(content: Content, race: Race, report: Report) -> tuple[str, ...]:
    made = f"made by Ammeter {content.version}"
    what = f"{report.subject} · {_measured((race.full.run, race.mixed.run))} · {made}"
    machine = machine_line(report)
    return what, machine if race.device in machine else f"{race.device} · {machine}".removesuffix(" · ")


def _measured(runs: tuple[RunRecord, ...]) -> str:
    days = sorted({f"{(run.started or run.created).astimezone():%Y-%m-%d}" for run in runs})
    return f"measured {' and '.join(days)}"
