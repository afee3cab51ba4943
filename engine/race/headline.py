"""The headline of a race: the names of its lanes, its title, and its result in a plain sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from engine.compare.evidence import LITTLE_GAIN, DoubtKind
from engine.compare.metrics import SPEED, is_comparable
from engine.compare.sides import differing_axes, unlike_settings
from engine.compare.verdict import energy_words
from engine.experiment.experiment import Precision
from engine.race.lanes import Lane
from engine.race.race import LANES, Race, Which
from engine.words.names import optimizations_words
from engine.words.numbers import pace_text


def lane_name(race: Race, which: Which) -> str:
    """Return a lane's name: "Full precision", "Mixed precision", or its side's title if both are alike."""
    if not is_one_of_each(race):
        return race.lane(which).side.title
    return f"{_amp(race, which)} precision"


def _amp(race: Race, which: Which) -> str:
    return "Mixed" if is_mixed(race.lane(which)) else "Full"


def short_name(race: Race, which: Which) -> tuple[str, ...]:
    """Return the shortest name that distinguishes the lane, in pieces to join by commas.

    For example "Mixed", or "fast" for "FP16 AMP, fast" against plain.
    """
    if is_one_of_each(race):
        return (_amp(race, which),)
    side = race.lane(which).side
    same_label = len({race.lane(lane).side.label for lane in LANES}) == 1
    return (side.note,) if side.note and same_label else tuple(filter(None, (side.label, side.note)))


def prose_name(race: Race, which: Which) -> str:
    """Return the lane's name for use in a sentence."""
    name = lane_name(race, which)
    if is_one_of_each(race):
        return name.lower()
    return f"“{name}”" if race.lane(which).side.note else name


def is_mixed(lane: Lane) -> bool:
    """Return True for a lane whose run trained under autocast."""
    return lane.side.precision.is_autocast


def is_one_of_each(race: Race) -> bool:
    """Return True if one lane trained in full and the other in mixed precision."""
    return is_mixed(race.full) is not is_mixed(race.mixed)


NUMBERS = {
    Precision.FP32: "32-bit numbers (FP32)",
    Precision.TF32: "32-bit numbers, rounded to multiply (TF32)",
    Precision.DEFAULT: "32-bit numbers, PyTorch's default (FP32)",
    Precision.FP16: "mostly 16-bit numbers (FP16)",
    Precision.BF16: "mostly 16-bit numbers (BF16)",
    Precision.BF16_PURE: "16-bit numbers throughout (BF16)",
    Precision.FP16_UNSCALED: "mostly 16-bit numbers (FP16, unscaled)",
    Precision.FP8: "mostly 8-bit and 16-bit numbers (FP8)",
}
"""The numbers that a training computes with, in words with the term behind them."""


def device_kind(race: Race) -> str:
    """Return the kind of device that the training ran on: "CPU" or "GPU"."""
    return "CPU" if race.is_cpu else "GPU"


def capitalized(words: str) -> str:
    """Return the words with a capital, for the start of a sentence."""
    return words[:1].upper() + words[1:]


_NOT_OF_THE_TRAINING = (
    "steps",
    "epochs",
    "measure.warmup_steps",
    "measure.block_steps",
    "validation.limit",
)
"""Settings that may differ within the same training, as they do not change the replayed part."""

_HARDLY = 0.97
_MUCH_APART = 0.85
_WORTH_A_WORD = 1.02

Unlike = Literal["training", "machine", "settings"]


def title(race: Race) -> str:
    """Return the headline: the two trainings, or the disturbance of a disturbed measurement."""
    if race.report.disqualifiers:
        return DISTURBED[race.report.disqualifiers[0].kind][0].format(place=device_kind(race))
    mine, theirs = race.full.run.experiment, race.mixed.run.experiment
    unlike = _unlike(race)
    if unlike == "training":
        return "Two different trainings, side by side"
    same = "Nearly the same" if _differs_in_settings(race) else "The same"
    if unlike == "machine":
        on_cpu = {lane.run.experiment.device == "cpu" for lane in (race.full, race.mixed)}
        places = "machines" if len(on_cpu) > 1 else f"{device_kind(race)}s"
        return f"{same} training on two {places}, side by side"
    if mine.batch_size != theirs.batch_size:
        sizes = f"{mine.batch_size:,} and with {theirs.batch_size:,}"
        return f"{same} training with {sizes} {race.unit} at once, side by side"
    return f"{same} training on the same {device_kind(race)}, side by side"


DISTURBED: Mapping[DoubtKind, tuple[str, str]] = {
    "other-program": (
        "Other programs disturbed this measurement",
        "The counts show what each run did in that time. Measure again when nothing else is running.",
    ),
    "throttled": (
        "The {place} slowed down during this measurement",
        "The counts show what each run did in that time. Measure again once it has cooled down.",
    ),
    "spilled": (
        "This training did not fit in GPU memory",
        "The driver moved the rest to system memory, which is slow. Use a smaller batch.",
    ),
}
"""The event and its meaning, for each kind of doubt that spoils a measurement."""


def _unlike(race: Race) -> Unlike | None:
    if race.is_unlike:
        return "training"
    machines = [lane.run.environment for lane in (race.full, race.mixed)]
    if len({machine.device_name for machine in machines if machine is not None}) > 1:
        return "machine"
    return "settings" if _differs_in_settings(race) else None


def _differs_in_settings(race: Race) -> bool:
    keys = {key for key, _, _ in unlike_settings(race.full.run.experiment, race.mixed.run.experiment)}
    return bool(keys.difference(_NOT_OF_THE_TRAINING))


def sentence(race: Race) -> str:
    """Return the result and its reason in plain words: one to three short sentences."""
    if race.report.disqualifiers:
        return DISTURBED[race.report.disqualifiers[0].kind][1].format(place=device_kind(race))
    if race.ratio is None:
        reason = why_no_ratio(race)
        return f"{reason}, so there is no speedup to report. The replay shows both runs."
    # which lane did not get to the end, and why
    stopped = (which for which in LANES if race.lane(which).stopped)
    ends = [
        f"{capitalized(prose_name(race, which))} {race.lane(which).stopped} on the way." for which in stopped
    ]
    return " ".join([_result(race, race.ratio), *ends[:1]])


def _result(race: Race, ratio: float) -> str:
    unlike = _unlike(race)
    if unlike is not None or is_mixed(race.full) or not is_mixed(race.mixed):
        result = f"{'was' if ratio >= 1 else 'took'} {pace_text(ratio)} as {prose_name(race, 'full')}"
        measured = f"{capitalized(prose_name(race, 'mixed'))} {result}."
        return measured if unlike is None else f"{measured} {_CAUTIONS[unlike]}"
    return " ".join(filter(None, (_against_full(race, ratio), _beside_precision(race))))


_CAUTIONS: Mapping[Unlike, str] = {
    "training": "The two trainings differ, so precision is not the only cause.",
    "machine": "They ran on different machines, so precision is not the only cause.",
    "settings": "Other settings differ too, so precision may not be the only cause.",
}


def why_no_ratio(race: Race) -> str:
    """Return why the speeds of the two cannot be compared, as a main clause."""
    if not is_comparable(SPEED, race.mixed.side, race.full.side):
        is_text = race.unit == "sequences"
        kinds = "texts of different lengths" if is_text else "different kinds of data"
        return f"The two train on {kinds}"
    for kind, words in _NO_SPEED.items():
        for which in LANES:
            lane, name = race.lane(which), capitalized(prose_name(race, which))
            if any(doubt.kind == kind and doubt.side_id == lane.side.id for doubt in race.doubts):
                return f"{name} {lane.stopped} on the way" if lane.stopped else f"{name} {words}"
    return "The speed of one of the two is unknown"


_NO_SPEED = {
    "unfinished": "did not finish training",
    "too-short": "trained too briefly for a reliable speed",
    "no-speed": "has no reliable speed",
}


def _against_full(race: Race, ratio: float) -> str:
    """Return the result of mixed precision against full precision, in the same training on one machine."""
    because, causes = f", likely because {race.reason}" if race.reason else "", _causes(race)
    energy, memory = race.report.verdict.energy_ratio, race.memory_ratio
    less = ["less memory"] if memory is not None and memory < _HARDLY else []
    less += [energy_words(energy)] if energy is not None and energy < 1 else []
    needs = f" It does use {' and '.join(less)}." if less else ""
    if race.claim is None or _HARDLY <= ratio <= 1 / _HARDLY:
        low, high = race.ratio_interval or (1.0, 1.0)
        if low < _MUCH_APART or high > 1 / _MUCH_APART or not race.matches_ratio:
            return "The measurements vary too much to show which of the two is faster."
        return f"Mixed precision is about as fast as full precision here{because}.{needs}"
    if ratio < 1 and causes:
        together = f"With {causes}, mixed precision took longer than full precision here"
        return f"{together}{because}.{needs}"
    if ratio < 1:
        choice = f"For this training, full precision is the better choice on this {device_kind(race)}."
        return f"{choice} Mixed precision took longer{because}.{'' if race.reason else _IT_HAPPENS}{needs}"
    if ratio < LITTLE_GAIN:
        return f"Mixed precision is only a little faster here{because}.{needs}"
    own = _own_part(race)
    if own is not None and own < LITTLE_GAIN:
        did = "gained little" if own >= 1 else "made the training slower"
        return f"This gain comes from {causes}. Mixed precision by itself {did} ({pace_text(own)})."
    saving = " and to store" if memory is not None and memory < 1 else ""
    bits = "8-bit" if race.mixed.side.precision is Precision.FP8 else "16-bit"
    arithmetic = f"the {device_kind(race)} does most of its arithmetic with {bits} numbers"
    return f"With mixed precision, {arithmetic}: less data to move{saving}."


_IT_HAPPENS = " This happens above all with small models, because converting the numbers takes time too."


def _beside_precision(race: Race) -> str:
    own, causes = _own_part(race), _causes(race)
    is_gain = race.claim is not None and (race.ratio or 0.0) >= LITTLE_GAIN
    if not causes or (own is not None and own < LITTLE_GAIN and is_gain):
        return ""
    if own is None:
        return f"Part of this comes from {causes}, but how much was not measured."
    rest = (race.ratio or 0.0) / own
    made = f"By itself, mixed precision {'makes it' if own >= 1 else 'takes'} {pace_text(own)}"
    if 1 / _WORTH_A_WORD <= rest < _WORTH_A_WORD:
        return ""
    if (own < 1) is (rest < 1):
        return f"{made}. The rest comes from {causes}."
    return f"{made}. Part of that is {'recovered by' if own < 1 else 'lost to'} {causes}."


def _own_part(race: Race) -> float | None:
    split = race.report.split
    if not _causes(race):
        return race.ratio
    parts = () if split is None else (*split.factors, *split.other_order)
    return next((part.ratio for part in parts if part.name == "precision"), None)


def _causes(race: Race) -> str:
    axes = differing_axes(race.full.run.experiment, race.mixed.run.experiment)
    causes = {"recipe": optimizations_words(race.mixed.run.experiment), "batch": "the other batch size"}
    return " with ".join(causes[axis] for axis in axes if axis in causes)
