"""The bars of a timing are on one scale, and every part is where its place says."""

from __future__ import annotations

import pytest

from engine.drawing.shapes import Words
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.profile.bar_picture import bars_drawing, part_places
from engine.protocol.profile import Bar, StepPart, StepProfile
from engine.protocol.profiles import Profiles, ProfileSide


def _side(precision: str, **ms: float) -> ProfileSide:
    bar = Bar.of((StepPart[name.upper()], time) for name, time in ms.items())
    profile = StepProfile(
        device_type="cuda",
        steps=3,
        samples=64,
        step_ms=bar.total_ms,
        recorded_ms=bar.total_ms,
        bar=bar,
        format=precision,
        matrix_units="Tensor Cores",
    )
    return ProfileSide(experiment=Experiment.model_validate({"precision": precision}), profile=profile)


@pytest.fixture
def profiles() -> Profiles:
    return Profiles(
        sides=(_side("fp32", matrix=60.0, memory=20.0), _side("fp16", matrix_units=10.0, data=0.02))
    )


def test_the_sides_share_a_scale_and_a_bar_is_filled_by_its_parts(profiles):
    matrix, memory, units, _data, *cells = part_places(profiles, 800)
    assert matrix.width == pytest.approx(6 * units.width)
    assert memory.x == pytest.approx(matrix.x + matrix.width) and matrix.x == units.x
    assert [(place.side, place.part) for place in cells] == [
        (0, StepPart.MATRIX),
        (0, StepPart.MEMORY),
        (1, StepPart.MATRIX_UNITS),
        (1, StepPart.DATA),
    ]


@pytest.mark.parametrize("width", [420, 1_200])
def test_nothing_is_drawn_beyond_the_picture(profiles, width):
    drawing = bars_drawing(Profiles(sides=profiles.sides * 4), width)
    for place in part_places(Profiles(sides=profiles.sides * 4), width):
        assert place.x + place.width <= width + 1 and place.y + place.height <= drawing.height


def test_the_description_tells_every_part(profiles):
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="No room.", remedy="Make some.")
    failed = ProfileSide(experiment=profiles.sides[0].experiment, problem=problem)
    drawing = bars_drawing(Profiles(sides=(*profiles.sides, failed)), 800)
    assert drawing.description == (
        "FP32: 80.0 ms a step: Matrix work without Tensor Cores 60.0 ms (75\u00a0%), "
        "Memory-bound 20.0 ms (25\u00a0%). "
        "FP16 AMP: 10.0 ms a step: Matrix work on Tensor Cores 10.0 ms (99.8\u00a0%), "
        "Waiting for data < 0.1 ms (0.2\u00a0%). FP32 (2): No room."
    )
    assert "No room." in [shape.text for shape in drawing.shapes if isinstance(shape, Words)]
