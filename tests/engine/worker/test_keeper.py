"""The keeper and the follower: what passes through their files, also when a disk is full."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.worker import follower
from engine.worker.keeper import CANCELED, is_kept, requests_in, worker_environment
from tests.remote import CLONE, RemoteMachine, eventually

WORKER = "0" * 32
MARK = "ammeter 0f "


class Line:
    """A follower, spoken to as ssh does."""

    def __init__(self, near: RemoteMachine, first: object, at: int = 0) -> None:
        self.near, self.folder = near, near.home / "workers" / WORKER
        words = [*self.words("follow"), str(at), "0f"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self.process.stdin and self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.put(first)
        self.header = self.until("protocol")

    def words(self, verb: str) -> list[str]:
        program = self.near.home / "program" / "current" / "bin" / "python"
        return [str(program), "-P", "-m", "engine.remote_main", str(self.near.home), verb, WORKER]

    def put(self, value: object) -> None:
        self.stdin.write(json.dumps(value).encode() + b"\n")

    def lines(self) -> Iterator[str]:
        while line := self.stdout.readline():
            yield line.decode()

    def until(self, key: str) -> dict[str, object]:
        """The follower's next line of its own with that key."""
        own = (json.loads(line[len(MARK) :]) for line in self.lines() if line.startswith(MARK))
        return next(line for line in own if key in line)

    def forget(self) -> None:
        subprocess.run(self.words("forget"), check=True)
        self.close()
        assert self.near.folders() == []

    def close(self) -> None:
        self.stdin.close()
        self.stdout.close()
        self.process.wait()


def opening(lines: int = 100) -> dict[str, object]:
    return {"open": {"environment": {"TALK": f"[{lines}, 0.01]"}, "patience": (60, 600)}}


def begun(near: RemoteMachine, lines: int = 100) -> Line:
    near.talk()
    line = Line(near, opening(lines))
    line.put({"n": 1, "do": "send", "line": '{"job": "train"}'})
    return line


def test_neither_imports_what_takes_time_or_room():
    code = (
        "import sys, engine.remote_main\n"
        "print([name for name in ('torch', 'pydantic', 'psutil', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, cwd=CLONE
    )
    assert done.stdout.strip() == "[]"


def test_one_worker_is_opened_once_answers_and_is_its_owners_only(near: RemoteMachine) -> None:
    first = begun(near)
    first.put({"ping": 7})
    assert first.until("ping") == {"ping": 7}
    # opened again, it is the same worker, and a number is taken once
    second = Line(near, opening())
    assert second.header["taken"] == 1 and second.header["has_job"] and second.header["has_begun"]
    assert second.header["home"] == str(near.home)
    second.put({"n": 1, "do": "send", "line": '{"job": "train"}'})
    assert second.until("status") == {"status": 0, "why": ""}
    assert first.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in first.folder.iterdir()} == {0}
    first.close()
    second.forget()


def test_half_a_request_of_a_follower_that_was_killed_spoils_none(near: RemoteMachine) -> None:
    line = begun(near, lines=1_000_000)
    eventually((line.folder / "requests").exists)
    line.process.kill()
    line.close()
    with (line.folder / "requests").open("ab") as file:
        file.write(b'{"n": 2, "do": "se')
    again = Line(near, {})
    again.put({"n": 2, "do": "kill"})
    assert again.until("status")["status"] == -9
    again.forget()


def test_half_an_event_of_a_worker_that_was_killed_is_canceled(near: RemoteMachine) -> None:
    (near.home / "stub").mkdir()
    (near.home / "stub" / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if sys.orig_argv[-1] == 'engine.worker':\n"
        '    os.write(1, b\'{"event": "hea\')\n'
        "    os.write(2, b'last words\\n')\n"
        "    os._exit(3)\n"
    )
    line = Line(near, opening())
    assert line.until("status")["status"] == 3
    half, words = (line.folder / "events").read_bytes().splitlines(keepends=True)
    assert half == b'{"event": "hea' + CANCELED
    assert json.loads(words) == {"event": "log", "level": "stderr", "message": "last words"}
    line.forget()


def test_a_worker_ends_whose_folder_was_removed_and_its_follower_says_so(near: RemoteMachine) -> None:
    with closing(begun(near, lines=1_000_000)) as line:
        eventually((line.folder / "requests").exists)
        line.folder.rename(near.home / "moved")
        assert line.until("gone")["gone"] == "unknown"
        eventually(lambda: not near.running())


def test_endless_errors_take_no_more_room_than_they_may(near: RemoteMachine) -> None:
    (near.home / "stub").mkdir()
    (near.home / "stub" / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if sys.orig_argv[-1] == 'engine.worker':\n"
        "    for number in range(60_000):\n"
        "        sys.stderr.write(f'{number:06d} ' * 10 + chr(10))\n"
        "    sys.stderr.flush()\n"
        "    os._exit(3)\n"
    )
    line = Line(near, opening())
    line.until("status")
    told = [
        json.loads(each) for each in (line.folder / "events").read_bytes().split(b"\n") if each[:1] == b"{"
    ]
    assert told[0]["message"].startswith("000000") and told[-1]["message"].startswith("059999")
    assert len(told) == 2_200
    line.forget()


@pytest.mark.slow
def test_a_full_disk_ends_it_and_the_end_is_written_all_the_same(near: RemoteMachine) -> None:
    disk = near.home / "workers"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        line = begun(near, lines=1_000_000)
        eventually((line.folder / "requests").exists)
        filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
        with pytest.raises(OSError, match="No space"):
            while True:
                os.write(filler, b"0" * 4_096)
        os.close(filler)
        assert line.until("why")["why"] == "full"
        (disk / "filler").unlink()
        line.forget()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def folder_of(near: RemoteMachine, digit: str, kind: str = "workers", **files: str) -> Path:
    folder = near.home / kind / (digit * 32)
    folder.mkdir(parents=True)
    for name, text in {"ended": "{}", **files}.items():
        (folder / name.replace("_", ".")).write_text(text)
        os.utime(folder / name.replace("_", "."), (0, 0))
    return folder


def test_what_nobody_came_back_for_is_removed_after_two_weeks(near: RemoteMachine) -> None:
    def requests(*verbs: str) -> str:
        return "".join(json.dumps({"n": number, "do": do}) + "\n" for number, do in enumerate(verbs, 1))

    lives = folder_of(near, "1", lock="")
    job = folder_of(near, "6", "allocations")
    waits = folder_of(
        near, "5", requests=requests("keep"), opened_json=f'{{"allocation": {{"name": "{"6" * 32}"}}}}'
    )
    stays = [
        lives,
        folder_of(near, "2", requests=requests("keep", "send")),
        waits,
        job,
    ]
    goes = [
        folder_of(near, "3"),
        folder_of(near, "4", requests=requests("send")),
        folder_of(near, "7", opened_json="[]"),
        folder_of(near, "8", "allocations"),
    ]
    young = folder_of(near, "9")
    (young / "seen").touch()
    (near.home / "workers" / "notes").touch()
    with (lives / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert is_kept(lives) and not is_kept(young)
        follower.clean(near.home)
    assert [each.exists() for each in (*stays, young, *goes)] == [True] * 5 + [False] * 4


def test_only_whole_requests_are_ones():
    lines = b'{"n": 1, "do": "kill"}\n{"n": 2, "do"\n[]\n{"do": "kill"}\n\xff\n{"n": 3, "do": "keep"}\n'
    assert [request["n"] for request in requests_in(lines)] == [1, 3]


@pytest.mark.parametrize("options", [(), ("-P",)])
def test_neither_a_worker_nor_what_it_starts_imports_from_its_current_folder(options, tmp_path, monkeypatch):
    (tmp_path / "planted.py").touch()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "named.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(["", ".", str(tmp_path / "kept"), "../" + tmp_path.name])
    )

    def imports(name: str) -> bool:
        command = [sys.executable, *options, "-S", "-c", f"import {name}"]
        done = subprocess.run(command, env=worker_environment({}), capture_output=True, check=False)
        return done.returncode == 0

    assert imports("named") and not imports("planted")
