"""The outcome of a comparison in words that claim no more than was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.records.cells import Cell
from engine.records.doubts import Doubt
from engine.records.evidence import Evidence
from engine.records.reasons import LITTLE_GAIN, likely_reason
from engine.records.sides import Side
from engine.records.speed_settings import differing_axes
from engine.records.split import Split
from engine.records.words import times

Cells = Mapping[str, Cell]


@dataclass(frozen=True)
class Verdict:
    """One side against the baseline; what does not apply is None.

    `speedup` is how many times as fast, with its 95 % interval from repeats. `accuracy` is the part of the
    sentence on accuracy, or on the loss without one ("" with neither). `reason` is why AMP is hardly faster
    or slower, likely; there is none of a measurement that was disturbed.
    """

    sentence: str
    speedup: float | None
    speedup_ci: tuple[float, float] | None
    memory_ratio: float | None
    accuracy: str
    reason: str | None


def verdict_of(
    side: Side,
    baseline: Side,
    cells: Cells,
    base_cells: Cells,
    doubts: tuple[Doubt, ...],
    split: Split | None,
    evidence: Mapping[str, Evidence],
) -> Verdict:
    """The verdict on `side`; `cells` are its figures by name, `evidence` that of each run by its id."""
    speed, memory = cells["samples_per_second"], cells["peak_memory"]
    quality = _quality(cells, base_cells)
    if side is baseline:
        return Verdict(_of_baseline(side, cells, doubts), speed.ratio, None, memory.ratio, "", None)
    own = _own_ratio(side, baseline, speed.ratio, split)
    is_spoiled = any(doubt.spoils for doubt in doubts)
    is_little = own is not None and own < LITTLE_GAIN and side.id in evidence and not is_spoiled
    reason = likely_reason(evidence[side.id], baseline.runs[0]) if is_little else None
    sentence = _sentence(side, baseline, cells, base_cells, quality, doubts, split)
    if reason is not None and own is not None:
        which = "It" if own == speed.ratio else "The precision by itself"
        is_slower = own < 1 and (own != speed.ratio or not _is_open(speed))
        sentence += f" {which} {'was slower' if is_slower else 'gained little'} here, likely since {reason}."
    return Verdict(sentence, speed.ratio, speed.ratio_interval, memory.ratio, quality, reason)


def _of_baseline(side: Side, cells: Cells, doubts: tuple[Doubt, ...]) -> str:
    speed, accuracy = cells["samples_per_second"].value, cells["accuracy"]
    if speed is None:
        return f"{side.title} is the baseline{_since(doubts)}"
    reached = f" and reached an accuracy of {_percent(accuracy)}" if accuracy.value is not None else ""
    return f"{side.title} is the baseline: it trained {speed:,.0f} samples a second{reached}."


def _sentence(
    side: Side,
    baseline: Side,
    cells: Cells,
    base_cells: Cells,
    quality: str,
    doubts: tuple[Doubt, ...],
    split: Split | None,
) -> str:
    speed, memory = cells["samples_per_second"], cells["peak_memory"].ratio
    in_memory = f" in {100 * memory:.0f} % of the memory" if memory is not None else ""
    if speed.ratio is None:
        is_unlike = speed.value is not None and base_cells["samples_per_second"].value is not None
        why = ": a sample is not the same thing to both." if is_unlike else _since(doubts)
        told = f"{side.title} and {baseline.title} cannot be compared in speed{why}"
        rest = "; ".join(part for part in (in_memory and f"{side.title} trained{in_memory}", quality) if part)
        return f"{told} Otherwise, {rest}." if rest else told
    told = f"{side.title} trained {times(speed.ratio)} times as fast as {baseline.title}"
    told += f" ({_certainty(speed, base_cells['samples_per_second'])}){in_memory}"
    return "; ".join(part for part in (told, split.headline if split else "", quality) if part) + "."


def _since(doubts: tuple[Doubt, ...]) -> str:
    """The end of a sentence on why there is no speed."""
    why = [doubt.sentence for doubt in doubts if doubt.kind in ("unfinished", "too-short", "no-speed")]
    return f": {why[0]}" if why else "."


def _certainty(speed: Cell, base: Cell) -> str:
    if speed.ratio_interval is not None:
        low, high = speed.ratio_interval
        unclear = ", so no difference is shown" if _is_open(speed) else ""
        return f"95 % interval {times(low)} to {times(high)}{unclear}"
    repeats = [len([value for value in cell.values if value is not None]) for cell in (speed, base)]
    if max(repeats) == 1:
        return "one run each, so no interval"
    return "too few repeats for an interval" if min(repeats) < 2 else "repeats not in turns, so no interval"


def _is_open(speed: Cell) -> bool:
    """Whether the interval leaves open which side is the faster one."""
    return speed.ratio_interval is not None and speed.ratio_interval[0] <= 1.0 <= speed.ratio_interval[1]


def _quality(cells: Cells, base_cells: Cells) -> str:
    """Accuracy, or without one the loss, against the baseline's and against the spread over repeats."""
    for name, words in (("accuracy", "accuracy"), ("final_train_loss", "final training loss")):
        mine, theirs = cells[name], base_cells[name]
        if mine.value is not None and theirs.value is not None:
            told = _percent if name == "accuracy" else _loss
            return f"{words} {told(mine)} against {told(theirs)}, {_spread(mine)}"
    return ""


def _spread(cell: Cell) -> str:
    if cell.within_spread is None:
        return "no spread known"
    return "within run-to-run spread" if cell.within_spread else "more apart than repeats are"


def _percent(cell: Cell) -> str:
    return f"{cell.value:.1f} %"


def _loss(cell: Cell) -> str:
    assert cell.value is not None
    if math.isinf(cell.value):
        return "infinity"
    return f"{cell.value:.3f}" if math.isfinite(cell.value) else "NaN"


def _own_ratio(side: Side, baseline: Side, speedup: float | None, split: Split | None) -> float | None:
    """The precision's own part of the speed-up where this side trained, whose figures give the reason."""
    if differing_axes(baseline.runs[0].experiment, side.runs[0].experiment) == ("precision",):
        return speedup
    return split.precision_ratio if split is not None else None
