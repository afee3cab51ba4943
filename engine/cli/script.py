"""The command `script`: runs and compares scripts of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from engine.cli import options
from engine.cli.session import TargetOption, open_session
from engine.cli.train import print_comparison, train_run, train_turns
from engine.experiment.command import (
    MOST_STEPS,
    MOST_WARMUP_STEPS,
    STEPS,
    WARMUP_STEPS,
    Command,
    command_names,
    script_settings,
    usual_repeats,
)
from engine.experiment.experiment import experiment_from
from engine.experiment.paths import expanded
from engine.experiment.problem import ProblemError, request_error
from engine.experiment.sweep import MOST_REPEATS, alternating_turns
from engine.worker.launcher import Target
from engine.worker.script.places import look_up, place_of


def script(
    commands: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND...",
            help='Commands that train, each in quotes: "python train.py" "python train.py --amp". The '
            "first is the baseline.",
        ),
    ],
    steps: Annotated[
        int, typer.Option("--steps", min=1, max=MOST_STEPS, help="Measured steps of each run.")
    ] = STEPS,
    warmup: Annotated[
        int,
        typer.Option(
            "--warmup",
            min=0,
            max=MOST_WARMUP_STEPS,
            help="Steps before the measured ones. Longer if a step compiles.",
        ),
    ] = WARMUP_STEPS,
    repeats: Annotated[
        int | None,
        typer.Option(
            "--repeats",
            min=1,
            max=MOST_REPEATS,
            help="Runs of each command, alternating. Default: 5, or 1 for a single command.",
        ),
    ] = None,
    require: options.Require = None,
    junit: options.JUnit = None,
    markdown: options.Markdown = None,
    folder: Annotated[
        str | None,
        typer.Option("--folder", metavar="FOLDER", help="Folder to run in. Default: the current one."),
    ] = None,
    venv: Annotated[
        str,
        typer.Option(
            "--venv",
            metavar="FOLDER",
            help="Virtual or conda environment. Default: .venv or venv in the folder, or the active one.",
        ),
    ] = "",
    whole: Annotated[
        bool, typer.Option("--whole", help="Let the scripts run to their end, and compare the time too.")
    ] = False,
    shell: Annotated[bool, typer.Option("--shell", help="Run the commands in a shell.")] = False,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="Name of the runs.")] = None,
    machine: options.MachineName = "",
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Run training scripts as they are, and compare their speed, memory and loss.

    Works with any program that trains with torch.optim: a loop, Lightning, transformers, torchrun. A small
    observer is loaded into it. Ammeter stops the script after the measured steps.

    With --require, the exit status is 0 if all requirements are met, 1 if one is not, and 3 if one is
    undecided. --json then also prints requirements and passed.
    """
    if not all(line.strip() for line in commands):
        raise request_error("A command is empty.", "Enter it as in a terminal, in quotes.", key="command")
    ci = options.parse_ci(require, junit, markdown)
    if ci.requirements and len(commands) < 2:
        message = "A requirement is relative to a baseline, but there is only one command."
        raise request_error(message, "Give the baseline first, then the command to test.", key="require")
    # the folder of a remote machine is relative to the home folder there
    where = folder or "" if machine else str(expanded(folder or "").absolute())
    required = ", ".join(requirement.text for requirement in ci.requirements)
    place = {"folder": where, "venv": venv, "shell": shell, "whole": whole, "require": required}
    experiments = [experiment_from(script_settings(place, line, steps, warmup)) for line in commands]
    if len({(*one.command.changes.items(), *one.command.words) for one in experiments}) < len(commands):
        message = "The same command is given twice."
        raise request_error(message, "Give each once. --repeats repeats all of them.", key="command")
    _check_programs([experiment.command for experiment in experiments], is_here=not machine)
    with open_session(target, machine) as session:
        for experiment in experiments:
            session.launcher.trusted_code.name_command(experiment.command)
        session.warn_if_busy(experiments[0])
        sides = list(zip(command_names([each.command for each in experiments]), experiments, strict=True))
        repeats = repeats or usual_repeats(len(sides))
        if len(sides) == repeats == 1 and ci == options.WITHOUT_CI:
            ((label, experiment),) = sides
            added = session.store.add(experiment, name=name, label=label, machine=session.machine)
            return train_run(session, added, as_json)
        outcome = train_turns(session, sides, alternating_turns(sides, repeats), name)
    return print_comparison(outcome, as_json, session.interrupt.asked, ci)


def _check_programs(commands: Sequence[Command], *, is_here: bool) -> None:
    """Check that each command can start a script before any of them runs. Raises ProblemError."""
    for command in commands:
        if command.is_bare:
            message = f"{command.line.strip()} is given without a script."
            raise request_error(message, "Put the whole command in quotes.", key="command")
    if is_here:
        found = look_up(place_of(commands, commands[0].folder, commands[0].venv))
        if found.all_problems:
            raise ProblemError(*found.all_problems)
