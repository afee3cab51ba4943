"""The command line as it trains, saves, compares, and stops when it is told to.

With real workers where it is their start and their end that count, else with the engine in a thread.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.cli import script
from engine.cli.app import main
from engine.cli.options import parse_ci
from engine.cli.session import status_of
from engine.experiment.checks import Catalog
from engine.experiment.command import STEPS, WARMUP_STEPS, script_line, script_settings
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.paths import checkpoints_folder, store_path
from engine.runner import Runner
from engine.store.record import Status
from engine.store.store import Store
from tests.remote import TOLD

ROOT = Path(__file__).parents[3]
ON_CPU = ["--device", "cpu"]
IN_A_THREAD = ["--target", "thread"]

Capture = pytest.CaptureFixture[str]


def wait_until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    pause, end = threading.Event(), time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it took too long"
        pause.wait(0.05)


def test_run_trains_the_preset_saves_it_and_prints_it_whole(answer):
    status, run = answer("run", "--preset", "hello-amp", *ON_CPU, "--name", "Hello")
    assert status == 0
    assert (run["name"], run["status"]) == ("Hello", "finished")
    assert run["experiment"]["device"] == "cpu" and set(run["experiment"]) == set(Experiment.model_fields)
    assert run["summary"]["steps"] == 3
    assert run["summary"]["samples_per_second"] is None and run["summary"]["speed_note"]
    assert run["summary"]["peak_allocated_mib"] is None
    _, shown = answer("show", run["id"], "--samples")
    assert shown.pop("samples")["step"] == [1, 2, 3]
    assert shown == run


@pytest.mark.slow
def test_compare_trains_every_side_in_alternating_order_and_says_what_it_gained(answer):
    arguments = ["--preset", "hello-amp", *ON_CPU, "--steps", "120", "--set", "measure.warmup_steps=20"]
    arguments += IN_A_THREAD
    sides = ["--precision", "fp32", "--precision", "bf16", "--repeats", "2"]
    status, found = answer("compare", *arguments, *sides)
    assert status == 0
    assert found["baseline"] == "FP32"
    assert [run["label"] for run in found["runs"]] == ["FP32", "BF16 AMP", "BF16 AMP", "FP32"]
    assert {run["experiment"]["steps"] for run in found["runs"]} == {120}
    assert [run["experiment"]["seed"] for run in found["runs"]] == [0, 0, 1, 1]
    base, other = found["variants"]
    assert (base["label"], base["speedup"], base["speedup_ci"]) == ("FP32", 1.0, None)
    assert other["ids"] == [run["id"] for run in found["runs"] if run["label"] == "BF16 AMP"]
    low, high = other["speedup_ci"]
    # what other programs do meanwhile is noted in a run, or shows in its pace: no fault of the comparison's
    quiet = all(run["summary"]["speed_note"] is None for run in found["runs"])
    doubts = ("at the end than at the start", "varied in throughput")
    is_steady = not any(doubt in other["verdict"] for doubt in doubts)
    assert 0 < low <= high and other["clean"] is (quiet and is_steady)
    assert other["spoiled"] is not quiet
    assert ("times as fast" if quiet else "Unreliable measurement") in other["verdict"]
    with Store() as store:
        (comparison,) = store.comparisons()
        assert {run.comparison for run in store.runs()} == {comparison.id}


@pytest.mark.parametrize(
    ("requirement", "repeats", "status", "passed"),
    [("memory <= 900000", "3", 0, True), ("memory >= 900000", "3", 1, False), ("speed >= 1", "1", 3, None)],
)
def test_a_requirement_decides_the_exit_status_and_what_ci_shows(
    answer, trains, tmp_path, requirement, repeats, status, passed
):
    folder = tmp_path / "written"
    folder.mkdir()
    junit, summary = folder / "junit.xml", folder / "summary.md"
    # as GitHub makes it before a step starts
    summary.touch()
    arguments = ["--preset", "hello-amp", *ON_CPU, "--steps", "30", "--repeats", repeats]
    files = ["--junit", str(junit), "--markdown", str(summary)]
    found_status, found = answer("compare", *arguments, "--require", requirement, *files)
    assert (found_status, found["passed"]) == (status, passed), found["requirements"]
    (outcome,) = found["requirements"]
    assert (outcome["requirement"], outcome["side"], outcome["met"]) == (requirement, "BF16 AMP", passed)
    assert outcome["sentence"] in summary.read_text() and outcome["sentence"] in junit.read_text()
    assert sorted(path.name for path in folder.iterdir()) == ["junit.xml", "summary.md"]


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (["--require", "speed > 1"], "require"),
        (["--require", "loss, speed > 1"], "require"),
        (["--require", " , "], "require"),
        (["--require", "speed >= 1", "--sweep", "batch_size=10,20"], "require"),
        (["--junit", "no/such/folder/junit.xml"], "to"),
        (["--markdown", "."], "to"),
    ],
)
def test_wrong_requirements_and_files_are_refused_before_training(refused, options, key):
    assert refused("compare", "--preset", "hello-amp", *ON_CPU, *IN_A_THREAD, *options)["key"] == key


def test_requirements_are_repeated_or_separated_by_commas():
    wanted = parse_ci(["Speed>=1.05, loss", "memory <= 80%"], None, None).requirements
    assert [requirement.text for requirement in wanted] == ["speed >= 1.05", "loss", "memory <= 0.8"]


def test_a_requirement_on_a_single_command_is_refused(refused):
    assert refused("script", "python train.py", "--require", "loss")["key"] == "require"


def test_commands_that_are_empty_or_equal_are_refused(refused):
    same = ("python train.py 'a b'", 'python  train.py "a b" ')
    for commands in ((" ",), ("python train.py", ""), same):
        assert refused("script", *commands)["key"] == "command"
    # the spaces within quotes count
    unlike = (f"no-such-program '{spaces}'" for spaces in (" ", "  "))
    assert refused("script", *unlike, *IN_A_THREAD)["key"] == "command.line"


def test_a_wrong_program_or_folder_is_refused_before_the_first_run(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    typed = ("python train.py", "pyhton train.py --amp")
    wrong: dict[tuple[str, ...], str] = {
        typed: "pyhton was not found. Check its spelling.",
        (*typed[:1], "--folder", "~nobody-here/x"): f"The folder {tmp_path}/~nobody-here/x does not exist.",
        ("python", "train.py"): "python is given without a script. Put the whole command in quotes.",
        ("train.py",): "train.py was not found. Start it with python.",
    }
    for words, sentence in wrong.items():
        error = refused("script", *words, *IN_A_THREAD)
        assert f"{error['message']} {error['remedy']}".startswith(sentence)
    # where a script runs on another machine, only that one can look
    assert refused("script", "python", "train.py", "--machine", "x")["remedy"].startswith("Put the whole")
    with Store() as store:
        assert store.runs() == ()


def test_what_is_wrong_with_a_command_is_said_without_the_key_of_a_setting(capsys):
    assert main(["script", "python train.py", "--venv", "nothing", *IN_A_THREAD]) == 2
    problem, remedy = capsys.readouterr().err.splitlines()
    assert problem == "ammeter: nothing is not a virtual or conda environment."
    assert remedy.strip() == "Select its folder, or none."


def test_the_runs_of_scripts_keep_their_requirements(answer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "train.py"
    file.write_text(TOLD)
    commands = [f"{sys.executable} {file} {kind}" for kind in ("--one", "--other")]
    options = ["--steps", "3", "--warmup", "1", "--repeats", "1", *IN_A_THREAD]
    status, found = answer("script", *commands, *options, "--require", "Memory<=90%", "--require", "loss")
    assert (status, found["passed"]) == (3, None), found
    kept = {run["experiment"]["command"]["require"] for run in found["runs"]}
    assert kept == {"memory <= 0.9, loss"}


def test_commands_whose_names_are_cleaned_are_compared_too(answer, tmp_path):
    junit = tmp_path / "junit.xml"
    options = ["--shell", "--repeats", "1", "--junit", str(junit), *IN_A_THREAD]
    status, found = answer("script", "  true\nexit 3", "  true\nexit 4", *options)
    assert status == 1 and len(found["runs"]) == len(found["variants"]) == 2
    assert junit.exists()


LINES: dict[str, tuple[list[str], dict[str, Any], tuple[int, ...], int]] = {
    "usual": (["python train.py", "python train.py --amp"], {}, (), 5),
    "single": (["python train.py"], {}, (), 2),
    "everything": (
        ["SEED=1 python 'my train.py' > log", 'a "b" $HOME'],
        {"require": "speed >= 1.05, loss", "venv": "old env", "shell": True, "whole": True},
        (40, 7),
        3,
    ),
}


@pytest.mark.parametrize(("lines", "place", "steps", "repeats"), LINES.values(), ids=LINES)
def test_the_line_of_scripts_that_ran_asks_for_the_same_experiments(
    monkeypatch, tmp_path, lines, place, steps, repeats
):
    place = {**place, "folder": str(tmp_path / "my code")}
    (tmp_path / "my code" / "old env" / "bin").mkdir(parents=True)
    experiments = [experiment_from(script_settings(place, line, *steps)) for line in lines]
    asked: list[Any] = []
    monkeypatch.setattr(script, "train_turns", lambda _session, *turns: asked.extend(turns))
    monkeypatch.setattr(script, "print_comparison", lambda *_: 0)
    commands = [experiment.command for experiment in experiments]
    words = shlex.split(script_line(commands, *(steps or (STEPS, WARMUP_STEPS)), repeats))
    assert words[0] == "ammeter" and main([*words[1:], *IN_A_THREAD]) == 0
    sides, turns, _ = asked
    assert [experiment for _, experiment in sides] == experiments and len(turns) == repeats * len(lines)


def test_a_script_that_fails_is_told_with_what_it_printed_last(capsys):
    line = f"'{sys.executable}' -c 'print(123); exit(3)'"
    assert main(["script", line, *IN_A_THREAD]) == 1
    told = capsys.readouterr().err
    assert "exit status 3 before its first step: 123" in told and "| 123" in told


def test_what_only_the_machine_can_refuse_leaves_nothing_behind(answer):
    for verb in ("run", "compare"):
        flags = ["--model", "resnet81", *ON_CPU, *IN_A_THREAD]
        status, found = answer(verb, *flags)
        assert status == 2
        assert (found["error"]["key"], found["error"]["value"]) == ("model", "resnet81")
        assert "resnet18" in found["error"]["remedy"]
        with Store() as store:
            assert store.runs() == () and store.comparisons() == ()


def test_a_run_that_fails_is_saved_and_exits_1_with_the_remedies_that_show_prints(answer, capsys):
    explosion = ["--lr", "1000", "--steps", "200", "--set", "on_nan=fail", "--precision", "fp32"]
    asked = ["run", "--preset", "hello-amp", *ON_CPU, *IN_A_THREAD, *explosion]
    status, found = answer(*asked)
    assert (status, found["error"]["kind"], found["run"]["status"]) == (1, "nan", "failed")
    with Store() as store:
        (run,) = store.runs()
    assert run.status is Status.FAILED and run.problem is not None
    assert run.problem.message == found["error"]["message"]
    assert main(asked) == 1
    told = [line.strip() for line in capsys.readouterr().err.splitlines()]
    assert main(["show", run.id]) == 0
    shown = capsys.readouterr().out.splitlines()
    remedies = [line for line in shown if line.startswith("- ")]
    assert len(remedies) > 1 and [line for line in told if line.startswith("- ")] == remedies


def test_a_run_that_lacks_what_was_asked_for_says_so_everywhere(answer, capsys):
    # a file in the place of the folder: nobody can write there, not even root
    checkpoints_folder(store_path()).parent.mkdir(parents=True, exist_ok=True)
    checkpoints_folder(store_path()).touch()
    status, run = answer(
        "run", "--preset", "hello-amp", *ON_CPU, *IN_A_THREAD, "--set", "checkpoint.last=true"
    )
    assert (status, run["status"]) == (4, "finished")
    assert list(run["summary"]["not_done"]) == ["checkpoint.last"]
    assert main(["show", run["id"]]) == 0
    assert "Not applied" in capsys.readouterr().out
    with Store() as store:
        assert status_of(store.runs()) == 4
    assert "checkpoint.last was not done" in capsys.readouterr().err


@pytest.fixture
def heard() -> Iterator[None]:
    """What is started hears Ctrl+C, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "engine", *arguments, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def has_trained(store: Store) -> bool:
    return bool(store.runs()) and len(store.samples(store.runs()[0].id)) > 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send to one process")
@pytest.mark.usefixtures("heard")
def test_ctrl_c_stops_the_run_saves_what_was_trained_and_it_is_resumed_to_its_end(answer):
    # saved when it is stopped alone: each save waits for the disk
    long = ["--steps", "2000", "--set", "checkpoint.last=true", "--set", "checkpoint.every=1000000"]
    process = start("run", "--preset", "hello-amp", *ON_CPU, *long)
    with process, Store() as store:
        wait_until(lambda: has_trained(store))
        workers = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, "")
        run = store.runs()[0]
    assert workers and not psutil.wait_procs(workers, timeout=30)[1]
    stopped = json.loads(out)
    assert (stopped["id"], stopped["status"]) == (run.id, "stopped")
    assert run.summary is not None and 0 < run.summary.steps == stopped["summary"]["steps"] < 2_000
    status, resumed = answer("resume", stopped["id"][:6], *IN_A_THREAD)
    assert (status, resumed["id"], resumed["status"]) == (0, stopped["id"], "finished")
    assert resumed["summary"]["steps"] == 2_000
    with Store() as store:
        assert store.samples(stopped["id"])["step"].tolist() == list(range(1, 2_001))
    assert answer("resume", stopped["id"], *IN_A_THREAD)[0] == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send to one process")
@pytest.mark.usefixtures("heard")
def test_ctrl_c_before_anything_was_trained_leaves_one_answer_and_no_run() -> None:
    with start("compare", "--preset", "hello-amp") as process:
        wait_until(lambda: bool(psutil.Process(process.pid).children()))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert set(json.loads(out)) == {"error"}
    with Store() as store:
        assert store.runs() == () and store.comparisons() == ()


TRAINS = ["run", "--preset", "hello-amp", *ON_CPU, *IN_A_THREAD, "--json", "--steps"]
HEARS = "import signal; [signal.signal(number, signal.SIG_DFL) for number in (signal.SIGHUP, signal.SIGTERM)]"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to send to one process")
def test_sigterm_stops_the_run_as_ctrl_c_does_with_its_own_status(start_program) -> None:
    with start_program(*TRAINS, "1000000", first=HEARS) as process, Store() as store:
        wait_until(lambda: has_trained(store))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        (run,) = store.runs()
    assert (process.returncode, err) == (143, b"")
    assert json.loads(out)["status"] == run.status == Status.STOPPED
    assert run.summary is not None and 0 < run.summary.steps < 1_000_000


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
def test_without_its_terminal_a_run_stops_and_is_saved(start_program) -> None:
    ours, its = os.openpty()
    # the first terminal that the leader of a session opens is its own
    on_terminal = (
        f"{HEARS}; import os; terminal = os.open({os.ttyname(its)!r}, os.O_RDWR)\n"
        "for number in range(3): os.dup2(terminal, number)"
    )
    with start_program(*TRAINS, "1000000", first=on_terminal) as process, Store() as store:
        is_enough = threading.Event()
        reader = threading.Thread(target=read_until, args=(ours, is_enough), daemon=True)
        reader.start()
        try:
            wait_until(lambda: has_trained(store))
            # not before the program has opened it: the other end could not be read
            os.close(its)
            is_enough.set()
            assert process.wait(timeout=60) == 129
        finally:
            process.kill()
        reader.join()
        (run,) = store.runs()
    assert run.status is Status.STOPPED and run.summary is not None


def read_until(terminal: int, is_enough: threading.Event) -> None:
    """Reads what is shown on a terminal, so that nobody waits to write there, and closes it in the end."""
    while not is_enough.is_set():
        os.read(terminal, 4_096)
    os.close(terminal)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
def test_with_nohup_a_run_outlives_its_terminal(start_program) -> None:
    nohup = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    with start_program(*TRAINS, "600", first=nohup) as process, Store() as store:
        wait_until(lambda: has_trained(store))
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=100)
    assert (process.returncode, json.loads(out)["status"]) == (0, "finished")


def test_ctrl_c_that_comes_too_late_to_stop_the_catalog_still_trains_nothing(answer, monkeypatch):
    read = Runner.catalog

    def read_then_interrupted(runner: Runner) -> Catalog:
        catalog = read(runner)
        signal.raise_signal(signal.SIGINT)
        return catalog

    monkeypatch.setattr(Runner, "catalog", read_then_interrupted)
    status, found = answer("compare", "--preset", "hello-amp", *IN_A_THREAD)
    assert status == 130 and set(found) == {"error"}
    with Store() as store:
        assert store.runs() == () and store.comparisons() == ()


def test_catalog_and_doctor_answer(answer):
    status, catalog = answer("catalog", *IN_A_THREAD)
    assert status == 0
    assert catalog["devices"][-1]["name"] == "cpu"
    assert {"linear", "small-cnn", "resnet18"} <= {model["name"] for model in catalog["models"]}
    assert "fashion" in {dataset["name"] for dataset in catalog["datasets"]}
    assert catalog["library_models"]["timm"] > 1_000
    status, listed = answer("catalog", "--library", "hf", *IN_A_THREAD)
    assert status == 0 and len(listed["models"]) == catalog["library_models"]["hf"]
    assert {"hf:llama": "language", "hf:vit": "classification", "hf:albert": "own"}.items() <= {
        model["name"]: model["task"] for model in listed["models"]
    }.items()
    status, found = answer("doctor", *IN_A_THREAD)
    wrong = [check for check in found["checks"] if check["status"] == "problem"]
    assert status == (1 if wrong else 0) and ("error" in found) == bool(wrong)
