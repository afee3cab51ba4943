"""The contract of profiles."""

from __future__ import annotations

import pytest

from engine.protocol.events import Profiled, from_line, to_line
from engine.protocol.profile import StepPart
from engine.protocol.profiles import Profiles


def test_a_profile_survives_the_trip_from_the_worker(profiles: Profiles) -> None:
    for profile in profiles.measured():
        assert from_line(to_line(Profiled(profile=profile))) == Profiled(profile=profile)


def test_utilisation_and_rates_follow_from_what_was_counted(profiles: Profiles) -> None:
    profile = profiles.measured()[1]
    assert profile.mfu == pytest.approx(1.57e12 / (profile.step_ms / 1e3) / 711e12)
    assert profile.kernels[0].tflops == pytest.approx(9.6e11 / (0.6 * 12.0) / 1e9)
    assert profile.bar.fraction(StepPart.MATRIX_UNITS) == pytest.approx(12.0 / profile.bar.total_ms)
