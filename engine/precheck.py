"""Checks users' models before they are trained."""

from __future__ import annotations

from collections.abc import Callable

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, ProblemError, request_problem
from engine.protocol.advice import Checked, Finding, FindingKind
from engine.protocol.events import Failed, Log

_CRASHES = (Kind.WORKER_DIED, Kind.HANG, Kind.PROTOCOL)
_CHECKED = ("model", "overrides", "dataset", "path", "image_size", "num_classes", "sequence_length")
_CHECKED_ALSO = ("precision", "scaler", "device", "batch_size", "devices", "ranks")


class Precheck:
    """Checks a model before its first run in this process.

    Model files and library models are checked once for each code, model, data and precision. Models of the
    catalog need no check.
    """

    def __init__(self, check: Callable[[Experiment], Checked]) -> None:
        self._check = check
        self._known: dict[str, Checked] = {}

    @staticmethod
    def applies_to(experiment: Experiment) -> bool:
        """Return True if the experiment's model needs a check before training."""
        return experiment.model.file is not None or experiment.model.library is not None

    def remarks(self, experiment: Experiment) -> tuple[Log, ...] | Failed:
        """Check the model. Return its warnings as log lines, or Failed if it cannot be trained."""
        code = experiment.own_code
        # the same text in another folder may read other files
        key = "" if code is None else code.sha256 + code.folder
        key += " " + experiment.model_dump_json(include={*_CHECKED, *_CHECKED_ALSO})
        checked = self._known.get(key)
        if checked is None:
            try:
                checked = self._check(experiment)
            except ProblemError as error:
                if error.problem.kind is Kind.REQUEST:
                    return Failed(problem=error.problem)
                message = f"{experiment.model} was not checked: {error.problem.message}"
                return (Log(level="warning", message=message),)
        if checked.errors:
            first, *others = checked.errors
            remedy = f"{first.remedy} Check shows {len(others):,} more." if others else first.remedy
            problem = request_problem(first.sentence, remedy, key="model", value=first.place or None)
            return Failed(problem=problem, detail=first.detail)
        self._known[key] = checked
        return tuple(
            Log(level="warning", message=f"{finding.sentence} {finding.remedy}")
            for finding in checked.warnings
            # what a device only emulates, the run's own notes say
            if finding.kind is not FindingKind.EMULATED
        )


def crashed(experiment: Experiment, failed: Failed) -> Checked | None:
    """Return the finding of a check that ended its worker. None if the user's code is not to blame."""
    code = experiment.own_code
    if code is None or failed.problem.kind not in _CRASHES:
        return None
    finding = Finding(
        kind=FindingKind.RAISES,
        severity="error",
        message=f"The check crashed. {failed.problem.message}",
        remedy="Fix this line, then check again." if failed.line else "Look for calls that end the process.",
        file=failed.file or code.file,
        line=failed.line,
        detail=failed.detail,
    )
    return Checked(findings=(finding,))
