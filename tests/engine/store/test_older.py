"""A store of an older format is set aside: no kill, full disk or other program loses it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine.cli.app import main
from engine.doctor.doctor import store_check
from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.store import database
from engine.store.database import older_stores
from engine.store.schema import VERSION
from engine.store.store import Store

FORMAT = VERSION - 1
SENTENCE = rf"written by an older Ammeter \(format {FORMAT}\), which version .* cannot read\."
KILLED_AT_EACH_STEP = """
import json, os, shutil, signal, sqlite3, sys
from pathlib import Path
from engine.store import database
from engine.store.store import Store

before, path = Path(sys.argv[1]), Path(sys.argv[2])
connect, rename = database._connect, Path.rename

def dies_at(number):
    left = [number]
    def count(_=None):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    def counted(*arguments):
        connection = connect(*arguments)
        connection.set_trace_callback(count)
        return connection
    def counted_rename(*arguments):
        count()
        rename(*arguments)
        count()
    database._connect, Path.rename = counted, counted_rename
    Store(path)
    os._exit(0)

for number in range(1, 1000):
    shutil.rmtree(path.parent, ignore_errors=True)
    shutil.copytree(before, path.parent)
    child = os.fork()
    if child == 0:
        dies_at(number)
    status = os.waitpid(child, 0)[1]
    with Store(path) as store:
        new = len(store.runs())
    (older,) = database.older_stores(path)
    connection = sqlite3.connect(older)
    names = [row[0] for row in connection.execute("SELECT name FROM runs")]
    whole = connection.execute("PRAGMA integrity_check").fetchone()[0]
    connection.close()
    print(json.dumps([new, names, whole]), flush=True)
    if os.WIFEXITED(status):
        break
"""


def names_in(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT name FROM runs")]


def killed_while_writing(path: Path) -> None:
    """Leaves what was written last in the log, as a kill does."""
    script = (
        "import os, sqlite3, sys\nconnection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute(\"UPDATE runs SET name = 'In the log'\")\nos._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    assert path.with_name(f"{path.name}-wal").stat().st_size


def test_it_is_kept_with_its_log_under_a_name_that_is_said_and_a_new_one_is_begun(path, older):
    older()
    killed_while_writing(path)
    with Store(path) as store:
        assert store.runs() == () and store.unwritable is None
        (first,) = older_stores(path)
        assert first.name == f"ammeter-format{FORMAT}.sqlite" and str(first) in store.moved
        store.add(Experiment(), name="New")
    assert names_in(first) == ["In the log"] and names_in(path) == ["New"]
    assert {entry.name for entry in path.parent.iterdir()} == {path.name, first.name}
    with Store(path) as store:
        assert not store.moved


def test_it_replaces_no_earlier_one_and_no_file_of_its_name(path, older):
    path.parent.mkdir()
    taken = path.with_name(f"ammeter-format{FORMAT}.sqlite")
    taken.write_text("mine")
    for _ in range(2):
        path.unlink(missing_ok=True)
        older()
        Store(path).close()
    assert taken.read_text() == "mine"
    assert [names_in(path.with_name(f"ammeter-format{FORMAT}-{n}.sqlite")) for n in (2, 3)] == [["Old"]] * 2


def test_while_another_program_has_it_open_it_stays(path, older, monkeypatch):
    older()
    monkeypatch.setattr(database, "_OLDER_SECONDS", 0.05)
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT * FROM runs").fetchall()
        with pytest.raises(ProblemError, match=f"{SENTENCE} Another program has them open"):
            Store(path)
        assert names_in(path) == ["Old"] and not older_stores(path)
    with Store(path) as store:
        assert store.moved


ADDER = """
import sys
from pathlib import Path
from engine.experiment.experiment import Experiment
from engine.store.store import Store

with Store(Path(sys.argv[1])) as store:
    for _ in range(5):
        store.add(Experiment())
    print(bool(store.moved))
"""


@pytest.mark.slow
def test_several_programs_that_find_it_at_once_set_it_aside_once_and_share_the_new_one(path, older):
    older()
    killed_while_writing(path)
    root = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", ADDER, str(path)]
    started = [subprocess.Popen(command, env=root, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate()[0] for process in started]
    assert sorted(said) == ["False\n"] * 3 + ["True\n"]
    assert [names_in(place) for place in older_stores(path)] == [["In the log"]]
    with Store(path) as store:
        assert [run.number for run in store.runs()] == list(range(20, 0, -1))
        assert store._connection.read("PRAGMA integrity_check")[0][0] == "ok"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the kills are in forks")
def test_killed_at_any_step_nothing_of_it_is_lost(path, older, tmp_path):
    older()
    killed_while_writing(path)
    again = tmp_path / "again" / path.name
    command = [sys.executable, "-c", KILLED_AT_EACH_STEP, str(path.parent), str(again)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    assert len(lines) > 15 and all(line == [0, ["In the log"], "ok"] for line in lines)


def test_where_nothing_can_be_written_it_stays_and_is_refused(path, older, read_only, no_room):
    older()
    before = path.read_bytes()
    for hindered in (lambda: read_only(path.parent), no_room):
        with hindered(), pytest.raises(ProblemError, match=f"{SENTENCE} Their file cannot be moved"):
            Store(path)
        assert path.read_bytes() == before and not older_stores(path)
    with Store(path) as store:
        assert store.moved


def test_an_older_store_that_comes_while_one_is_open_is_set_aside_too(path, older, tmp_path):
    older()
    path.rename(tmp_path / "kept")
    with Store(path) as store:
        store.add(Experiment(), name="New")
        store.close()
    with Store(path) as store:
        path.unlink()
        (tmp_path / "kept").rename(path)
        assert store.runs() == () and store.moved


def test_a_newer_store_names_the_one_of_this_version(path):
    Store(path).close()
    mine = path.with_name(f"ammeter-format{VERSION}.sqlite")
    path.rename(mine)
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(ProblemError, match="newer Ammeter") as caught:
        Store(path)
    assert f"rename {mine} to {path.name}" in caught.value.problem.remedy


def test_a_command_says_it_once_on_stderr_and_doctor_where_it_is(
    home: Path, older: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / "ammeter.sqlite"
    older(path)
    assert main(["results", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["runs"] == []
    (place,) = older_stores(path)
    assert said.err.count("\n") == 1 and str(place) in said.err
    assert main(["results", "--json"]) == 0 and not capsys.readouterr().err
    assert str(place) in store_check(path).detail
