"""The verdict is true to the figures, and names the likely reason where AMP gained nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import Evidence
from engine.compare.metrics import PEAK_MEMORY, SPEED
from engine.compare.verdict import Verdict, energy_words, step_energy_text
from engine.experiment.experiment import Experiment, Precision
from engine.protocol.events import Summary
from engine.protocol.summary import Energy
from engine.race.words import memory_words
from engine.store.record import RunRecord
from tests.engine.conftest import ENVIRONMENT

Record = Callable[..., RunRecord]
GPU = ENVIRONMENT.model_copy(update={"device_name": "a GPU", "torch": "2.15", "cuda": "13.0"})


def verdicts(
    record: Record,
    base: list[dict[str, Any]],
    other: list[dict[str, Any]],
    *,
    base_precision: Precision = Precision.FP32,
    hardly_faster: str | None = None,
    **settings: Any,
) -> tuple[Verdict, Verdict]:
    """The verdicts on runs of the baseline and of FP16 AMP with these figures, seeds from 0."""
    evidence = []
    for first, precision, figures in ((0, base_precision, base), (50, Precision.FP16, other)):
        for seed, one in enumerate(figures):
            asked = Experiment(precision=precision, seed=seed, **settings)
            run = record(first + seed, asked, comparison="c", environment=GPU, **one)
            evidence.append(Evidence(run, np.ones(9), (), hardly_faster))
    reports = compare(evidence, evidence[0].run.id).reports
    return reports[0].verdict, reports[1].verdict


def figures(
    speed: float, memory: float | None = None, accuracy: float | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "samples_per_second": speed,
        "peak_allocated_mib": memory,
        "final_validation_accuracy": accuracy,
        **more,
    }


def test_no_more_is_claimed_than_the_repeats_allow(record: Record) -> None:
    other = verdicts(record, [figures(1_000, 100, 0.843)], [figures(1_420, 91, 0.841)])[1]
    assert other.speedup_ci is None
    assert other.sentence == (
        "FP16 AMP trained 1.42 times as fast as FP32 (one run each: no confidence interval), in 91% of the "
        "memory, at 84.1% vs. 84.3% accuracy (variation between runs unknown)."
    )
    other = verdicts(record, [figures(1_000)], [figures(1_400), figures(1_410)])[1]
    assert "(too few repeats: no confidence interval)" in other.sentence
    other = verdicts(record, [figures(1_000), figures(1_010)], [figures(1_008), figures(1_001)])[1]
    assert other.sentence.startswith(
        "No significant difference in speed between FP16 AMP and FP32 (1.00 times as fast, 95% interval 0.90"
    )


def test_two_values_that_are_shown_alike_are_one(record: Record) -> None:
    base, other = [figures(1_000, accuracy=0.80)] * 3, [figures(1_400, accuracy=0.8001)] * 3
    said = verdicts(record, base, other)[1].accuracy
    assert said == "at 80.0% accuracy (differs by more than the variation between runs)"
    assert verdicts(record, base, base)[1].accuracy == (
        "at the same accuracy (80.0%, within the variation between runs)"
    )


def test_without_an_accuracy_the_loss_is_told(record: Record) -> None:
    other = verdicts(record, [figures(1, final_train_loss=0.5)], [figures(2, final_train_loss=float("nan"))])[
        1
    ]
    assert (
        other.accuracy == "at a mean loss of NaN vs. 0.500 in the last epoch (variation between runs unknown)"
    )


@pytest.mark.parametrize(
    ("more", "settings", "words"),
    [
        ({"data_wait_fraction": 0.43}, {}, "the training waited for data 43% of the time"),
        (
            {"gpu_utilization_percent": 45.0},
            {"batch_size": 8},
            "the GPU was busy 45% of the time, so a batch size of 8 is too small to fill it",
        ),
        (
            {},
            {"batch_size": 63},
            "the batch size of 63 is not a multiple of 8, which is slower on Tensor Cores",
        ),
        (
            {},
            {
                "model": "causal-lm-tiny",
                "dataset": "synthetic-tokens",
                "num_classes": 32_001,
                "sequence_length": 500,
            },
            "the vocabulary of 32,001 and the sequence length of 500 are not multiples of 8",
        ),
    ],
)
def test_a_slower_side_has_its_likely_reason_from_its_own_figures(
    record: Record, more: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    other = verdicts(record, [figures(1_000)], [figures(710, **more)], **settings)[1]
    assert other.reason is not None and words in other.reason
    assert other.sentence.startswith("FP16 AMP trained 0.71 times as fast as FP32")
    assert other.sentence.endswith(f" It was slower here, likely because {other.reason}.")


def test_a_reason_is_given_only_where_one_is_known_and_needed(record: Record) -> None:
    reason = "without Tensor Cores, FP16 saves memory but little time"
    slower = verdicts(record, [figures(1_000)], [figures(900)], hardly_faster=reason)[1]
    assert slower.reason == reason
    assert verdicts(record, [figures(1_000)], [figures(900)])[1].reason is None
    tf32 = Precision.TF32
    other = verdicts(record, [figures(1_000)], [figures(1_050)], base_precision=tf32)[1]
    assert other.reason == "TF32 uses Tensor Cores too"
    assert other.sentence.endswith("It gained little here, likely because TF32 uses Tensor Cores too.")
    assert verdicts(record, [figures(1_000)], [figures(1_900, data_wait_fraction=0.5)])[1].reason is None
    other = verdicts(record, [figures(1_000)], [figures(900)])[1]
    assert other.reason is None and "likely" not in other.sentence
    note = "other programs used 69% of the CPU"
    waited = figures(700, data_wait_fraction=0.4)
    for base, side in (
        (figures(1_000, speed_note=note), waited),
        (figures(1_000), {**waited, "speed_note": note}),
    ):
        other = verdicts(record, [base], [side])[1]
        assert other.reason is None and "likely" not in other.sentence


def test_what_disturbed_a_measurement_is_said_before_any_figure(record: Record) -> None:
    note = "other programs used 69% of the CPU"
    for base, side, name in (
        (figures(1_000), figures(120, 99, speed_note=note), "FP16 AMP"),
        (figures(1_000, speed_note=note), figures(120), "FP32"),
    ):
        found = verdicts(record, [base], [side])[1]
        assert found.kind == "spoiled"
        assert found.sentence == (
            f"Unreliable measurement. {name} was disturbed: {note}. "
            "The measured ratio of 0.12× is unreliable. Measure again."
        )
    heat = "the GPU's clocks were throttled by heat"
    disturbed = figures(1_200, 50, 0.8, speed_note=heat)
    found = verdicts(record, [figures(1_000, 100, 0.8)], [disturbed])[1]
    assert found.notes[-1] == (
        "FP16 AMP trained in 50% of the memory, at 80.0% accuracy (variation between runs unknown)."
    )
    run = record(1, Experiment(), samples_per_second=43.8, speed_note="other programs used 40%")
    found = compare([Evidence(run, np.ones(9), ())]).reports[0].verdict
    assert found.kind == "spoiled" and found.notes[-1] == "As measured, it trained at 43.8 samples/s."


def test_different_models_are_said_to_be_unlike_before_any_figure(record: Record) -> None:
    base = record(1, Experiment(), samples_per_second=10_000.0)
    side = record(
        2,
        Experiment(precision=Precision.BF16, model="resnet18"),
        samples_per_second=65.0,
        data_wait_fraction=0.5,
    )
    found = compare([Evidence(run, np.ones(9), ()) for run in (base, side)], base.id).report(side.id)
    assert found.verdict.kind == "unlike" and found.verdict.reason is None
    assert found.verdict.sentence == (
        "Different models: resnet18 vs. small-cnn. As measured, BF16 AMP (resnet18) trained 0.0065 times "
        "as fast as FP32 (small-cnn). This says nothing about the precision."
    )
    assert (
        found.unreported_doubts == ()
        and found.caution(SPEED) == found.caution(PEAK_MEMORY) == "not comparable"
    )


def test_where_no_difference_is_shown_amp_is_not_called_slower(record: Record) -> None:
    other = verdicts(
        record,
        [figures(1_000), figures(1_010), figures(990)],
        [figures(980, data_wait_fraction=0.4), figures(1_000), figures(995)],
    )[1]
    assert other.kind == "open" and other.sentence.startswith("No significant difference")
    assert "It gained little here" in other.sentence and "slower" not in other.sentence


def test_pictures_and_texts_have_no_common_speed(record: Record) -> None:
    known = {"peak_allocated_mib": 1_000.0, "final_train_loss": 0.5}
    picture = record(1, Experiment(), samples_per_second=1_000.0, **known)
    texts = Experiment(model="causal-lm-tiny", dataset="synthetic-tokens")
    text = record(2, texts, samples_per_second=100.0, **known)
    found = compare([Evidence(run, np.ones(9), ()) for run in (picture, text)], picture.id).report(text.id)
    assert found.verdict.speedup is None
    assert "cannot be compared. They measure different kinds of samples." in found.verdict.sentence
    assert found.verdict.memory_ratio is None
    assert "memory" not in found.text and "loss" not in found.text


def test_no_reason_is_taken_from_a_batch_that_the_precision_was_not_measured_at(record: Record) -> None:
    base = record(1, Experiment(), samples_per_second=1_000.0, environment=GPU)
    larger = Experiment(precision=Precision.FP16, batch_size=70)
    side = record(2, larger, samples_per_second=2_000.0, environment=GPU)
    corner = record(3, Experiment(precision=Precision.FP16), samples_per_second=1_000.0, environment=GPU)
    evidence = [Evidence(run, np.ones(9), ()) for run in (base, side)]
    found = compare(evidence, base.id, others=[corner]).report(side.id)
    assert "1.00 times as fast from the precision" in found.text and found.verdict.reason is None


def energy(joules: float, *, seconds: float = 20.0, idle_watts: float | None = 60.0, **more: Any) -> Energy:
    """Of 100 steps of 640 samples."""
    known = {"source": "nvml", "steps": 100, "samples": 64_000, **more}
    return Energy(joules=joules, seconds=seconds, idle_watts=idle_watts, **known)


def comparison(
    record: Record, base: Energy | None, other: Energy | None, *, gpu: str = "a GPU", **figures: Any
) -> Comparison:
    """Of FP32 and FP16 AMP, twice as fast, in half the memory."""
    runs = [
        record(1, Experiment(), environment=GPU, samples_per_second=1_000.0, energy=base),
        record(
            2,
            Experiment(precision=Precision.FP16),
            environment=GPU.model_copy(update={"device_name": gpu}),
            samples_per_second=2_000.0,
            energy=other,
            **figures,
        ),
    ]
    return compare([Evidence(run, np.ones(9), ()) for run in runs], runs[0].id)


def test_a_clean_difference_is_in_the_figures_and_in_the_verdict(record: Record) -> None:
    result = comparison(record, energy(6_400.0), energy(3_776.0))
    mine = result.cells(result.sides[1].id)
    assert mine["energy"].value == pytest.approx(59.0) and mine["energy"].ratio == pytest.approx(0.59)
    assert mine["net_energy"].value == pytest.approx((3_776 - 60 * 20) / 64)
    verdict = result.reports[1].verdict
    assert verdict.energy_ratio == pytest.approx(0.59)
    assert verdict.sentence == (
        "FP16 AMP trained 2.00 times as fast as FP32 (one run each: no confidence interval), "
        "using 41% less energy."
    )


NOT_CLAIMED: dict[str, dict[str, Any]] = {
    "another source": {"other": energy(3_776.0, source="rapl")},
    "another device": {"gpu": "another GPU"},
    "too short": {"other": energy(3_776.0, seconds=1.5)},
    "not measured": {"other": None},
    "nearly the same": {"other": energy(6_300.0)},
    "other programs": {"other_programs_mib": 4_000.0},
    "slowed down": {"speed_note": "the GPU's clocks were throttled by heat", "slowed_by": ("heat",)},
}


@pytest.mark.parametrize("case", NOT_CLAIMED)
def test_what_is_unreliable_is_not_claimed(record: Record, case: str) -> None:
    options: dict[str, Any] = {"other": energy(3_776.0), **NOT_CLAIMED[case]}
    result = comparison(record, energy(6_400.0), **options)
    verdict = result.reports[1].verdict
    assert verdict.energy_ratio is None and "energy" not in verdict.sentence
    # counters of two devices do not even have a ratio
    has_ratio = case not in ("another source", "another device", "not measured")
    assert (result.cells(result.sides[1].id)["energy"].ratio is not None) is has_ratio


def test_without_any_energy_there_are_no_lines_of_it_and_summaries_can_be_read(record: Record) -> None:
    names = [row.metric.name for row in comparison(record, None, None).metrics]
    assert "energy" not in names and "net_energy" not in names
    assert Summary.model_validate_json('{"steps": 3, "power_watts": 200.0}').energy is None
    saved = Summary(energy=energy(1.0)).model_dump_json()
    assert Summary.model_validate_json(saved).energy == energy(1.0)


def test_energy_in_words() -> None:
    assert [energy_words(ratio) for ratio in (0.59, 1.12, 2.4)] == [
        "41% less energy",
        "12% more energy",
        "2.40 times the energy",
    ]
    assert step_energy_text(energy(6_400.0)) == "64.0 J per step, 320 W on average, of which 60 W idle"
    assert step_energy_text(energy(6_400.0, idle_watts=None)) == "64.0 J per step, 320 W on average"


def test_a_race_tells_of_the_energy_saved(racers: Any) -> None:
    peak = {"peak_allocated_mib": 1_000.0}
    racers.add(Precision.FP32, 1_000, figures={**peak, "energy": energy(6_400.0)})
    racers.add(Precision.FP16, 2_000, figures={"peak_allocated_mib": 450.0, "energy": energy(3_776.0)})
    assert memory_words(racers.race()) == ("45% of the memory", "41% less energy")
