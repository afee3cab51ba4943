"""The profiles of one or several experiments, side by side, and settings that may make a step faster."""

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
    """An experiment, the run that it is taken from, if any, and its profile, or why there is none."""

    experiment: Experiment
    run_id: Line | None = None
    profile: StepProfile | None = None
    problem: Problem | None = None

    @property
    def place(self) -> tuple[str, int]:
        """The device, and among how many: each of a processor's has its share of the cores."""
        return self.experiment.device, self.experiment.devices


class Profiles(Answer):
    """The sides in the order shown; the first is the baseline. Those of one device share its limits."""

    kind = "profile"
    sides: Annotated[tuple[ProfileSide, ...], Field(max_length=MOST_SIDES)] = ()

    @field_validator("sides")
    @classmethod
    def _with_shared_limits(cls, sides: tuple[ProfileSide, ...]) -> tuple[ProfileSide, ...]:
        shared = {place: _best(sides, place) for place in {side.place for side in sides}}
        return tuple(_with_limits(side, shared[side.place]) for side in sides)

    def with_side(self, place: int, **changes: Any) -> Profiles:
        """The profiles with these fields of a side changed."""
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
    """The sides of experiments, or of the runs that are named, not profiled yet. Raises ProblemError."""
    if not 1 <= len(experiments) <= MOST_SIDES:
        message = f"{len(experiments):,} experiments cannot be profiled side by side."
        remedy = f"Choose from 1 to {MOST_SIDES}."
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
    """`changes` are the settings, `action` labels the button that applies them."""

    changes: Changes
    action: str


def more_workers(experiment: Experiment, profile: StepProfile) -> tuple[Remedy, float] | None:
    """Twice as many processes that load, up to the processor's cores, and the milliseconds that a step takes
    at best with them; None where they would gain nothing."""
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
    """The dataset in the device's memory; None where it is there."""
    is_there = experiment.data.on_device
    return None if is_there else Remedy((("data.on_device", "true"),), "Keep it on the device")


def pinned_memory(experiment: Experiment) -> Remedy | None:
    """Batches in pinned memory; None where they are."""
    return None if experiment.data.pin_memory else Remedy((("data.pin_memory", "true"),), "Pin memory")


def fused_optimizer(experiment: Experiment) -> Remedy | None:
    """A fused optimizer; None where it is fused, or the model file's own."""
    settings = experiment.optimizer
    is_fused = settings.fused or (settings.fused is None and "fused" in experiment.step.parts)
    code = experiment.own_code
    if is_fused or (code is not None and "optimizer" in code.defines):
        return None
    return Remedy((("optimizer.fused", "true"),), "Fuse the optimizer")


def fast_recipe(experiment: Experiment, lacking: RecipePart) -> Remedy | None:
    """Everything that speeds a step up; None where the part that would help is there."""
    is_there = lacking in experiment.step.parts
    return None if is_there else Remedy((("step.recipe", FAST),), "Use the fast recipe")


def channels_last(experiment: Experiment) -> Remedy | None:
    """Pictures in the layout that suits convolutions; None where they are."""
    parts = experiment.step.parts
    if "channels_last" in parts:
        return None
    return Remedy((("step.recipe", joined({*parts, "channels_last"})),), "Use channels_last")


def larger_buckets(experiment: Experiment) -> Remedy | None:
    """Buckets of four times the size for what DDP sends; None for FSDP2, which sends block by block."""
    if experiment.ranks.strategy != "ddp":
        return None
    size = 4 * experiment.ranks.bucket_mib
    return Remedy((("ranks.bucket_mib", f"{size:g}"),), f"Use buckets of {size:g} MiB")


def shorter_gradients(experiment: Experiment) -> Remedy | None:
    """Gradients sent in BF16; None where they are sent in 16 bits."""
    is_short = experiment.ranks.reduction != "fp32"
    return None if is_short else Remedy((("ranks.reduction", "bf16"),), "Send them in BF16")


def sent_less_often(experiment: Experiment) -> Remedy:
    """Gradients of twice as many batches to an update."""
    batches = 2 * experiment.step.gradient_accumulation
    return Remedy((("step.gradient_accumulation", str(batches)),), f"Accumulate over {batches:,} batches")


def larger_batch(experiment: Experiment) -> Remedy:
    """A batch of twice the size."""
    batch = 2 * experiment.batch_size
    return Remedy((("batch_size", str(batch)),), f"Use a batch of {batch:,}")


def other_precision(precision: Precision) -> Remedy:
    """The same training in another precision."""
    return Remedy((("precision", precision.value),), f"Train in {precision.label}")
