"""Files appear whole in their place or not at all, and never take the place of another unasked."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.experiment.problem import Kind, ProblemError
from engine.export.files import atomic_path, make_hidden_folder


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_files_beside_each_other_and_folders_appear_whole(tmp_path: Path) -> None:
    target = tmp_path / "report.csv"
    with atomic_path(target) as temporary:
        temporary.write_text("all")
        temporary.with_name("report-summary.csv").write_text("some")
        assert names_in(tmp_path) == [temporary.parent.name]
    assert names_in(tmp_path) == ["report-summary.csv", "report.csv"]
    assert target.read_text() == "all"
    with atomic_path(tmp_path / "board") as temporary:
        (temporary / "run").mkdir(parents=True)
        (temporary / "run" / "events").write_text("e")
    assert (tmp_path / "board" / "run" / "events").read_text() == "e"


@pytest.mark.parametrize("taken", ["report.csv", "report-summary.csv"])
def test_nothing_is_replaced_unless_it_is_asked_for(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("old")

    def write(force: bool) -> None:
        with atomic_path(tmp_path / "report.csv", force=force) as temporary:
            temporary.write_text("new")
            temporary.with_name("report-summary.csv").write_text("new")

    with pytest.raises(ProblemError, match="already exists") as raised:
        write(force=False)
    assert raised.value.problem.kind is Kind.REQUEST
    assert names_in(tmp_path) == [taken] and (tmp_path / taken).read_text() == "old"
    write(force=True)
    assert (tmp_path / taken).read_text() == "new" and len(names_in(tmp_path)) == 2


def test_a_failure_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_path(tmp_path / "report.html", force=True) as temporary:
        temporary.write_text("half")
        _ = 1 / 0
    assert names_in(tmp_path) == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "old"


def test_files_that_were_moved_before_a_failure_are_taken_back(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("old")
    (tmp_path / "b").mkdir()
    with pytest.raises(ProblemError), atomic_path(tmp_path / "a.csv", force=True) as temporary:
        temporary.write_text("new")
        # where a folder is, no file can be put
        temporary.with_name("b").write_text("new")
    assert (tmp_path / "a.csv").read_text() == "old"
    assert names_in(tmp_path) == ["a.csv", "b"]


def test_a_folder_with_other_things_keeps_them(tmp_path: Path) -> None:
    board = tmp_path / "board"
    board.mkdir()
    with atomic_path(board) as temporary:
        temporary.mkdir()
        (temporary / "one").write_text("1")
    with pytest.raises(ProblemError, match="already exists"), atomic_path(board) as temporary:
        temporary.mkdir()
    with atomic_path(board, force=True) as temporary:
        temporary.mkdir()
        (temporary / "two").write_text("2")
    assert names_in(board) == ["one", "two"]


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.ENOSPC, Kind.DISK_FULL, "the disk is full"),
        (errno.EROFS, Kind.REQUEST, "No permission to write"),
        (errno.ENAMETOOLONG, Kind.REQUEST, "is too long"),
        (errno.EIO, Kind.STORE, "Could not write"),
    ],
)
def test_what_the_system_says_becomes_a_plain_sentence(
    tmp_path: Path, number: int, kind: Kind, words: str
) -> None:
    with (
        pytest.raises(ProblemError, match=words) as raised,
        atomic_path(tmp_path / "report.pdf") as temporary,
    ):
        temporary.write_text("half")
        raise OSError(number, os.strerror(number))
    assert raised.value.problem.kind is kind
    assert names_in(tmp_path) == []


def test_a_place_that_cannot_be_is_answered(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="does not exist"), atomic_path(tmp_path / "none" / "report.pdf"):
        pytest.fail("it was let in")
    with (
        pytest.raises(ProblemError, match="is too long"),
        atomic_path(tmp_path / f"{'n' * 300}.csv") as temporary,
    ):
        temporary.write_text("new")


def test_what_another_program_made_meanwhile_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "b.csv"

    def race() -> None:
        with atomic_path(tmp_path / "a.csv") as temporary:
            temporary.write_text("new")
            # a link to nothing is a file that was not there when the checks were made, and is when it is put
            target.symlink_to(tmp_path / "nothing")
            temporary.with_name("b.csv").write_text("new")

    with pytest.raises(ProblemError, match="already exists"):
        race()
    assert target.is_symlink() and not (tmp_path / "a.csv").exists()


@pytest.fixture(scope="module")
def gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        pass
    return process.pid


@pytest.fixture
def left(tmp_path: Path, gone: int) -> Callable[..., Path]:
    """A workplace with a file in it, as a process that was killed two hours ago left it."""

    def make(pid: int = gone, hours: float = 2.0) -> Path:
        own = make_hidden_folder(tmp_path)
        folder = own.with_name(own.name.replace(f"-{os.getpid()}-", f"-{pid}-"))
        own.rename(folder)
        (folder / "report.html").write_text("half")
        then = time.time() - hours * 3600.0
        os.utime(folder, (then, then))
        return folder

    return make


def export(folder: Path) -> None:
    with atomic_path(folder / "report.html", force=True) as temporary:
        temporary.write_text("whole")


def test_what_a_killed_export_left_goes_with_the_next_but_not_what_is_alive_or_fresh(
    tmp_path: Path, left: Callable[..., Path]
) -> None:
    first, second = left(), left()
    export(tmp_path)
    assert not first.exists() and not second.exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    living, fresh = left(pid=os.getpid()), left(hours=0.5)
    export(tmp_path)
    assert living.exists() and fresh.exists()


def test_what_others_named_alike_stays(tmp_path: Path, left: Callable[..., Path], gone: int) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("all of it")
    one = left()
    link, file = one.with_name(f"{one.name}l"), one.with_name(f"{one.name}f")
    link.symlink_to(precious)
    file.write_text("a file")
    (tmp_path / f".ammeter-{'0' * 12}-{gone}-abc").mkdir()
    (tmp_path / ".ammeter-notes").mkdir()
    for path in tmp_path.iterdir():
        os.utime(path, (0.0, 0.0), follow_symlinks=False)
    export(tmp_path)
    assert not one.exists() and link.is_symlink() and file.exists()
    assert (precious / "thesis.tex").read_text() == "all of it"
    assert (tmp_path / f".ammeter-{'0' * 12}-{gone}-abc").exists() and (tmp_path / ".ammeter-notes").exists()
