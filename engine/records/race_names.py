"""What the lanes of a race are called, and what they trained on."""

from __future__ import annotations

from engine.experiment import Precision
from engine.records.lanes import Lane
from engine.records.race import LANES, Race, Which


def lane_name(race: Race, which: Which) -> str:
    """The name above a lane: "Full precision", "Mixed precision", or its side's title beside its like."""
    if not is_one_of_each(race):
        return race.lane(which).side.title
    return "Mixed precision" if is_mixed(race.lane(which)) else "Full precision"


def short_name(race: Race, which: Which) -> str:
    """The least that tells the lane from the other: "Mixed"; "fast" for "FP16 AMP, fast" against plain."""
    if is_one_of_each(race):
        return lane_name(race, which).partition(" ")[0]
    names = {one: lane_name(race, one) for one in LANES}
    heads = {name.partition(", ")[0] for name in names.values()}
    _, _, rest = names[which].partition(", ")
    return rest if rest and len(heads) == 1 else names[which]


def called(race: Race, which: Which) -> str:
    """The lane's name as it stands within a sentence."""
    name = lane_name(race, which)
    if is_one_of_each(race):
        return name.lower()
    return f"“{name}”" if "," in name else name


def is_mixed(lane: Lane) -> bool:
    """Whether the lane's run trained under autocast."""
    return lane.side.precision.is_autocast


def is_one_of_each(race: Race) -> bool:
    """Whether one lane trained in full and the other in mixed precision."""
    return is_mixed(race.full) is not is_mixed(race.mixed)


def is_usual(race: Race) -> bool:
    """Whether mixed precision is measured against full precision, and not the other way round."""
    return is_mixed(race.mixed) and not is_mixed(race.full)


def numbers(precision: Precision) -> str:
    """What a training computes with, in words with the term behind them."""
    return _NUMBERS[precision]


_NUMBERS = {
    Precision.FP32: "32-bit numbers (FP32)",
    Precision.TF32: "32-bit numbers, shortened to multiply (TF32)",
    Precision.DEFAULT: "32-bit numbers, PyTorch's default (FP32)",
    Precision.FP16: "mostly 16-bit numbers (FP16)",
    Precision.BF16: "mostly 16-bit numbers (BF16)",
    Precision.FP16_UNSCALED: "mostly 16-bit numbers (FP16, unscaled)",
}


def place(race: Race) -> str:
    """What the training ran on, in a word."""
    return "processor" if race.is_cpu else "card"


def opened(words: str) -> str:
    """Words as they begin a sentence."""
    return words[:1].upper() + words[1:]


def continued(words: str) -> str:
    """Words that begin a sentence, as they stand within one; an abbreviation stays as it is."""
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]
