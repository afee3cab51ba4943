"""Code that came from elsewhere is shown and asked about before its first run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code
from engine.experiment.problem import ProblemError
from gui.setup.model.accept import AcceptDialog
from gui.window.main_window import MainWindow

CODE = Code(
    file="net.py", folder="/elsewhere", text="def model(): ...\n", beside={"layers.py": "WIDTH = 8\n"}
)
EXPERIMENT = Experiment(model="net.py", code=CODE.to_json())


def test_nothing_runs_before_the_code_was_accepted(start: Callable[[], MainWindow]) -> None:
    experiments = start().experiments
    asked: list[Code] = []
    experiments.trust.ask = lambda code: bool(asked.append(code)) or len(asked) > 1
    with pytest.raises(ProblemError, match="was not accepted"):
        experiments.submit("", [("FP32", EXPERIMENT)])
    assert experiments.runs.records() == ()
    for _ in range(2):
        experiments.submit("", [("FP32", EXPERIMENT)])
    assert asked == [CODE, CODE], "accepted code is not asked about again"


def test_a_file_that_the_user_chose_is_trusted(start: Callable[[], MainWindow], tmp_path: Path) -> None:
    window = start()
    window.experiments.trust.ask = lambda _code: pytest.fail("asked")
    path = tmp_path / "net.py"
    path.write_text("def model(): ...\n")
    window.setup.picker.open(str(path))
    _, experiment = window.setup.outcome().experiments[0]
    window.experiments.submit("", [("FP32", experiment)])


def test_all_of_the_code_is_shown(start: Callable[[], MainWindow]) -> None:
    dialog = AcceptDialog(CODE, start())
    shown = dialog.text.toPlainText()
    assert CODE.text in shown and "# layers.py" in shown and CODE.beside["layers.py"] in shown
    dialog.run.click()
    assert dialog.result() == AcceptDialog.DialogCode.Accepted
