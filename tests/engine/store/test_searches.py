"""Searches for the largest batch are saved as they go, and can be opened again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, ProblemError
from engine.protocol.trials import ProbeResult, Trial
from engine.store.schema import APPLICATION_ID, MIGRATIONS
from engine.store.store import Store

FITS = Trial(batch_size=8, fits=True, peak_mib=10.0, seconds=0.5, steps=3)
FAILS = Trial(batch_size=9, fits=False, cause="memory")
RESULT = ProbeResult(
    precision=Precision.FP32, largest_batch=8, verified=True, bound_by="memory", trials=(FITS, FAILS)
)


def add(store: Store, series: str | None = None) -> str:
    return store.probes.add(
        Experiment(), granularity=1, margin_fraction=0.1, device_name="a card", series=series
    )


def test_a_search_is_opened_again_whole(store: Store, path: Path) -> None:
    probe_id = add(store)
    store.probes.record(probe_id, FITS, 12.0)
    store.probes.record(probe_id, FAILS, 11.0)
    store.probes.end(probe_id, RESULT)
    with Store(path) as other:
        saved = other.probes.find(probe_id)
    assert (saved.experiment, saved.device_name, saved.budget_mib) == (Experiment(), "a card", 11.0)
    assert saved.trials == (FITS, FAILS) and saved.result == RESULT
    assert saved.series == probe_id


def test_a_search_whose_program_was_killed_keeps_its_trials(store: Store, path: Path) -> None:
    store.probes.record(add(store), FITS, 12.0)
    with Store(path) as other:
        (saved,) = other.probes.newest()
    assert saved.result is None and saved.trials == (FITS,)


def test_the_newest_comes_first_and_a_series_holds_together(store: Store) -> None:
    first = add(store)
    second = add(store, series=first)
    assert [each.id for each in store.probes.newest()] == [second, first]
    assert [each.id for each in store.probes.newest(limit=1)] == [second]
    assert {each.series for each in store.probes.newest()} == {first}


def test_a_deleted_search_is_gone_with_its_trials(store: Store) -> None:
    probe_id = add(store)
    store.probes.record(probe_id, FITS, 12.0)
    store.probes.delete(probe_id)
    assert store.probes.newest() == ()
    with pytest.raises(ProblemError) as caught:
        store.probes.find(probe_id)
    assert caught.value.problem.kind is Kind.REQUEST


def test_a_store_from_before_there_were_searches_gets_a_place_for_them(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(MIGRATIONS[0])
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
    with Store(path) as store:
        run = store.add(Experiment(), name="kept")
        assert store.probes.find(add(store)).trials == ()
        assert store.runs() == (run,)
