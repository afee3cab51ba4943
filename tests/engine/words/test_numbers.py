"""Numbers as they are read aloud: ratios, amounts of memory, times, and how far two are apart."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import pytest

from engine.words.numbers import (
    clock_text,
    memory_apart_text,
    memory_text,
    memory_unit_text,
    number_text,
    pace_text,
    range_text,
    seconds_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5.7, "5.70"), (5.6818, "5.68"), (1.03, "1.03"), (1.0, "1.00"), (1.996, "2.00"), (12.34, "12.34"),
        (99.96, "99.96"), (120, "120"), (1_200, "1,200"), (1e12, "over 1,000,000,000"), (0.8, "0.80"),
        (0.996, "0.996"), (0.9996, "0.9996"), (0.99999, "0.9999"), (1 - 1e-12, "1.00"), (0.0996, "0.10"),
        (0.05, "0.05"), (0.004, "0.004"), (0.0021, "0.0021"), (1e-9, "under 0.000001"), (0, "0"),
        (math.nan, "–"), (math.inf, "–"), (-1, "–"),
    ],
)  # fmt: skip
def test_a_ratio_as_text(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (10_444.8, "10.2 GiB"), (1_023.7, "1.0 GiB"), (1_000, "1,000 MiB"), (940, "940 MiB"),
        (3.24, "3.2 MiB"), (0.1, "0.1 MiB"), (0.04, "41.0 KiB"), (0.00016, "0.2 KiB"), (1e-9, "0.1 KiB"),
        (0, "0 MiB"), (math.nan, "–"),
    ],
)  # fmt: skip
def test_memory_as_text(mib: float, text: str) -> None:
    assert memory_text(mib) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.56, "2.6 seconds"), (0.0256, "0.026 seconds"), (119, "119 seconds"), (400, "6.7 minutes"),
        (9_000, "2.5 hours"), (864_000, "10.0 days"), (1e300, "over 1,000,000,000 days"), (0, "0 seconds"),
    ],
)  # fmt: skip
def test_a_time_in_words(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_the_ends_of_an_interval_differ_where_they_can() -> None:
    assert [range_text(5.5, 5.9), range_text(5.68, 5.72)] == ["5.50 and 5.90", "5.68 and 5.72"]
    assert range_text(2.0, 2.0) == "2.0000 and 2.0000"


def test_the_difference_of_two_amounts_is_that_of_what_is_shown_of_them() -> None:
    assert [memory_text(10.24 * 1024), memory_text(3.16 * 1024)] == ["10.2 GiB", "3.2 GiB"]
    assert (
        memory_apart_text(10.24 * 1024, 3.16 * 1024)
        == memory_apart_text(3.16 * 1024, 10.24 * 1024)
        == "7.0 GiB"
    )
    assert memory_apart_text(10_240, 10_245) == memory_apart_text(900.0, 900.2) == ""
    assert memory_apart_text(1_100, 900) == "200 MiB"


def test_the_unit_of_an_amount_is_told_in_one_that_everybody_knows() -> None:
    assert memory_unit_text(80.0, 86.0) == "1 MiB is about 1 MB"
    assert memory_unit_text(None, 2_000.0) == "1 GiB is about 1 GB"
    assert memory_unit_text(None, None) == ""


def test_what_is_slower_is_told_by_how_much_longer_it_took() -> None:
    assert [pace_text(ratio) for ratio in (2.5, 1.0, 0.4, 0.0)] == [
        "2.50 times as fast",
        "1.00 times as fast",
        "2.50 times as long",
        "– times as long",
    ]


@pytest.mark.parametrize(
    ("days", "text"), [(0, "14:05"), (1, "Mon 14:05"), (6, "Sat 14:05"), (8, "30 Nov, 14:05")]
)
def test_a_time_has_its_day_where_that_is_not_today(days: int, text: str) -> None:
    now = datetime(2026, 11, 22, 14, 5)
    assert clock_text(now + timedelta(days=days), now) == text
