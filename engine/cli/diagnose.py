"""The verb `diagnose`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from engine.cli import options, output
from engine.cli.options import Asked
from engine.cli.session import (
    DONE,
    FAILED,
    INTERRUPTED,
    Interrupt,
    TargetOption,
    accept_code,
    followed,
    has_gpu,
    read_catalog,
)
from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.export.formats import NUMERICS
from engine.export.kinds.numerics import sections
from engine.numerics.diagnoser import Diagnoser, DiagnosisEvent, trouble_step
from engine.protocol.events import Diagnosed, Failed
from engine.protocol.numerics.diagnosis import USUAL_PARTS, Diagnosis, DiagnosisStarted, Part
from engine.runner import Runner
from engine.store.record import RunRecord
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target

_ROWS_SHOWN = 8


def _part(name: str, text: str) -> Any:
    return typer.Option(f"--{name}", help=text, rich_help_panel="Parts")


@options.takes_settings("name")
def diagnose(
    ctx: typer.Context,
    map_: Annotated[bool, _part("map", "Which operation computes in which format, and the casts.")] = False,
    range_: Annotated[
        bool, _part("range", "What FP16, BF16 and FP8 would round to 0 or make infinite, by module.")
    ] = False,
    nan: Annotated[
        bool,
        _part("nan", "The first NaN or Inf, through all steps of the experiment."),
    ] = False,
    ladder: Annotated[
        bool, _part("ladder", "Where FP16 without and with a loss scaler, and BF16, part from FP32.")
    ] = False,
    islands: Annotated[
        bool, _part("islands", "The fewest modules that must stay in FP32, each proven by a run.")
    ] = False,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Diagnose this saved run with its own settings; the search for the first NaN or Inf begins "
            "at its newest checkpoint from before it went wrong.",
        ),
    ] = None,
    to: Annotated[list[str] | None, options.export_option(NUMERICS)] = None,
    force: options.Force = False,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Look at an experiment's numerics: formats, ranges, the first NaN or Inf, and what to do about it.

    Without a part it makes those of the preset, or the map and the ranges, and looks through one step for a
    NaN or Inf. The exit status is 1 if one was found, or if the diagnosis failed. It is saved in any case.
    """
    asked = options.asked(ctx.params)
    named = _named({"map": map_, "range": range_, "nan": nan, "ladder": ladder, "islands": islands})
    if not named and asked.preset is not None:
        named = asked.preset.parts
    if run is not None:
        options.refuse_settings(asked, run, "diagnosed")
    experiment_from(asked.settings(True))
    NUMERICS.check(to or (), force=force)
    with Store() as store, Launcher(target) as launcher:
        store.recover()
        store.check_writable()
        saved = None if run is None else store.run(run)
        # it imports torch while another worker reads the catalog
        launcher.prepare()
        catalog = read_catalog(Runner(store, launcher))
        experiment = _experiment(launcher.trusted_code, asked, saved, catalog, accepts_all=trust_code)
        goes_on = bool(named) or (saved is not None and trouble_step(store, saved) is not None)
        diagnoser = Diagnoser(store, launcher, catalog)
        with Interrupt(diagnoser.stop) as interrupt:
            outcome = _Outcome()
            events = diagnoser.diagnose(
                experiment,
                named or USUAL_PARTS,
                steps=None if goes_on else 1,
                run_id=None if saved is None else saved.id,
            )
            outcome.take(followed(events, diagnoser, interrupt))
        for path in to or ():
            outcome.export(store, path, force=force)
    return outcome.print(as_json, interrupted=interrupt.asked)


def _named(flags: dict[Part, bool]) -> tuple[Part, ...]:
    return tuple(part for part, is_named in flags.items() if is_named)


def _experiment(
    trusted: TrustedCode, asked: Asked, saved: RunRecord | None, catalog: Catalog, *, accepts_all: bool
) -> Experiment:
    """The experiment whose code may run here. Raises ProblemError."""
    on_gpu = has_gpu(asked, catalog)
    experiment = experiment_from(asked.settings(on_gpu)) if saved is None else saved.experiment
    accept_code(trusted, asked, [experiment], on_gpu=on_gpu, accepts_all=accepts_all)
    return experiment


class _Outcome:
    """What is known of a diagnosis, and its end."""

    def __init__(self) -> None:
        self._id = ""
        self._diagnosis = Diagnosis()
        self._problem: Problem | None = None

    def take(self, events: Iterator[DiagnosisEvent]) -> None:
        """Takes all events. Raises ProblemError for a request that was refused."""
        for event in events:
            if isinstance(event, DiagnosisStarted):
                self._id = event.diagnosis_id
            elif isinstance(event, Diagnosed):
                self._diagnosis = self._diagnosis.with_part(event.result)
            elif isinstance(event, Failed):
                self._problem = event.problem
        if self._problem is not None and self._problem.kind is Kind.REQUEST and self._is_empty:
            raise ProblemError(self._problem)

    def export(self, store: Store, to: str, *, force: bool) -> None:
        """Writes the saved diagnosis to a file. Raises ProblemError."""
        if not self._is_empty:
            NUMERICS.export(store.diagnoses.find(self._id), to, force=force)

    def print(self, as_json: bool, *, interrupted: bool) -> int:
        """Prints the parts and returns the exit status."""
        if not as_json:
            output.sections(sections(self._diagnosis), _ROWS_SHOWN)
        is_saved = self._problem is not None or not self._is_empty
        values = {"id": self._id if is_saved else None, **self._diagnosis.as_json()}
        if self._problem is not None:
            output.error(self._problem, as_json, **values)
        elif as_json:
            output.json_object(values)
        if interrupted:
            return INTERRUPTED
        search = self._diagnosis.nan
        is_found = search is not None and search.first is not None
        return FAILED if is_found or self._problem is not None else DONE

    @property
    def _is_empty(self) -> bool:
        return self._diagnosis == Diagnosis()
