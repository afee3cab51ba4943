"""A tuning in words, tables, a picture and files; it is proven by losses within FP32's band."""

from __future__ import annotations

import shlex
from itertools import pairwise

import pytest

from engine.cli.options import parse
from engine.experiment.experiment import Experiment, Precision, experiment_from, flattened
from engine.protocol.tune import Gain, Proof, Tuning, TuningTrial
from engine.tune.result import answers, command_of, waterfall_drawing, waterfall_steps
from engine.tune.verification import SideRuns, losses_match, with_result

WINNER = Experiment(precision=Precision.BF16, batch_size=128, path="/a b/c")
CHANGES = {"precision": "bf16", "batch_size": 128}
TUNING = Tuning(
    experiment=Experiment(path="/a b/c"),
    candidates=24,
    trials=(
        TuningTrial(round=1, changes={}, steps=15, seconds=2, samples_per_second=100, words="FP32, plain"),
        TuningTrial(
            round=2, changes=CHANGES, steps=60, seconds=4, samples_per_second=190, words="BF16 AMP, batch 128"
        ),
    ),
    winner=WINNER,
    winner_changes=CHANGES,
    gains=(
        Gain(words="BF16 AMP", changes={"precision": "bf16"}, speedup=1.5, speedup_ci=(1.45, 1.55)),
        Gain(words="batch 128", changes={"batch_size": 128}, speedup=1.3),
        Gain(words="Full runs vs. short runs", changes={}, speedup=0.98),
    ),
    proof=Proof(changes=CHANGES, speedup=1.911, sentence="The fastest settings train 1.91 times as fast."),
    not_tried=("TF32: a format of NVIDIA GPUs.",),
    runs=12,
    seconds=95,
)


def test_the_command_line_repeats_the_winner():
    _, _, *words = shlex.split(command_of(WINNER))
    settings = [word for word in words if word != "--set"]
    again = experiment_from(parse({"set_": settings}).settings(True))
    assert flattened(again) == flattened(WINNER)


def test_bars_of_the_waterfall_join_and_stay_in_the_picture():
    steps = waterfall_steps(TUNING)
    assert all(before.end == after.begin for before, after in pairwise(steps[:-1]))
    drawing = waterfall_drawing(TUNING, 600)
    assert "1.91×" in drawing.description and drawing.width == 600


def curve(level: float, steps: int) -> tuple[float, ...]:
    return tuple(level + 1 / (step + 1) for step in range(steps))


@pytest.mark.parametrize(
    ("levels", "step_samples", "alike"),
    [((1.01, 1.02), 32, True), ((1.3, 1.31), 32, False), ((float("nan"), 1.0), 32, False)],
)
def test_losses_are_alike_within_the_band_of_fp32s_repeats(
    levels: tuple[float, ...], step_samples: int, *, alike: bool
) -> None:
    fp32 = SideRuns((100, 100, 100), tuple(curve(level, 40) for level in (1.0, 1.01, 1.02)), 32)
    mine = SideRuns((200, 200), tuple(curve(level, 40) for level in levels), step_samples)
    assert losses_match(fp32, mine) is alike


def test_a_band_needs_repeats():
    one = SideRuns((100,), (curve(1.0, 40),), 32)
    assert losses_match(one, one) is None


def test_a_proof_whose_interval_reaches_below_one_is_open():
    losses = tuple(curve(level, 40) for level in (1.0, 1.01, 1.02))
    fp32 = SideRuns((100, 100, 100), losses, 32)
    unsure = with_result(Proof(), fp32, SideRuns((90, 250, 120), losses, 32))
    sure = with_result(Proof(), fp32, SideRuns((200, 201, 199), losses, 32))
    assert "still unknown" in unsure.sentence
    assert sure.sentence.startswith("The fastest settings train 2.00 times") and sure.speedup is not None


def test_nothing_follows_from_a_disturbed_proof_nor_from_disturbed_short_runs():
    losses = tuple(curve(level, 40) for level in (1.0, 1.01, 1.02))
    disturbed = SideRuns((200, 201, 199), losses, 32, is_disturbed=True)
    found = with_result(Proof(), SideRuns((100, 100, 100), losses, 32), disturbed)
    assert found.sentence.startswith("Unreliable: ") and "Tune again" in found.sentence
    assert (found.speedup, found.speedup_ci) == (None, None)
    (plain, fast) = TUNING.trials
    unclean = TUNING.model_copy(
        update={"proof": None, "trials": (plain, fast.model_copy(update={"is_disturbed": True}))}
    )
    said = " ".join(answers(unclean))
    assert "times as fast" not in said and "unreliable" in said
    assert "disturbed in 1 short run, so a faster combination may have been missed" in said
