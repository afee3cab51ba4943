"""Repeats take turns: who trains first alternates, and each repeat has one seed for all sides."""

from __future__ import annotations

import pytest

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import ProblemError
from engine.experiment.repeats import in_turns

A = ("A", Experiment(seed=7))
B = ("B", Experiment(seed=7, precision=Precision.FP16))
C = ("C", Experiment(seed=9, precision=Precision.BF16))


def test_each_repeat_goes_the_other_way_round_with_the_next_seed() -> None:
    turns = in_turns((A, B, C), 3)
    assert [turn.label for turn in turns] == ["A", "B", "C", "C", "B", "A", "A", "B", "C"]
    assert [turn.experiment.seed for turn in turns] == [7, 7, 9, 10, 8, 8, 9, 9, 11]
    assert [(turn.repeat, turn.repeats) for turn in turns[::3]] == [(1, 3), (2, 3), (3, 3)]
    assert turns[4].experiment == B[1].model_copy(update={"seed": 8})


def test_one_of_each_is_what_was_asked_for() -> None:
    assert [(turn.label, turn.experiment) for turn in in_turns((A, B))] == [A, B]


def test_runs_of_one_name_are_told_apart_by_what_there_are_several_of() -> None:
    assert [turn.name("Old") for turn in in_turns((A, B))] == ["Old, A", "Old, B"]
    assert [turn.name("Old") for turn in in_turns((A, B), 2)][2] == "Old, B, repeat 2"
    assert in_turns((A,), 2)[1].name("Old", is_alone=True) == "Old, repeat 2"
    assert in_turns((A,))[0].name("Old", is_alone=True) == "Old"
    assert in_turns((A,), 2)[0].name(None) is None and in_turns((A,), 2)[0].name("") is None


def test_seeds_must_not_run_out() -> None:
    last = ("A", Experiment(seed=2**63 - 2))
    assert in_turns((last,), 2)[1].experiment.seed == 2**63 - 1
    with pytest.raises(ProblemError, match="Seed is 9223372036854775806, but 3 repeats") as refused:
        in_turns((B, last), 3)
    assert refused.value.problem.key == "seed"
