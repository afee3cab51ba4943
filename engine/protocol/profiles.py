"""The profiles of one or more experiments, and settings that may make a step faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, field_validator

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Problem, request_error
from engine.experiment.settings import FAST, RecipePart, joined
from engine.experiment.value import Line, Message
from engine.protocol.advice import Changes
from engine.protocol.answer import Answer
from engine.protocol.profile import Limits, StepPart, StepProfile
from engine.words.numbers import number

MOST_SIDES = 8
_WORKERS, _MOST_WORKERS = 4, 32
_LEAST_GAIN = 0.05


class ProfileSide(Message):
    """A profiled experiment, or saved run, with its profile or the problem that prevented it."""

    experiment: Experiment
    run_id: Line | None = None
    profile: StepProfile | None = None
    problem: Problem | None = None

    @property
    def place(self) -> tuple[str, int]:
        """The device and the number of devices. On a CPU each has a share of the cores."""
        return self.experiment.device, self.experiment.devices


class Profiles(Answer):
    """A profiling study: one or more experiments (sides) and their profiles, the first as the baseline.

    Sides on the same device share its measured limits.
    """

    kind = "profile"
    sides: Annotated[tuple[ProfileSide, ...], Field(max_length=MOST_SIDES)] = ()

    @field_validator("sides")
    @classmethod
    def _with_shared_limits(cls, sides: tuple[ProfileSide, ...]) -> tuple[ProfileSide, ...]:
        shared = {place: _best(sides, place) for place in {side.place for side in sides}}
        return tuple(_with_limits(side, shared[side.place]) for side in sides)

    def with_side(self, place: int, **changes: Any) -> Profiles:
        """Return the profiles with these fields of a side changed."""
        side = self.sides[place].model_copy(update=changes)
        return Profiles(sides=(*self.sides[:place], side, *self.sides[place + 1 :]))

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        return tuple(side.experiment for side in self.sides)

    @property
    def run_ids(self) -> tuple[str | None, ...]:
        return tuple(side.run_id for side in self.sides)

    @property
    def is_known(self) -> bool:
        return bool(self.measured())

    @property
    def digest(self) -> str:
        """The steps' times: "FP32 4.0 ms, BF16 AMP 2.1 ms a step"."""
        known = [(side.experiment, side.profile) for side in self.sides if side.profile is not None]
        times = [f"{each.precision.label} {number(profile.step_ms)} ms" for each, profile in known]
        return f"{', '.join(times)} a step" if times else ""

    def afresh(self) -> Self:
        unknown = {"profile": None, "problem": None}
        sides = tuple(side.model_copy(update=unknown) for side in self.sides)
        return self.model_copy(update={"sides": sides})

    def measured(self) -> tuple[StepProfile, ...]:
        return tuple(side.profile for side in self.sides if side.profile is not None)


def profiles_of(experiments: Sequence[Experiment], run_ids: Sequence[str | None] = ()) -> Profiles:
    """Return a new profiling study of these experiments, or of the runs `run_ids`. Raises ProblemError."""
    if not 1 <= len(experiments) <= MOST_SIDES:
        message = f"{len(experiments):,} experiments cannot be profiled together."
        remedy = f"Select 1 to {MOST_SIDES}."
        raise request_error(message, remedy, key="precision", value=len(experiments))
    pairs = zip(experiments, run_ids or [None] * len(experiments), strict=True)
    return Profiles(
        sides=tuple(ProfileSide(experiment=experiment, run_id=run_id) for experiment, run_id in pairs)
    )


def _best(sides: Sequence[ProfileSide], place: tuple[str, int]) -> Limits | None:
    measured = [side.profile for side in sides if side.profile and side.place == place]
    best: Limits | None = None
    for limits in filter(None, (profile.limits for profile in measured)):
        best = best or limits
        for peak in limits.peaks:
            best = best.with_peak(peak.format, max(peak.tflops, best.tflops(peak.format) or 0.0))
        fastest = max(best.gb_per_second, limits.gb_per_second)
        best = best.model_copy(update={"gb_per_second": fastest})
    for profile in measured:
        # without peaks that a step exceeds
        best = best and profile.with_limits(best).limits
    return best


def _with_limits(side: ProfileSide, limits: Limits | None) -> ProfileSide:
    profile = side.profile
    if profile is None or limits is None or profile.limits in (None, limits):
        return side
    return side.model_copy(update={"profile": profile.with_limits(limits)})


@dataclass(frozen=True)
class Remedy:
    """A fix for a slow step: the settings to change, and the label of the button that applies them."""

    changes: Changes
    action: str


def more_workers(experiment: Experiment, profile: StepProfile) -> tuple[Remedy, float] | None:
    """Return the fix "more loader processes", and a lower bound of the step's time with it in milliseconds.

    It doubles their number, up to the CPU's cores. None if nothing would be gained.
    """
    before, cores = experiment.data.workers, profile.cores or _MOST_WORKERS
    workers = min(2 * before or _WORKERS, cores, _MOST_WORKERS)
    wait_ms = profile.bar.ms(StepPart.DATA)
    rest_ms = max(0.0, profile.step_ms - wait_ms)
    # loaders that do not keep up take all of a step in each; without any, loading takes what training waits
    loading_ms = min(before, cores) * profile.step_ms if before else wait_ms
    least_ms = max(rest_ms, loading_ms / workers)
    if profile.threads is not None and profile.cores is not None:
        # a CPU that also trains divides its cores between both
        least_ms = max(least_ms, (profile.threads * rest_ms + loading_ms) / profile.cores)
    if workers <= before or least_ms > (1 - _LEAST_GAIN) * profile.step_ms:
        return None
    return Remedy((("data.workers", str(workers)),), f"Load with {workers:,} workers"), least_ms


def kept_on_device(experiment: Experiment) -> Remedy | None:
    """Return the fix that keeps the dataset in the device's memory. None if it is already there."""
    is_there = experiment.data.on_device
    return None if is_there else Remedy((("data.on_device", "true"),), "Keep the data on the device")


def pinned_memory(experiment: Experiment) -> Remedy | None:
    """Return the fix that pins the memory of batches. None if it is already pinned."""
    return None if experiment.data.pin_memory else Remedy((("data.pin_memory", "true"),), "Pin memory")


def fused_optimizer(experiment: Experiment) -> Remedy | None:
    """Return the fix that fuses the optimizer. None if it is already fused, or the model file's own."""
    settings = experiment.optimizer
    is_fused = settings.fused or (settings.fused is None and "fused" in experiment.step.parts)
    code = experiment.own_code
    if is_fused or (code is not None and "optimizer" in code.defines):
        return None
    return Remedy((("optimizer.fused", "true"),), "Fuse the optimizer")


def fast_recipe(experiment: Experiment, lacking: RecipePart) -> Remedy | None:
    """Return the fix that uses all optimizations. None if the one that would help is already in use."""
    is_there = lacking in experiment.step.parts
    return None if is_there else Remedy((("step.recipe", FAST),), "Use all optimizations")


def channels_last(experiment: Experiment) -> Remedy | None:
    """Return the fix that uses channels-last memory, which suits convolutions. None if already used."""
    parts = experiment.step.parts
    if "channels_last" in parts:
        return None
    return Remedy((("step.recipe", joined({*parts, "channels_last"})),), "Use channels_last")


def larger_buckets(experiment: Experiment) -> Remedy | None:
    """Return the fix that makes DDP's buckets four times larger. None for FSDP2."""
    if experiment.ranks.strategy != "ddp":
        return None
    size = 4 * experiment.ranks.bucket_mib
    return Remedy((("ranks.bucket_mib", f"{size:g}"),), f"Use buckets of {size:g} MiB")


def shorter_gradients(experiment: Experiment) -> Remedy | None:
    """Return the fix that sends gradients in BF16. None if they are already sent in 16 bits."""
    is_short = experiment.ranks.reduction != "fp32"
    return None if is_short else Remedy((("ranks.reduction", "bf16"),), "Send gradients in BF16")


def sent_less_often(experiment: Experiment) -> Remedy:
    """Return the fix that accumulates the gradients of twice as many batches before sending them."""
    batches = 2 * experiment.step.gradient_accumulation
    return Remedy((("step.gradient_accumulation", str(batches)),), f"Accumulate over {batches:,} batches")


def larger_batch(experiment: Experiment) -> Remedy:
    """Return the fix that doubles the batch size."""
    batch = 2 * experiment.batch_size
    return Remedy((("batch_size", str(batch)),), f"Use a batch of {batch:,}")


def other_precision(precision: Precision) -> Remedy:
    """Return the fix that trains in another precision."""
    return Remedy((("precision", precision.value),), f"Train in {precision.label}")
