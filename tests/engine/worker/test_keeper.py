"""The keeper and the relay: what passes through their files, and what becomes of it when a disk is full."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.worker import relay
from engine.worker.keeper import is_kept, requests_in, worker_environment
from tests.remote import CLONE, RemoteMachine, eventually

WORKER = "0" * 32


class Line:
    """A relay, spoken to as ssh does."""

    def __init__(self, home: Path, at: tuple[int, int] = (0, 0)) -> None:
        program = home / "program" / "current" / "bin" / "python"
        words = [str(program), "-P", "-m", "engine.worker.relay", str(home), WORKER, *map(str, at), "0f"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self.process.stdin and self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def put(self, value: object) -> None:
        self.stdin.write(json.dumps(value).encode() + b"\n")

    def lines(self) -> Iterator[str]:
        while line := self.stdout.readline():
            yield line.decode()

    def until(self, begin: str) -> str:
        return next(line for line in self.lines() if line.startswith(begin))

    def close(self) -> None:
        self.stdin.close()
        self.stdout.close()
        self.process.wait()


def opening(lines: int = 100, patience: tuple[float, float] = (60, 600)) -> dict[str, object]:
    return {"open": {"environment": {"TALK": f"[{lines}, 0.01]"}, "patience": patience}}


def begun(near: RemoteMachine, **more: object) -> Line:
    near.talk()
    line = Line(near.home)
    line.put(opening(**more))  # type: ignore[arg-type]
    line.put({"n": 1, "do": "send", "line": '{"job": "train"}'})
    return line


def test_neither_imports_what_takes_time_or_room():
    code = (
        "import sys, engine.worker.keeper, engine.worker.relay\n"
        "print([name for name in ('torch', 'pydantic', 'psutil', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, cwd=CLONE
    )
    assert done.stdout.strip() == "[]"


def test_opening_it_twice_is_the_same_worker_and_a_number_is_taken_once(near: RemoteMachine) -> None:
    first = begun(near)
    first.until("o")
    second = Line(near.home)
    second.put(opening())
    second.put({"n": 1, "do": "send", "line": '{"job": "train"}'})
    header = json.loads(second.until("ammeter 0f ").removeprefix("ammeter 0f "))
    assert header["taken"] == 1 and header["has_job"] and header["home"] == str(near.home)
    second.until("x")
    second.put({"n": 2, "do": "forget"})
    assert "forgotten" in second.until("g")
    for line in (first, second):
        line.close()
    assert near.folders() == []


def test_half_a_request_of_a_relay_that_was_killed_spoils_none(near: RemoteMachine) -> None:
    line = begun(near, lines=1_000_000)
    line.until("o")
    folder = near.home / "workers" / WORKER
    eventually((folder / "requests").exists)
    line.process.kill()
    line.close()
    with (folder / "requests").open("ab") as file:
        file.write(b'{"n": 2, "do": "se')
    again = Line(near.home)
    again.put({})
    again.put({"n": 2, "do": "kill"})
    again.until("x")
    again.put({"n": 3, "do": "forget"})
    again.until("g")
    again.close()


def test_files_and_folders_are_their_owners_only(near: RemoteMachine) -> None:
    line = begun(near)
    line.until("x")
    folder = near.home / "workers" / WORKER
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}
    line.put({"n": 2, "do": "forget"})
    line.until("g")
    line.close()


def test_it_answers_a_ping_and_goes_with_its_line(near: RemoteMachine) -> None:
    line = begun(near, lines=1_000_000)
    line.put({"ping": 7})
    line.until(".7")
    line.stdin.close()
    eventually(lambda: line.process.poll() == 0)
    again = Line(near.home)
    again.put({})
    again.put({"n": 2, "do": "forget"})
    again.until("g")
    again.close()
    line.close()


def test_endless_errors_take_no_more_room_than_they_may(near: RemoteMachine) -> None:
    near.talk()
    (near.home / "stub" / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if sys.orig_argv[-1] == 'engine.worker':\n"
        "    for number in range(60_000):\n"
        "        sys.stderr.write(f'{number:06d} ' * 10 + chr(10))\n"
        "    sys.stderr.flush()\n"
        "    os._exit(3)\n"
    )
    line = Line(near.home)
    line.put(opening())
    errors = []
    for text in line.lines():
        if text[0] == "e":
            errors.append(text)
        elif text[0] == "x":
            line.put({"n": 1, "do": "forget"})
    assert errors[0].startswith("e000000") and errors[-1].startswith("e059999")
    assert sum(map(len, errors)) < 1.5 * 2**20
    line.close()


def test_a_full_disk_ends_it_and_the_end_is_written_all_the_same(near: RemoteMachine) -> None:
    disk = near.home / "workers"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        line = begun(near, lines=1_000_000)
        line.until("o")
        filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
        with pytest.raises(OSError, match="No space"):
            while True:
                os.write(filler, b"0" * 4_096)
        os.close(filler)
        assert json.loads(line.until("x").removeprefix("x"))["why"] == "full"
        (disk / "filler").unlink()
        line.put({"n": 2, "do": "forget"})
        line.until("g")
        line.close()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_what_nobody_came_back_for_is_removed_after_two_weeks(near: RemoteMachine) -> None:
    old, young, lived = (near.home / "workers" / (digit * 32) for digit in "123")
    for folder in (old, young, lived):
        folder.mkdir(parents=True)
        (folder / "ended").write_text("{}")
    long_ago = time.time() - 15 * 24 * 3_600
    for folder in (old, lived):
        os.utime(folder / "ended", (long_ago, long_ago))
    with (lived / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.utime(lived / "lock", (long_ago, long_ago))
        assert is_kept(lived) and not is_kept(old)
        relay._clean(near.home)
        assert near.folders() == [young, lived]


@pytest.mark.parametrize(
    ("requests", "stays"),
    [(("keep", "send"), True), (("keep", "send", "close", "forget"), False), (("send",), False)],
)
def test_a_run_stays_until_its_reader_has_acknowledged_it_whatever_the_clock_says(near, requests, stays):
    folder = near.home / "workers" / ("4" * 32)
    folder.mkdir(parents=True)
    lines = (json.dumps({"n": number, "do": do}) for number, do in enumerate(requests, 1))
    (folder / "requests").write_text("".join(f"{line}\n" for line in lines))
    (folder / "ended").write_text("{}")
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    relay._clean(near.home)
    assert folder.exists() is stays


@pytest.mark.parametrize("waits", [True, False])
def test_an_allocation_stays_while_a_worker_is_there_that_asked_for_it(near, waits):
    folder, allocation = near.home / "workers" / ("5" * 32), near.home / "allocations" / ("6" * 32)
    for each in (folder, allocation):
        each.mkdir(parents=True)
    asked = {"name": allocation.name, "arguments": []}
    (folder / "opened.json").write_text(json.dumps({"allocation": asked if waits else None}))
    (allocation / "job").write_text("7")
    os.utime(allocation / "job", (0, 0))
    relay._clean(near.home)
    assert folder.exists() and allocation.exists() is waits


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
