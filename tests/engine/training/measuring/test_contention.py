"""What other programs took of the processor is said where it can be told, and only there."""

from __future__ import annotations

import pytest

from engine.busyness import OtherPrograms
from engine.training.measuring.card import contention_note

Reading = tuple[float, float, float]


class Scripted(OtherPrograms):
    """Reads busy, whole and own core-seconds from a list instead of the system."""

    def __init__(self, *readings: Reading) -> None:
        super().__init__()
        self._readings = list(readings)

    def _read(self) -> Reading:
        return self._readings.pop(0)


def share_of(*readings: Reading) -> float:
    others = Scripted(*readings)
    for is_on in (True, False) * (len(readings) // 2):
        others.count(is_on)
    return others.share()


def test_what_others_took_is_a_share_of_all_cores() -> None:
    assert share_of((10.0, 100.0, 1.0), (14.0, 108.0, 3.0)) == pytest.approx(2 / 8)


def test_what_happens_between_two_spans_does_not_count() -> None:
    readings = ((0.0, 0.0, 0.0), (1.0, 4.0, 1.0), (50.0, 60.0, 1.0), (51.0, 64.0, 2.0))
    assert share_of(*readings) == 0.0


def test_a_few_ticks_of_the_clock_tell_nothing() -> None:
    assert share_of((0.0, 0.0, 0.0), (0.04, 0.05, 0.0)) == 0.0


def test_a_small_share_is_not_worth_a_note() -> None:
    assert contention_note(0.1) is None
    note = contention_note(0.5)
    assert note is not None and "50 %" in note
