"""The ranking of a comparison: its order, its tags, and the small print below the sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import Evidence
from engine.compare.metrics import ACCURACY, LOSS, MetricCell
from engine.compare.ranking import headline, learning_words, quiet_clauses, ranking
from engine.compare.verdict import join_pieces
from engine.experiment.experiment import Experiment, Precision
from engine.store.record import RunRecord

Record = Callable[..., RunRecord]
BUSY = {"speed_note": "other programs used 34% of the GPU"}


def compared(
    record: Record, *sides: tuple[str, float | None, dict[str, Any]], repeats: int = 1
) -> Comparison:
    """Return a comparison of sides by precision, speed and further figures, alternating over the repeats."""
    runs = []
    for seed in range(repeats):
        for precision, speed, more in sides:
            settings = more.get("settings", {})
            experiment = Experiment(precision=Precision(precision), seed=seed, **settings)
            figures = {key: value for key, value in more.items() if key != "settings"}
            for name in ("final_train_loss", "final_validation_accuracy"):
                if name in figures:
                    figures[name] += seed / 1_000
            number = len(runs) + 1
            speeds = {} if speed is None else {"samples_per_second": speed + seed}
            runs.append(record(number, experiment, comparison="c", minutes=number, **speeds, **figures))
    return compare([Evidence(run, np.ones(9), ()) for run in runs])


def test_sides_stand_by_throughput_and_what_cannot_be_ranked_comes_last_with_its_reason(
    record: Record,
) -> None:
    other = {"settings": {"dataset": "cifar10"}}
    comparison = compared(
        record,
        ("fp32", 700.0, {}),
        ("bf16-pure", 1_900.0, BUSY),
        ("bf16", 1_300.0, {}),
        ("fp8", None, {}),
        ("fp16", 1_400.0, {}),
        ("tf32", 5_000.0, other),
    )
    rows = ranking(comparison)
    assert [(row.side.precision.value, row.place, row.tags) for row in rows] == [
        ("fp16", 1, ("fastest",)),
        ("bf16", 2, ()),
        ("fp32", 3, ("baseline",)),
        ("tf32", None, ("not comparable",)),
        ("bf16-pure", None, ("disturbed",)),
        ("fp8", None, ("not measured",)),
    ]
    pure, small, other_work = quiet_clauses(comparison, rows[0].report)[1:4]
    assert pure.startswith("Pure BF16") and pure.endswith(" was disturbed and is not ranked")
    assert small.startswith("FP8") and small.endswith(" was not measured and is not ranked")
    assert other_work.startswith("TF32") and other_work.endswith(" is not comparable and is not ranked")


def test_the_small_print_has_the_interval_the_runs_and_who_learned_worse(record: Record) -> None:
    comparison = compared(
        record,
        ("fp32", 700.0, {"final_train_loss": 1.5, "final_validation_accuracy": 0.613}),
        ("bf16", 1_300.0, {"final_train_loss": 1.5, "final_validation_accuracy": 0.612}),
        ("fp16-unscaled", 1_200.0, {"final_train_loss": 1.7, "final_validation_accuracy": 0.584}),
        repeats=5,
    )
    best = comparison.ranked[0]
    assert [join_pieces(line) for line in headline(best)] == [
        "BF16 AMP trained 1.85 times as fast as FP32,",
        "at the same accuracy",
    ]
    interval, worse, *_ = quiet_clauses(comparison, best)
    assert interval.startswith("95% interval 1.8") and interval.endswith(", 5 runs each, alternating")
    assert worse == "FP16 unscaled learned worse"


def test_a_disturbed_baseline_is_not_ranked_and_the_answer_is_unreliable(record: Record) -> None:
    comparison = compared(record, ("fp32", 700.0, BUSY), ("bf16", 1_300.0, {}), ("fp16", 1_200.0, {}))
    rows = ranking(comparison)
    assert [row.tags for row in rows] == [("fastest",), (), ("baseline", "disturbed")]
    assert join_pieces(headline(rows[0].report)[0]) == "Unreliable measurement"


@pytest.mark.parametrize(
    ("difference", "is_within", "loss", "accuracy"),
    [
        (0.1, False, "worse", "better"),
        (-0.1, False, "better", "worse"),
        (0.1, True, "same", "same"),
        (0.1, None, "", ""),
    ],
)
def test_a_difference_has_a_word_if_the_variation_is_known(
    difference: float, is_within: bool | None, loss: str, accuracy: str
) -> None:
    cell = MetricCell(1.0, (1.0, 1.0), difference=difference, within_spread=is_within)
    assert (learning_words(LOSS, cell), learning_words(ACCURACY, cell)) == (loss, accuracy)
