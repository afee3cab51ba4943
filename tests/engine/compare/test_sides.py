"""Repeats are taken together, and every side has a title that tells it from the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from engine.compare.sides import Side, is_interleaved, sides_of
from engine.experiment.experiment import Experiment, Optimizer, Precision, Step, experiment_from
from engine.experiment.own.code import Code
from engine.protocol.events import Environment
from engine.store.record import RunRecord, Status
from tests.engine.conftest import ENVIRONMENT

Record = Callable[..., RunRecord]
FP32, FP16 = Experiment(), Experiment(precision=Precision.FP16)


@pytest.mark.parametrize(
    ("order", "is_fair"),
    [
        ("AB", True),
        ("ABBA", True),
        ("ABAB", True),
        ("ABBAAB", True),
        ("AABB", False),
        ("BBAA", False),
        ("AAABBB", False),
        ("AABABB", False),
        ("AAAB", True),
    ],
)
def test_repeats_are_interleaved_or_their_order_is_confounded_with_the_side(
    record: Record, order: str, is_fair: bool
) -> None:
    sides = {"A": FP32, "B": FP16}
    one, other = sides_of(
        [
            record(number, sides[letter].model_copy(update={"seed": number}), minutes=number)
            for number, letter in enumerate(order)
        ]
    )
    assert is_interleaved(one, other) == is_interleaved(other, one) == is_fair


def test_each_node_of_a_cluster_is_looked_at_by_itself(record: Record) -> None:
    def sides(*places: str) -> list[Side]:
        runs = []
        for number, (letter, node) in enumerate(places):
            experiment = (FP32 if letter == "A" else FP16).model_copy(update={"seed": number})
            environment = ENVIRONMENT.model_copy(update={"node": node})
            runs.append(record(number, experiment, environment=environment, minutes=number))
        return list(sides_of(runs))

    # side by side: on neither node does one of them come first
    assert is_interleaved(*sides("A1", "B2", "B1", "A2"))
    assert not is_interleaved(*sides("A1", "B1", "A2", "B2"))
    # no two of them on one node have no order
    assert is_interleaved(*sides("A1", "A1", "B2", "B2"))


def test_repeats_that_never_began_have_no_order(record: Record) -> None:
    begun = [record(1, FP32), record(2, FP32.model_copy(update={"seed": 1}))]
    waiting = [
        dataclasses.replace(record(n, FP16.model_copy(update={"seed": n})), started=None) for n in (3, 4)
    ]
    assert is_interleaved(*sides_of([*begun, *waiting]))


def titles(*runs: RunRecord) -> list[str]:
    return [side.title for side in sides_of(runs)]


def test_runs_that_differ_only_in_seed_and_name_are_repeats_oldest_first(record: Record) -> None:
    runs = [
        record(5, FP16),
        record(3, FP32.model_copy(update={"seed": 2})),
        dataclasses.replace(record(1, FP32), name="another name", label="A"),
        record(2, FP16.model_copy(update={"seed": 9})),
    ]
    amp, full = sides_of(runs)
    assert (amp.title, [run.number for run in amp.runs]) == ("FP16 AMP", [2, 5])
    assert (full.title, [run.number for run in full.runs]) == ("FP32", [1, 3])
    assert full.names == ("another name", "FP32, small-cnn, batch 64") and full.id == full.runs[0].id
    assert (amp.precision, amp.recipe) == (Precision.FP16, "plain")


def test_runs_of_other_machines_are_other_sides_but_one_that_waits_has_none(record: Record) -> None:
    run = record(1, FP32)
    environment: Environment | None = run.environment
    assert environment is not None
    card = record(2, FP32, environment=environment.model_copy(update={"device_name": "another card"}))
    torch = record(3, FP32, environment=environment.model_copy(update={"torch": "2.15"}))
    assert titles(run, card) == ["FP32, a card", "FP32, another card"]
    assert titles(run, torch) == ["FP32, torch 2.11", "FP32, torch 2.15"]
    resolved = Experiment(device="cuda:0", image_size=28, num_classes=10)
    done = record(1, resolved)
    waiting = record(2, Experiment(seed=1), status=Status.QUEUED, environment=None)
    elsewhere = record(3, Experiment(device="cpu"), status=Status.QUEUED, environment=None)
    assert [len(side.runs) for side in sides_of([done, waiting])] == [2]
    assert [len(side.runs) for side in sides_of([waiting, done])] == [2]
    assert len(sides_of([done, elsewhere])) == 2


def test_titles_say_in_what_the_sides_differ(record: Record) -> None:
    assert titles(record(1, Experiment(step=Step(recipe="fast")))) == ["FP32"]
    fast = FP16.model_copy(update={"step": Step(recipe="fast")})
    parts = FP16.model_copy(update={"step": Step(recipe="channels_last+compile")})
    large = FP16.model_copy(update={"batch_size": 128})
    assert titles(record(1, FP32), record(2, fast)) == ["FP32, plain", "FP16 AMP, fast"]
    assert titles(record(1, FP32), record(2, parts))[1] == "FP16 AMP, channels last + compiled"
    assert titles(record(1, FP32), record(2, large)) == ["FP32, batch 64", "FP16 AMP, batch 128"]
    other = FP16.model_copy(update={"model": "resnet18", "step": Step(recipe="fast")})
    assert titles(record(1, FP32), record(2, other)) == ["FP32, small-cnn, plain", "FP16 AMP, resnet18, fast"]
    digits = FP16.model_copy(update={"dataset": "mnist"})
    assert titles(record(1, FP32), record(2, digits)) == ["FP32, fashion", "FP16 AMP, mnist"]


def test_a_run_named_fast_has_not_the_fast_recipe(record: Record) -> None:
    recipes = [Step(recipe="plain", clip_norm=1.0), Step(recipe="plain"), Step(recipe="fast")]
    alike, other, fast = (record(n, Experiment(step=step)) for n, step in enumerate(recipes))
    named = [dataclasses.replace(alike, name="x, fast"), other]
    for runs in (named, [*named, fast]):
        sides = sides_of(runs)
        assert sides[0].note.endswith("x, fast")
        assert [side.is_named_fast for side in sides] == [False, False, True][: len(runs)]


def test_of_several_differences_the_batch_comes_first_and_code_has_a_number(record: Record) -> None:
    codes = [Code(file="lstm_tagger.py", folder="/here", text=text) for text in ("a = 1", "a = 2")]
    other = Code(file="gru_tagger.py", folder="/here", text="a = 3")
    runs = [
        record(
            number,
            experiment_from(
                {"model": code.file, "code": code.to_json(), "dataset": "own", "batch_size": batch}
            ),
        )
        for number, (code, batch) in enumerate(zip([*codes, other], (24, 32, 64), strict=True), start=1)
    ]
    assert titles(*runs) == [
        "FP32, batch 24, lstm_tagger.py, code 1",
        "FP32, batch 32, lstm_tagger.py, code 2",
        "FP32, batch 64, gru_tagger.py",
    ]
    # another file has another code anyway
    assert titles(runs[0], runs[2])[0] == "FP32, batch 24, lstm_tagger.py"


def test_titles_are_unique_and_no_longer_than_needed(record: Record) -> None:
    slow = Experiment(optimizer=Optimizer(learning_rate=0.1))
    assert titles(record(1, FP32), record(2, slow)) == ["FP32, lr 0.001", "FP32, lr 0.1"]
    clipped = [Experiment(step=Step(clip_norm=norm)) for norm in (1.0, 2.0, 3.0)]
    named = [dataclasses.replace(record(n, one), name="<b>'x'") for n, one in enumerate(clipped)]
    assert titles(record(9, FP16), *named) == ["FP16 AMP", "FP32", "FP32 (2)", "FP32 (3)"]
    named[0] = dataclasses.replace(named[0], name="y")
    assert titles(*named) == ["FP32, y", "FP32, <b>'x'", "FP32, <b>'x' (2)"]
