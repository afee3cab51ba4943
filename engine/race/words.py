"""Describes a replay in words for people who do not program. The comparison's verdict is included once."""

from __future__ import annotations

from engine import __version__
from engine.compare.evidence import LITTLE_GAIN
from engine.compare.verdict import VerdictKind, energy_words
from engine.drawing.blocks import Tiles
from engine.experiment.experiment import Precision
from engine.experiment.settings import PLAIN
from engine.race.card import CardFrame, LaneHead, RaceCard
from engine.race.race import Lane, Moment, Race
from engine.words.names import optimizations_words
from engine.words.numbers import seconds_abbreviated, seconds_text, times

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

_NAMES = ("Full", "Mixed")
_NO_NUMBER: dict[VerdictKind, tuple[str, str]] = {
    "open": ("No significant difference", "in speed"),
    "spoiled": ("Unreliable measurement", "so neither is shown to be faster"),
    "unlike": ("No fair comparison", "because the two trainings differ"),
    "no-speed": ("No fair comparison", "because the speeds cannot be compared"),
}
"""The caption in place of a number."""


def title(race: Race) -> str:
    """Return the headline: two trainings side by side, with the kind of device if they share it."""
    kinds = {doubt.kind for doubt in race.report.doubts}
    if race.verdict.kind == "spoiled":
        return "This measurement was disturbed"
    if "workload" in kinds:
        return "Two different trainings, side by side"
    same = "Nearly the same" if "setting" in kinds else "The same"
    where = "on two machines" if "device" in kinds else f"on the same {_device_kind(race)}"
    return f"{same} training {where}, side by side"


def sentence(race: Race) -> str:
    """Return why mixed precision is faster, or else the verdict, and where the gain comes from."""
    verdict, split = race.verdict, race.report.split
    factors = () if split is None else (*split.factors, *split.other_order)
    own = [factor.ratio for factor in factors if factor.name == "precision"]
    gain = min([race.ratio or 0.0, *own])
    kinds = {doubt.kind for doubt in race.report.doubts}
    came_from = (
        f"Where the gain comes from: {split.sentence}." if split is not None and split.is_of_several else ""
    )
    if gain < LITTLE_GAIN or not is_of_both_kinds(race) or not kinds.isdisjoint(("setting", "device")):
        if verdict.kind == "spoiled":
            return " ".join(verdict.notes[: len(verdict.reported_doubts) + 2])
        # how certain it is stands elsewhere on the card
        said = "".join(piece.text for piece in verdict.pieces if piece.role != "aside")
        return " ".join(filter(None, (said, *verdict.notes, came_from)))
    bits = "8-bit" if race.lanes[1].side.precision is Precision.FP8 else "16-bit"
    saving = " and to store" if (race.memory_ratio or 1.0) < 1 else ""
    arithmetic = f"the {_device_kind(race)} does most of its arithmetic with {bits} numbers"
    return " ".join(
        filter(None, (f"With mixed precision, {arithmetic}: less data to move{saving}.", came_from))
    )


def certainty(race: Race) -> str:
    """Return how certain the verdict's ratio is: "95% interval 1.80 to 1.95". "" if it has none."""
    asides = (
        piece for line in race.verdict.lines for piece in line if piece.role == "aside" and not piece.about
    )
    words = next((piece.bare for piece in asides), "")
    return words[:1].upper() + words[1:]


def doubts(race: Race) -> tuple[str, ...]:
    """Return the doubts that the verdict does not mention, a sentence each."""
    return tuple(doubt.sentence for doubt in race.report.unreported_doubts)


def is_of_both_kinds(race: Race) -> bool:
    """Return True if the first lane trained in full and the second in mixed precision."""
    return [_is_mixed(lane) for lane in race.lanes] == [False, True]


def _is_mixed(lane: Lane) -> bool:
    return lane.side.precision.is_autocast


def _device_kind(race: Race) -> str:
    return "CPU" if all(lane.run.experiment.device == "cpu" for lane in race.lanes) else "GPU"


def _head(race: Race, which: int) -> LaneHead:
    side, other = race.lanes[which].side, race.lanes[1 - which].side
    experiment = race.lanes[which].run.experiment
    if not is_of_both_kinds(race):
        short = (side.note,) if side.note and side.label == other.label else (side.label, side.note)
        return LaneHead(side.title, "", race.looks[which], tuple(filter(None, short)))
    detail = NUMBERS[side.precision]
    if experiment.step.recipe != PLAIN:
        detail += f" with {optimizations_words(experiment)}"
    if experiment.batch_size != race.lanes[1 - which].run.experiment.batch_size:
        detail += f", {experiment.batch_size:,} {race.unit} at once"
    return LaneHead(f"{_NAMES[which]} precision", detail, race.looks[which], (_NAMES[which],))


def memory_words(race: Race) -> tuple[str, str]:
    """Return the mixed lane's memory relative to the full lane's, and its energy and accuracy."""
    ratio, verdict = race.memory_ratio, race.verdict
    strong = "" if ratio is None else f"{100 * ratio:.0f}% of the memory"
    energy = "" if verdict.energy_ratio is None else energy_words(verdict.energy_ratio)
    rest = ", ".join(filter(None, (energy, verdict.accuracy)))
    rest = rest[:1].upper() + rest[1:]
    return strong, rest


def playback_words(race: Race) -> str:
    """Return how the replay's pace relates to the true one. "" at the true pace."""
    if race.playback_rate == 1:
        return ""
    shown = f"{seconds_text(race.seconds)} shown in {seconds_text(race.seconds / race.playback_rate)}"
    return f"{'slow motion' if race.playback_rate < 1 else 'time lapse'}, {shown}"


def facts(race: Race) -> str:
    """Return one line with the training, its date, device and versions, and the speed of the replay."""
    runs = [lane.run for lane in race.lanes]
    days = sorted({f"{(run.started or run.created).astimezone():%Y-%m-%d}" for run in runs})
    machines = [run.environment for run in runs if run.environment is not None]
    parts = (
        subject(race),
        f"measured {' and '.join(days)}",
        " and ".join(dict.fromkeys(machine.device_name for machine in machines)),
        " and ".join(dict.fromkeys(f"PyTorch {machine.torch}" for machine in machines)),
        f"Ammeter {__version__}",
        playback_words(race),
    )
    return " · ".join(filter(None, parts))


def subject(race: Race) -> str:
    """Return the model and the batch size."""
    mine, theirs = (lane.run.experiment for lane in race.lanes)
    model = mine.model if mine.model == theirs.model else f"{mine.model} and {theirs.model}"
    same_batch = mine.batch_size == theirs.batch_size
    return f"{model}, {mine.batch_size:,} {race.unit} at once" if same_batch else str(model)


def card_of(race: Race, tiles: Tiles) -> RaceCard:
    """Return the card of a replay, with `tiles` in its blocks."""
    texts = [number_text(race, race.at(race.seconds * part / 20)) or "" for part in range(21)]
    return RaceCard(
        title=title(race),
        sentence=sentence(race),
        heads=(_head(race, 0), _head(race, 1)),
        tiles=tiles,
        widest=max(texts, key=len),
        memory=memory_words(race),
        absent="not measured" if race.has_comparable_memory else "not comparable",
        tensor_percent=race.tensor_percent,
        doubts=doubts(race),
        facts=facts(race),
    )


def frame_of(race: Race, seconds: float) -> CardFrame:
    """Return the card's moving parts at a second of the replay."""
    moment = race.at(seconds)
    return CardFrame(
        lit=moment.blocks,
        samples=(f"{moment.samples[0]:,}", f"{moment.samples[1]:,}"),
        words=(_counter_words(race, 0, moment), _counter_words(race, 1, moment)),
        number=number_text(race, moment),
        caption=caption(race, moment),
        sure=certainty(race) if moment.is_over else "",
        fill=race.passed(moment.seconds),
        peaks_mib=race.peaks_mib,
    )


def number_text(race: Race, moment: Moment) -> str | None:
    """Return the ratio as text. "" before its first value, None if no number is shown."""
    if race.ratio is None:
        return None
    if moment.number is None:
        return ""
    if moment.is_over:
        return times(moment.number)
    digits = len(times(race.ratio).partition(".")[2])
    return f"{moment.number:,.{digits}f}"


def caption(race: Race, moment: Moment) -> tuple[str, str]:
    """Return the two lines of the caption next to the number, or the reason why there is no number."""
    if race.ratio is None:
        return _NO_NUMBER.get(race.verdict.kind, _NO_NUMBER["no-speed"])
    if moment.number is None:
        return "Just started", ""
    if not moment.is_over:
        return f"as many {race.unit}", "so far"
    name = "full precision" if is_of_both_kinds(race) else race.lanes[0].side.title
    return "as fast", f"as {name}"


def _counter_words(race: Race, which: int, moment: Moment) -> str:
    if not moment.seconds:
        return race.unit
    if not moment.is_over:
        return f"{race.unit} so far"
    if stopped := race.stopped(which):
        return f"{race.unit}, then it {stopped}"
    return f"{race.unit} in {seconds_abbreviated(race.seconds)}"
