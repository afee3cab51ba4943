"""Pictures are saved once however many runs show them, go with the last of these, and hide no run."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.protocol.events import Finished, Log, Pictures, Summary
from engine.protocol.pictures import ContactSheet, patterns, sheet_of
from engine.store.store import Store

SHEET, OTHER = sheet_of(patterns(30)), sheet_of(patterns(12))


def told(sheet: ContactSheet) -> Pictures:
    return Pictures(jpeg=sheet.jpeg, side=sheet.side, count=sheet.count)


def with_pictures(store: Store, sheet: ContactSheet | None = SHEET) -> str:
    """A run that ended and was told these pictures."""
    run_id = store.add(Experiment()).id
    if sheet is not None:
        store.record(run_id, [told(sheet)])
    store.record(run_id, [Finished(summary=Summary())])
    return run_id


def sheets(store: Store) -> list[str]:
    return [row["hash"] for row in store._connection.read("SELECT hash FROM pictures ORDER BY hash")]


def test_pictures_are_kept_beside_the_events(store, started, batch):
    run_id = store.add(Experiment()).id
    remark = Log(message="hello")
    store.record(run_id, [started(), told(SHEET), remark, batch(1, 4), Finished(summary=Summary(steps=4))])
    assert store.pictures([run_id]) == SHEET
    assert [event.event for event in store.events(run_id)] == ["started", "log", "finished"]
    assert len(store.samples(run_id)["step"]) == 4


def test_runs_with_the_same_pictures_share_them(store: Store) -> None:
    runs = [with_pictures(store) for _ in range(5)]
    assert [store.pictures([run_id]) for run_id in runs] == [SHEET] * 5
    assert sheets(store) == [SHEET.key]


def test_the_first_of_several_runs_that_has_any(store: Store) -> None:
    none, some, others = (with_pictures(store, sheet) for sheet in (None, SHEET, OTHER))
    assert store.pictures([none]) is None and store.pictures(["000000000000"]) is None
    assert store.pictures([none, some, others]) == SHEET
    assert store.pictures([others, some]) == OTHER
    assert store.pictures([none]) is None and store.pictures([]) is None


def test_pictures_go_with_the_last_run_that_shows_them(store: Store) -> None:
    first, second, other = with_pictures(store), with_pictures(store), with_pictures(store, OTHER)
    store.delete([first, second])
    store.purge([first])
    # the second can still come back
    assert sheets(store) == sorted([SHEET.key, OTHER.key])
    store.purge([second])
    assert sheets(store) == [OTHER.key]
    store.remove([other])
    assert sheets(store) == []


def test_a_run_that_goes_on_with_other_pictures_shows_these(store: Store) -> None:
    run_id = store.add(Experiment()).id
    store.record(run_id, [told(SHEET)])
    store.record(run_id, [told(OTHER), told(OTHER)])
    assert store.pictures([run_id]) == OTHER and sheets(store) == [OTHER.key]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE pictures SET jpeg = substr(jpeg, 1, 500)",
        "UPDATE pictures SET jpeg = zeroblob(3000000)",
        "UPDATE pictures SET jpeg = 'text'",
        "UPDATE pictures SET side = 'text'",
        "UPDATE pictures SET side = 4000000000, count = 4000000000",
        "UPDATE pictures SET count = -1",
        "UPDATE pictures SET side = 23",
        "PRAGMA foreign_keys = OFF; UPDATE runs SET pictures = 'of no sheet'",
        "PRAGMA foreign_keys = OFF; UPDATE runs SET pictures = x'00'",
    ],
)
def test_damaged_pictures_are_none_and_hide_no_run(store: Store, path: Path, damage: str) -> None:
    run_id = with_pictures(store)
    connection = sqlite3.connect(path)
    connection.executescript(damage)
    connection.close()
    assert store.pictures([run_id]) is None
    listed = store.listing()
    assert [run.id for run in listed.runs] == [run_id] and listed.unreadable == ()
    assert store.pictures([with_pictures(store)]) == SHEET
    for run in store.runs():
        store.remove([run.id])
    assert store.runs() == ()


def test_the_listing_reads_no_picture(store: Store) -> None:
    with_pictures(store)
    read: list[str] = []
    with store._connection.reading() as connection:
        connection.set_trace_callback(read.append)
        store.listing()
        connection.set_trace_callback(None)
    assert read and not any("pictures" in statement for statement in read)


def test_a_sheet_is_found_and_given_up_through_an_index(store: Store) -> None:
    with_pictures(store)
    plan = store._connection.read("EXPLAIN QUERY PLAN SELECT 1 FROM runs WHERE pictures = 'key'")
    assert "runs_by_pictures" in plan[0]["detail"]
