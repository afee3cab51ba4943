"""Rows of several sides, side by side."""

from __future__ import annotations

import pytest

from engine.experiment.experiment import Experiment
from engine.profile.columns import side_rows
from engine.profile.names import part_meaning, part_title, side_names
from engine.protocol.profile import Bar, StepPart, StepProfile, TimeRow
from engine.protocol.profiles import Profiles, ProfileSide


def _side(precision: str, **ms: float) -> ProfileSide:
    profile = StepProfile(
        device_type="cuda",
        steps=3,
        samples=64,
        step_ms=10.0,
        recorded_ms=10.0,
        bar=Bar(),
        format=precision,
        kernels=tuple(
            TimeRow(name=name, part=StepPart.MEMORY, ms=time, calls=1) for name, time in ms.items()
        ),
    )
    return ProfileSide(experiment=Experiment.model_validate({"precision": precision}), profile=profile)


def test_rows_of_one_name_stand_side_by_side_the_longest_first():
    profiles = Profiles(sides=(_side("fp32", norm=4.0, sgemm=9.0), _side("fp16", norm=2.0, hgemm=3.0)))
    rows = side_rows(profiles, "kernels")
    assert [row.name for row in rows] == ["sgemm", "norm", "hgemm"]
    assert [tuple(cell and cell.ms for cell in row.cells) for row in rows] == [
        (9.0, None),
        (4.0, 2.0),
        (None, 3.0),
    ]
    assert [row.ratio for row in rows] == [None, pytest.approx(2.0), None]
    assert side_rows(profiles, "modules") == ()


def test_a_side_without_a_profile_has_no_cells_and_one_side_no_ratio():
    alone = _side("fp32", norm=4.0)
    (row,) = side_rows(Profiles(sides=(alone, ProfileSide(experiment=alone.experiment))), "kernels")
    assert row.cells[1] is None and row.ratio is None
    (row,) = side_rows(Profiles(sides=(alone,)), "kernels")
    assert row.ratio is None


def _profiles(*settings: dict[str, object]) -> Profiles:
    return Profiles(
        sides=tuple(ProfileSide(experiment=Experiment.model_validate(setting)) for setting in settings)
    )


def _profile(device_type: str, matrix_units: str | None) -> StepProfile:
    return StepProfile(
        device_type=device_type,
        steps=3,
        samples=64,
        step_ms=1.0,
        recorded_ms=1.0,
        bar=Bar.of([(StepPart.MATRIX, 1.0)]),
        format="fp32",
        matrix_units=matrix_units,
    )


def test_sides_are_named_by_what_differs():
    assert side_names(_profiles({"precision": "fp32"}, {"precision": "fp16"})) == ("FP32", "FP16 AMP")
    batches = _profiles({"precision": "fp16", "batch_size": 64}, {"precision": "fp16", "batch_size": 128})
    assert side_names(batches) == ("FP16 AMP, batch 64", "FP16 AMP, batch 128")


def test_equal_sides_are_numbered():
    assert side_names(_profiles({"precision": "fp32"}, {"precision": "fp32"})) == ("FP32", "FP32 (2)")


def test_every_part_has_a_title_and_a_meaning_that_fit_the_device():
    card, processor = _profile("cuda", "Tensor Cores"), _profile("cpu", None)
    for part in StepPart:
        for profile in (card, processor):
            assert part_title(part, profile)
            assert part_meaning(part, profile)
    assert part_title(StepPart.MATRIX_UNITS, card) == "Matrix work on Tensor Cores"
    assert part_title(StepPart.MATRIX, card) == "Matrix work without Tensor Cores"
    assert part_title(StepPart.MATRIX, processor) == "Matrix work"
