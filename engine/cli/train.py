"""The commands that train: `run`, `resume` and `compare`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer

from engine.cli import options, output
from engine.cli.options import WITHOUT_CI, CiOptions, LabeledExperiment, Precisions, Repeats, sides_of
from engine.cli.questions import resume_tuning
from engine.cli.session import (
    FAILED,
    INTERRUPTED,
    RUN,
    STUDY,
    SWEEP,
    CommandSession,
    Id,
    TargetOption,
    failure_in,
    find,
    open_session,
    saved_results,
    status_of,
    train,
)
from engine.cli.sweep import (
    DryRun,
    SweepOptions,
    Swept,
    TimeLimit,
    ToWithin,
    compare_grid,
    is_sweep,
    parse_plan,
    resume_sweep,
)
from engine.compare.comparison import Comparison, SideReport
from engine.compare.failure import Failure
from engine.compare.metrics import MetricCell
from engine.compare.ranking import MANY, ranking
from engine.compare.requirement import Judgement, judge
from engine.compare.verdict import join_pieces
from engine.experiment.checks import problems
from engine.experiment.experiment import experiment_from
from engine.experiment.problem import Problem, ProblemError, request_error
from engine.experiment.sweep import Repetition, alternating_turns
from engine.experiment.value import shortened
from engine.export.content import Content, content_of
from engine.export.files import atomic_path
from engine.export.report.ci import write_junit, write_summary
from engine.export.report.metrics import metrics_sections
from engine.export.report.report import answer_of
from engine.protocol.events import Failed
from engine.store.record import RunRecord
from engine.worker.launcher import Target


@options.takes_settings()
def run(
    ctx: typer.Context,
    name: str | None = None,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Train one experiment, save it, and print its summary."""
    asked = options.parse(ctx.params)
    options.refuse_limit(asked)
    experiment_from(asked.settings(True))
    with open_session(target, asked.machine) as session:
        experiment = session.experiment(asked, trusts_all=trust_code)
        session.warn_if_busy(experiment)
        return train_run(session, session.store.add(experiment, name=name, machine=session.machine), as_json)


def resume(
    id_: Id,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Resume a run from its last checkpoint, as if it had never stopped, or a sweep or tuning.

    For a run still training on a remote machine, reconnects to it.
    """
    with saved_results() as store:
        kind, found_id = find(store, id_)
        study = store.studies.find(found_id) if kind == STUDY else None
        found = study or (store.run(found_id) if kind == RUN else store.sweeps.find(found_id))
    if study is not None and study.kind != "tune":
        message = f"{study.name} cannot be resumed. Only runs, sweeps and tunings can."
        raise request_error(message, f"Start it again with `ammeter {study.kind}`.", key="id", value=id_)
    with open_session(target, found.machine) as session:
        if kind == SWEEP:
            return resume_sweep(session, found_id, trust_code=trust_code, as_json=as_json)
        if kind == STUDY:
            return resume_tuning(session, found_id, trust_code=trust_code, as_json=as_json)
        saved = session.store.run(found_id)
        if trust_code:
            session.trust([saved.experiment])
        trains_on = session.store.remote_place(saved.id) is not None
        queued = saved if trains_on else session.store.requeue(saved.id)
        session.warn_if_busy(queued.experiment)
        return train_run(session, queued, as_json)


def train_run(session: CommandSession, queued: RunRecord, as_json: bool) -> int:
    """Train a queued run, print its summary, and return the exit status."""
    last = train(session, queued, f"{queued.name}, {queued.side}")
    done = session.store.run(queued.id)
    if isinstance(last, Failed):
        _print_failure(last.problem, failure_in(session.store, done), as_json, run=done.to_dict())
        return FAILED
    if as_json:
        output.json_object(done.to_dict())
    else:
        output.run_summary(done)
    return INTERRUPTED if session.interrupt.asked else status_of([done])


def _print_failure(problem: Problem, failure: Failure | None, as_json: bool, **values: Any) -> None:
    if failure is None or as_json:
        output.error(problem, as_json, **values)
    else:
        output.failure(failure)


@options.takes_settings()
def compare(
    ctx: typer.Context,
    precision: Precisions = None,
    repeats: Repeats = 1,
    require: options.Require = None,
    junit: options.JUnit = None,
    markdown: options.Markdown = None,
    sweep: Swept = None,
    to_within: ToWithin = "",
    time_limit: TimeLimit = "",
    dry_run: DryRun = False,
    name: str | None = None,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Train the same experiment in several precisions, and report what each gains.

    With --require, the exit status is 0 if all requirements are met, 1 if one is not, and 3 if one is
    undecided. --json then also prints requirements and passed.

    With --sweep, train every combination of values: first a short pilot of each, then full runs, then
    repeats. Ctrl+C stops a sweep, and `ammeter resume ID` resumes it. For a sweep, --json prints id, name,
    status, plan, spent_seconds, grid (base, axes, compared) and cells, each with index, name, values, status,
    reason, runs, figures, ratio and ratio_ci.
    """
    asked = options.parse(ctx.params)
    options.refuse_limit(asked)
    ci = options.parse_ci(require, junit, markdown)
    request = SweepOptions(precision or (), sweep or (), parse_plan(repeats, to_within, time_limit), dry_run)
    if is_sweep(asked, request):
        if ci != WITHOUT_CI:
            message = "--require, --junit and --markdown are not available for a sweep."
            raise request_error(message, "Compare two or more precisions without a sweep.", key="require")
        return compare_grid(asked, request, name=name, trust_code=trust_code, as_json=as_json, target=target)
    _check_count(sides_of(asked, precision, on_gpu=True))
    with open_session(target, asked.machine) as session:
        catalog, sides = session.catalog, session.sides(asked, precision, trusts_all=trust_code)
        _check_count(sides)
        for _, experiment in sides:
            if wrong := problems(experiment, catalog):
                raise ProblemError(*wrong)
        session.warn_if_busy(sides[0][1])
        outcome = train_turns(session, sides, alternating_turns(sides, repeats), name)
    return print_comparison(outcome, as_json, session.interrupt.asked, ci)


@dataclass(frozen=True)
class ComparisonOutcome:
    """The runs that a command trained, their comparison, and the first problem among them.

    `content` is None if the baseline has not started.
    """

    baseline: str
    runs: tuple[RunRecord, ...]
    content: Content | None
    problem: Problem | None
    failure: Failure | None


def _check_count(sides: Sequence[LabeledExperiment]) -> None:
    if len(sides) < 2:
        value = ", ".join(experiment.precision for _, experiment in sides)
        message = f"precision is {shortened(value)}, but a comparison needs two or more."
        remedy = "Give --precision once for each, the baseline first."
        raise request_error(message, remedy, key="precision", value=value)


def train_turns(
    session: CommandSession, sides: Sequence[LabeledExperiment], turns: Sequence[Repetition], name: str | None
) -> ComparisonOutcome:
    """Train all runs of a new comparison, one after the other, until Ctrl+C."""
    title = name or " against ".join(reversed([label for label, _ in sides]))
    comparison = session.store.add_comparison(title)
    ids: list[str] = []
    problem, failed = None, ""
    for count, turn in enumerate(turns, 1):
        if session.interrupt.asked:
            break
        added = session.store.add(
            turn.experiment,
            name=turn.name(name),
            comparison=comparison,
            label=turn.label,
            machine=session.machine,
        )
        last = train(session, added, f"{count} of {len(turns)}, {turn.label}")
        if not sys.stderr.isatty():
            # in place of the progress line
            ended = session.store.run(added.id)
            known = "failed" if isinstance(last, Failed) else output.run_outcome(ended)
            output.warning(f"run {count} of {len(turns)}: {turn.label}, {known}")
        if isinstance(last, Failed) and problem is None:
            problem, failed = last.problem, added.id
        ids.append(added.id)
    runs = tuple(session.store.run(run_id) for run_id in ids)
    failure = failure_in(session.store, session.store.run(failed)) if failed else None
    baseline = sides[0][0]
    # the first turn is the baseline's
    content = content_of(session.store, ids, ids[0]) if ids else None
    return ComparisonOutcome(baseline, runs, content, problem, failure)


def print_comparison(
    outcome: ComparisonOutcome, as_json: bool, interrupted: bool, ci: CiOptions = WITHOUT_CI
) -> int:
    """Print what a comparison found, write the files for CI, and return the exit status."""
    content, problem = outcome.content, outcome.problem
    value: dict[str, Any] = {
        "baseline": outcome.baseline,
        "runs": [run.to_dict() for run in outcome.runs],
        "variants": [] if content is None else variants(content.comparison),
    }
    judgement = Judgement(()) if content is None else judge(content.comparison, ci.requirements)
    if ci.requirements:
        value |= judgement.to_dict()
    if content is not None:
        if not as_json:
            show(content.comparison, outcome.failure)
            for decided in judgement.outcomes:
                output.line(decided.sentence)
        for path, write in ((ci.junit, write_junit), (ci.markdown, write_summary)):
            if path is not None:
                with atomic_path(path, force=True) as temporary:
                    write(content, judgement, temporary)
    if problem is not None:
        _print_failure(problem, outcome.failure, as_json, **value)
    elif as_json:
        output.json_object(value)
    if interrupted:
        return INTERRUPTED
    status = FAILED if problem is not None else status_of(outcome.runs)
    if status == FAILED or not ci.requirements or judgement.passed:
        return status
    return judgement.exit_status


def show(comparison: Comparison, failure: Failure | None = None) -> None:
    """Print the answer and its doubts, then the metrics: of three and more sides a ranking.

    Why a side failed is not printed if its `failure` follows.
    """
    reports = _ordered_reports(comparison)
    is_ranking = len(comparison.sides) >= MANY
    told = list(comparison.ranked[:1]) if is_ranking else reports
    failed = {each.id for each in comparison.sides if failure and each.contains(failure.run.id)}
    all_doubts = [doubt for report in reports for doubt in report.doubts]
    said = {doubt.sentence for doubt in all_doubts if doubt.kind == "unfinished" and doubt.side_id in failed}
    for report in told:
        notes = [note for note in report.verdict.notes if note not in said]
        sentence = " ".join([join_pieces(report.verdict.pieces), *notes])
        output.line(answer_of(report, comparison).text if is_ranking else sentence)
        said.update(notes)
    for report in reports:
        if report.split is not None and not (is_ranking and report in told):
            output.line(f"Where the gain of {report.side.title} comes from: {report.split.sentence}.")
    cited = {doubt.sentence for report in told for doubt in report.verdict.reported_doubts}
    for sentence in dict.fromkeys(doubt.sentence for doubt in all_doubts):
        if sentence not in cited | said:
            output.line(f"Caution: {sentence}")
    output.line()
    output.sections(metrics_sections(comparison))
    for report in reports:
        output.line(f"{report.side.title} saved as {', '.join(run.id for run in report.side.runs)}.")


def variants(comparison: Comparison) -> list[dict[str, Any]]:
    """Return every side as JSON values, the baseline first. The `rank` of a side not ranked is None."""
    places = {row.side.id: row.place for row in ranking(comparison)}
    return [
        _variant(report, comparison.cells(report.side.id)) | {"rank": places[report.side.id]}
        for report in _ordered_reports(comparison)
    ]


def _ordered_reports(comparison: Comparison) -> list[SideReport]:
    return sorted(comparison.reports, key=lambda report: not report.is_baseline)


def _variant(report: SideReport, cells: dict[str, MetricCell]) -> dict[str, Any]:
    verdict, difference = report.verdict, cells["accuracy"].difference
    # a preset may have named the sides
    labels = {run.label for run in report.side.runs}
    return {
        "label": (labels.pop() if len(labels) == 1 else None) or report.side.title,
        "ids": [run.id for run in report.side.runs],
        "speedup": verdict.speedup,
        "speedup_ci": None if verdict.speedup_ci is None else list(verdict.speedup_ci),
        "memory_ratio": verdict.memory_ratio,
        "accuracy_delta": None if difference is None else difference / 100,
        "clean": not report.doubts,
        "spoiled": bool(report.disqualifiers),
        "verdict": report.text,
    }
