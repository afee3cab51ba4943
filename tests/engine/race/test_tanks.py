"""The two tanks: where they stand, how high they are filled, and what is written on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.drawing.looks import precision_look
from engine.drawing.shapes import Words
from engine.experiment.experiment import Precision
from engine.race.memory import Rect, Tank, TankPair


def plan(
    full: float | None, mixed: float | None, fill: float = 1.0, size: tuple[float, float] = (216.0, 500.0)
) -> TankPair:
    tanks = (
        Tank(("Full",), precision_look(Precision.FP32), full),
        Tank(("Mixed",), precision_look(Precision.FP16), mixed),
    )
    scale = min(size[0] / 216, size[1] / 500)
    return TankPair(tanks, Rect(0.0, 0.0, *size), scale, fill)


def contains(outer: Rect, inner: Rect) -> bool:
    return outer.left < inner.left < inner.right < outer.right and (
        outer.top <= inner.top and inner.bottom <= outer.bottom
    )


def test_levels_stand_on_one_scale_and_rise_together() -> None:
    shown = plan(10_240, 5_120)
    tank = shown.rects[0]
    assert tank.bottom - shown.level(0) == pytest.approx(0.894 * tank.height, abs=1)
    assert tank.bottom - shown.level(1) == pytest.approx(0.447 * tank.height, abs=1)
    assert plan(10_240, 5_120, 0.0).level(0) == plan(10_240, 5_120, 0.0).rects[0].bottom
    half = plan(10_240, 5_120, 0.5)
    assert half.level(0) == pytest.approx(plan(10_240, 5_120).level(1), abs=1)
    assert half.level(1) == pytest.approx(plan(10_240, 2_560).level(1), abs=1)
    assert plan(10.24 * 1024, 3.16 * 1024).spared_text == "7.0 GiB"
    assert plan(None, 3.0).spared_text == ""


def test_what_is_spared_is_hatched_and_told_at_the_end_where_there_is_room() -> None:
    assert plan(10_240, 3_200).note_rect() is not None
    assert plan(10_240, 3_200, 0.9).note_rect() is None
    assert replace(plan(10_240, 3_200), is_final=False).note_rect() is None
    assert plan(10_240, 10_000).note_rect() is None
    assert plan(10_240, 3_200, size=(110, 140)).note_rect() is None
    assert (plan(10_240, 3_200).lower, plan(3_200, 10_240).lower) == (1, 0)
    spared = plan(3_200, 10_240).spared_rect()
    assert spared is not None
    assert spared.left == plan(3_200, 10_240).rects[0].left


@pytest.mark.parametrize("peaks", [(None, 3_200.0), (3_200.0, None), (None, None), (800.0, 800.0)])
def test_nothing_is_spared_where_one_is_unknown_or_both_are_alike(
    peaks: tuple[float | None, float | None],
) -> None:
    assert plan(*peaks).lower is None
    assert plan(*peaks).note_rect() is None


@pytest.mark.parametrize("size", [(110, 140), (140, 300), (216, 500), (600, 1_400), (400, 200)])
@pytest.mark.parametrize("fill", [0.0, 0.5, 1.0])
def test_amounts_stay_inside_their_tanks(size: tuple[int, int], fill: float) -> None:
    shown = plan(10_240, 3_200, fill, size)
    for which in (0, 1):
        assert contains(shown.rects[which], shown.label_rect(which))
        assert shown.name_rect(which).bottom <= size[1]


def test_a_long_name_stands_on_two_lines_one_for_each_piece() -> None:
    shown = plan(10_240, 3_200)
    long = replace(shown.pair[1], name=("FP16 AMP", "compiled"))
    names = replace(shown, pair=(shown.pair[0], long)).names()
    lines = [(shape.text, shape.y) for shape in names if isinstance(shape, Words)]
    assert [text for text, _ in lines] == ["Full", "FP16 AMP", "compiled"]
    assert lines[1][1] < lines[2][1]
