"""The bottleneck of a step and the next fix to try, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.experiment.experiment import Experiment, Precision
from engine.profile.names import part_phrase, part_title
from engine.protocol.advice import (
    Changes,
    Remedy,
    fast_recipe,
    fused_optimizer,
    kept_on_device,
    larger_batch,
    other_precision,
    pinned_memory,
    sent_less_often,
    shorter_gradients,
)
from engine.protocol.profile import Bar, Profiles, ProfileSide, StepPart, StepProfile, more_workers
from engine.words.numbers import number, share_text, throughput_text, times


@dataclass(frozen=True)
class Bottleneck:
    """The bottleneck of a step as a sentence, and in `next_step` the fix to try next.

    `changes` are the settings that apply the fix, and `action` is the label of their button. Both are empty
    if no setting helps. `bound` is the part that is the bottleneck, "balanced" without one, or "unknown".
    """

    sentence: str
    next_step: str
    changes: Changes = ()
    action: str = ""
    bound: str = "unknown"


_NextStep = tuple[str, Remedy]

PEAK_TITLE = "% of measured peak"
PEAK_MEANING = (
    f"{PEAK_TITLE} is the model's FLOPs per second relative to the measured peak of matmuls and "
    "convolutions in its dtype. The FLOPs are those of the forward and backward pass. A multiply-add counts "
    "as two, recomputed activations count once, and masked attention counts in full. The time is that of the "
    "full step, with all waits. MFU, as published for other models, is relative to the theoretical peak "
    "instead, so it is lower."
)

_BOUNDING_SHARE, _BOUNDING_WAIT = 0.4, 0.3
"""The share of a step from which its longest part is the bottleneck. It is less for waits."""
_WAITS = (StepPart.COMMUNICATION, StepPart.HOST, StepPart.DATA)
NOTED_DIFFERENCE = 0.05
"""The smallest notable change, as a share of the first side's step. Smaller ones count as none."""
_NOTED_SHARE = 0.15
"""Smaller parts are not worth a fix."""
_MUCH_FASTER = 1.3
_FAR_FROM_PEAK = 0.4
_LONG_FORMATS = ("fp32", "tf32")


def verdict_of(profile: StepProfile, experiment: Experiment) -> Bottleneck:
    """Return the bottleneck of an experiment's step. It is unknown if the profile is unreliable."""
    bar = profile.bar
    parts = sorted(bar.parts, key=lambda entry: entry.ms, reverse=True)
    if not parts:
        return Bottleneck("The profile has no times.", "Profile the experiment again.")
    if experiment.precision is Precision.FP8 and profile.device_type == "cpu":
        sentence = "FP8 is emulated on a CPU, so these times say nothing about a GPU."
        return Bottleneck(sentence, "Profile on a GPU with compute capability 8.9 or later.")
    if profile.disturbance is not None:
        sentence = f"The profile is unreliable: {profile.disturbance}."
        return Bottleneck(sentence, "Profile again when nothing else runs.")
    longest = parts[0].part
    enough = _BOUNDING_WAIT if longest in _WAITS else _BOUNDING_SHARE
    is_bound = longest is not StepPart.OTHER and bar.fraction(longest) >= enough
    sentence = _bounding(longest, profile) if is_bound else _balanced(profile)
    bound = longest.value if is_bound else "balanced"
    for part in (entry.part for entry in parts if bar.fraction(entry.part) >= _NOTED_SHARE):
        step = _NEXT_STEPS[part](profile, experiment) if part in _NEXT_STEPS else None
        if step is not None:
            why = (
                ""
                if part is longest
                else f"{_capitalised(part, profile)} takes {_share_of_step(part, bar)}. "
            )
            words, remedy = step
            return Bottleneck(sentence, f"{why}{words}", *remedy, bound)
    return Bottleneck(sentence, _no_fix_sentence(longest, profile), bound=bound)


def peak_sentence(profile: StepProfile) -> str | None:
    """Return a sentence on the fraction of the measured peak, or on why it is withheld.

    None where it is unknown.
    """
    fraction, peak = profile.fraction_of_measured_peak, profile.peak_tflops
    flops, name = profile.flops, profile.format.upper()
    if flops and profile.limits is not None and profile.format in profile.limits.withheld:
        unknown = f"The {PEAK_TITLE} is unknown, because the peak in {name} could not be measured reliably."
        return f"{unknown} Profile again when nothing else runs."
    if fraction is None or peak is None or flops is None:
        return None
    return (
        f"The model reaches {share_text(fraction)} of the measured peak. Its {number(flops / 1e9)} GFLOPs "
        f"per step run at {throughput_text(flops / profile.step_ms / 1e9)}, and matmuls in {name} reach "
        f"{throughput_text(peak)} on this device."
    )


def milliseconds(value: float) -> str:
    """Format a time with three significant digits: "14.2 ms"."""
    return f"{number(value)} ms"


def _capitalised(part: StepPart, profile: StepProfile) -> str:
    phrase = part_phrase(part, profile)
    return phrase[:1].upper() + phrase[1:]


def _share_of_step(part: StepPart, bar: Bar) -> str:
    both_times = f"{number(bar.ms(part))} of {milliseconds(bar.total_ms)}"
    return f"{share_text(bar.fraction(part))} of the step ({both_times})"


_BOUNDING = {
    StepPart.DATA: "Data-bound: training waits for the loader for {}.",
    StepPart.HOST: "CPU-bound: the GPU waits for the next kernel launch for {}.",
    StepPart.SCALING: "Bound by FP8 scaling: finding scales and casting take {}.",
    StepPart.COPIES: "Copy-bound: copies between host and device take {}.",
    StepPart.OPTIMIZER: "Optimizer-bound: the weight update takes {}.",
    StepPart.COMMUNICATION: "Communication-bound: the device sends, or waits for others, for {}.",
}


def _bounding(part: StepPart, profile: StepProfile) -> str:
    of_step = _share_of_step(part, profile.bar)
    if part is StepPart.HOST and profile.device_type == "cpu":
        return f"Overhead-bound: {of_step} passes between operations."
    if part is StepPart.MEMORY:
        at_bandwidth = _share_of_bandwidth(profile)
        return f"Memory-bound: operations that mostly read and write memory take {of_step}{at_bandwidth}."
    if part in _BOUNDING:
        return _BOUNDING[part].format(of_step)
    reached = profile.matrix_share_of_peak
    at_peak = "" if reached is None else f", at {share_text(reached)} of their measured peak"
    where = part_title(part, profile).removeprefix("Matrix work")
    return f"Compute-bound{where}: matmuls and convolutions take {of_step}{at_peak}."


def _share_of_bandwidth(profile: StepProfile) -> str:
    rows = [row for row in profile.kernels if row.part is StepPart.MEMORY and row.moved_bytes]
    spent = sum(row.ms for row in rows)
    if profile.limits is None or not spent:
        return ""
    per_ms = sum(row.moved_bytes or 0.0 for row in rows) / spent
    reached = per_ms / 1e6 / profile.limits.gb_per_second
    # a cache delivers more than the memory could
    return "" if reached > 1 else f", at {share_text(reached)} of the measured bandwidth"


def _balanced(profile: StepProfile) -> str:
    if profile.bar.fraction(StepPart.OTHER) >= _BOUNDING_SHARE:
        return f"Unclassified work takes {_share_of_step(StepPart.OTHER, profile.bar)}."
    longest = sorted(profile.bar.parts, key=lambda entry: entry.ms, reverse=True)[:2]
    parts = [entry.part for entry in longest]
    named = [f"{part_phrase(part, profile)} takes {share_text(profile.bar.fraction(part))}" for part in parts]
    return f"No single bottleneck: {', '.join(named)} of the {milliseconds(profile.bar.total_ms)} step."


def _no_fix_sentence(longest: StepPart, profile: StepProfile) -> str:
    if any(advice.changes for advice in profile.advice):
        return f"No setting shortens {part_phrase(longest, profile)}. See Advice for other savings."
    reached = profile.matrix_share_of_peak
    if longest in (StepPart.MATRIX_UNITS, StepPart.MATRIX) and reached is not None:
        now = f"run at {share_text(reached)} of their measured peak"
        return f"No setting is known to help. The model needs these matmuls, which {now}."
    return f"No setting shortens the longest part, {part_phrase(longest, profile)}."


def _for_data(profile: StepProfile, experiment: Experiment) -> _NextStep | None:
    workers = more_workers(experiment, profile)
    if workers is None:
        return _on_device(experiment)
    remedy, least_ms = workers
    return f"{remedy.action}: a step {_at_best(least_ms, profile)}.", remedy


def _for_copies(profile: StepProfile, experiment: Experiment) -> _NextStep | None:
    remedy = pinned_memory(experiment)
    if remedy is None:
        return _on_device(experiment)
    copies_ms = profile.bar.ms(StepPart.COPIES)
    at_best = _at_best(max(copies_ms, profile.bar.total_ms - copies_ms), profile)
    return f"Pin the batches' memory to copy them while the device computes. A step then {at_best}.", remedy


def _on_device(experiment: Experiment) -> _NextStep | None:
    remedy = kept_on_device(experiment)
    sentence = "Keep the dataset on the device, if it fits. Then no step loads or copies data."
    return None if remedy is None else (sentence, remedy)


def _host_fix(profile: StepProfile, experiment: Experiment) -> _NextStep:
    remedy = fast_recipe(experiment, "capture") if profile.device_type == "cuda" else None
    if remedy is None:
        return _with_larger_batch(experiment, "the same operations then do twice the work")
    whole = profile.bar.total_ms
    rest = whole - profile.bar.ms(StepPart.HOST)
    gain = "The wait is nearly all of the step"
    if rest > 0.02 * whole:
        gain = f"Without it, a step would take {milliseconds(rest)}, {times(whole / rest)} times as fast"
    return f"Use the Fast optimizations, which launch a full step at once. {gain}.", remedy


def _for_communication(profile: StepProfile, experiment: Experiment) -> _NextStep:
    exchange = profile.exchange
    if exchange is not None and exchange.slowest is not None:
        slow = exchange.ranks[exchange.slowest].named(exchange.slowest)
        return f"The others wait for {slow}. Find out what slows it down.", Remedy((), "")
    remedy = shorter_gradients(experiment)
    if remedy is not None:
        return "Send the gradients in BF16, which halves the traffic.", remedy
    remedy = sent_less_often(experiment)
    return f"{remedy.action}: gradients are then sent half as often.", remedy


def _for_optimizer(profile: StepProfile, experiment: Experiment) -> _NextStep:
    remedy = fused_optimizer(experiment)
    if remedy is None:
        return _with_larger_batch(experiment, "an update then serves twice as many samples")
    return "Use a fused optimizer, which updates all weights in a few kernels.", remedy


def _with_larger_batch(experiment: Experiment, why: str) -> _NextStep:
    remedy = larger_batch(experiment)
    return f"{remedy.action}, if it fits: {why}.", remedy


def _for_memory(profile: StepProfile, experiment: Experiment) -> _NextStep | None:
    # a CPU gains nothing by compiling convolutions, which the Fast optimizations skip there
    is_skipped = profile.device_type == "cpu" and _has_convolutions(profile)
    remedy = None if is_skipped else fast_recipe(experiment, "compile")
    if remedy is None:
        return _faster_format(profile) if profile.format in _LONG_FORMATS else None
    return "Use the Fast optimizations, whose compiler fuses operations to access less memory.", remedy


def _for_matrix(profile: StepProfile, experiment: Experiment) -> _NextStep | None:
    faster, reached = _faster_format(profile), profile.matrix_share_of_peak
    if faster is not None or profile.device_type == "cpu" or reached is None or reached >= _FAR_FROM_PEAK:
        return faster
    now = f"matmuls and convolutions run at {share_text(reached)} of their measured peak"
    remedy = fast_recipe(experiment, "channels_last")
    if remedy is not None and _has_convolutions(profile):
        return f"Use the Fast optimizations. Their channels_last layout suits convolutions: {now}.", remedy
    return _with_larger_batch(experiment, f"{now}, and larger ones fill the device better")


def _faster_format(profile: StepProfile) -> _NextStep | None:
    limits, own = profile.limits, profile.peak_tflops
    if limits is None or own is None:
        return None
    others = ("fp16", "bf16", "tf32") if profile.format in _LONG_FORMATS else ("fp32",)
    peaks = {name: limits.tflops(name) or 0.0 for name in others}
    best = max(peaks, key=lambda name: peaks[name])
    if peaks[best] < _MUCH_FASTER * own:
        return None
    remedy, reached = other_precision(Precision(best)), throughput_text(peaks[best])
    more = f"{times(peaks[best] / own)} times that of {profile.format.upper()}"
    return f"{remedy.action}: its matmuls reach {reached} on this device, {more}.", remedy


def _has_convolutions(profile: StepProfile) -> bool:
    rows = (*profile.kernels, *profile.operations)
    return any("conv" in f"{row.name} {row.operation}".lower() for row in rows)


def _at_best(least_ms: float, profile: StepProfile) -> str:
    ratio = times(profile.bar.total_ms / least_ms)
    return f"takes {milliseconds(least_ms)} at best, {ratio} times as fast"


_NEXT_STEPS: Mapping[StepPart, Callable[[StepProfile, Experiment], _NextStep | None]] = {
    StepPart.DATA: _for_data,
    StepPart.COPIES: _for_copies,
    StepPart.COMMUNICATION: _for_communication,
    StepPart.HOST: _host_fix,
    StepPart.OPTIMIZER: _for_optimizer,
    StepPart.MEMORY: _for_memory,
    StepPart.SCALING: _for_memory,
    StepPart.MATRIX: _for_matrix,
    StepPart.MATRIX_UNITS: _for_matrix,
}


def verdicts(profiles: Profiles) -> tuple[Bottleneck | None, ...]:
    """Return the bottleneck of each side. A side without a profile has None."""
    return tuple(_verdict(side, profiles.sides) for side in profiles.sides)


def _verdict(side: ProfileSide, sides: Sequence[ProfileSide]) -> Bottleneck | None:
    if side.profile is None:
        return None
    verdict, precision = verdict_of(side.profile, side.experiment), side.experiment.precision
    if verdict.changes or side.profile.disturbance is not None:
        return verdict
    step_ms = {
        other.experiment.precision: other.profile.step_ms
        for other in sides
        if other.profile is not None
        and other.profile.step_ms
        and other.profile.disturbance is None
        and other.experiment.model_copy(update={"precision": precision}) == side.experiment
    }
    best = min(step_ms, key=lambda other: step_ms[other], default=precision)
    if best is precision or side.profile.step_ms < (1 + NOTED_DIFFERENCE) * step_ms[best]:
        return verdict
    ratio, remedy = side.profile.step_ms / step_ms[best], other_precision(best)
    sentence = f"{remedy.action}, which is {times(ratio)} times as fast here."
    return replace(verdict, next_step=sentence, **remedy._asdict())
