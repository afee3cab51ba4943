"""Code that came from elsewhere is shown and asked about before its first run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.command import Command
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import Code, read_code
from engine.experiment.problem import ProblemError
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.session.experiments import Experiments
from gui.setup.model.report import AcceptDialog
from gui.window.main_window import MainWindow

CODE = Code(
    file="net.py", folder="/elsewhere", text="def model(): ...\n", beside={"layers.py": "WIDTH = 8\n"}
)
EXPERIMENT = Experiment(model="net.py", code=CODE.to_json())
PLANTED = """
from pathlib import Path
Path({marker!r}).touch()

import torch

def model():
    return torch.nn.Linear(2, 3)

def batch(size):
    return torch.zeros(size, 2), torch.zeros(size, dtype=torch.int64)
"""


@pytest.fixture
def experiments(qtbot: QtBot, store: Store) -> Iterator[Experiments]:
    made = Experiments(store, Launcher(Target.THREAD))
    yield made
    made.shut_down()


def test_nothing_runs_before_the_code_was_accepted(experiments: Experiments) -> None:
    asked: list[Code] = []
    experiments.trust.ask = lambda code: bool(asked.append(code)) or len(asked) > 1
    with pytest.raises(ProblemError, match="did not allow"):
        experiments.submit("", [("FP32", EXPERIMENT)])
    assert experiments.runs.records() == ()
    for _ in range(2):
        experiments.submit("", [("FP32", EXPERIMENT)])
    assert asked == [CODE, CODE], "accepted code is not asked about again"


def test_a_command_is_shown_in_full_before_it_runs(experiments: Experiments, qtbot: QtBot) -> None:
    asked: list[Command] = []
    experiments.trust.ask = lambda command: bool(asked.append(command)) or len(asked) > 1
    script = experiment_from({"command": {"line": f"python train.py {'x' * 2_000}", "folder": "/far"}})
    with pytest.raises(ProblemError, match="did not allow the command"):
        experiments.submit("", [("train.py", script)])
    for _ in range(2):
        experiments.submit("", [("train.py", script)])
    assert asked == [script.command] * 2
    dialog = AcceptDialog(script.command)
    qtbot.addWidget(dialog)
    assert dialog.text.toPlainText() == f"# Runs in /far\n{script.command.line}"
    assert dialog.windowTitle() == "Run this command?"


def test_a_file_that_the_user_chose_is_trusted(start: Callable[[], MainWindow], tmp_path: Path) -> None:
    window = start()
    window.experiments.trust.ask = lambda _code: pytest.fail("asked")
    path = tmp_path / "net.py"
    path.write_text("def model(): ...\n")
    window.setup.picker.open(str(path))
    _, experiment = window.setup.outcome().experiments[0]
    window.experiments.submit("", [("FP32", experiment)])


def test_a_run_that_waited_elsewhere_is_asked_about_before_it_waits_here(
    experiments: Experiments, store: Store
) -> None:
    run, asked = store.add(EXPERIMENT), list[Code]()
    experiments.load()
    experiments.trust.ask = lambda code: bool(asked.append(code))
    experiments.resume_waiting([run.id])
    assert asked == [CODE] and experiments.waiting == ()


@pytest.mark.slow
def test_a_planted_file_runs_by_no_way_before_it_was_accepted(
    tiny_window: MainWindow, store: Store, tmp_path: Path, qtbot: QtBot
) -> None:
    marker, planted, window = tmp_path / "was_run", tmp_path / "evil.py", tiny_window
    planted.write_text(PLANTED.format(marker=str(marker)), encoding="utf-8")
    shown: list[str] = []
    window.experiments.trust.ask = lambda code: bool(shown.append(code.text))
    run = store.add(Experiment(model=str(planted), device="cpu", steps=1, batch_size=2))
    window.experiments.runs.reload()
    thread = window.experiments._thread

    def is_own(experiment: Experiment, _made: object) -> bool:
        return experiment.own_code is not None

    with qtbot.waitSignal(thread.forecast_made, timeout=60_000, check_params_cb=is_own) as made:
        window.runs.use_settings_requested.emit(store.run(run.id))
    wanted, forecast = made.args
    assert wanted.own_code == read_code(planted) and forecast is None
    for action in (window.setup.run_action, window.setup.check_action):
        action.trigger()
    for question in ("limit", "numerics", "profile", "tune"):
        window.setup.submit(question)
    text = planted.read_text(encoding="utf-8")
    assert len(shown) >= 6 and set(shown) == {text}
    assert window.experiments.is_idle and not marker.exists()
    window.experiments.trust.ask = lambda _code: True
    with qtbot.waitSignal(window.experiments.checked, timeout=60_000):
        window.setup.check_action.trigger()
    assert marker.exists()


def test_all_of_the_code_is_shown_and_where_it_runs(qtbot: QtBot) -> None:
    dialog = AcceptDialog(CODE)
    qtbot.addWidget(dialog)
    shown = dialog.text.toPlainText()
    assert CODE.text in shown and "# layers.py" in shown and CODE.beside["layers.py"] in shown
    assert "net.py, runs in /elsewhere" in shown
    dialog.run.click()
    assert dialog.result() == AcceptDialog.DialogCode.Accepted
