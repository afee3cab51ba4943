"""The words of a race in all its cases: the lanes, the ratio, the memory, and what may be doubted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from engine.drawing.blocks import BlockGrid, Tiles
from engine.drawing.shapes import Dot, Fill, Shape, Stroke, TextLine
from engine.experiment.experiment import Precision
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.pictures import patterns
from engine.race import words
from engine.race.card import BLOCKS
from engine.race.race import Race
from engine.store.record import Status
from tests.golden import Golden

TILES = Tiles(patterns(BLOCKS))
FP32, FP16, BF16 = Precision.FP32, Precision.FP16, Precision.BF16
FAST = {"step": {"recipe": "fast"}}
RATE = {"optimizer": {"learning_rate": 0.5}}
TEXT = {"model": "causal-lm", "dataset": "python-source", "sequence_length": 128}
TOKENS = {"model": "causal-lm-tiny", "dataset": "synthetic-tokens"}
OUT_OF_MEMORY = Problem(kind=Kind.OUT_OF_MEMORY, message="Full.", remedy="Take less.")
FAILED = {"status": Status.FAILED, "problem": OUT_OF_MEMORY}
HEAT = {"speed_note": "the card's clocks were held down by heat", "slowed_by": ("heat",)}
SUFFERED = {**HEAT, "first_nan_step": 3, "other_programs_mib": 4_000.0}
Ask = Callable[[Any], Race]


def peak(mib: float) -> dict[str, Any]:
    return {"figures": {"peak_allocated_mib": mib}}


def of_two(full: float | None, mixed: float | None, **how: Any) -> Ask:
    return lambda racers: racers.of_two(full, mixed, **how)


def of(*runs: tuple[Precision, float, dict[str, Any]], **how: Any) -> Ask:
    """The race of the last run against the first, or against the one numbered `baseline`."""

    def ask(racers: Any) -> Race:
        for precision, speed, settings in runs:
            elsewhere = {"environment": racers.CPU} if settings.get("on_cpu") else {}
            racers.add(precision, speed, **{k: v for k, v in settings.items() if k != "on_cpu"}, **elsewhere)
        racers.hardly_faster = how.get("hardly_faster")
        if "baseline" in how:
            return racers.race(baseline=racers.runs[how["baseline"]])
        return racers.race(side_id=racers.runs[-1].id)

    return ask


def repeated(*speeds: tuple[float, float], **figures: Any) -> Ask:
    return lambda racers: racers.repeated(list(speeds), **figures)


def one_after_the_other(racers: Any) -> Race:
    """Repeats of which those in full precision all came first."""
    racers.repeated([(880, 5_000), (884, 4_980), (878, 5_020)])
    full_first = sorted(racers.runs, key=lambda run: run.experiment.precision is not FP32)
    racers.runs = [
        replace(run, started=run.started + timedelta(minutes=place)) for place, run in enumerate(full_first)
    ]
    return racers.race()


CASES: dict[str, Ask] = {
    "fast optimizations": of_two(880, 5_000, mine=FAST),
    "fast optimizations, and mixed precision alone": of(
        (FP32, 880, {}), (FP16, 1_663, {}), (FP16, 5_000, FAST)
    ),
    "all of the gain is of the optimizations": of((FP32, 880, {}), (FP16, 700, {}), (FP16, 5_000, FAST)),
    "the optimizations lose": of((FP32, 1_000, {}), (FP16, 1_800, {}), (FP16, 800, FAST)),
    "the optimizations recover a part": of((FP32, 1_000, {}), (FP16, 800, {}), (FP16, 900, FAST)),
    "both lose": of((FP32, 1_000, {}), (FP16, 800, {}), (FP16, 600, FAST)),
    "less memory": of_two(1_000, 2_500, **peak(2_000.0), mine=peak(1_100.0)),
    "about as fast": of_two(1_000, 985),
    "slower, with a reason": of_two(1_000, 710, batch_size=63),
    "slower, with less memory": of_two(1_000, 710, **peak(1_000.0), mine=peak(600.0)),
    "a little faster than TF32": of((Precision.TF32, 1_000, {}), (FP16, 1_070, {})),
    "on a CPU": of(
        *(
            (precision, speed, {"on_cpu": True, "figures": {"peak_resident_mib": mib}})
            for precision, speed, mib in ((FP32, 3_970, 80.0), (BF16, 6_344, 86.0))
        )
    ),
    "slower on a CPU": of(
        (FP32, 3_970, {"on_cpu": True}),
        (FP16, 557, {"on_cpu": True}),
        hardly_faster="FP16 AMP is slow here, because most CPUs do not compute in FP16",
    ),
    "on two GPUs": lambda racers: racers.of_two(
        1_000, 2_000, mine={"environment": racers.GPU.model_copy(update={"device_name": "another GPU"})}
    ),
    "a GPU and a CPU": of(
        (FP32, 100, {"on_cpu": True, "figures": {"peak_resident_mib": 100.0}}), (FP16, 2_000, peak(100.0))
    ),
    "two batches": of((FP32, 1_000, {}), (FP32, 1_900, {"batch_size": 128})),
    "two batches, mixed": of_two(1_000, 2_000, mine={"batch_size": 128}),
    "other settings and batch": of_two(1_000, 2_000, mine={**RATE, "batch_size": 128}),
    "other settings": of_two(1_000, 2_000, mine=RATE),
    "longer": of_two(1_000, 2_000, mine={"epochs": 3}),
    "another dataset": of_two(1_000, 2_000, mine={"dataset": "cifar10"}),
    "another length of texts": of_two(1_000, 2_000, **TEXT, mine={"sequence_length": 256}),
    "another kind of data": of_two(1_000, 2_000, mine=TOKENS),
    "mixed precision as the baseline": of((FP32, 1_000, {}), (FP16, 2_500, {}), baseline=1),
    "no steady pace": of(
        (FP32, 1_000, {"figures": {"samples_per_second_ci": (964.0, 2_313.0)}}), (FP16, 1_170, {})
    ),
    "failed": of_two(1_000, None, mine={"speeds": [2_500] * 50, **FAILED}),
    "failed after its speed was known": of_two(1_000, 2_500, mine={"steps": 50, **FAILED}),
    "too short": of_two(1_000, None, mine={"steps": 20}),
    "disturbed": of_two(1_000, 660, mine={"figures": {"speed_note": "other programs used 69% of the CPU"}}),
    "hot": of_two(1_000, 2_500, batch_size=63, mine={"figures": HEAT}),
    "many doubts": of_two(1_000, 2_000, mine={"figures": SUFFERED, **RATE}),
    "unsteady": of_two(1_000, 2_000, mine={"speeds": [2_000.0] * 120 + [1_500.0] * 80}),
    "five repeats": repeated((880, 5_000), (884, 4_980), (878, 5_020), (881, 5_000), (882, 4_950)),
    "no significant difference": repeated((1_000, 1_040), (1_010, 1_000), (990, 1_050)),
    "repeats that differ": repeated((1_000, 2_200), (1_010, 700)),
    "one run and two": of((FP32, 880, {}), (FP16, 5_000, {}), (FP16, 5_010, {"seed": 1})),
    "repeats that did not alternate": one_after_the_other,
    "a time lapse": of_two(6.4, 12.8, steps=100),
    "slow motion": of_two(128_000, 256_000, steps=50),
}
REFUSALS: dict[str, Ask] = {
    "alone": of((FP32, 1_000, {}), baseline=0),
    "against itself": of((FP16, 2_500, {}), (FP32, 1_000, {})),
    "failed before its first counted step": of_two(1_000, None, mine={"steps": 0, **FAILED}),
    **{
        status.value: of_two(1_000, None, mine={"steps": 0, "status": status})
        for status in (Status.QUEUED, Status.RUNNING, Status.FINISHED, Status.INTERRUPTED)
    },
}


def told(race: Race) -> str:
    frames = [words.frame_of(race, race.seconds * part) for part in (0.0, 0.5, 1.0)]
    card = words.card_of(race, TILES)
    lines = [card.title, card.sentence, words.playback_words(race)]
    for which, head in enumerate(card.heads):
        counters = [f"{frame.samples[which]} {frame.words[which]}" for frame in frames]
        lines.append(" | ".join((f"{head.name} ({', '.join(head.short)})", head.detail, *counters)))
    lines += [f"{frame.number}: {' / '.join(frame.caption)}" for frame in frames]
    lines += [frames[-1].sure, " ".join(card.memory).strip(), *card.doubts]
    return "\n".join(line for line in lines if line)


def refusal(racers: Any, ask: Ask) -> str:
    try:
        ask(racers)
    except ProblemError as error:
        return f"{error.problem.message} {error.problem.remedy}"
    raise AssertionError("it can be replayed")


def test_the_words_of_a_race(record: Any, racers: Any, golden: Golden) -> None:
    parts = [f"## {name}\n{told(ask(type(racers)(record)))}" for name, ask in CASES.items()]
    golden("\n\n".join(parts), "words")
    parts = [f"## {name}\n{refusal(type(racers)(record), ask)}" for name, ask in REFUSALS.items()]
    golden("\n\n".join(parts), "refusals")


def drawn(shape: Shape) -> str:
    """One shape as a line: text with its place, anything else as its bounding box."""
    if isinstance(shape, TextLine):
        how = f"{shape.size:g}/{shape.weight} {shape.ink} {shape.anchor}"
        return f"({shape.x:.0f}, {shape.y:.0f}) {how}: {shape.text}"
    if isinstance(shape, BlockGrid):
        return f"({shape.x:.0f}, {shape.y:.0f}) {shape.lit:.0f} of {shape.count} blocks {shape.ink}"
    if isinstance(shape, Stroke | Fill):
        across, down = zip(*shape.points, strict=True)
        box = min(across), min(down), max(across) - min(across), max(down) - min(down)
    elif isinstance(shape, Dot):
        box = shape.x, shape.y, shape.radius, shape.radius
    else:
        box = shape.x, shape.y, shape.width, shape.height
    return f"{type(shape).__name__} {shape.ink} ({', '.join(f'{length:.0f}' for length in box)})"


def test_the_picture_of_a_race(racers: Any, golden: Golden) -> None:
    """At its start, a quarter, half, as the first one ends, and at its end."""
    race = racers.of_two(880, 5_016, **peak(10_445.0), mine=peak(3_277.0))
    card = words.card_of(race, TILES)
    moments = ["## still\n" + "\n".join(drawn(shape) for shape in card.still.shapes)]
    for part in (0.0, 0.25, 0.5, 0.999, 1.0):
        frame = words.frame_of(race, race.seconds * part)
        moments.append(f"## {part:.1%}\n" + "\n".join(drawn(shape) for shape in card.moving(frame).shapes))
    golden("\n\n".join(moments), "picture")
