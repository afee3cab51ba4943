"""The verb `check`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from engine.cli import options, output
from engine.cli.session import (
    DONE,
    FAILED,
    Interrupt,
    InterruptError,
    TargetOption,
    accept_code,
    has_gpu,
)
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.problem import ProblemError, request_problem
from engine.protocol.advice import Checked, Finding, ModuleRow
from engine.runner import Runner
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target

_INDENT = "  "


@options.takes_settings("epochs", "steps", "lr", "name")
def check(
    ctx: typer.Context,
    tree: Annotated[
        bool, typer.Option("--tree/--no-tree", help="Print the model's modules after the findings.")
    ] = True,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Look for mistakes with mixed precision in a model, its loss and its file, without training it.

    Two small batches pass through it on the CPU, in FP32 and under autocast. The exit status is 1 if the
    model cannot be trained as it is.
    """
    asked = options.asked(ctx.params)
    experiment_from(asked.settings(True))
    with Store() as store, Launcher(target) as launcher:
        runner = Runner(store, launcher)
        with Interrupt(runner.stop) as interrupt:
            try:
                on_gpu = not asked.depends_on_gpu or has_gpu(asked, runner.catalog())
                experiment = experiment_from(asked.settings(on_gpu))
                accept_code(launcher.trusted_code, asked, [experiment], on_gpu=on_gpu, accepts_all=trust_code)
                # Ctrl+C may come before there is a session to stop
                checked = runner.check(experiment, lambda: interrupt.asked)
            except ProblemError:
                if interrupt.asked:
                    raise InterruptError from None
                raise
    if as_json:
        _print_json(checked)
    else:
        _print(experiment, checked, with_tree=tree)
    return FAILED if checked.errors else DONE


def _print_json(checked: Checked) -> None:
    value: dict[str, Any] = checked.model_dump(mode="json", exclude={"event"})
    if checked.errors:
        first = checked.errors[0]
        problem = request_problem(first.sentence, first.remedy, key="model", value=first.place or None)
        output.error(problem, as_json=True, **value)
    else:
        output.json_object(value)


def _print(experiment: Experiment, checked: Checked, *, with_tree: bool) -> None:
    name = f"{experiment.model}, {experiment.precision.label}"
    if checked.findings:
        output.table(("", "Where", "What", "Remedy"), [_row(finding) for finding in checked.findings])
    else:
        output.line(f"{name}: no mistakes found.")
    for finding in checked.findings:
        if finding.detail:
            output.line(f"\n{finding.detail.rstrip()}")
    if checked.tree and with_tree:
        output.line()
        output.table(
            ("Module", "Class", "Parameters", "Output", "Format", "Its own"),
            [_module(row) for row in checked.tree],
            ["Parameters"],
        )
    facts = (("inputs", checked.inputs), ("outputs", checked.outputs), ("loss", checked.loss))
    known = "; ".join(f"{what} {text}" for what, text in facts if text)
    output.line()
    output.line(f"{name}: {checked.parameters:,} parameters{'; ' if known else ''}{known}.")
    output.line(f"Checked in {checked.seconds:,.1f} s.")


def _row(finding: Finding) -> tuple[str, str, str, str]:
    return finding.severity, finding.place, finding.message, finding.remedy


def _module(row: ModuleRow) -> tuple[str, str, str, str, str, str]:
    name = _INDENT * row.depth + (row.name.rpartition(".")[2] or "the model")
    return name, row.class_name, f"{row.parameters:,}", row.output, row.dtype, "; ".join(row.own)
