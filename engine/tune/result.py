"""The waterfall of a tuning: the gain of each change, one by one, over plain FP32."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.drawing.shapes import Box, Drawing, Shape, Stroke, TextLine, shortened, text_width
from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment, flattened, named
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.tune import Gain, Tuning
from engine.tune.candidates import COARSE
from engine.tune.halving import ranking
from engine.tune.verification import known_speed
from engine.words.names import as_typed, dataset_words, setting_text
from engine.words.numbers import counted, memory_text, pace_text, seconds_text, times

_BAR, _ROW, _TOP, _GAP = 22.0, 38.0, 26.0, 12.0
_LOSS = "text3"


@dataclass(frozen=True)
class WaterfallBar:
    """A bar of the waterfall chart of a tuning: one change's gain in speed, as a multiple of plain FP32.

    Bars without a `gain`, for plain FP32 and the fastest settings, start at 0.
    """

    words: str
    begin: float
    end: float
    ink: str
    value: str
    gain: Gain | None = None

    @property
    def interval(self) -> str:
        """The 95% interval of the bar's gain: "1.45 to 1.55". Empty without an interval."""
        if self.gain is None or self.gain.speedup_ci is None:
            return ""
        return " to ".join(map(times, self.gain.speedup_ci))

    @property
    def is_whole(self) -> bool:
        return self.gain is None


def waterfall_steps(tuning: Tuning) -> tuple[WaterfallBar, ...]:
    """Return the bars from top to bottom: plain FP32, the gains, the fastest settings. Empty without any."""
    if not tuning.gains or tuning.winner is None:
        return ()
    ink = tuning.winner.precision.value
    steps, total = [WaterfallBar("FP32, plain", 0.0, 1.0, Precision.FP32.value, _factor(1.0))], 1.0
    for gain in tuning.gains:
        before, total = total, total * gain.speedup
        inks = _LOSS if gain.speedup < 1 or not gain.changes else f"{ink}-dim"
        words = gain.words[:1].upper() + gain.words[1:]
        steps.append(WaterfallBar(words, before, total, inks, _factor(gain.speedup), gain))
    return *steps, WaterfallBar("Fastest", 0.0, total, ink, _factor(total))


def waterfall_drawing(tuning: Tuning, width: float) -> Drawing:
    """Return the chart, as high as its bars need. Requires gains."""
    steps = waterfall_steps(tuning)
    widest = max(text_width(step.words, 12, 600) for step in steps)
    left = min(0.4 * width, widest + 16)
    room = max(text_width(_beside(step), 12, 600) for step in steps) + 12
    scale = max(1.0, width - left - room) / max(step.end for step in steps)
    shapes: list[Shape] = [TextLine(0, 14, _CAPTION, "text3", 11)]
    for place, step in enumerate(steps):
        y = _TOP + _ROW * place
        shapes += _row(step, y, left, scale)
        if place + 1 < len(steps):
            # joins the end of a bar with the beginning of the next
            x = left + step.end * scale
            shapes.append(Stroke(((x, y + _BAR), (x, y + _ROW)), "line2"))
    height = _TOP + _ROW * len(steps) - _ROW + _BAR + _GAP
    shapes.append(Stroke(((left, _TOP - 4), (left, height - _GAP + 4)), "line"))
    return Drawing(width, height, tuple(shapes), _description(steps))


_CAPTION = "Speedup over plain FP32, with changes added one by one"


def _row(step: WaterfallBar, y: float, left: float, scale: float) -> Iterator[Shape]:
    low, high = sorted((step.begin, step.end))
    weight = 600 if step.is_whole else 400
    yield TextLine(0, y + _BAR / 2 + 4, shortened(step.words, left - 12, 12, weight), "text", 12, weight)
    yield Box(left + low * scale, y, max(1.0, (high - low) * scale), _BAR, step.ink)
    yield TextLine(left + high * scale + 8, y + _BAR / 2 + 4, _beside(step), "text", 12, weight)


def _beside(step: WaterfallBar) -> str:
    return f"{step.value} ({step.interval})" if step.interval else step.value


def _factor(speedup: float) -> str:
    return f"{times(speedup)}×"


def _description(steps: tuple[WaterfallBar, ...]) -> str:
    return ", ".join(f"{step.words} {_beside(step)}" for step in steps) + "."


def title_of(tuning: Tuning) -> str:
    """Return the title of a tuning's result."""
    experiment = tuning.experiment
    return f"The fastest settings of {experiment.model} on {dataset_words(experiment.dataset)}"


def answers(tuning: Tuning) -> tuple[str, ...]:
    """Return sentences on the fastest settings, verified or so far, and on the effort."""
    return tuple(_answers(tuning))


def _answers(tuning: Tuning) -> Iterator[str]:
    proof = tuning.proof
    if proof is not None and proof.sentence:
        yield proof.sentence
    elif (so_far := _so_far(tuning)) is not None:
        yield so_far
    if tuning.winner_changes:
        yield f"The settings: {changes_text(tuning.winner_changes)}."
    if tuning.winner is not None and (precision := tuning.winner.precision) in COARSE:
        yield f"Verification is short. Only a full training shows if {precision.label} learns to the end."
    for broken in tuning.proofs:
        yield f"Rejected: {changes_text(broken.changes)}. {broken.sentence}"
    yield effort(tuning)


def effort(tuning: Tuning) -> str:
    """Return a sentence on the runs so far and the combinations that they tried."""
    tried = len({repr(sorted(trial.changes.items())) for trial in tuning.trials})
    if not tried:
        return f"None of {tuning.candidates:,} combinations has been tried yet."
    so_far = "" if tuning.phase == "over" else "So far, "
    took = f"{counted(tuning.runs, 'run')} in {seconds_text(tuning.seconds)}"
    effort = f"{so_far}{took} tried {tried:,} of {tuning.candidates:,} combinations."
    disturbed = sum(trial.is_disturbed for trial in tuning.trials)
    if not disturbed:
        return effort
    return (
        f"{effort} The machine was disturbed in {counted(disturbed, 'short run')}, so a faster combination "
        "may have been missed."
    )


def _so_far(tuning: Tuning) -> str | None:
    plain = known_speed(tuning.trials, {})
    best = next(iter(ranking(tuning.trials)), None)
    if best is None or plain is None or not best.changes:
        return None
    if any(trial.is_disturbed for trial in tuning.trials if trial.changes in ({}, best.changes)):
        return f"So far {best.words} looks fastest, but its runs are unreliable."
    pace = pace_text(best.speed / plain)
    return f"So far {best.words} is the fastest. In short runs it trains {pace} as plain FP32."


def changes_text(changes: Mapping[str, Any]) -> str:
    """Return settings within a sentence: "precision BF16 AMP, batch size 128"."""
    return ", ".join(f"{named(key)} {setting_text(key, value)}" for key, value in changes.items())


def not_tried(tuning: Tuning) -> tuple[str, ...]:
    """Return sentences on the settings that were not tried and why, with the cap if there is one."""
    cap = tuning.memory_cap_gib
    if cap is None:
        return tuning.not_tried
    most = memory_text(MIB_PER_GIB * cap)
    return f"Settings that need more than {most}: over the memory cap.", *tuning.not_tried


def command_of(experiment: Experiment) -> str:
    """Return the command line that trains the experiment."""
    usual = flattened(Experiment())
    settings = {
        key: value
        for key, value in flattened(experiment).items()
        # a length in steps replaces one in epochs
        if value != usual[key] and key != "code" and (key, value) != ("epochs", None)
    }
    options = (f"--set {shlex.quote(f'{key}={as_typed(value)}')}" for key, value in settings.items())
    return " ".join(("ammeter run", *options))
