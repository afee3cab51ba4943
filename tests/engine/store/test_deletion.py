"""A deletion hides runs at once, can be taken back, and is for good when it is purged."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.paths import checkpoint_path
from engine.experiment.problem import Kind, ProblemError
from engine.protocol.events import Finished, Samples, Summary
from engine.store.record import RunRecord
from engine.store.runs import (
    KEPT_SECONDS,
    LONGEST_NOTE,
    LONGEST_TAG,
    MOST_TAGS,
    cleaned_note,
)
from engine.store.store import Store


@pytest.fixture
def run(store: Store, batch: Callable[..., Samples]) -> RunRecord:
    """One that ended, in a comparison, with a checkpoint."""
    added = store.add(Experiment(), comparison=store.add_comparison("FP32 alone"))
    store.record(added.id, [batch(1, 4), Finished(summary=Summary(steps=4))])
    checkpoint = checkpoint_path(store.checkpoints_folder(added.id), "last")
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    return store.run(added.id)


def test_a_deleted_run_is_nowhere(store: Store, run: RunRecord) -> None:
    store.delete([run.id])
    assert store.runs() == () and store.comparisons() == () and store.waiting.claimable() == ()
    for act in (store.run, store.begin, store.requeue, lambda run_id: store.rename(run_id, "x")):
        with pytest.raises(ProblemError):
            act(run.id)


def test_a_restored_run_is_whole(store: Store, run: RunRecord) -> None:
    store.set_tags(run.id, ["paper"])
    before, title = store.run(run.id), store.comparisons()
    store.delete([run.id])
    store.restore([run.id])
    assert store.runs() == (before,) and store.comparisons() == title
    assert len(store.samples(run.id)["step"]) == 4
    assert checkpoint_path(store.checkpoints_folder(run.id), "last").is_file()


def test_what_was_purged_is_gone_with_all_that_it_had(store: Store, run: RunRecord) -> None:
    store.delete([run.id])
    store.purge([run.id])
    assert store.samples(run.id) == {} and store.events(run.id) == ()
    assert not store.checkpoints_folder(run.id).exists()
    with pytest.raises(ProblemError, match="permanently deleted") as raised:
        store.restore([run.id])
    assert raised.value.problem.kind is Kind.STORE


def test_restoring_is_all_or_nothing_and_a_purge_leaves_what_is_not_deleted(
    store: Store, run: RunRecord
) -> None:
    store.delete([run.id])
    with pytest.raises(ProblemError):
        store.restore([run.id, "000000000000"])
    assert store.runs() == ()
    store.restore([run.id])
    store.purge([run.id, "000000000000"])
    assert store.runs() == (run,)


def test_a_deletion_that_no_window_finished_is_finished_after_a_day(path: Path, store: Store) -> None:
    old, fresh = store.add(Experiment()), store.add(Experiment())
    store.delete([old.id, fresh.id])
    with sqlite3.connect(path) as connection:
        long_ago = time.time() - KEPT_SECONDS - 1
        connection.execute("UPDATE runs SET deleted = ? WHERE id = ?", (long_ago, old.id))
    connection.close()
    assert store.recover() == ()
    store.restore([fresh.id])
    assert store.runs() == (fresh,)
    with pytest.raises(ProblemError, match="permanently deleted"):
        store.restore([old.id])


def test_a_number_is_not_given_twice_while_its_run_may_come_back(store: Store, run: RunRecord) -> None:
    store.delete([run.id])
    assert store.add(Experiment()).number == run.number + 1


def test_a_run_is_read_anew_only_where_it_has_changed(store: Store) -> None:
    kept, changed = store.add(Experiment()), store.add(Experiment())
    before = {record.id: record for record in store.runs()}
    store.set_note(changed.id, "Well.")
    after = {record.id: record for record in store.runs()}
    assert after[kept.id] is before[kept.id]
    assert after[changed.id].note == "Well." and before[changed.id].note == ""


@pytest.mark.parametrize("run_id", ["../precious", "../../folder/precious", "{precious}", "."])
def test_a_run_of_a_store_from_elsewhere_takes_no_other_folder_with_it(store, path, run_id):
    precious = path.parent / "precious"
    precious.mkdir()
    (precious / "thesis.txt").touch()
    (path.parent / "checkpoints").mkdir()
    theirs = run_id.format(precious=precious)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO runs (id, number, name, status, created, experiment, owner)"
            " VALUES (?, 9, 'Theirs', 'finished', 1e9, ?, '{}')",
            (theirs, Experiment().to_json()),
        )
    store.remove([theirs])
    store.recover()
    assert [file.name for file in precious.iterdir()] == ["thesis.txt"] and path.exists()
    assert (path.parent / "checkpoints").is_dir()


def test_tags_and_a_note_are_kept_and_told(store: Store) -> None:
    run_id = store.add(Experiment()).id
    store.set_tags(run_id, [" paper ", "PAPER", "fig. 2", "", "one,  two\nlines", "жёлтый 🚀"])
    store.set_note(run_id, "Clocks were locked.\r\n<b>Not</b> 'thrifty'; --\x1b[0m\n")
    run = store.run(run_id)
    assert run.tags == ("paper", "fig. 2", "one two lines", "жёлтый 🚀")
    assert run.note == "Clocks were locked.\n<b>Not</b> 'thrifty'; --\ufffd[0m"
    assert (run.to_dict()["tags"], run.to_dict()["note"]) == (list(run.tags), run.note)
    store.set_tags(run_id, ())
    store.set_note(run_id, "  ")
    assert (store.run(run_id).tags, store.run(run_id).note) == ((), "")


def test_what_is_too_long_is_answered_with_a_sentence(store: Store) -> None:
    run_id = store.add(Experiment()).id
    store.set_tags(run_id, ["kept"])
    for tags, said in (
        ([("x" * (LONGEST_TAG + 1))], "41 characters"),
        (map(str, range(MOST_TAGS + 1)), "21"),
    ):
        with pytest.raises(ProblemError, match=said) as raised:
            store.set_tags(run_id, tags)
        assert raised.value.problem.remedy
    with pytest.raises(ProblemError, match="10,001 characters"):
        store.set_note(run_id, "n" * (LONGEST_NOTE + 1))
    assert store.run(run_id).tags == ("kept",)
    assert cleaned_note(" " * LONGEST_NOTE + "n" * LONGEST_NOTE) == "n" * LONGEST_NOTE


def test_pins_are_kept_and_an_unknown_run_changes_none(store: Store) -> None:
    run_id = store.add(Experiment()).id
    with pytest.raises(ProblemError, match="no longer exists"):
        store.set_pinned([run_id, "000000000000"], True)
    for is_pinned in (True, False):
        store.set_pinned([run_id], is_pinned)
        assert store.run(run_id).is_pinned is is_pinned
