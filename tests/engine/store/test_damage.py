"""A run that another version wrote, or that is damaged, hides no other and can be deleted."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, ProblemError
from engine.protocol.events import Finished, Log, Summary
from engine.store.record import Status, UnparsedJson
from engine.store.store import Store

NEWER = json.dumps({**json.loads(Experiment().to_json()), "from_tomorrow": 1})
OPTIMIZER = Experiment().to_json().replace('"adamw"', '"lion"')
DAMAGES = [
    ("experiment", NEWER, "settings of a saved run cannot be read"),
    ("experiment", OPTIMIZER, "Optimizer is"),
    ("experiment", '{"model": "small-c', "settings of a saved run cannot be read"),
    ("experiment", "", "settings of a saved run cannot be read"),
    ("environment", '{"device_name": 3}', "facts of the machine"),
    ("summary", '{"from_tomorrow": 1}', "figures of a saved run"),
    ("problem", "{", "is damaged"),
    ("tags", "3", "is damaged"),
    ("tags", "[1]", "is damaged"),
    ("tags", "[" * 100_000, "is damaged"),
    ("created", "yesterday", "is damaged"),
    ("created", 1e300, "is damaged"),
    *((column, b"\x00\xff", "is damaged") for column in ("label", "note", "comparison", "experiment")),
    ("total_steps", "many", "is damaged"),
]


def written(path: Path, run_id: str, column: str, value: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE runs SET {column} = ?, checksum = NULL WHERE id = ?", (value, run_id))


@pytest.mark.parametrize(("column", "value", "why"), DAMAGES)
def test_it_is_named_beside_the_runs_that_can_be_read_and_can_be_deleted(path, store, column, value, why):
    before, hurt, after = (store.add(Experiment(seed=seed)) for seed in range(3))
    written(path, hurt.id, column, value)
    found = store.listing()
    assert found.runs == store.runs() == (after, before)
    (left,) = found.unreadable
    assert (left.id, left.name) == (hurt.id, hurt.name) and why in left.why
    assert store.listing(limit=1).unreadable == ()
    assert store.recover() == ()
    assert store.name(hurt.id[:8]) == (hurt.id, hurt.name)
    store.delete([hurt.id])
    assert store.listing().unreadable == () and store.deleted() == (hurt.id,)
    store.restore([hurt.id])
    assert len(store.listing().unreadable) == 1 and store.deleted() == ()
    store.remove([hurt.id])
    assert store.listing() == ((after, before), ())


def test_a_name_of_bytes_is_shown_as_such(path: Path, store: Store) -> None:
    hurt = store.add(Experiment())
    written(path, hurt.id, "name", b"\x1b[2J")
    (left,) = store.listing().unreadable
    assert left.id == hurt.id and "\x1b" not in left.name and "[2J" in left.name
    assert store.name(hurt.id) == (hurt.id, left.name)


@pytest.mark.parametrize("column", ["line", "names", "data"])
def test_what_was_recorded_as_another_type_is_told_in_a_sentence(path, store, batch, column):
    run = store.add(Experiment())
    store.begin(run.id)
    store.record(run.id, [Log(message="well"), batch(1, 3)])
    table = "events" if column == "line" else "samples"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = 5")
    with pytest.raises(ProblemError, match="cannot be read"):
        _ = store.events(run.id), store.samples(run.id)


def test_a_damaged_comparison_hides_no_other(path: Path, store: Store) -> None:
    hurt, kept = store.add_comparison("hurt"), store.add_comparison("kept")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE comparisons SET title = ? WHERE id = ?", (b"\xff", hurt))
    assert [comparison.id for comparison in store.comparisons()] == [kept]


def test_a_whole_record_that_is_damaged_is_told_in_a_sentence(path: Path, store: Store) -> None:
    run = store.add(Experiment())
    written(path, run.id, "tags", "[")
    with pytest.raises(ProblemError, match="of a saved run cannot be read") as caught:
        store.run(run.id)
    assert caught.value.problem.kind is Kind.STORE


@pytest.mark.parametrize(
    ("table", "change"), [("events", "line = '{'"), ("samples", "data = x'00', checksum = NULL")]
)
def test_damaged_curves_keep_no_deserted_run_from_being_closed(path, store, started, batch, table, change):
    hurt, other = store.add(Experiment()), store.add(Experiment())
    for run in (hurt, other):
        store.begin(run.id)
        store.record(run.id, [started(), batch(1, 4)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {change} WHERE run = ?", (hurt.id,))
        told = json.loads(connection.execute("SELECT owner FROM runs").fetchone()[0])
        owner = json.dumps({**told, "boot": "an earlier one"})
        connection.execute("UPDATE runs SET owner = ?", (owner,))
    assert set(store.recover()) == {hurt.id, other.id}
    assert {run.status for run in store.runs()} == {Status.INTERRUPTED}
    with pytest.raises(ProblemError, match="cannot be read"):
        store.summary_so_far(hurt.id)
    assert store.summary_so_far(other.id).steps == 4


def test_a_run_whose_owner_cannot_be_read_is_left_to_others(path: Path, store: Store) -> None:
    run = store.add(Experiment())
    store.begin(run.id)
    written(path, run.id, "owner", '{"from_tomorrow": 1}')
    assert store.recover() == ()
    with pytest.raises(ProblemError, match="another instance of Ammeter"):
        store.remove([run.id])


def test_runs_that_differ_in_figures_alone_are_parsed_once(store: Store) -> None:
    for seed in range(3):
        run = store.add(Experiment(seed=seed))
        store.record(run.id, [Finished(summary=Summary(steps=seed + 1, seconds=1.5))])
    unparsed = [run for run in store.runs() if isinstance(vars(run)["experiment"], UnparsedJson)]
    assert len(unparsed) == 2
