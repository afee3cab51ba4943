"""Verdicts on constructed profiles: every bound, on a GPU and on a CPU, and what a side gains."""

from __future__ import annotations

from typing import Any

import pytest

from engine.experiment.experiment import Experiment, experiment_from
from engine.profile.gain import gains, verdicts
from engine.profile.verdict import Bound, mfu_sentence, verdict_of
from engine.protocol.advice import Advice, AdviceKind
from engine.protocol.profile import Bar, Limits, Peak, StepPart, StepProfile, TimeRow
from engine.protocol.profiles import Profiles, ProfileSide

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


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize(
    ("part", "bound", "changes"),
    [
        ("data", Bound.DATA, (("data.workers", "4"),)),
        ("optimizer", Bound.OPTIMIZER, (("optimizer.fused", "true"),)),
        ("memory", Bound.MEMORY, (("step.recipe", "fast"),)),
    ],
)
def test_the_longest_part_bounds_a_step_on_either_device(device, part, bound, changes):
    verdict = verdict_of(profile(device, **{**REST, part: 6.0}), experiment())
    assert (verdict.bound, verdict.changes) == (bound, changes)
    assert "of the step (6.00 of " in verdict.sentence
    assert verdict.action


def test_copies_bound_a_gpu():
    pageable = experiment(data={"pin_memory": False})
    found = profile(**REST, copies=6.0)
    assert verdict_of(found, pageable).bound is Bound.COPIES
    assert verdict_of(found, pageable).changes == (("data.pin_memory", "true"),)
    assert verdict_of(found, experiment()).changes == (("data.on_device", "true"),)


def test_launches_bound_a_gpu_until_they_are_captured():
    verdict = verdict_of(profile(**{**REST, "host": 7.5}), experiment())
    assert verdict.bound is Bound.HOST
    assert verdict.sentence == (
        "The host bounds it: the device waits for the next launch 75\N{NO-BREAK SPACE}% of the step "
        "(7.50 of 10.0 ms)."
    )
    assert verdict.changes == (("step.recipe", "fast"),)
    assert "without the wait a step would take 2.50 ms, 4.00 times as fast" in verdict.next_step
    captured = verdict_of(profile(**{**REST, "host": 7.5}), experiment(step={"recipe": "fast"}))
    assert captured.changes == (("batch_size", "128"),)


def test_on_a_cpu_python_bounds_small_operations():
    verdict = verdict_of(profile("cpu", **{**REST, "host": 7.5}), experiment())
    assert verdict.bound is Bound.HOST
    assert verdict.sentence.startswith("Python bounds it")
    assert verdict.changes == (("batch_size", "128"),)


def test_products_on_ordinary_units_could_be_in_a_faster_format():
    verdict = verdict_of(profile(**{**REST, "matrix": 8.0}), experiment())
    assert verdict.bound is Bound.MATRIX
    assert verdict.sentence.startswith("Matrix work without Tensor Cores bounds it")
    assert verdict.changes == (("precision", "fp16"),)
    assert "14.00 times as many as in FP32" in verdict.next_step


def test_where_no_format_is_faster_none_is_proposed():
    verdict = verdict_of(profile("cpu", **{**REST, "matrix": 20.0}), experiment())
    assert verdict.bound is Bound.MATRIX
    assert verdict.changes == ()
    assert "Tensor Cores" not in verdict.sentence + verdict.next_step
    assert verdict.next_step.startswith("No setting")


def test_a_format_that_the_processor_is_slow_in_gives_way_to_fp32():
    slow = profile("cpu", **{**REST, "matrix": 20.0}).model_copy(update={"format": "bf16"})
    verdict = verdict_of(slow, experiment(precision="bf16"))
    assert verdict.changes == (("precision", "fp32"),)
    assert "4.00 times as many as in BF16" in verdict.next_step


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


def test_matrix_units_at_their_peak_leave_nothing_to_do():
    convolution = TimeRow(name="implicit_convolve_sgemm", part=StepPart.MATRIX, ms=9.0, calls=1)
    found = profile(matrix_units=9.0, memory=1.0).model_copy(update={"kernels": (convolution,)})
    busy = found.model_copy(update={"flops": 0.8 * 9.0 * 700.0 * 1e9})
    verdict = verdict_of(busy, experiment(precision="fp16"))
    assert verdict.bound is Bound.MATRIX_UNITS
    assert "at 80\N{NO-BREAK SPACE}% of their measured peak" in verdict.sentence
    assert verdict.changes == ()
    idle = found.model_copy(update={"flops": 0.1 * 9.0 * 700.0 * 1e9})
    assert verdict_of(idle, experiment(precision="fp16")).changes == (("step.recipe", "fast"),)
    fast = experiment(precision="fp16", step={"recipe": "fast"})
    assert verdict_of(idle, fast).changes == (("batch_size", "128"),)


def test_memory_is_held_against_the_measured_bandwidth():
    row = TimeRow(name="add", part=StepPart.MEMORY, ms=2.0, calls=4, moved_bytes=0.9 * 3e12 * 2e-3)
    found = profile(**{**REST, "memory": 8.0}).model_copy(update={"kernels": (row,)})
    verdict = verdict_of(found, experiment())
    assert "at 90\N{NO-BREAK SPACE}% of the measured bandwidth" in verdict.sentence


def test_several_parts_of_equal_length_balance_a_step():
    verdict = verdict_of(profile(matrix_units=3.5, memory=3.0, optimizer=3.5), experiment())
    assert verdict.bound is Bound.BALANCED
    assert verdict.sentence == (
        "Nothing bounds it alone: matrix work on Tensor Cores takes 35\N{NO-BREAK SPACE}%, the optimizer "
        "takes 35\N{NO-BREAK SPACE}% of the step of 10.0 ms."
    )
    assert verdict.next_step == (
        "The optimizer takes 35\N{NO-BREAK SPACE}% of the step (3.50 of 10.0 ms). "
        "Use a fused optimizer, which updates all weights at once."
    )
    unknown = verdict_of(profile(other=6.0, memory=4.0), experiment())
    assert unknown.bound is Bound.BALANCED and unknown.sentence.startswith("Work of no known kind takes 60")
    assert verdict_of(profile(), experiment()).bound is Bound.UNKNOWN


def test_mfu_is_told_with_its_figures():
    found = profile(matrix_units=9.0, memory=1.0).model_copy(update={"flops": 3.5e12})
    assert mfu_sentence(found) == (
        "MFU 50\N{NO-BREAK SPACE}%: the model's 3,500 GFLOPs a step are 350 TFLOP/s, and products in FP16 "
        "reach 700 TFLOP/s on this device."
    )
    assert mfu_sentence(profile(memory=1.0)) is None


def test_a_peak_that_the_step_exceeds_is_withheld_with_all_that_rests_on_it():
    found = with_flops(profile(matrix=9.0, memory=1.0), 1.1 * 9.0 * GPU_PEAKS["fp32"] * 1e9)
    assert found.limits is not None and found.limits.withheld == ("fp32",)
    assert (found.mfu, found.peak_tflops, found.matrix_share_of_peak) == (None, None, None)
    assert mfu_sentence(found) == (
        "There is no MFU: the peak in FP32 could not be measured reliably. Profile again when nothing else "
        "runs."
    )
    verdict = verdict_of(found, experiment())
    assert "peak" not in verdict.sentence and verdict.changes == ()
    below = with_flops(profile(matrix=9.0, memory=1.0), 0.9 * 9.0 * GPU_PEAKS["fp32"] * 1e9)
    assert below.mfu == pytest.approx(0.81) and below.matrix_share_of_peak == pytest.approx(0.9)


def test_sides_of_a_device_share_the_best_of_what_was_measured():
    slow = Limits(peaks=(Peak(format="fp32", tflops=40.0), Peak(format="fp16", tflops=9.0)), gb_per_second=90)
    first, second = profile(matrix=9.0).with_limits(slow), profile(matrix_units=3.0)
    shared = profiles(first, second).measured()
    assert [known.limits and known.limits.tflops("fp32") for known in shared] == [50.0, 50.0]
    # what one side exceeds holds for no other
    exceeded = profiles(profile(matrix=9.0), with_flops(profile(matrix=9.0), 60.0 * 9e9), precision="fp32")
    assert [known.limits and known.limits.withheld for known in exceeded.measured()] == [("fp32",)] * 2
    assert [known.mfu for known in exceeded.measured()] == [None, None]


def with_flops(found: StepProfile, flops: float) -> StepProfile:
    assert found.limits is not None
    return found.model_copy(update={"flops": flops}).with_limits(found.limits)


def test_more_workers_promise_no_more_than_they_and_the_cores_can_load():
    starved = profile("cpu", data=64.0, matrix=1.9)
    assert verdict_of(starved, experiment()).next_step == (
        "Load with 4 workers: a step takes 16.0 ms at best, 4.12 times as fast."
    )
    of_two = starved.model_copy(update={"cores": 2})
    assert "Load with 2 workers: a step takes 32.0 ms at best" in verdict_of(of_two, experiment()).next_step
    # the processor's two cores also train
    training = profile("cpu", data=64.0, matrix=30.0).model_copy(update={"cores": 2, "threads": 2})
    assert "a step takes 62.0 ms at best, 1.52 times as fast" in verdict_of(training, experiment()).next_step
    no_more = verdict_of(of_two, experiment(data={"workers": 2}))
    assert no_more.changes == (("data.on_device", "true"),)


def test_pinned_copies_still_take_their_time():
    pageable = experiment(data={"pin_memory": False})
    assert "a step takes 6.00 ms at best, 1.50 times as fast" in (
        verdict_of(profile(**REST, copies=6.0), pageable).next_step
    )


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


def test_a_gain_names_the_part_that_shrank_and_the_one_that_did_not():
    sentence = gained(profile(matrix=58.0, memory=21.0), profile(matrix_units=12.0, memory=19.0))
    assert sentence == (
        "FP16 AMP is 2.55 times as fast as FP32 (31.0 against 79.0 ms a step): matrix work fell from 58.0 to "
        "12.0 ms; memory-bound work fell from 21.0 to 19.0 ms and takes 61\N{NO-BREAK SPACE}% of the step "
        "now."
    )


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (
            profile(matrix=3.0, data=7.0),
            profile(matrix_units=2.8, data=7.1),
            "72\N{NO-BREAK SPACE}% of its step is waiting for data, which no number format shortens.",
        ),
        (
            profile(matrix=5.0, host=4.0),
            profile(matrix_units=1.0, host=8.0),
            "matrix work fell from 5.00 to 1.00 ms, but waiting for the host to launch work rose from 4.00 "
            "to 8.00 ms: its work is too small to keep the device busy, and a shorter format cannot change "
            "that.",
        ),
        (
            profile("cpu", matrix=5.0),
            profile("cpu", matrix=20.0).model_copy(update={"format": "bf16"}),
            "matrix work rose from 5.00 to 20.0 ms, since this processor multiplies matrices in BF16 at "
            "30.0 GFLOP/s and in FP32 at 120 GFLOP/s.",
        ),
    ],
)
def test_why_amp_is_not_faster_is_told_in_a_sentence(first, second, reason):
    assert gained(first, second).endswith(reason)


def test_what_shrank_in_part_is_not_said_to_bound_the_step():
    sentence = gained(
        profile(matrix=9.0, memory=4.0, host=3.0), profile(matrix_units=3.0, memory=4.0, host=3.5)
    )
    assert sentence.endswith(
        "memory-bound work stays at 4.00 ms and takes 38\N{NO-BREAK SPACE}% of the step now."
    )


def test_products_that_gain_nothing_are_held_against_their_peak():
    half = profile(matrix_units=9.9).model_copy(update={"flops": 0.1 * 9.9 * 700.0 * 1e9})
    assert gained(profile(matrix=10.0), half).endswith(
        "matrix work, whose products run at 10\N{NO-BREAK SPACE}% of their measured peak."
    )


def test_sides_of_other_batches_are_compared_for_as_many_samples():
    twice = profile(matrix=10.0).model_copy(update={"samples": 128})
    made = gains(profiles(profile(matrix=10.0), twice, precision="fp32", batch_size=128))[1]
    assert made is not None and made.ratio == pytest.approx(2.0)
    assert "for as many samples" in made.sentence


def test_sides_of_which_one_was_disturbed_are_not_compared():
    disturbed = profile(matrix=3.0).model_copy(update={"disturbance": "others took 40 % of the processor"})
    made = gains(profiles(profile(matrix=10.0), disturbed))[1]
    assert made is not None and made.ratio is None
    assert made.sentence == "FP16 AMP is not compared with FP32: the steps of FP16 AMP were disturbed."
    verdict = verdicts(profiles(profile(matrix=10.0), disturbed))[1]
    assert verdict is not None and (verdict.bound, verdict.changes) == (Bound.UNKNOWN, ())
    assert verdict.sentence == "Its steps were disturbed: others took 40 % of the processor."
    assert verdict.next_step == "Profile again when nothing else runs."


def test_a_side_without_a_profile_has_no_verdict():
    known = profiles(profile(matrix=1.0), profile(matrix=1.0)).with_side(1, profile=None)
    assert [verdict is None for verdict in verdicts(known)] == [False, True]
    assert gains(known) == (None, None)


def test_the_compiler_is_not_proposed_for_convolutions_on_a_cpu():
    convolution = TimeRow(name="aten::mkldnn_convolution", part=StepPart.MATRIX, ms=1.0, calls=1)
    found = profile("cpu", **{**REST, "memory": 6.0}).model_copy(update={"operations": (convolution,)})
    verdict = verdict_of(found, experiment())
    assert verdict.changes == ()
    assert verdict.next_step == "No setting shortens what takes longest, which is memory-bound work."


def test_a_verdict_does_not_deny_what_advice_offers():
    advice = Advice(
        kind=AdviceKind.LAYOUT,
        message="Keep pictures in channels_last.",
        evidence="The conversions take 1 ms.",
        changes=(("step.recipe", "channels_last"),),
        action="Use channels_last",
    )
    found = profile("cpu", **{**REST, "matrix": 6.0})
    assert "what takes longest" in verdict_of(found, experiment()).next_step
    advised = found.model_copy(update={"advice": (advice,)})
    assert verdict_of(advised, experiment()).next_step == (
        "No setting shortens matrix work; Advice names what else may save time."
    )
