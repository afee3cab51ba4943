"""The store keeps what was recorded, and says plainly what it cannot do."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.settings import Step
from engine.protocol.events import (
    Epoch,
    Failed,
    Finished,
    Heartbeat,
    Log,
    Pictures,
    Samples,
    Skipped,
    Summary,
)
from engine.protocol.pictures import ContactSheet, patterns, sheet_of
from engine.store.record import Status, UnparsedJson
from engine.store.samples import MOST_ROWS
from engine.store.store import Store

PROBLEM = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Take a smaller batch.")


def test_a_run_is_queued_then_running_then_finished(store, started, batch):
    run = store.add(Experiment(seed=7))
    assert (run.status, run.name, run.number) == (Status.QUEUED, "Run 1", 1)
    assert run.started is None and run.summary is None and run.environment is None
    assert abs((datetime.now(UTC) - run.created).total_seconds()) < 60

    store.begin(run.id)
    assert store.run(run.id).status is Status.RUNNING
    resolved = Experiment(seed=7, image_size=28, num_classes=10, device="cpu")
    store.record(run.id, [started(resolved, total_steps=3), Heartbeat(step=0), batch(1, 3)])
    store.record(run.id, [Finished(summary=Summary(steps=3, samples_per_second=12.5))])

    done = store.run(run.id)
    assert (done.status, done.experiment, done.total_steps) == (Status.FINISHED, resolved, 3)
    assert done.environment is not None and done.environment.device_name == "a card"
    assert done.summary == Summary(steps=3, samples_per_second=12.5)
    assert done.started is not None and done.ended is not None and done.started <= done.ended


def test_a_stopped_and_a_failed_run_say_so(store: Store, batch: Callable[..., Samples]) -> None:
    stopped, failed = store.add(Experiment()), store.add(Experiment())
    for run in (stopped, failed):
        store.begin(run.id)
        store.record(run.id, [batch(1, 4)])
    store.record(stopped.id, [Finished(summary=Summary(steps=4), stopped=True)])
    store.record(failed.id, [Failed(problem=PROBLEM, detail="Traceback")])
    assert store.run(stopped.id).status is Status.STOPPED
    after = store.run(failed.id)
    assert (after.status, after.problem, after.detail) == (Status.FAILED, PROBLEM, "Traceback")
    assert after.summary is not None and after.summary.steps == 4


def test_samples_come_back_column_by_column_with_nan_and_infinity(store, batch):
    run = store.add(Experiment())
    scales = (65_536.0, 32_768.0)
    store.record(run.id, [batch(1, 2, loss=(math.nan, math.inf), grad_scale=scales)])
    store.record(run.id, [batch(3, 2, loss=(-math.inf, 0.1), grad_scale=scales)])
    columns = store.samples(run.id)
    assert columns["step"].dtype == np.int64
    np.testing.assert_array_equal(columns["step"], [1, 2, 3, 4])
    np.testing.assert_array_equal(columns["loss"], [math.nan, math.inf, -math.inf, 0.1])
    np.testing.assert_array_equal(columns["grad_scale"], [*scales, *scales])
    assert "allocated_mib" not in columns
    assert store.samples(store.add(Experiment()).id) == {}


def test_many_small_blocks_become_one_when_the_run_ends(store: Store, batch: Callable[..., Samples]) -> None:
    run = store.add(Experiment())
    for first in range(1, 400, 4):
        store.record(run.id, [batch(first, 4)])
    before = store.samples(run.id)
    store.record(run.id, [Finished(summary=Summary(steps=400))])
    after = store.samples(run.id)
    assert list(before) == list(after)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])
    blocks = store._connection.read("SELECT count(*) FROM samples")[0][0]
    assert blocks == 1


def test_events_come_back_in_order_without_samples_and_signs_of_life(store, started, batch):
    run = store.add(Experiment())
    first = [started(), batch(1, 2), Log(message="hello"), Heartbeat(step=2), Skipped(steps=(2,))]
    second = [
        Epoch(epoch=1, step=2, seconds=1.0, train_loss=0.5),
        Finished(summary=Summary(final_train_loss=math.inf)),
    ]
    store.record(run.id, first)
    store.record(run.id, second)
    assert store.events(run.id) == (first[0], first[2], first[4], *second)


def test_runs_are_listed_newest_first_and_numbered(store: Store) -> None:
    ids = [store.add(Experiment(), name=name).id for name in (None, "Mine", None)]
    assert [run.id for run in store.runs()] == ids[::-1]
    assert [run.name for run in store.runs()] == ["Run 3", "Mine", "Run 1"]
    assert [run.id for run in store.runs(limit=2)] == ids[:0:-1]


def test_a_run_is_found_by_the_start_of_its_id_and_deleted_with_all_others_or_none(store: Store) -> None:
    run = store.add(Experiment())
    assert store.run(run.id[:4]) == run
    with pytest.raises(ProblemError, match="no longer exists"):
        store.delete([run.id, "000000000000"])
    assert store.runs() == (run,)
    assert store.run(run.id.upper()) == run


def test_an_unknown_or_ambiguous_id_is_answered(store: Store) -> None:
    for _ in range(17):
        store.add(Experiment())
    starts = [run.id[0] for run in store.runs()]
    shared = next(start for start in starts if starts.count(start) > 1)
    with pytest.raises(ProblemError, match="Several run ids"):
        store.run(shared)
    for wrong in ("", "%", "zz", "0123456789abc"):
        with pytest.raises(ProblemError) as caught:
            store.run(wrong)
        assert caught.value.problem.kind is Kind.REQUEST and caught.value.problem.key == "run"


def test_a_run_is_renamed_and_deleted_with_all_that_is_its_own(store, batch):
    comparison = store.add_comparison("FP32 against FP16 AMP")
    run = store.add(Experiment(), comparison=comparison, label="FP32")
    store.record(run.id, [batch(1, 2), Log(message="hello")])
    store.rename(run.id, "  Better name ")
    assert store.run(run.id).name == "Better name"
    with pytest.raises(ProblemError):
        store.rename(run.id, "  ")
    assert [one.title for one in store.comparisons()] == ["FP32 against FP16 AMP"]
    store.remove([run.id])
    assert store.runs() == () and store.comparisons() == ()
    assert store.samples(run.id) == {} and store.events(run.id) == ()


def test_only_a_queued_run_begins(store: Store) -> None:
    run = store.add(Experiment())
    store.begin(run.id)
    with pytest.raises(ProblemError, match="is running, not queued"):
        store.begin(run.id)
    with pytest.raises(ProblemError, match="no longer"):
        store.begin("000000000000")


def test_what_another_store_writes_is_seen_and_noticed(path: Path) -> None:
    with Store(path) as mine, Store(path) as theirs:
        version = mine.data_version()
        mine.add(Experiment())
        assert mine.data_version() == version
        run = theirs.add(Experiment(precision=Precision.BF16))
        assert mine.data_version() != version
        assert mine.run(run.id) == run


def test_a_commit_of_any_length_is_kept_whole(store: Store, batch: Callable[..., Samples]) -> None:
    run = store.add(Experiment())
    store.begin(run.id)
    store.record(run.id, [batch(1, MOST_ROWS), batch(MOST_ROWS + 1, 10)])
    assert store.samples(run.id)["step"].tolist() == list(range(1, MOST_ROWS + 11))


SETTINGS = Experiment(model="resnet50", precision=Precision.FP16, batch_size=96, step=Step(recipe="fast"))


def test_an_overview_is_the_same_before_and_after_parsing(store: Store) -> None:
    run_id = store.add(SETTINGS).id
    queued = store.run(run_id).overview
    assert queued.recipe == "fast" and queued.samples_per_second is None
    figures = {"samples_per_second": 12.5, "peak_resident_mib": 400.0, "final_validation_accuracy": 0.5}
    store.record(run_id, [Finished(summary=Summary(recipe="plain", **figures))])
    run = store.run(run_id)
    before, settings = run.overview, run.settings_but_precision
    assert isinstance(vars(run)["experiment"], UnparsedJson), "an overview parses nothing else"
    assert run.experiment == SETTINGS
    parsed = replace(run)
    assert not isinstance(vars(parsed)["experiment"], UnparsedJson)
    assert parsed.overview == before and parsed.settings_but_precision == settings
    assert (before.samples_per_second, before.peak_mib, before.accuracy) == (12.5, 400.0, 0.5)
    assert before.recipe == "fast"


def test_what_is_allocated_goes_before_what_is_resident_and_nan_stays(store: Store) -> None:
    run_id = store.add(SETTINGS).id
    summary = Summary(samples_per_second=math.nan, peak_allocated_mib=3.0, peak_resident_mib=400.0)
    store.record(run_id, [Finished(summary=summary)])
    overview = store.run(run_id).overview
    assert math.isnan(overview.samples_per_second or 0.0) and overview.peak_mib == 3.0


def test_only_the_precision_makes_no_difference_to_the_key(store: Store) -> None:
    def key(**changes: object) -> str:
        return store.run(store.add(SETTINGS.model_copy(update=changes)).id).settings_but_precision

    assert key() == key(precision=Precision.FP32) == store.runs()[0].settings_but_precision
    assert key() != key(seed=1)


def test_settings_of_another_version_have_the_key_of_this_one(path: Path, store: Store) -> None:
    run_id = store.add(Experiment(seed=5)).id
    now = store.run(run_id).settings_but_precision
    fewer = {"model": "small-cnn", "dataset": "fashion", "precision": "bf16", "batch_size": 64, "seed": 5}
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET experiment = ?, checksum = NULL", (json.dumps(fewer),))
    connection.close()
    assert store.run(run_id).settings_but_precision == now


def test_damaged_settings_raise_when_they_are_read(path: Path, store: Store) -> None:
    run_id = store.add(Experiment()).id
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET experiment = '{\"batch_size\": 0}', checksum = NULL")
    connection.close()
    run = store.run(run_id)
    with pytest.raises(ProblemError, match="Batch size"):
        run.to_dict()
    with pytest.raises(ValueError, match="model"):
        _ = run.overview


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


def test_the_first_of_several_runs_that_has_any(store: Store) -> None:
    none, some, others = (with_pictures(store, sheet) for sheet in (None, SHEET, OTHER))
    assert store.pictures([none]) is None and store.pictures(["000000000000"]) is None
    assert store.pictures([none, some, others]) == SHEET
    assert store.pictures([others, some]) == OTHER
    assert store.pictures([none]) is None and store.pictures([]) is None


def test_pictures_go_with_the_last_run_that_shows_them(store: Store) -> None:
    first, second, other = with_pictures(store), with_pictures(store), with_pictures(store, OTHER)
    assert store.pictures([first]) == store.pictures([second]) == SHEET
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
