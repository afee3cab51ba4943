"""Runs arrive as they were sent, and no run is lost, doubled or overwritten by it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import MOST_CODE_BYTES, Code
from engine.experiment.own.trust import TrustedCode
from engine.export.archive.reader import import_archive
from engine.protocol.events import to_line
from engine.store import samples
from engine.store.record import RunRecord, Status
from engine.store.store import Store

Write = Callable[..., Path]


def told(run: RunRecord) -> dict[str, Any]:
    """The run as it can be compared, NaN as text, without its number, which is the store's."""
    return {**run.to_dict(), "detail": run.detail, "total_steps": run.total_steps}


def oldest_first(store: Store) -> list[RunRecord]:
    return list(reversed(store.runs()))


def test_runs_that_ended_arrive_whole(store: Store, other: Store, archive: Path) -> None:
    imported = import_archive(other, archive)
    sent = [run for run in oldest_first(store) if run.status.is_over]
    assert [told(run) for run in imported.added[: len(sent)]] == [told(run) for run in sent]
    assert not imported.already_here and not imported.copies
    for run in sent:
        assert [*map(to_line, other.events(run.id))] == [*map(to_line, store.events(run.id))]
        here, there = store.samples(run.id), other.samples(run.id)
        assert list(here) == list(there)
        for name, values in here.items():
            np.testing.assert_array_equal(values, there[name])
    assert other.comparisons() == store.comparisons()


def test_a_run_that_had_not_ended_counts_as_interrupted(store: Store, other: Store, archive: Path) -> None:
    running, queued = oldest_first(store)[-2:]
    import_archive(other, archive)
    assert (running.status, queued.status) == (Status.RUNNING, Status.QUEUED)
    for run in (running, queued):
        arrived = other.run(run.id)
        assert arrived.status is Status.INTERRUPTED and arrived.ended is not None
        assert arrived.summary == store.summary_so_far(run.id)
    assert other.waiting.claimable() == ()


def test_importing_twice_changes_nothing(other: Store, archive: Path) -> None:
    first = import_archive(other, archive)
    other.rename(first.added[0].id, "Mine now")
    again = import_archive(other, archive)
    assert not again.added
    assert [run.id for run in again.already_here] == [run.id for run in first.added]
    assert other.run(first.added[0].id).name == "Mine now"
    assert len(other.runs()) == len(first.added)


def test_the_store_that_exported_runs_has_them_already(store: Store, write: Write) -> None:
    before = [told(run) for run in store.runs()]
    ended = [run.id for run in store.runs() if run.status.is_over]
    imported = import_archive(store, write(store, *ended))
    assert [run.id for run in imported.already_here] == ended and not imported.added
    assert [told(run) for run in store.runs()] == before


def test_another_run_with_the_same_id_is_kept_beside_it(store: Store, other: Store, write: Write) -> None:
    run = oldest_first(store)[0]
    whole = write(store, run.id)
    import_archive(other, whole)
    with other._connection.writing() as connection:
        connection.execute("UPDATE runs SET detail = 'another' WHERE id = ?", (run.id,))
    imported = import_archive(other, whole)
    (copy,) = imported.copies
    assert copy.id != run.id and copy.name == f"{run.name} (imported)" and copy.comparison is None
    assert other.run(run.id).detail == "another"
    np.testing.assert_array_equal(other.samples(copy.id)["loss"], store.samples(run.id)["loss"])
    assert [run.id for run in import_archive(other, whole).already_here] == [copy.id]


def test_the_same_runs_give_the_same_bytes(store: Store, other: Store, write: Write) -> None:
    ended = [run.id for run in oldest_first(store) if run.status.is_over]
    first = write(store, *ended, name="first.zip")
    import_archive(other, first)
    second = write(other, *ended, name="second.zip")
    assert first.read_bytes() == second.read_bytes()


def test_an_archive_can_be_read_without_ammeter(store: Store, archive: Path) -> None:
    run = oldest_first(store)[0]
    with zipfile.ZipFile(archive) as opened:
        record = json.loads(opened.read(f"runs/{run.id}/record.json"))
        table = np.frombuffer(opened.read(f"runs/{run.id}/samples.f8"), "<f8")
    columns = dict(zip(record["columns"], table.reshape(-1, record["rows"]), strict=True))
    np.testing.assert_array_equal(columns["loss"], store.samples(run.id)["loss"])


def test_runs_that_shrink_as_a_bomb_does_arrive_all_the_same(
    other: Store, tmp_path: Path, write: Write
) -> None:
    rows = 400_000
    constant = {name: np.zeros(rows) for name in ("loss", "samples_per_second", "learning_rate", "grad_norm")}
    columns = {"step": np.arange(1.0, rows + 1), "seconds": np.zeros(rows), **constant}
    with Store(tmp_path / "flat" / "ammeter.sqlite") as flat:
        run = flat.add(Experiment(), name="flat")
        with flat._connection.writing() as connection:
            samples.append(connection, run.id, columns)
        path = write(flat, run.id)
    import_archive(other, path)
    np.testing.assert_array_equal(other.samples(run.id)["step"], columns["step"])


def test_control_characters_in_a_name_do_not_keep_it_from_arriving(
    store: Store, other: Store, write: Write
) -> None:
    run = store.add(Experiment(), name="red \x1b[31malert\x07")
    import_archive(other, write(store, run.id))
    assert other.run(run.id).name == "red \N{REPLACEMENT CHARACTER}[31malert\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("moment", [3.5, 7_258_118_400.0 + 86_400])
def test_a_run_of_a_clock_that_was_wrong_arrives(
    store: Store, other: Store, write: Write, moment: float
) -> None:
    run = next(run for run in store.runs() if run.status.is_over)
    with store._connection.writing() as connection:
        connection.execute("UPDATE runs SET created = ?1, started = ?1, ended = ?1", (moment,))
        connection.execute("UPDATE comparisons SET created = ?", (moment,))
    import_archive(other, write(store, run.id))
    assert other.run(run.id).created.timestamp() == moment


def test_tags_and_a_note_arrive_and_tell_no_run_from_itself(store: Store, other: Store, write: Write) -> None:
    run = next(run for run in store.runs() if run.status.is_over)
    store.set_tags(run.id, ["paper", "рисунок 2"])
    store.set_note(run.id, "Clocks were locked.\n<b>Indeed</b>")
    import_archive(other, write(store, run.id))
    arrived = other.run(run.id)
    assert (arrived.tags, arrived.note) == (("paper", "рисунок 2"), "Clocks were locked.\n<b>Indeed</b>")
    other.set_tags(run.id, ())
    (here,) = import_archive(other, write(store, run.id)).already_here
    assert (here.id, here.tags) == (run.id, ())


def test_a_run_that_was_deleted_comes_back(other: Store, archive: Path) -> None:
    run = next(run for run in import_archive(other, archive).added if run.status is Status.FINISHED)
    other.delete([run.id])
    (added,) = import_archive(other, archive).added
    assert told(added) == told(other.run(run.id)) == told(run)


def test_the_largest_code_of_a_models_own_file_travels(
    store: Store, other: Store, write: Callable[..., Path]
) -> None:
    text = '"""' + '"\n' * (MOST_CODE_BYTES // 2 - 8) + '"""'
    code = Code(file="net.py", folder="/there", text=text, beside={"layers.py": "WIDTH = 8\n"})
    run = store.add(experiment_from({"model": "net.py", "code": code.to_json()}))
    import_archive(other, write(store, run.id))
    assert other.run(run.id).experiment.own_code == code
    # it may run here only once somebody has accepted it
    assert not TrustedCode().has(code)
