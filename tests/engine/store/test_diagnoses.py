"""Diagnoses are saved part by part, and can be opened again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.numerics.diagnosis import Diagnosis
from engine.protocol.numerics.nonfinite import NonfiniteSearch
from engine.protocol.numerics.precision_map import Operation, PrecisionMap
from engine.store.store import Store

MAP = PrecisionMap(operations=(Operation(module="fc", name="aten.mm", direction="forward"),))
SEARCH = NonfiniteSearch(sentence="All numbers are finite.", least_scale=float("inf"))


def add(store: Store, run_id: str | None = None) -> str:
    return store.diagnoses.add(Experiment(), ("map", "nan"), device_name="a card", run_id=run_id)


def test_a_diagnosis_is_opened_again_whole(store: Store, path: Path) -> None:
    run = store.add(Experiment())
    diagnosis_id = add(store, run.id)
    store.diagnoses.record(diagnosis_id, MAP)
    store.diagnoses.record(diagnosis_id, SEARCH)
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Use a smaller batch.")
    store.diagnoses.end(diagnosis_id, problem)
    with Store(path) as other:
        saved = other.diagnoses.find(diagnosis_id)
    assert (saved.experiment, saved.device_name, saved.run_id) == (Experiment(), "a card", run.id)
    assert (saved.parts, saved.problem, saved.is_over) == (("map", "nan"), problem, True)
    assert saved.diagnosis == Diagnosis(map=MAP, nan=SEARCH)


def test_a_diagnosis_whose_program_was_killed_keeps_the_parts_known_by_then(store: Store, path: Path) -> None:
    store.diagnoses.record(add(store), MAP)
    with Store(path) as other:
        (saved,) = other.diagnoses.newest()
    assert not saved.is_over and saved.diagnosis == Diagnosis(map=MAP)


def test_what_cannot_be_read_hides_no_other_diagnosis_and_no_other_part(store: Store, path: Path) -> None:
    first, second, third = (add(store) for _ in range(3))
    store.diagnoses.record(second, MAP)
    store.diagnoses.record(second, SEARCH)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE diagnoses SET experiment = '{' WHERE id = ?", (third,))
        connection.execute("UPDATE diagnosis_parts SET result = '{}' WHERE name = 'map'")
    newest = store.diagnoses.newest()
    assert [record.id for record in newest] == [second, first]
    assert newest[0].diagnosis == Diagnosis(nan=SEARCH)
    assert [record.id for record in store.diagnoses.newest(limit=2)] == [second]


def test_a_diagnosis_outlives_its_run_and_is_deleted_with_its_parts(store: Store) -> None:
    run = store.add(Experiment())
    diagnosis_id = add(store, run.id)
    store.diagnoses.record(diagnosis_id, MAP)
    store.remove([run.id])
    assert store.diagnoses.find(diagnosis_id).run_id is None
    store.diagnoses.delete(diagnosis_id)
    with pytest.raises(ProblemError) as caught:
        store.diagnoses.find(diagnosis_id)
    assert caught.value.problem.kind is Kind.REQUEST
