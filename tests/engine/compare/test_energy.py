"""The energy of two sides: a ratio where both were measured alike, a claim where the measurement is clean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import Evidence
from engine.compare.verdict import energy_words, step_energy_text
from engine.drawing.shapes import Words
from engine.experiment.experiment import Experiment, Precision
from engine.protocol.events import Environment, Summary
from engine.protocol.summary import Energy
from engine.race.card import race_card
from engine.race.words import memory_words, scene_of, sentence
from engine.store.record import RunRecord

Record = Callable[..., RunRecord]
GPU = Environment(
    device_name="a GPU", device_memory_mib=1, torch="2", python="3", os="Linux", ammeter="0", cuda="13.0"
)


def energy(joules: float, *, seconds: float = 20.0, idle_watts: float | None = 60.0, **more: Any) -> Energy:
    """Of 100 steps of 640 samples."""
    known = {"source": "nvml", "steps": 100, "samples": 64_000, **more}
    return Energy(joules=joules, seconds=seconds, idle_watts=idle_watts, **known)


def comparison(
    record: Record, base: Energy | None, other: Energy | None, *, gpu: str = "a GPU", **figures: Any
) -> Comparison:
    """Of FP32 and FP16 AMP, twice as fast, in half the memory."""
    runs = [
        record(1, Experiment(), environment=GPU, samples_per_second=1_000.0, energy=base),
        record(
            2,
            Experiment(precision=Precision.FP16),
            environment=GPU.model_copy(update={"device_name": gpu}),
            samples_per_second=2_000.0,
            energy=other,
            **figures,
        ),
    ]
    return compare([Evidence(run, np.ones(9), ()) for run in runs], runs[0].id)


def test_a_clean_difference_is_in_the_figures_and_in_the_verdict(record: Record) -> None:
    result = comparison(record, energy(6_400.0), energy(3_776.0))
    mine = result.cells(result.sides[1].id)
    assert mine["energy"].value == pytest.approx(59.0) and mine["energy"].ratio == pytest.approx(0.59)
    assert mine["net_energy"].value == pytest.approx((3_776 - 60 * 20) / 64)
    verdict = result.reports[1].verdict
    assert verdict.energy_ratio == pytest.approx(0.59)
    assert verdict.sentence == (
        "FP16 AMP trained 2.00 times as fast as FP32 (one run each, so no interval), using 41 % less energy."
    )


NOT_CLAIMED: dict[str, dict[str, Any]] = {
    "another source": {"other": energy(3_776.0, source="rapl")},
    "another device": {"gpu": "another GPU"},
    "too short": {"other": energy(3_776.0, seconds=1.5)},
    "not measured": {"other": None},
    "nearly the same": {"other": energy(6_300.0)},
    "other programs": {"other_programs_mib": 4_000.0},
    "slowed down": {"speed_note": "the card's clocks were held down by heat", "slowed_by": ("heat",)},
}


@pytest.mark.parametrize("case", NOT_CLAIMED)
def test_what_is_not_clean_is_not_claimed(record: Record, case: str) -> None:
    options: dict[str, Any] = {"other": energy(3_776.0), **NOT_CLAIMED[case]}
    result = comparison(record, energy(6_400.0), **options)
    verdict = result.reports[1].verdict
    assert verdict.energy_ratio is None and "energy" not in verdict.sentence
    # counters of two devices do not even have a ratio
    has_ratio = case not in ("another source", "another device", "not measured")
    assert (result.cells(result.sides[1].id)["energy"].ratio is not None) is has_ratio


def test_without_any_energy_there_are_no_lines_of_it(record: Record) -> None:
    names = [row.figure.name for row in comparison(record, None, None).figures]
    assert "energy" not in names and "net_energy" not in names


def test_energy_in_words() -> None:
    assert [energy_words(ratio) for ratio in (0.59, 1.12, 2.4)] == [
        "41 % less energy",
        "12 % more energy",
        "2.40 times the energy",
    ]
    assert step_energy_text(energy(6_400.0)) == "64.0 J a step, 320 W on average, 60 W of it idle"
    assert step_energy_text(energy(6_400.0, idle_watts=None)) == "64.0 J a step, 320 W on average"


def test_a_summary_without_energy_can_still_be_read() -> None:
    assert Summary.model_validate_json('{"steps": 3, "power_watts": 200.0}').energy is None
    saved = Summary(energy=energy(1.0)).model_dump_json()
    assert Summary.model_validate_json(saved).energy == energy(1.0)


def test_a_race_tells_of_the_energy_saved(racers: Any) -> None:
    peak = {"peak_allocated_mib": 1_000.0}
    racers.add(Precision.FP32, 1_000, figures={**peak, "energy": energy(6_400.0)})
    racers.add(Precision.FP16, 2_000, figures={"peak_allocated_mib": 450.0, "energy": energy(3_776.0)})
    race = racers.race()
    assert memory_words(race) == ("Less than half", "of the memory and 41 % less energy")
    shapes = race_card(scene_of(race, np.zeros((0, 8, 8), np.uint8))).still().shapes
    lines = [shape.text for shape in shapes if isinstance(shape, Words)]
    assert not any(line.startswith("%") for line in lines)
    assert "41\N{NO-BREAK SPACE}% less energy" in " ".join(lines)


def test_a_slower_mixed_precision_may_still_need_less_energy(racers: Any) -> None:
    racers.add(Precision.FP32, 1_000, figures={"energy": energy(6_400.0)})
    racers.add(Precision.FP16, 800, figures={"energy": energy(5_760.0)})
    assert sentence(racers.race()).endswith("It does need 10 % less energy.")
