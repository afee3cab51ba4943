"""Before a run its model is checked: errors refuse the run, warnings are logged, and each is told once."""

from __future__ import annotations

import pytest

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import Code
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.advice import Checked, Finding, FindingKind
from engine.protocol.events import Failed
from engine.runner import Precheck, crashed

CODE = Code(file="net.py", folder="/work", text="def model(): ...\ndef batch(size): ...\n").to_json()
OWN = experiment_from({"model": "net.py", "code": CODE, "dataset": "own"})
WARNING = Finding(
    kind=FindingKind.WAITS, severity="warning", message="It waits.", remedy="Do not.", file="net.py", line=3
)
ERROR = Finding(
    kind=FindingKind.RAISES, severity="error", message="It raises.", remedy="Mend it.", detail="trace"
)
EMULATED = Finding(kind=FindingKind.EMULATED, severity="warning", message="Slow.", remedy="Another.")


class Checks:
    """Answers with what it was given, and keeps what it was asked."""

    def __init__(self, answer: Checked | ProblemError) -> None:
        self.answer = answer
        self.asked: list[Experiment] = []

    def __call__(self, experiment: Experiment) -> Checked:
        self.asked.append(experiment)
        if isinstance(self.answer, ProblemError):
            raise self.answer
        return self.answer


def test_a_warning_is_logged_with_its_place_and_checked_once() -> None:
    checks = Checks(Checked(findings=(WARNING, EMULATED)))
    precheck = Precheck(checks)
    for seed in (1, 2):
        (log,) = precheck.remarks(OWN.model_copy(update={"seed": seed}))
        assert (log.level, log.message) == ("warning", "net.py:3: It waits. Do not.")
    assert len(checks.asked) == 1
    precheck.remarks(experiment_from({**OWN.model_dump(), "precision": "bf16"}))
    assert len(checks.asked) == 2


def test_an_error_refuses_the_run_with_its_trace_and_is_looked_for_again() -> None:
    checks = Checks(Checked(findings=(ERROR, WARNING)))
    precheck = Precheck(checks)
    for _ in range(2):
        refused = precheck.remarks(OWN)
        assert isinstance(refused, Failed) and refused.problem.kind is Kind.REQUEST
        assert refused.problem.message == "It raises." and refused.detail == "trace"
    assert len(checks.asked) == 2


@pytest.mark.parametrize("kind", [Kind.WORKER_DIED, Kind.HANG])
def test_a_crash_is_a_finding_with_the_line_that_it_came_from(kind: Kind) -> None:
    problem = Problem(kind=kind, message="It died.", remedy="Look.")
    died = Failed(problem=problem, detail="stack", file="net.py", line=7)
    checked = crashed(OWN, died)
    assert checked is not None and checked.errors[0].place == "net.py:7"
    assert "It died." in checked.errors[0].message and checked.errors[0].detail == "stack"
    assert crashed(Experiment(), died) is None
    lacking = Problem(kind=Kind.OUT_OF_MEMORY, message="No memory.", remedy="")
    assert crashed(OWN, Failed(problem=lacking)) is None


def test_a_check_that_lacks_memory_does_not_refuse_the_run() -> None:
    lacking = ProblemError(Problem(kind=Kind.OUT_OF_MEMORY, message="No memory.", remedy=""))
    (log,) = Precheck(Checks(lacking)).remarks(OWN)
    assert "not checked" in log.message


def test_models_of_the_catalog_are_not_checked() -> None:
    assert Precheck.applies_to(OWN)
    assert Precheck.applies_to(experiment_from({"model": "timm:resnet18"}))
    assert not Precheck.applies_to(Experiment())
