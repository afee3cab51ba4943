"""The question Compare scripts: its commands, what is wrong with them, and what would be run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine.experiment.checks import Catalog
from engine.experiment.command import Command
from engine.experiment.experiment import Experiment, Measure, Precision
from engine.experiment.own.trust import TrustedCode
from engine.worker.script.places import Place, look_up
from gui.session.request import Request
from gui.setup.controls import InnerNote, NumberEdit
from gui.setup.panel import SetupPanel
from gui.setup.script.draft import MOST_COMMANDS, ScriptDraft, check_scripts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a script, and with an environment in which there is a Python."""
    (tmp_path / "train.py").write_text("loss.backward()\n")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.4\n")
    python = programs / "python"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return tmp_path


@pytest.fixture
def scripts(panel: SetupPanel, folder: Path) -> SetupPanel:
    """The panel, where two commands have been typed."""
    panel.set_question("script")
    form = panel.scripts
    form.rows["folder"].editor.edited.emit(str(folder))
    for edit, line in zip(form.lines, ("python train.py", "python train.py --amp"), strict=True):
        QTest.keyClicks(edit, line)
    return panel


def test_what_is_typed_is_run(scripts: SetupPanel, asked: Any, folder: Path) -> None:
    form = scripts.scripts
    form.rows["steps"].editor.edited.emit("1,000")
    form.done.button("whole").click()
    QTest.keyClicks(form.rows["require"].editor, "Speed>=1.05, loss")
    assert scripts.run_action.text() == "Compare 2 scripts" and scripts.foot.text() == "10 runs, 5 of each"
    scripts.run_action.trigger()
    ((wanted,),) = asked["submitted"]
    assert isinstance(wanted, Request) and (wanted.title, wanted.repeats) == (
        "train.py against train.py --amp",
        5,
    )
    plain, amp = (experiment for _, experiment in wanted.experiments)
    assert plain.command == Command(
        line="python train.py", folder=str(folder), whole=True, require="speed >= 1.05, loss"
    )
    assert amp.command.line == "python train.py --amp"
    assert (plain.steps, plain.measure.warmup_steps, plain.epochs) == (1_020, 20, None)
    assert scripts.to_forecast() == ()
    assert TrustedCode().has(plain.command) and TrustedCode().has(amp.command)


def test_one_command_is_run_alone(scripts: SetupPanel) -> None:
    form = scripts.scripts
    form.lines[1].remove.click()
    assert not form.lines[1].isVisible() and scripts.run_action.text() == "Run the script"
    assert scripts.foot.text() == "1 run", "it has no verdict, for which one repeats"
    repeats = form.rows["repeat"].editor
    assert isinstance(repeats, NumberEdit) and repeats.placeholderText() == "1"
    repeats.edited.emit("3")
    assert scripts.foot.text() == "3 runs"
    form.add.click()
    assert form.lines[1].isVisible() and form.lines[1].text() == "" and scripts.run_action.isEnabled()
    QTest.keyClicks(form.lines[1], "python train.py --compile")
    assert scripts.run_action.text() == "Compare 2 scripts"


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "nothing": ({"lines": ("", " ")}, "line0", "Type the command that trains, such as python train.py."),
    "twice": ({"lines": ("python a.py", "python a.py ")}, "line1", "Two commands are the same."),
    "no-program": ({"lines": ("", "pyhton a.py")}, "line1", "pyhton was not found in the environment"),
    "no-file": ({"lines": ("./go", "")}, "line0", "./go was not found in the environment"),
    "quote": ({"lines": ('python "a.py', "")}, "line0", "Command cannot be read: no closing quotation."),
    "folder": ({"folder": "/nowhere/at/all"}, "folder", "The folder /nowhere/at/all does not exist."),
    "no-folder": ({"folder": ""}, "folder", "Select the folder of the scripts."),
    "venv": ({"venv": "old"}, "venv", "old is not a virtual or conda environment."),
    "steps": ({"steps": "0"}, "steps", "Length is '0', but it must be 1 or more."),
    "repeat": ({"repeat": "some"}, "repeat", "Repeats is 'some', but it must be a whole number."),
    "warmup": ({"warmup": "-1"}, "warmup", "Warm-up is '-1', but it must be 0 or more."),
    "require": ({"require": "loss, speed > 1"}, "require", "The requirement is 'speed > 1', but it must"),
    "time": ({"require": "Time <= 0.9"}, "require", "Only whole runs have a training time"),
    "long": ({"require": "loss, " * 200}, "require", "Only if is 'loss, loss"),
}


@pytest.mark.parametrize(("change", "key", "sentence"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said(change: dict[str, Any], key: str, sentence: str, folder: Path) -> None:
    draft = ScriptDraft(lines=("python a.py", ""), folder=str(folder)).model_copy(update=change)
    problems = check_scripts(draft, look_up).problems
    assert [*problems] == [key] and problems[key].message.startswith(sentence)


def test_the_form_takes_lengths_as_long_as_those_of_the_command_line(folder: Path) -> None:
    draft = ScriptDraft(
        lines=("python a.py", ""), folder=str(folder), steps="100,000,000", warmup="1,000,000"
    )
    outcome = check_scripts(draft, look_up)
    assert outcome.reason is None and outcome.experiments[0][1].steps == 101_000_000


def test_a_wrong_requirement_is_said_at_its_field_and_by_the_button(scripts: SetupPanel) -> None:
    row = scripts.scripts.rows["require"]
    QTest.keyClicks(row.editor, "speed >= ")
    assert not scripts.run_action.isEnabled() and "'speed >='" in scripts.foot.text()
    assert (row.problem() or "").startswith("The requirement is 'speed >='")
    (mark,) = (note for note in row.editor.findChildren(InnerNote) if note.text() == "✓")
    assert not mark.isVisible()
    QTest.keyClicks(row.editor, "1.05")
    assert scripts.run_action.isEnabled() and row.problem() is None and mark.isVisible()
    assert row.hint() == "also memory <= 0.8, loss"
    scripts.scripts.lines[1].remove.click()
    assert scripts.run_action.isEnabled() and row.hint() == "needs a second command"


def test_what_is_on_another_machine_is_not_looked_for(
    scripts: SetupPanel, cpu: Catalog, qtbot: QtBot
) -> None:
    qtbot.waitUntil(lambda: scripts.scripts.rows["folder"].note() == ".venv, Python 3.12")
    scripts.scripts.set_draft(scripts.scripts.draft.model_copy(update={"folder": "/home/there"}))
    qtbot.waitUntil(lambda: scripts.foot.text() == "The folder /home/there does not exist.")
    scripts.set_catalog(cpu.model_copy(update={"machine": "trainer"}))
    assert scripts.run_action.isEnabled() and scripts.scripts.rows["folder"].note() == ""


def test_a_shell_finds_its_programs_itself(folder: Path) -> None:
    draft = ScriptDraft(lines=("ulimit -v 1 && ./a.sh", ""), folder=str(folder), shell=True)
    assert check_scripts(draft, look_up).reason is None


def test_the_environment_is_that_of_the_folder(folder: Path, tmp_path: Path) -> None:
    def words(folder: str, venv: str) -> str:
        return look_up(Place(folder, venv, ())).environment

    assert words(str(folder), "") == ".venv, Python 3.12"
    assert words(str(folder / "elsewhere"), "") == ""
    conda = tmp_path / "new" / "bin"
    conda.mkdir(parents=True)
    assert words(str(folder), "new") == words("/", str(tmp_path / "new")) == "new"


def test_a_command_has_the_color_of_the_precision_that_it_was_seen_to_use(scripts: SetupPanel) -> None:
    scripts.scripts.precision_seen = lambda name, _: Precision.BF16 if name == "train.py --amp" else None
    scripts.set_busy(True)
    assert [edit.property("seen") for edit in scripts.scripts.lines] == ["", "bf16"]


def test_the_form_comes_back(scripts: SetupPanel) -> None:
    QTest.keyClicks(scripts.scripts.rows["require"].editor, "loss")
    state = scripts.state()
    shown = scripts.scripts.draft
    scripts.reset_action.trigger()
    assert scripts.scripts.draft == ScriptDraft() and not scripts.run_action.isEnabled()
    scripts.set_question("compare")
    scripts.restore(state)
    assert (scripts.question, scripts.scripts.draft) == ("script", shown)


def test_settings_of_a_run_are_used_but_not_trusted(scripts: SetupPanel, asked: Any, folder: Path) -> None:
    both = scripts.scripts.draft.lines
    assert scripts.scripts.draft.typed == {0, 1}
    (_, first), _ = scripts.outcome().experiments
    scripts.set_question("compare")
    scripts.use_settings(first)
    assert (scripts.question, scripts.scripts.draft.lines, scripts.scripts.draft.typed) == (
        "script",
        both,
        {0, 1},
    )
    other = Command(line="python train.py", folder="/elsewhere", shell=True)
    scripts.use_settings(Experiment(command=other, steps=55, measure=Measure(warmup_steps=5)))
    used = scripts.scripts.draft
    assert (used.lines, used.folder, used.shell) == (("python train.py", ""), "/elsewhere", True)
    assert (used.steps, used.warmup, used.typed) == ("50", "5", frozenset())
    foreign = Command(line="python train.py --amp", folder=str(folder), shell=True)
    scripts.use_settings(Experiment(command=foreign, steps=55))
    scripts.run_action.trigger()
    assert len(asked["submitted"]) == 1 and not TrustedCode().has(foreign)
    scripts.use_settings(Experiment())
    assert scripts.question == "compare"


def test_a_command_of_a_run_is_not_trusted_while_a_longer_one_is_typed(
    scripts: SetupPanel, folder: Path
) -> None:
    foreign = Command(line="python train.py", folder=str(folder), shell=True)
    scripts.use_settings(Experiment(command=foreign, steps=55))
    form = scripts.scripts
    QTest.keyClicks(form.lines[1], "python train.py --amp")
    assert form.draft.lines == ("python train.py", "python train.py --amp")
    form.add.click()
    QTest.keyClicks(form.lines[2], "python train.py --compile")
    form.lines[1].remove.click()
    scripts.run_action.trigger()
    typed = foreign.model_copy(update={"line": "python train.py --compile"})
    assert TrustedCode().has(typed) and not TrustedCode().has(foreign)


def test_what_is_of_models_alone_is_off(scripts: SetupPanel) -> None:
    assert not scripts.check_action.isEnabled() and not scripts.own_presets.save_action.isEnabled()
    scripts.set_question("compare")
    assert scripts.check_action.isEnabled() and scripts.form.isVisible()
    assert not scripts.scripts.isVisible()


def test_a_file_that_trains_by_itself_is_opened_as_a_script(
    panel: SetupPanel, asked: Any, folder: Path
) -> None:
    panel.picker.open(str(folder / "train.py"))
    assert (panel.question, panel.scripts.draft.lines) == ("script", ("python train.py", ""))
    assert panel.scripts.draft.folder == str(folder) and panel.scripts.draft.typed == {0}
    ((text, undo),) = asked["changed_itself"]
    assert text == "train.py has no model(), so it was opened as a script."
    undo()
    assert (panel.question, panel.scripts.draft) == ("compare", ScriptDraft())
    # a class is a model, unless the file trains it
    net = folder / "net.py"
    net.write_text("import torch\nclass Net(torch.nn.Module): ...\ndef batch(size): ...\n")
    panel.set_question("script")
    panel.picker.open(str(net))
    assert (panel.question, panel.text("model")) == ("compare", "net.py:Net")
    net.write_text(f"{net.read_text()}loss.backward()\n")
    panel.picker.open(str(net))
    assert (panel.question, panel.scripts.draft.lines) == ("script", ("python net.py", ""))


def test_scripts_of_one_folder_are_dropped_one_after_the_other(folder: Path, tmp_path: Path) -> None:
    first, second, third = (folder / name for name in ("a.py", "b.py", "c.py"))
    draft = ScriptDraft(steps="90").with_file(first).with_file(second)
    assert (draft.lines, draft.typed) == (("python a.py", "python b.py"), {0, 1})
    assert draft.with_file(first) == draft
    draft = draft.with_file(third).without_line(1)
    assert (draft.lines, draft.typed) == (("python a.py", "python c.py"), {0, 1})
    full = draft.model_copy(update={"lines": tuple(f"python {place}.py" for place in range(MOST_COMMANDS))})
    foreign = Experiment(command=Command(line="python a.py", folder=str(folder), venv="/foreign"), steps=100)
    used = ScriptDraft().with_experiment(foreign)
    for other in (
        draft.with_file(tmp_path / "elsewhere" / "b.py"),
        full.with_file(second),
        used.with_file(second),
    ):
        assert (other.lines, other.steps, other.typed) == (("python b.py", ""), "90", {0})
        assert other.venv == ""


def test_a_dropped_script_runs_in_no_environment_or_shell_of_a_run(scripts: SetupPanel, folder: Path) -> None:
    form, file = scripts.scripts, folder / "other.py"
    for place in ({"venv": "/foreign"}, {"shell": True}, {"venv": "/foreign", "shell": True}):
        command = Command.model_validate({"line": "python a.py", "folder": str(folder), **place})
        scripts.use_settings(Experiment(command=command, steps=100))
        form.rows["warmup"].editor.edited.emit("5")
        QTest.keyClicks(form.lines[1], "python a.py --amp")
        scripts.use_settings(Experiment(command=command, steps=100))
        assert form.draft.typed == {1}
        other = form.draft.with_file(file)
        assert (other.lines, other.venv, other.shell) == (("python other.py", ""), "", False)
    # the shell is still that of the run
    form.rows["venv"].editor.edited.emit("/mine")
    assert form.draft.with_file(file).venv == ""
    form.shell.click()
    other = form.draft.with_file(file)
    assert other.lines == ("python a.py", "python a.py --amp", "python other.py")
    assert (other.venv, other.shell) == ("/mine", False)


def test_all_commands_of_a_comparison_are_used_that_run_in_the_same_place(folder: Path) -> None:
    sides = [
        Experiment(command=Command(line=f"python {name}.py", folder=place), steps=70)
        for name, place in (("a", str(folder)), ("b", str(folder)), ("c", "/elsewhere"))
    ]
    draft = ScriptDraft(lines=("python b.py", "python d.py"), folder=str(folder), typed=frozenset({0, 1}))
    used = draft.with_experiment(sides[1], sides)
    assert (used.lines, used.folder, used.typed) == (("python a.py", "python b.py"), str(folder), frozenset())
    assert draft.with_experiment(sides[2], sides).lines == ("python c.py", "")
    kept = used.with_line(1, "python b.py")
    assert kept.with_experiment(sides[0], sides[:2]).typed == {1}


_FROZEN = (
    "import torch\nclass Net(torch.nn.Module):\n    def train(self, mode=True):\n        {}\n"
    "def batch(size): ...\n"
)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("model = Net()\nloss.backward()\n", "script"),
        ("import model\nTrainer(model.GPT()).train()\n", "script"),
        ("from functools import partial\nmodel = partial(Net, 4)\n", "compare"),
        (
            "import torch\nclass Net(torch.nn.Module):\n    def fit(self):\n        Trainer(self).fit()\n",
            "script",
        ),
        ("import torch\nclass Net(torch.nn.Module): ...\nTrainer(Net()).train()\n", "script"),
        (_FROZEN.format("super().train(mode)"), "compare"),
        (_FROZEN.format("self.encoder.train(False)"), "compare"),
        (_FROZEN.format("[part.train(False) for part in self.parts()]"), "compare"),
        ("def model(): ...\ndef step(train, batch):\n    loss.backward()\n", "compare"),
    ],
)
def test_a_variable_of_a_script_is_no_model(
    panel: SetupPanel, tmp_path: Path, text: str, question: str
) -> None:
    file = tmp_path / "nano.py"
    file.write_text(text)
    panel.picker.open(str(file))
    assert panel.question == question


def test_a_click_into_an_empty_form_is_not_called_wrong(panel: SetupPanel) -> None:
    panel.set_question("script")
    form = panel.scripts
    QTest.mouseClick(form.lines[0], Qt.MouseButton.LeftButton)
    assert form.commands.problem() is None and form.rows["folder"].problem() is None
    assert not panel.run_action.isEnabled()
