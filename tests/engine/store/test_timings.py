"""Timings are saved side by side with their traces, and can be opened again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.timing.bar import Bar, StepPart
from engine.protocol.timing.profile import StepProfile
from engine.protocol.timing.timing import Timing, TimingSide
from engine.store.schema import APPLICATION_ID, MIGRATIONS
from engine.store.store import Store

BAR = Bar.of([(StepPart.MATRIX, 3.0), (StepPart.HOST, 1.0)])
PROFILE = StepProfile(
    device_type="cpu", steps=3, samples=8, step_ms=4.0, recorded_ms=4.4, bar=BAR, format="fp32"
)
PROBLEM = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Use a smaller batch.")
SIDES = Timing(
    sides=tuple(
        TimingSide(experiment=Experiment(precision=name)) for name in (Precision.FP32, Precision.BF16)
    )
)


def add(store: Store, timing: Timing = SIDES) -> str:
    return store.timings.add(timing, device_name="a card")


def known(store: Store, timing_id: str) -> Timing:
    """Both sides of a saved timing become known."""
    timing = SIDES.with_side(0, profile=PROFILE).with_side(1, problem=PROBLEM)
    for place, side in enumerate(timing.sides):
        store.timings.record(timing_id, place, side)
    return timing


def trace(store: Store, timing_id: str) -> Path:
    path = store.timings.trace_path(timing_id, 0)
    path.parent.mkdir(exist_ok=True)
    path.touch()
    return path


def test_a_timing_is_opened_again_whole(store: Store, path: Path) -> None:
    run = store.add(Experiment())
    timing_id = add(store, SIDES.with_side(0, run_id=run.id))
    timing = known(store, timing_id)
    with Store(path) as other:
        assert not other.timings.find(timing_id).is_over
        store.timings.end(timing_id)
        (saved,) = other.timings.newest()
    assert saved.is_over and saved.device_name == "a card"
    assert saved.timing == timing.with_side(0, run_id=run.id)
    store.remove([run.id])
    assert store.timings.find(timing_id).timing == timing


def test_what_cannot_be_read_hides_no_other_timing_and_no_other_side(store: Store, path: Path) -> None:
    first, second, third = (add(store) for _ in range(3))
    known(store, second)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE timing_sides SET experiment = '{' WHERE timing = ?", (third,))
        connection.execute("UPDATE timing_sides SET profile = '{}'")
    assert [record.id for record in store.timings.newest()] == [second, first]
    assert store.timings.find(second).timing == SIDES.with_side(1, problem=PROBLEM)


def test_traces_are_deleted_with_their_timing_and_swept_without_it(store: Store) -> None:
    kept, deleted = (trace(store, add(store)) for _ in range(2))
    orphan = trace(store, "0" * 12)
    store.timings.delete(store.timings.newest(limit=1)[0].id)
    assert not deleted.exists()
    store.recover()
    assert kept.exists() and not orphan.exists()


def test_only_traces_of_its_own_that_are_there_belong_to_a_timing(store: Store) -> None:
    timing_id = add(store)
    for name, there in ((f"{timing_id}-1.json.gz", 1), (f"../{store.path.name}", 0), ("gone", 0), (None, 0)):
        trace(store, timing_id)
        profile = PROFILE.model_copy(update={"trace": name})
        store.timings.record(timing_id, 0, SIDES.with_side(0, profile=profile).sides[0])
        assert len(store.timings.find(timing_id).traces()) == there


def test_a_link_among_the_traces_is_not_exported(store: Store, tmp_path: Path) -> None:
    secret, timing_id = tmp_path / "secret.txt", add(store)
    secret.write_text("a secret")
    path = trace(store, timing_id)
    profile = PROFILE.model_copy(update={"trace": path.name})
    store.timings.record(timing_id, 0, SIDES.with_side(0, profile=profile).sides[0])
    assert store.timings.find(timing_id).traces() == (path,)
    path.unlink()
    path.symlink_to(secret)
    assert store.timings.find(timing_id).traces() == () and store.timings.trace_of(profile) is None


def test_only_traces_are_swept_wherever_their_folder_leads(store: Store, tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    mine = [tmp_path / "documents" / name for name in ("my-thesis.pdf", "a-1.json.gz.txt", ".x-y")]
    old = tmp_path / "documents" / "0123456789ab-1.json.gz"
    for path in (*mine, old):
        path.touch()
    (store.path.parent / "traces").symlink_to(tmp_path / "documents", target_is_directory=True)
    store.recover()
    assert all(path.exists() for path in mine) and not old.exists()


def test_an_id_from_elsewhere_leads_to_no_other_folder(store: Store) -> None:
    folder = store.timings.trace_path("a", 0).parent
    for timing_id in ("../../x", "/etc/x", "..\\x", "*"):
        assert store.timings.trace_path(timing_id, 0).resolve().parent == folder.resolve()


def test_a_store_from_before_there_were_timings_gets_a_place_for_them(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        for script in MIGRATIONS[:-1]:
            connection.executescript(script)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) - 1}")
    with Store(path) as store:
        assert store.timings.newest() == ()
        timing_id = add(store)
        store.timings.delete(timing_id)
        with pytest.raises(ProblemError) as caught:
            store.timings.find(timing_id)
    assert caught.value.problem.kind is Kind.REQUEST
