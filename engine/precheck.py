"""The check before a run: errors refuse the run, warnings become lines of its log.

Own files and library models are checked once for each code, model, data and precision; those of the catalog
are known to be sound. No torch.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem, ProblemError, request_problem
from engine.protocol.events import Failed, Log
from engine.protocol.findings import Checked, Finding, FindingKind

_CRASHES = (Kind.WORKER_DIED, Kind.HANG, Kind.PROTOCOL)


class Precheck:
    """Checks before runs, and remembers the answers of this process."""

    def __init__(self, check: Callable[[Experiment], Checked]) -> None:
        self._check = check
        self._known: dict[str, Checked] = {}

    @staticmethod
    def applies_to(experiment: Experiment) -> bool:
        """True if the experiment's model is checked before it is trained."""
        return experiment.model.file is not None or experiment.model.library is not None

    def remarks(self, experiment: Experiment) -> tuple[Log, ...] | Failed:
        """The warnings as log lines, or why the experiment cannot be trained.

        Raises ProblemError where the check was stopped, or the code may not run here.
        """
        key = _key(experiment)
        checked = self._known.get(key)
        if checked is None:
            try:
                checked = self._check(experiment)
            except ProblemError as error:
                return _unanswered(experiment, error.problem)
        if checked.errors:
            return _refused(checked)
        self._known[key] = checked
        # what a device only emulates, the run's own notes say
        shown = (finding for finding in checked.warnings if finding.kind is not FindingKind.EMULATED)
        return tuple(
            Log(level="warning", message=f"{finding.sentence} {finding.remedy}") for finding in shown
        )


def crashed(experiment: Experiment, failed: Failed) -> Checked | None:
    """The finding of a check that ended its worker; None where the user's code is not to blame."""
    code = experiment.own_code
    if code is None or failed.problem.kind not in _CRASHES:
        return None
    finding = Finding(
        kind=FindingKind.RAISES,
        severity="error",
        message=f"It ended the process that checked it. {failed.problem.message}",
        remedy="Correct the line, then check again." if failed.line else "Look for what it calls at its end.",
        file=failed.file or code.file,
        line=failed.line,
        detail=failed.detail,
    )
    return Checked(findings=(finding,))


def _key(experiment: Experiment) -> str:
    code = experiment.own_code
    kept = {"model", "overrides", "dataset", "path", "image_size", "num_classes", "sequence_length"}
    settings = experiment.model_dump_json(include={*kept, "precision", "scaler", "device", "batch_size"})
    # the same text in another folder may read other files
    return f"{'' if code is None else code.sha256 + code.folder} {settings}"


def _refused(checked: Checked) -> Failed:
    first, *others = checked.errors
    more = f" Check shows {len(others):,} more." if others else ""
    problem = request_problem(first.sentence, f"{first.remedy}{more}", key="model", value=first.place or None)
    return Failed(problem=problem, detail=first.detail)


def _unanswered(experiment: Experiment, problem: Problem) -> tuple[Log, ...] | Failed:
    if problem.kind is Kind.REQUEST:
        return Failed(problem=problem)
    return (Log(level="warning", message=f"{experiment.model} was not checked: {problem.message}"),)
