"""Figures in their units, and as text."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from engine.compare.figures import FIGURES, LOSS, figures
from engine.experiment.experiment import Experiment
from engine.store.record import RunRecord

Record = Callable[..., RunRecord]
FP32 = Experiment()


def test_values_are_shown_with_their_digits() -> None:
    shown = {figure.name: figure.text(1_234.5678) for figure in FIGURES}
    assert shown["samples_per_second"] == "1,235" and shown["peak_memory"] == "1,235"
    assert [FIGURES[0].text(value) for value in (0.04384, 4.384, 43.84, 99.96, 438.4)] == [
        "0.0438", "4.38", "43.8", "100", "438",
    ]  # fmt: skip
    assert FIGURES[0].text(None) == "–"
    assert [FIGURES[0].text(value) for value in (math.nan, math.inf, -math.inf)] == ["NaN", "∞", "−∞"]


@pytest.mark.parametrize(
    ("value", "base", "text"),
    [
        (1.4686, 1.4684, "+0.001"),
        (1.4684, 1.4686, "−0.001"),
        (1.4684, 1.4681, "0.000"),
        (1.5, 1.25, "+0.250"),
        (math.nan, 1.0, "NaN"),
        (math.inf, 1.0, "+∞"),
    ],
)
def test_a_difference_is_that_of_the_values_shown(value: float, base: float, text: str) -> None:
    assert LOSS.difference_text(value, value - base) == text


def test_memory_is_in_mib_where_all_of_it_is_below_a_gib(record: Record) -> None:
    small, large = record(1, FP32, peak_resident_mib=512.0), record(2, FP32, peak_resident_mib=2_048.0)
    memory = {figure.name: figure for figure in figures([small])}["peak_memory"]
    assert (memory.value(small), memory.unit) == (512.0, "MiB")
    memory = {figure.name: figure for figure in figures([small, large])}["peak_memory"]
    assert (memory.value(small), memory.unit) == (0.5, "GiB")


def test_the_speed_is_of_images_where_all_runs_train_on_them(record: Record) -> None:
    text = Experiment(model="causal-lm-tiny", dataset="synthetic-tokens")
    units = [figures([record(1, FP32), record(2, other)])[0].unit for other in (FP32, text)]
    assert units == ["img/s", "samples/s"]
