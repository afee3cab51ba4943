"""Rows of several sides, side by side."""

from __future__ import annotations

import pytest

from engine.experiment.experiment import Experiment
from engine.profile.columns import side_rows
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
