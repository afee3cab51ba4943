"""A command runs only where it was typed, or accepted after it was shown in full."""

from __future__ import annotations

from typing import Any

import pytest

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.trust import TrustedCode, UntrustedCodeError, is_untrusted

LINE = "CUDA_VISIBLE_DEVICES=0 python train.py --amp"


def script(line: str = LINE, **settings: Any) -> Experiment:
    return experiment_from({"command": {"line": line, **settings}})


def refusal(experiment: Experiment) -> str:
    with pytest.raises(UntrustedCodeError) as raised:
        TrustedCode().check(experiment)
    assert is_untrusted(raised.value.problem) and "--trust-code" in raised.value.problem.remedy
    assert raised.value.code == experiment.command
    return raised.value.problem.message


def test_a_typed_command_is_trusted_from_then_on() -> None:
    TrustedCode().name_command(script(whole=False).command)
    for allowed in (script(), script(whole=True), Experiment()):
        TrustedCode().check(allowed)


@pytest.mark.parametrize(
    "other",
    [
        {"line": LINE.replace("=0", "=1")},
        {"line": f"{LINE}; rm -rf ~"},
        {"folder": "/elsewhere"},
        {"venv": "/elsewhere/venv"},
        {"shell": True},
    ],
)
def test_whatever_decides_what_runs_must_be_the_same(other: dict[str, Any]) -> None:
    TrustedCode().name_command(script().command)
    refusal(script(**other))


def test_the_refusal_shows_all_that_would_run() -> None:
    place = {"folder": "/home/me/nano", "venv": "/elsewhere/venv", "shell": True}
    message = refusal(script(f"{LINE} \x1b[8m\u202e", **place))
    assert message.startswith(f"The command `{LINE} ")
    assert "in /home/me/nano, with the environment /elsewhere/venv, in a shell came from" in message
    assert message.isprintable()


def test_a_long_command_is_not_shown_with_its_middle_left_out() -> None:
    long = script(f"python train.py {'x' * 1_000} --more")
    assert refusal(long).startswith("A command of 1,023 characters (")
    assert long.command.line in long.command.whole_text
    hidden = script(folder="/far\npython mine.py")
    assert len(hidden.command.whole_text.splitlines()) == 2
