"""What Ammeter does with its own experiments only is refused for a script, with the reason."""

from __future__ import annotations

import pytest

from engine.experiment import command
from engine.experiment.command import _REFUSALS, Command, quoted, refusal, refuse
from engine.experiment.experiment import experiment_from
from engine.experiment.problem import ProblemError

SCRIPT = Command(line="python train.py --amp")


@pytest.mark.parametrize("action", _REFUSALS)
def test_each_action_is_refused_for_a_script_with_what_to_do(action: str) -> None:
    problem = refusal(action, [Command(), SCRIPT])
    assert problem is not None and problem.message.startswith("A script") and problem.remedy.endswith(".")
    assert (problem.key, problem.value) == ("command.line", "train.py --amp")
    with pytest.raises(ProblemError):
        refuse(action, [SCRIPT])
    assert refusal(action, [Command(line=" ")]) is None


@pytest.mark.parametrize(
    ("is_posix", "line", "words"),
    [
        (True, r"""A=1 python 'my file.py' --name="a b" it\'s #1""", "python|my file.py|--name=a b|it's|#1"),
        (
            False,
            r'"C:\My Code\python.exe" "my file.py" --name="a b"',
            r"C:\My Code\python.exe|my file.py|--name=a b",
        ),
        (False, r"A=1 env\python.exe C:\new\train.py #1", r"env\python.exe|C:\new\train.py|#1"),
    ],
)
def test_a_line_is_split_as_its_system_would(
    monkeypatch: pytest.MonkeyPatch, is_posix: bool, line: str, words: str
) -> None:
    monkeypatch.setattr(command, "_IS_POSIX", is_posix)
    assert "|".join(Command(line=line).words) == words
    with pytest.raises(ValueError, match="no closing quotation"):
        Command(line='python "my file.py')


@pytest.mark.parametrize("is_posix", [True, False])
@pytest.mark.parametrize("name", ["train.py", "my file.py", "it's.py"])
def test_a_quoted_name_is_one_word(monkeypatch: pytest.MonkeyPatch, is_posix: bool, name: str) -> None:
    monkeypatch.setattr(command, "_IS_POSIX", is_posix)
    assert Command(line=f"python {quoted(name)}").words == ("python", name)
    assert quoted("train.py") == "train.py"


def test_a_requirement_decides_nothing_about_what_runs_and_must_be_one() -> None:
    required = SCRIPT.model_copy(update={"require": "speed >= 1.05, loss"})
    assert required.sha256 == SCRIPT.sha256
    for wrong in ("speed >= 0.0", "time <= 0.9"):
        with pytest.raises(ProblemError) as refused:
            experiment_from({"command": {"line": SCRIPT.line, "require": f"loss, {wrong}"}})
        problem = refused.value.problem
        assert problem.key == "command.require" and f"'{wrong}'" in problem.message
    assert Command(line=SCRIPT.line, require="time <= 0.9", whole=True).require
