"""Names of a timing's sides and of the parts of a step."""

from __future__ import annotations

from engine.experiment.experiment import Experiment
from engine.profile.names import part_meaning, part_title, side_names
from engine.protocol.profile import Bar, StepPart, StepProfile
from engine.protocol.profiles import Profiles, ProfileSide


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
