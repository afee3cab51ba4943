"""A bit that flips on the disk is told with the run that it damages, and never passes for a measurement."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, ProblemError
from engine.experiment.sweep import Axis, Grid, Plan
from engine.protocol.events import Finished, Log, Summary
from engine.protocol.tune import Tuning
from engine.store import samples
from engine.store.saved.studies import Study
from engine.store.saved.whole_runs import WholeRun
from engine.store.store import Store

ROWS = 200


def flip(path: Path, column: str, table: str, bit: int = 0) -> None:
    """Flips a bit of the oldest value of a column, within the file, where it differs from all others."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        rows = connection.execute(f"SELECT {column} FROM {table} ORDER BY rowid").fetchall()
    first, *others = (row[0] if isinstance(row[0], bytes) else str(row[0]).encode() for row in rows)
    pieces = (first[at : at + 24] for at in range(len(first)))
    content = bytearray(path.read_bytes())
    piece = next(
        piece for piece in pieces if content.count(piece) == 1 and not any(piece in other for other in others)
    )
    content[content.index(piece) + 12] ^= 1 << bit
    path.write_bytes(content)


@pytest.fixture
def hurt_and_sound(path: Path, started: Any, batch: Any, monkeypatch: Any) -> tuple[str, str]:
    """The ids of two saved runs with outlines, of which the older one is to be damaged."""
    monkeypatch.setattr(samples, "_LEAST_OUTLINED", ROWS)
    with Store(path) as store:
        for number in (1, 2):
            run = store.add(Experiment(seed=number))
            store.begin(run.id)
            store.record(
                run.id, [started(run.experiment), Log(message=f"number {number}"), batch(ROWS * number, ROWS)]
            )
            store.record(run.id, [Finished(summary=Summary(steps=ROWS, seconds=1234.5 * number))])
        sound, hurt = (run.id for run in store.runs())
    return hurt, sound


READ: dict[str, Callable[[Store, str], object]] = {
    "samples": lambda store, run_id: store.samples(run_id)["loss"].sum(),
    "curves": lambda store, run_id: store.curves(run_id).means("loss").sum(),
    "events": lambda store, run_id: store.events(run_id),
    "record": lambda store, run_id: store.run(run_id).to_dict(),
}


@pytest.mark.parametrize("bit", [0, 7])
@pytest.mark.parametrize(
    ("value", "what", "reading"),
    [
        ("data FROM samples", "curves", "samples"),
        ("data FROM outlines", "curves", "curves"),
        ("line FROM events", "events", "events"),
        ("summary FROM runs", "settings or results", "record"),
        ("experiment FROM runs", "settings or results", "record"),
    ],
)
def test_a_flipped_bit_is_told_with_its_run_and_hides_no_other(
    path, hurt_and_sound, value, what, reading, bit, monkeypatch
):
    hurt, sound = hurt_and_sound
    # so that curves are read from the outlines
    monkeypatch.setattr(samples, "_MANY_ROWS", ROWS - 1)
    with Store(path) as store:
        before = {name: read(store, sound) for name, read in READ.items()}
    column, table = value.split(" FROM ")
    flip(path, column, table, bit)
    with Store(path) as store:
        with pytest.raises(ProblemError, match=rf"{what} of Run 1 \({hurt}\) cannot be read") as caught:
            READ[reading](store, hurt)
        assert "archive" in caught.value.problem.remedy and caught.value.problem.kind is Kind.STORE
        assert {name: read(store, sound) for name, read in READ.items()} == before
        listing = store.listing()
        assert sound in {run.id for run in listing.runs}
        assert [run.id for run in listing.unreadable] == ([hurt] if reading == "record" else [])


def test_a_flipped_bit_of_a_study_or_a_sweep_is_told(path: Path) -> None:
    with Store(path) as store:
        study = store.studies.add(Study(answer=Tuning(experiment=Experiment(seed=11))))
        grid = Grid(base={"seed": 12}, axes=(Axis(key="batch_size", values=("32", "64")),))
        sweep = store.sweeps.add("of two", grid, Plan(), device_name="cpu")
    flip(path, "answer", "studies")
    flip(path, "grid", "sweeps")
    with Store(path) as store:
        with pytest.raises(ProblemError, match="cannot be read"):
            store.studies.find(study.id)
        with pytest.raises(ProblemError, match="cannot be read"):
            store.sweeps.find(sweep)


def test_a_damaged_block_keeps_its_damage_when_small_ones_are_joined(path, store, started, batch):
    run = store.add(Experiment())
    store.begin(run.id)
    store.record(run.id, [started()])
    for first in (1, 101):
        store.record(run.id, [batch(first, 100)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE samples SET checksum = 7 WHERE position = 0")
    store.record(run.id, [Finished(summary=Summary(steps=200, seconds=1.0))])
    with pytest.raises(ProblemError, match="cannot be read"):
        store.samples(run.id)


def test_an_archive_brings_back_a_run_that_is_damaged_here(
    path: Path, hurt_and_sound: tuple[str, str]
) -> None:
    hurt, _ = hurt_and_sound
    with Store(path) as store:
        record, columns = store.run(hurt), store.samples(hurt)
        whole = WholeRun(record, store.events(hurt), {name: values * 1.0 for name, values in columns.items()})
    flip(path, "data", "samples")
    with Store(path) as store:
        (arrival,) = store.import_runs([whole])
        assert arrival.is_copy and arrival.id != hurt
        assert (store.samples(arrival.id)["loss"] == columns["loss"]).all()
