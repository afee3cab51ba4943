"""The kit for a machine with a card: its table and its processes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import bundle
from day import command
from day.figures import FIGURES
from day.results import Ended, Results, Seen
from day.steps import STEPS
from day.steps.tests import PLUGINS

# A step that tells a figure, starts a process of its own, and never ends.
_ENDLESS = """
import subprocess, sys, time
from pathlib import Path
told = Path(sys.argv[sys.argv.index("--told") + 1])
told.write_text('{{"key": "show", "value": 48.0, "detail": "by a stand-in"}}\\n')
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("begun", flush=True)
Path({pid!r}).write_text(str(child.pid))
time.sleep(600)
"""
_DONE = """
import json, sys
from pathlib import Path
told = Path(sys.argv[sys.argv.index("--told") + 1])
told.write_text(json.dumps({{"step": {name!r}, "seconds": 1.0, "problem": {problem!r}}}) + "\\n")
"""


def seen(**values: float) -> Results:
    return Results(figures={key.replace("_", "-"): Seen(value=value) for key, value in values.items()})


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def rows(results: Results) -> dict[str, list[str]]:
    """The cells of the table's rows, by the figure's title."""
    lines = [line for line in results.markdown().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.split(" | ")] for line in lines]
    return {row[0].removeprefix("| "): row for row in cells}


@pytest.mark.parametrize(
    ("key", "value", "verdict"),
    [
        ("resnet50-64-fast", 0.97, "met"),
        ("resnet50-64-fast", 0.969, "missed"),
        ("limit-fp16", 555, "met"),
        ("limit-fp16", 554, "missed"),
        ("show", 60, "missed"),
        ("mfu", 0.99, "met"),
        ("mfu", float("nan"), "missed"),
    ],
)
def test_a_figure_is_held_against_its_aim(key: str, value: float, verdict: str) -> None:
    results = seen(**{key.replace("-", "_"): value})
    assert results.verdict(key) == verdict
    row = rows(results)[FIGURES[key].title]
    assert row[1] == FIGURES[key].aim and row[3] == verdict


def test_every_figure_is_one_of_a_step_and_every_step_is_a_function() -> None:
    assert {figure.step for figure in FIGURES.values()} <= set(STEPS)
    for step in STEPS.values():
        module, _, function = step.do.partition(":")
        text = (Path(command.__file__).parent / "steps" / f"{module}.py").read_text(encoding="utf-8")
        assert re.search(rf"^def {function}\(work: Work\)", text, re.MULTILINE), step.do


def test_a_step_that_does_not_tell_its_figures_is_found_out() -> None:
    done = {"show": Ended(seconds=1.0), "tax": Ended(seconds=1.0), "energy": Ended(seconds=1.0)}
    results = Results(
        steps=done, figures=seen(telemetry_plain=1, telemetry_control=0, waits_fast=0, waits_fused=0).figures
    )
    assert results.unreported() == ["telemetry-fast", "show"], "energy needs a counter"


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., command.Day]:
    """A day whose steps are done by the text of a script in place of the kit."""

    def stand(script: str, results: Results | None = None, seconds: float = 60) -> command.Day:
        kit = tmp_path / "tests" / "gpu" / "day"
        kit.mkdir(parents=True, exist_ok=True)
        (kit / "__main__.py").write_text(script, encoding="utf-8")
        monkeypatch.setattr(command, "ROOT", tmp_path)
        return command.Day(tmp_path, tmp_path, results or Results(), seconds)

    return stand


def test_a_step_that_outlasts_its_time_is_ended_with_all_that_it_started(
    stand: Callable[..., command.Day], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"

    class Impatient(subprocess.Popen[str]):
        """Its time is over once it has begun, however long that takes."""

        def wait(self, timeout: float | None = None) -> int:
            if timeout == 600 + command._MARGIN_SECONDS / 2:
                while not (pid.exists() and pid.read_text()) and self.poll() is None:
                    time.sleep(0.01)
                raise subprocess.TimeoutExpired(self.args, timeout)
            return super().wait(timeout)

    results = Results()
    day = stand(_ENDLESS.format(pid=str(pid)), results, seconds=10_000)
    monkeypatch.setattr(command.subprocess, "Popen", Impatient)
    assert not day._process(["show"], 600, shows=True)
    assert results.figures["show"].value == 48, "what was told before is kept"
    assert results.steps["show"].problem == "ended after 600 s"
    assert "begun" in (tmp_path / "day.log").read_text()
    # whoever inherits it takes a moment to bury it
    until = time.monotonic() + 30
    while not is_gone(int(pid.read_text())):
        assert time.monotonic() < until


def test_a_step_that_dies_is_told_and_the_next_is_done(
    stand: Callable[..., command.Day], capsys: pytest.CaptureFixture[str]
) -> None:
    results = Results()
    day = stand("import os; os._exit(7)", results)
    assert not day.run(["show"]) and results.steps["show"].problem == "died with status 7"
    assert stand(_DONE.format(name="tax", problem=""), results).run(["tax"])
    assert list(results.steps) == ["show", "tax"]


@pytest.mark.parametrize(
    ("problem", "figures", "is_well"), [("", "mfu", False), ("it broke", "show", False), ("", "show", True)]
)
def test_a_rehearsal_fails_by_a_problem_and_by_a_figure_that_is_not_told(
    stand: Callable[..., command.Day], problem: str, figures: str, is_well: bool
) -> None:
    results = Results(is_rehearsal=True, figures={figures: Seen(value=1.0)})
    day = stand(_DONE.format(name="show", problem=problem), results)
    assert day.rehearse(["show"]) is is_well


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "no step nothing"),
        (["speed"], "no step speed"),
        (["speed", "alexnet"], "no step speed alexnet"),
    ],
)
def test_a_step_that_does_not_exist_is_refused(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["day", *words])
    with pytest.raises(SystemExit):
        command.main()
    assert said in capsys.readouterr().err


def test_earlier_results_alone_make_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, results in (("first", seen(show=48)), ("second", seen(mfu=0.5))):
        (tmp_path / f"{name}.json").write_text(results.model_dump_json(), encoding="utf-8")
    earlier = [word for name in ("first", "second") for word in ("--earlier", str(tmp_path / f"{name}.json"))]
    monkeypatch.setattr(sys, "argv", ["day", *earlier, "--out", str(tmp_path / "out")])
    assert command.main() == 0
    assert set(json.loads((tmp_path / "out" / "day.json").read_text())["figures"]) == {"show", "mfu"}
    assert "**48 s**" in capsys.readouterr().out


def names_of(requirements: list[str]) -> set[str]:
    return {bundle.name_of(requirement) for requirement in requirements}


def test_the_bundle_has_whatever_the_project_needs_and_torch_does_not_bring() -> None:
    project = bundle.project()
    names = names_of(project["project"]["dependencies"])
    needed = bundle.needed(project)
    resolved = [
        f"{name}==1.0" for name in (*names, "pytest", "typing-extensions", "markupsafe", "shiboken6", "sympy")
    ]
    there = [
        "torch==2.11",
        "numpy==1.0",
        "jinja2==1.0",
        "markupsafe==1.0",
        "sympy==1.0",
        "typing_extensions==1.0",
    ]
    packed = names_of(bundle.packed(resolved, there, needed))
    assert names - set(bundle.OWN) <= packed and "wakepy" in packed and "jinja2" in packed
    assert {"pytest", "shiboken6", "typing-extensions"} <= packed and "torchao" in names_of(needed)
    assert not packed & {*bundle.OWN, "markupsafe", "sympy"}


def test_the_bundle_has_the_plugins_of_the_tests_and_no_checker() -> None:
    needed = names_of(bundle.needed(bundle.project()))
    plugins = {
        plugin.partition(".")[0].replace("pytestqt", "pytest-qt").replace("_", "-") for plugin in PLUGINS
    }
    assert {"pytest-xdist" if plugin == "xdist" else plugin for plugin in plugins} - {"day"} <= needed
    assert "pytest" in needed and "torch" in needed and "ruff" not in needed and "pandas" not in needed
