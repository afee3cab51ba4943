"""The program and the engine, brought to an empty home."""

from __future__ import annotations

import json

import pytest

from engine.experiment.problem import ProblemError
from engine.installation.request import InstallRequest, Source, Stage, StageBegan
from engine.machines.machine import Machine
from engine.machines.program import RemoteInstaller, program_id, remove_all
from tests.engine.machines.conftest import put_python
from tests.wheel_index import WheelIndex

FAR = Machine(name="Far", host="far.example")


def stages(events: list[object]) -> list[Stage]:
    return [event.stage for event in events if isinstance(event, StageBegan)]


@pytest.mark.slow
def test_what_cannot_be_fetched_is_told_and_the_next_attempt_sends_nothing_again(home, near_line, tmp_path):
    (tmp_path / "empty").mkdir()
    line = near_line()
    with WheelIndex(tmp_path / "empty") as empty:
        for _ in range(2):
            with pytest.raises(ProblemError) as failed:
                list(RemoteInstaller(FAR, line).install(InstallRequest(source=Source(mirror=empty.simple))))
            assert "is not in the mirror 127.0.0.1" in failed.value.problem.message
    assert len([words for words in line.asked if words[0] == "tar"]) == 1
    assert not (home / ".ammeter" / "program" / "current").exists()


@pytest.mark.parametrize("folder", [".", "~/", "{home}"])
def test_a_folder_with_other_files_gets_and_loses_nothing(home, near_line, folder):
    # a home that another machine's folder is in, and folders with the names of ours
    for name in (".ammeter", "datasets", "home", "program"):
        (home / name).mkdir()
    machine, line = FAR.model_copy(update={"folder": folder.format(home=home)}), near_line()
    with pytest.raises(ProblemError, match="contains other files"):
        list(RemoteInstaller(machine, line).install(InstallRequest()))
    remove_all(machine, line)
    assert {each.name for each in home.iterdir()} == {".ammeter", "datasets", "home", "program"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        '{"stage": "nothing"}',
        '{"plan": 1}',
        "{}",
        '{"' + "a" * 5_000_000,
        "[" * 50_000,
    ],
)
def test_events_that_are_none_end_it_with_a_sentence(home, near_line, line):
    put_python(home, '{"stage": "resolving"}', line)
    with pytest.raises(ProblemError) as failed:
        list(RemoteInstaller(FAR, near_line()).install(InstallRequest()))
    assert "does not understand" in failed.value.problem.message


def test_a_problem_there_is_told_without_what_a_terminal_would_obey(home, near_line):
    problem = {"kind": "download", "message": "PyPI \x1b[31mcannot be reached.", "remedy": "Check it."}
    put_python(home, json.dumps(problem))
    with pytest.raises(ProblemError) as failed:
        list(RemoteInstaller(FAR, near_line()).install(InstallRequest()))
    assert failed.value.problem.message == "PyPI �[31mcannot be reached."


def test_an_installation_that_is_cut_says_that_it_goes_on(home, near_line):
    put_python(home, '{"stage": "fetching"}')
    with pytest.raises(ProblemError, match="stopped before it was finished") as failed:
        list(RemoteInstaller(FAR, near_line()).install(InstallRequest()))
    assert "continues with the complete packages" in failed.value.problem.remedy


def test_stop_ends_it_without_an_installation(home, near_line):
    put_python(home, '{"stage": "resolving"}')
    script = home / ".ammeter" / "program" / program_id() / "bin" / "python"
    script.write_text(script.read_text().replace("};;", "cat\n};;"))
    installer, seen = RemoteInstaller(FAR, near_line()), []
    for event in installer.install(InstallRequest()):
        seen.append(event)
        installer.stop()
    assert stages(seen) == [Stage.RESOLVING]
