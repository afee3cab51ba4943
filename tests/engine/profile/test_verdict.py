"""Verdicts on constructed profiles: every bound, on a GPU and on a CPU, and what a side gains."""

from __future__ import annotations

from typing import Any

import pytest

from engine.experiment.experiment import Experiment, experiment_from
from engine.profile.gain import gains
from engine.profile.verdict import peak_sentence, verdict_of, verdicts
from engine.protocol.advice import Advice, AdviceKind
from engine.protocol.profile import Bar, Limits, Peak, Profiles, ProfileSide, StepPart, StepProfile, TimeRow

GPU_PEAKS = {"fp32": 50.0, "tf32": 350.0, "fp16": 700.0, "bf16": 690.0}
CPU_PEAKS = {"fp32": 0.12, "fp16": 0.01, "bf16": 0.03}
REST = {"matrix": 1.0, "memory": 1.0, "optimizer": 0.5, "host": 0.5}


def profile(device: str = "cuda", **parts: float) -> StepProfile:
    bar = Bar.of((StepPart(name.replace("_", " ")), ms) for name, ms in parts.items())
    peaks = GPU_PEAKS if device == "cuda" else CPU_PEAKS
    return StepProfile(
        device_type=device,
        steps=5,
        samples=64,
        step_ms=bar.total_ms,
        recorded_ms=bar.total_ms,
        bar=bar,
        format="fp16" if "matrix_units" in parts else "fp32",
        matrix_units="Tensor Cores" if device == "cuda" else None,
        limits=Limits(
            peaks=tuple(Peak(format=name, tflops=tflops) for name, tflops in peaks.items()),
            gb_per_second=3_000.0 if device == "cuda" else 20.0,
        ),
    )


def experiment(**settings: Any) -> Experiment:
    return experiment_from({"model": "small-cnn", "batch_size": 64, **settings})


PAGEABLE, FAST = {"pin_memory": False}, {"recipe": "fast"}
CONVOLUTION = TimeRow(name="implicit_convolve_sgemm", part=StepPart.MATRIX, ms=9.0, calls=1)
ADD = TimeRow(name="add", part=StepPart.MEMORY, ms=2.0, calls=4, moved_bytes=0.9 * 3e12 * 2e-3)


def rest(device: str = "cuda", kernels: tuple[TimeRow, ...] = (), **parts: float) -> StepProfile:
    return profile(device, **{**REST, **parts}).model_copy(update={"kernels": kernels})


def of_units(share: float) -> StepProfile:
    """Convolutions on Tensor Cores that reach that share of their peak."""
    changes = {"kernels": (CONVOLUTION,), "flops": share * 9.0 * 700.0 * 1e9}
    return profile(matrix_units=9.0, memory=1.0).model_copy(update=changes)


STARVED = profile("cpu", data=64.0, matrix=1.9)
OF_TWO = STARVED.model_copy(update={"cores": 2})
# the processor's two cores also train
TRAINING = profile("cpu", data=64.0, matrix=30.0).model_copy(update={"cores": 2, "threads": 2})
SLOW_BF16 = rest("cpu", matrix=20.0).model_copy(update={"format": "bf16"})
ON_CPU_CONVOLUTIONS = rest("cpu", memory=6.0).model_copy(
    update={"operations": (CONVOLUTION.model_copy(update={"name": "aten::mkldnn_convolution"}),)}
)
FUSED, RECIPE, LARGER = ("optimizer.fused", "true"), ("step.recipe", "fast"), ("batch_size", "128")
ON_DEVICE, FOUR, TWO = ("data.on_device", "true"), ("data.workers", "4"), ("data.workers", "2")
PINNED, IN_FP16, IN_FP32 = ("data.pin_memory", "true"), ("precision", "fp16"), ("precision", "fp32")
BALANCED = profile(matrix_units=3.5, memory=3.0, optimizer=3.5)


def case(found: StepProfile, change: tuple[str, str] | None, *words: str, **settings: Any) -> Any:
    return pytest.param(found, experiment(**settings), () if change is None else (change,), words)


@pytest.mark.parametrize(
    ("found", "settings", "changes", "words"),
    [
        case(rest(data=6.0), FOUR, "of the step (6.00 of "),
        case(rest("cpu", data=6.0), FOUR),
        case(rest(optimizer=6.0), FUSED, "of the step (6.00 of "),
        case(rest("cpu", optimizer=6.0), FUSED),
        case(rest(memory=6.0), RECIPE, "of the step (6.00 of "),
        case(rest("cpu", memory=6.0), RECIPE),
        case(
            rest(fp8_scaling=6.0),
            RECIPE,
            "Bound by FP8 scaling",
            precision="fp8",
        ),
        case(rest("cpu", memory=6.0), None, "FP8 is emulated", "on a GPU", precision="fp8"),
        case(rest(memory=8.0, kernels=(ADD,)), RECIPE, "at 90% of the measured bandwidth"),
        case(ON_CPU_CONVOLUTIONS, None, "the longest part, memory-bound work."),
        case(rest(copies=6.0), PINNED, "takes 6.00 ms at best, 1.50 times", data=PAGEABLE),
        case(rest(copies=6.0), ON_DEVICE),
        case(
            rest(host=7.5),
            RECIPE,
            "CPU-bound: the GPU waits for the next kernel launch for 75% of the step (7.50 of ",
            "Without it, a step would take 2.50 ms, 4.00 times as fast",
        ),
        case(rest(host=7.5), LARGER, step=FAST),
        case(rest("cpu", host=7.5), LARGER, "Overhead-bound"),
        case(
            rest(matrix=8.0),
            IN_FP16,
            "Compute-bound without Tensor Cores",
            "14.00 times that of",
        ),
        case(rest("cpu", matrix=20.0), None, "Compute-bound: matmuls", "No setting"),
        case(SLOW_BF16, IN_FP32, "4.00 times that of BF16", precision="bf16"),
        case(of_units(0.8), None, "at 80% of their measured peak", precision="fp16"),
        case(of_units(0.1), RECIPE, precision="fp16"),
        case(of_units(0.1), LARGER, precision="fp16", step=FAST),
        case(
            BALANCED,
            FUSED,
            "No single bottleneck: matrix work on Tensor Cores takes 35%, the optimizer takes "
            "35% of the 10.0 ms step.",
            "The optimizer takes 35% of the step (3.50 of 10.0 ms). Use a fused optimizer, which",
        ),
        case(profile(other=6.0, memory=4.0), RECIPE, "Unclassified work takes 60"),
        case(profile(), None, "Profile the experiment again."),
        case(
            STARVED,
            FOUR,
            "Load with 4 workers: a step takes 16.0 ms at best, 4.12 times as fast.",
        ),
        case(OF_TWO, TWO, "Load with 2 workers: a step takes 32.0 ms at best"),
        case(OF_TWO, ON_DEVICE, data={"workers": 2}),
        case(TRAINING, TWO, "takes 62.0 ms at best, 1.52 times as fast"),
    ],
)
def test_a_verdict_names_what_bounds_a_step_and_what_would_help(found, settings, changes, words):
    verdict = verdict_of(found, settings)
    told = f"{verdict.sentence} {verdict.next_step}"
    assert (verdict.changes, bool(verdict.action)) == (changes, bool(changes))
    assert all(expected in told for expected in words)
    assert found.device_type == "cuda" or "Tensor Cores" not in told


@pytest.mark.parametrize(
    ("found", "bound"),
    [(rest(data=6.0), "data"), (rest(matrix=8.0), "matrix"), (BALANCED, "balanced"), (profile(), "unknown")],
)
def test_a_verdict_names_its_bound_for_programs(found, bound):
    assert verdict_of(found, experiment()).bound == bound


def test_a_side_that_nothing_helps_learns_of_a_faster_one():
    known = profiles(profile(matrix=5.0), profile(other=8.0))
    fast, slow = verdicts(known)
    assert fast is not None and slow is not None
    assert fast.changes == (("precision", "fp16"),)
    assert slow.next_step == "Train in FP32, which is 1.60 times as fast here."
    assert slow.changes == (("precision", "fp32"),)
    disturbed = profile(other=8.0).model_copy(update={"disturbance": "other programs ran"})
    unsure = verdicts(known.with_side(1, profile=disturbed))[1]
    assert unsure is not None and unsure.changes == ()


def test_a_peak_that_the_step_exceeds_is_withheld_with_all_that_rests_on_it():
    found = with_flops(profile(matrix=9.0, memory=1.0), 1.1 * 9.0 * GPU_PEAKS["fp32"] * 1e9)
    assert found.limits is not None and found.limits.withheld == ("fp32",)
    assert (found.fraction_of_measured_peak, found.peak_tflops, found.matrix_share_of_peak) == (
        None,
        None,
        None,
    )
    assert peak_sentence(found) == (
        "The % of measured peak is unknown, because the peak in FP32 could not be measured reliably. Profile "
        "again when nothing else runs."
    )
    assert peak_sentence(profile(memory=1.0)) is None
    verdict = verdict_of(found, experiment())
    assert "peak" not in verdict.sentence and verdict.changes == ()
    below = with_flops(profile(matrix=9.0, memory=1.0), 0.9 * 9.0 * GPU_PEAKS["fp32"] * 1e9)
    assert below.fraction_of_measured_peak == pytest.approx(
        0.81
    ) and below.matrix_share_of_peak == pytest.approx(0.9)


def test_sides_of_a_device_share_the_best_of_what_was_measured():
    slow = Limits(peaks=(Peak(format="fp32", tflops=40.0), Peak(format="fp16", tflops=9.0)), gb_per_second=90)
    first, second = profile(matrix=9.0).with_limits(slow), profile(matrix_units=3.0)
    shared = profiles(first, second).measured()
    assert [known.limits and known.limits.tflops("fp32") for known in shared] == [50.0, 50.0]
    # what one side exceeds holds for no other
    exceeded = profiles(profile(matrix=9.0), with_flops(profile(matrix=9.0), 60.0 * 9e9), precision="fp32")
    assert [known.limits and known.limits.withheld for known in exceeded.measured()] == [("fp32",)] * 2
    assert [known.fraction_of_measured_peak for known in exceeded.measured()] == [None, None]


def with_flops(found: StepProfile, flops: float) -> StepProfile:
    assert found.limits is not None
    return found.model_copy(update={"flops": flops}).with_limits(found.limits)


def profiles(first: StepProfile, second: StepProfile, precision: str = "fp16", **settings: Any) -> Profiles:
    return Profiles(
        sides=(
            ProfileSide(experiment=experiment(precision="fp32"), profile=first),
            ProfileSide(experiment=experiment(precision=precision, **settings), profile=second),
        )
    )


def gained(first: StepProfile, second: StepProfile, **settings: Any) -> str:
    made = gains(profiles(first, second, **settings))
    assert made[0] is None and made[1] is not None
    return made[1].sentence


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (
            profile(matrix=3.0, data=7.0),
            profile(matrix_units=2.8, data=7.1),
            "72% of its step is waiting for data, which no precision shortens.",
        ),
        (
            profile(matrix=5.0, host=4.0),
            profile(matrix_units=1.0, host=8.0),
            "matrix work fell from 5.00 to 1.00 ms, but waiting for the host to launch work rose from 4.00 "
            "to 8.00 ms, because the work is too small to keep the device busy in any precision.",
        ),
        (
            profile("cpu", matrix=5.0),
            profile("cpu", matrix=20.0).model_copy(update={"format": "bf16"}),
            "matrix work rose from 5.00 to 20.0 ms, because the matmuls of this CPU reach 30.0 GFLOP/s in "
            "BF16 and 120 GFLOP/s in FP32.",
        ),
    ],
)
def test_why_amp_is_not_faster_is_told_in_a_sentence(first, second, reason):
    assert gained(first, second).endswith(reason)


def test_what_shrank_in_part_is_not_said_to_bound_the_step():
    sentence = gained(
        profile(matrix=9.0, memory=4.0, host=3.0), profile(matrix_units=3.0, memory=4.0, host=3.5)
    )
    assert sentence.endswith("memory-bound work stays at 4.00 ms and now takes 38% of the step.")


def test_products_that_gain_nothing_are_held_against_their_peak():
    half = profile(matrix_units=9.9).model_copy(update={"flops": 0.1 * 9.9 * 700.0 * 1e9})
    assert gained(profile(matrix=10.0), half).endswith("matrix work, which runs at 10% of its measured peak.")


def test_sides_of_other_batches_are_compared_for_as_many_samples():
    twice = profile(matrix=10.0).model_copy(update={"samples": 128})
    made = gains(profiles(profile(matrix=10.0), twice, precision="fp32", batch_size=128))[1]
    assert made is not None and made.ratio == pytest.approx(2.0)
    assert "for the same samples" in made.sentence


def test_sides_of_which_one_was_disturbed_are_not_compared():
    disturbed = profile(matrix=3.0).model_copy(update={"disturbance": "others took 40% of the CPU"})
    made = gains(profiles(profile(matrix=10.0), disturbed))[1]
    assert made is not None and made.ratio is None
    assert made.sentence == "FP16 AMP is not compared with FP32: the profile of FP16 AMP is unreliable."
    verdict = verdicts(profiles(profile(matrix=10.0), disturbed))[1]
    assert verdict is not None and verdict.changes == ()
    assert verdict.sentence == "The profile is unreliable: others took 40% of the CPU."
    assert verdict.next_step == "Profile again when nothing else runs."


def test_a_side_without_a_profile_has_no_verdict():
    known = profiles(profile(matrix=1.0), profile(matrix=1.0)).with_side(1, profile=None)
    assert [verdict is None for verdict in verdicts(known)] == [False, True]
    assert gains(known) == (None, None)


def test_a_verdict_does_not_deny_what_advice_offers():
    advice = Advice(
        kind=AdviceKind.LAYOUT,
        message="Keep images in channels_last.",
        evidence="The conversions take 1 ms.",
        changes=(("step.recipe", "channels_last"),),
        action="Use channels_last",
    )
    found = profile("cpu", **{**REST, "matrix": 6.0})
    assert "the longest part" in verdict_of(found, experiment()).next_step
    advised = found.model_copy(update={"advice": (advice,)})
    assert verdict_of(advised, experiment()).next_step == (
        "No setting shortens matrix work. See Advice for other savings."
    )


def test_an_emulated_fp8_is_compared_with_nothing() -> None:
    sides = tuple(
        ProfileSide(experiment=experiment(precision=name), profile=rest("cpu", memory=ms))
        for name, ms in (("bf16", 2.0), ("fp8", 6.0))
    )
    _, gain = gains(Profiles(sides=sides))
    assert gain is not None and gain.ratio is None
    assert "FP8 is emulated on a CPU, which says nothing about a GPU." in gain.sentence


def test_what_fp8_adds_is_named_where_it_is_slower() -> None:
    slower = profile(matrix_units=3.0, memory=2.0, fp8_scaling=4.0)
    sides = tuple(
        ProfileSide(experiment=experiment(precision=name), profile=found)
        for name, found in (("bf16", profile(matrix_units=5.0, memory=2.0)), ("fp8", slower))
    )
    _, gain = gains(Profiles(sides=sides))
    assert gain is not None
    assert "scaling and casting to FP8 rose from 0 to 4.00 ms, which only FP8 needs" in gain.sentence
