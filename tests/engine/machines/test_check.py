"""The doctor of another machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from engine.experiment.problem import ProblemError
from engine.machines.check import check_machine
from engine.machines.machine import Machine
from engine.machines.program import program_id
from engine.machines.ssh import SshConnection, inspect_machine, run_script
from engine.protocol.events import Check

FAR = Machine(name="Far", host="far.example")


def put_program(home: Path, answer: object, program: str = "") -> None:
    """A program there whose every verb prints `answer` as JSON."""
    place = home / ".ammeter" / "program" / (program or program_id())
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
    (place / "bin" / "python").chmod(0o700)
    (place.parent / "current").symlink_to(place.name)


def told(checks: tuple[Check, ...]) -> dict[str, Check]:
    return {check.name: check for check in checks}


READY = {
    "state": "own",
    "torch": "2.11.0+cu130",
    "folder": "/home/me/.ammeter/engine",
    "hardware": {
        "system": "linux",
        "machine": "x86_64",
        "processor": "EPYC",
        "gpus": [{"vendor": "NVIDIA", "name": "NVIDIA H200"}],
    },
    "builds": [],
}


def test_an_empty_home_lacks_the_program_and_nothing_is_written_there(home, near_line):
    machine, checks = check_machine(FAR, near_line())
    found = told(checks)
    assert machine.home == f"{home.resolve()}/.ammeter" and machine.program == ""
    assert found["Program"].status == "problem" and "engine install --machine Far" in found["Program"].remedy
    assert {found[name].status for name in ("Connection", "System", "Folder", "uv")} == {"ok"}
    assert list(home.iterdir()) == []


def test_a_machine_that_is_set_up_has_nothing_to_complain_of(home, near_line):
    put_program(home, READY)
    machine, checks = check_machine(FAR, near_line())
    found = told(checks)
    assert machine.program == program_id()
    assert not [check for check in checks if check.status == "problem"]
    assert found["PyTorch"].detail == "2.11.0+cu130" and found["GPU"].detail == "NVIDIA H200"


ABSENT = {"kind": "no-engine", "message": "The engine is not set up.", "remedy": "Use Help > Engine."}


@pytest.mark.parametrize(
    ("changes", "program", "name", "status", "words"),
    [
        ({}, "0123456789ab", "Program", "note", "0123456789ab"),
        ({"state": "absent", "torch": None, "problem": ABSENT}, "", "PyTorch", "problem", "not set up."),
    ],
)
def test_another_version_and_a_missing_engine_are_told_with_the_command_of_this_side(
    home, near_line, changes, program, name, status, words
):
    put_program(home, READY | changes, program)
    found = told(check_machine(FAR, near_line())[1])[name]
    assert found.status == status and words in found.detail and "--machine Far" in found.remedy


def test_what_the_login_prints_is_told_and_does_not_disturb(home, near_line):
    put_program(home, READY)
    machine, checks = check_machine(FAR, near_line(chatter="Welcome to \\033[31mfar\\nuse tmux\\n"))
    login = told(checks)["Login"]
    assert login.status == "note" and "Welcome to �[31mfar" in login.detail and "\x1b" not in login.detail
    assert machine.program == program_id()


def test_runs_that_nobody_has_read_are_told(home, near_line):
    for name, requests in (("1", '{"n": 1, "do": "keep"}\n'), ("2", '{"n": 1, "do": "send"}\n')):
        folder = home / ".ammeter/workers" / name
        folder.mkdir(parents=True)
        (folder / "requests").write_text(requests)
    unread = told(check_machine(FAR, near_line())[1])["Unread runs"]
    assert "1 run there" in unread.detail and f"{home}/.ammeter/workers" in unread.remedy


def test_a_folder_with_other_files_is_refused(home, near_line):
    (home / "thesis.tex").touch()
    found = told(check_machine(FAR.model_copy(update={"folder": str(home)}), near_line())[1])
    assert found["Folder"].status == "problem" and "other files" in found["Folder"].detail


@pytest.mark.parametrize("answer", ["[]", '{"state": "own"}', '"\\u001b[31m"', "{" * 2_000])
def test_a_program_that_answers_nonsense_is_told(home, near_line, answer):
    put_program(home, READY)
    python = home / ".ammeter/program/current/bin/python"
    python.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    found = told(check_machine(FAR, near_line())[1])
    assert found["Program"].status == "problem" and "\x1b" not in found["Program"].detail


def test_a_machine_that_does_not_answer_is_one_problem(tmp_path, monkeypatch):
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho 'ssh: Could not resolve hostname far.example' >&2\nexit 255\n")
    ssh.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    machine, (check,) = check_machine(FAR, SshConnection(FAR))
    assert check.name == "Connection" and check.status == "problem" and "Could not resolve" in check.detail
    assert machine == FAR


def test_a_login_that_runs_no_shell_is_told(home, near_line, monkeypatch):
    line = near_line()
    monkeypatch.setattr(line, "command", lambda words: ["sh", "-c", "cat >/dev/null; echo only git here"])
    with pytest.raises(ProblemError, match=r"no shell runs there\. Its answer: only git here"):
        run_script(line, "true")


def test_a_home_that_needs_quotes_is_refused(tmp_path, near_line):
    (tmp_path / "my home").mkdir()
    line = near_line()
    line.home = tmp_path / "link"
    line.home.symlink_to(tmp_path / "my home")
    with pytest.raises(ProblemError, match="needs quotes"):
        inspect_machine(line, FAR)


def test_a_script_gets_arguments_of_any_letters_and_no_input(near_line):
    answer = run_script(near_line(), 'cat; printf "%s|" "$@"; false', ["it's; $(rm x)", "a b"])
    assert answer.text == "it's; $(rm x)|a b|" and answer.status == 1
