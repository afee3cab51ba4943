"""The names of sides and of the parts of a step, in window, exports and command line."""

from __future__ import annotations

from engine.compare.sides import experiment_titles
from engine.experiment.value import in_sentence
from engine.protocol.advice import Advice
from engine.protocol.profile import Profiles, StepPart, StepProfile

_TITLES = {
    StepPart.MEMORY: "Memory-bound",
    StepPart.SCALING: "FP8 scaling and casts",
    StepPart.COPIES: "Copies",
    StepPart.OPTIMIZER: "Optimizer",
    StepPart.OTHER: "Other work",
    StepPart.COMMUNICATION: "Communication",
    StepPart.HOST: "Waiting for the host",
    StepPart.DATA: "Waiting for data",
}
_PHRASES = {
    StepPart.MEMORY: "memory-bound work",
    StepPart.SCALING: "scaling and casting to FP8",
    StepPart.COPIES: "copying between host and device",
    StepPart.OPTIMIZER: "the optimizer",
    StepPart.HOST: "waiting for the host to launch work",
}
_MEANINGS = {
    StepPart.MATRIX: "Matmuls and convolutions on ordinary units",
    StepPart.MEMORY: (
        "Element-wise operations, normalizations, reductions, casts and layout changes, which spend their "
        "time on reading and writing memory"
    ),
    StepPart.SCALING: (
        "Finding the scales of FP8 and casting to it, recognized by the names of kernels. With torch.compile "
        "this includes fused operations"
    ),
    StepPart.COPIES: "Copies between host and device",
    StepPart.OPTIMIZER: "The optimizer's step, with unscaling and clipping of gradients",
    StepPart.OTHER: "Work of no other kind",
    StepPart.COMMUNICATION: "The devices synchronize gradients (all-reduce) or wait, and compute nothing",
    StepPart.HOST: "The device waits until the host launches its next kernel (CPU-bound)",
    StepPart.DATA: "The next batch is not ready",
}


def side_names(profiles: Profiles) -> tuple[str, ...]:
    """Return the sides' names, as short as possible but unique: "FP32", "FP16 AMP, fast"."""
    return experiment_titles([side.experiment for side in profiles.sides])


def part_title(part: StepPart, profile: StepProfile) -> str:
    """Return a part's name on the profile's device: "Matrix work on Tensor Cores"."""
    units = profile.matrix_units
    if part is StepPart.MATRIX_UNITS:
        return f"Matrix work on {units or 'matrix units'}"
    if part is StepPart.MATRIX:
        return f"Matrix work without {units}" if units else "Matrix work"
    if part is StepPart.HOST and profile.device_type == "cpu":
        return "Between operations"
    return _TITLES[part]


def part_phrase(part: StepPart, profile: StepProfile) -> str:
    """Return a part's singular name for a sentence: "matrix work on Tensor Cores", "waiting for data"."""
    if part is StepPart.HOST and profile.device_type == "cpu":
        return "time between operations"
    return _PHRASES.get(part) or in_sentence(part_title(part, profile))


def part_meaning(part: StepPart, profile: StepProfile) -> str:
    """Describe the work of the profile's device in a part, without a full stop."""
    if part is StepPart.MATRIX_UNITS:
        return f"Matmuls and convolutions on {profile.matrix_units or 'matrix units'}"
    if part is StepPart.HOST and profile.device_type == "cpu":
        return "Python and PyTorch prepare the next operation"
    return _MEANINGS[part]


ENERGY_COUNTERS = {
    "nvml": "Energy is counted by the GPU, without the CPU, fans and power supply.",
    "rapl": "Energy is counted by the CPU, without memory, fans and power supply.",
}


def failures(profiles: Profiles) -> tuple[str, ...]:
    """Return a sentence for each side whose profile failed."""
    return tuple(
        f"{name}: {side.problem.message} {side.problem.remedy}".rstrip()
        for name, side in zip(side_names(profiles), profiles.sides, strict=True)
        if side.problem is not None
    )


def advice_by_side(profiles: Profiles) -> tuple[tuple[str, Advice], ...]:
    """Return each piece of advice after the names of its sides. A single side has an empty name.

    Sides that were disturbed are skipped.
    """
    sides: dict[Advice, list[str]] = {}
    for name, side in zip(side_names(profiles), profiles.sides, strict=True):
        if side.profile is None or side.profile.disturbance is not None:
            continue
        for advice in side.profile.advice:
            sides.setdefault(advice, []).append(name if len(profiles.sides) > 1 else "")
    return tuple((", ".join(names), advice) for advice, names in sides.items())
