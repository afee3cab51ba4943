"""What a user writes on a run: kept as written, within bounds, and no part of what was measured."""

from __future__ import annotations

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.store.edits import (
    LONGEST_FOLDER,
    LONGEST_NOTE,
    LONGEST_TAG,
    MOST_TAGS,
    cleaned_note,
    cleaned_tags,
)
from engine.store.store import Store


def test_a_new_run_has_neither_tags_nor_a_note(store: Store) -> None:
    run = store.add(Experiment())
    assert (run.tags, run.note) == ((), "")


def test_tags_and_a_note_are_kept_and_told(store: Store) -> None:
    run_id = store.add(Experiment()).id
    store.set_tags(run_id, [" paper ", "PAPER", "fig. 2", "", "жёлтый 🚀"])
    store.set_note(run_id, "Clocks were locked.\r\n<b>Not</b> 'thrifty'; --\x1b[0m\n")
    run = store.run(run_id)
    assert run.tags == ("paper", "fig. 2", "жёлтый 🚀")
    assert run.note == "Clocks were locked.\n<b>Not</b> 'thrifty'; --\ufffd[0m"
    assert (run.to_dict()["tags"], run.to_dict()["note"]) == (list(run.tags), run.note)
    store.set_tags(run_id, ())
    store.set_note(run_id, "  ")
    assert (store.run(run_id).tags, store.run(run_id).note) == ((), "")


def test_a_comma_parts_no_tag_from_itself() -> None:
    assert cleaned_tags(["one,  two\nlines"]) == ("one two lines",)


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


def test_pins_colours_and_folders_are_kept(store: Store) -> None:
    first, second = store.add(Experiment()).id, store.add(Experiment()).id
    assert (store.run(first).is_pinned, store.run(first).colour, store.run(first).folder) == (False, None, "")
    store.set_pinned([first], True)
    store.set_colour([first, second], "teal")
    store.set_folders({first: '  week "47"\n', second: "thesis"})
    run = store.run(first)
    assert (run.is_pinned, run.colour, run.folder) == (True, "teal", "week 47")
    store.set_pinned([first], False)
    store.set_colour([first], None)
    store.set_folders({first: ""})
    run = store.run(first)
    assert (run.is_pinned, run.colour, run.folder) == (False, None, "")
    store.delete([second])
    store.restore([second])
    assert (store.run(second).colour, store.run(second).folder) == ("teal", "thesis")


def test_an_unknown_colour_and_a_long_folder_change_no_run(store: Store) -> None:
    run_id = store.add(Experiment()).id
    with pytest.raises(ProblemError, match="no colour “mauve”"):
        store.set_colour([run_id], "mauve")
    with pytest.raises(ProblemError, match="61 characters"):
        store.set_folders({run_id: "f" * (LONGEST_FOLDER + 1)})
    with pytest.raises(ProblemError, match="no longer among the saved runs"):
        store.set_pinned([run_id, "000000000000"], True)
    run = store.run(run_id)
    assert (run.is_pinned, run.colour, run.folder) == (False, None, "")


def test_a_run_that_is_gone_cannot_be_written_on(store: Store) -> None:
    with pytest.raises(ProblemError, match="no longer among the saved runs"):
        store.set_tags("000000000000", ["paper"])
    with pytest.raises(ProblemError, match="no longer among the saved runs"):
        store.set_note("000000000000", "Well.")


def test_bytes_that_are_no_text_do_not_stop_a_run(store: Store) -> None:
    run = store.add(Experiment(), name="\udcff run")
    assert run.name == "\ufffd run"
    store.rename(run.id, "\udcfe")
    assert store.run(run.id).name == "\ufffd"
