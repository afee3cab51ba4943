"""What Ammeter does with its own experiments only is refused for a script, with the reason."""

from __future__ import annotations

import pytest

from engine.experiment.command import _REFUSALS, Command, refusal, refuse
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


def test_a_requirement_decides_nothing_about_what_runs_and_must_be_one() -> None:
    required = SCRIPT.model_copy(update={"require": "speed >= 1.05, loss"})
    assert required.sha256 == SCRIPT.sha256
    for wrong in ("speed >= 0.0", "time <= 0.9"):
        with pytest.raises(ProblemError) as refused:
            experiment_from({"command": {"line": SCRIPT.line, "require": f"loss, {wrong}"}})
        problem = refused.value.problem
        assert problem.key == "command.require" and f"'{wrong}'" in problem.message
    assert Command(line=SCRIPT.line, require="time <= 0.9", whole=True).require
