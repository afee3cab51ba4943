"""The verbs of the engine with --machine, and the installation for a program on another machine."""

from __future__ import annotations

import sys

from engine.cli import output
from engine.cli.engine import carry_out, wanted_here
from engine.cli.session import DONE, FAILED, saved_results
from engine.experiment.problem import Problem, ProblemError, request_problem
from engine.installation.description import Description
from engine.installation.installer import Installer
from engine.installation.lines import event_line, obey, read_wanted
from engine.installation.plan import make_plan
from engine.installation.wanted import InstallEvent, Planned, Wanted
from engine.machines.check import check_machine
from engine.machines.line import Line
from engine.machines.machine import Machine, Machines
from engine.machines.program import FarInstaller, answer_of, description_there, remove_all
from engine.protocol.events import Check
from engine.worker.launcher import try_out


def checks_on(name: str) -> tuple[Check, ...]:
    """The doctor of another machine; what it saw is kept. Raises ProblemError."""
    machine, checks = check_machine(Machines().find(name))
    Machines().put(machine)
    return checks


def description_on(name: str) -> Description:
    """The engine and the hardware of another machine. Raises ProblemError."""
    machine = _known(name)
    return description_there(Line(machine), machine)


def install_on(name: str, wanted: Wanted, as_json: bool) -> int:
    """Sends the program to another machine where it differs, and sets up its engine."""
    installer = FarInstaller(Machines().find(name))

    def place() -> str:
        Machines().put(installer.machine)
        return f"{installer.machine.home}/engine on {installer.machine.name}"

    return carry_out(installer, wanted, as_json, place)


def check_on(name: str, trains: bool, as_json: bool) -> int:
    """Checks the engine's files there, and with `trains` that it trains a step."""
    machine = _known(name)
    value = answer_of(Line(machine), machine, "engine", "check", *["--train"] * trains)
    step = ", and it trains a step" if trains else ""
    output.outcome(as_json, value, f"All files of the engine on {machine.name} are there{step}.")
    return DONE


def remove_on(name: str, as_json: bool) -> int:
    """Removes all that is Ammeter's there, unless a run still trains there."""
    machine = Machines().find(name)
    with saved_results() as store:
        for run_id in store.kept_runs(machine.name):
            message = f"{store.name(run_id)[1]} still trains on {machine.name}."
            remedy = f"`ammeter resume {run_id}` reads on; stop it first."
            raise ProblemError(request_problem(message, remedy, key="machine", value=name))
    remove_all(machine)
    Machines().put(machine.model_copy(update={"program": ""}))
    output.outcome(as_json, {"removed": machine.name}, f"All that was Ammeter's on {machine.name} is gone.")
    return DONE


def install_with_events() -> int:
    """Installs here for a program on another machine, which tells its wishes and reads the events."""
    try:
        wanted, only_plans = read_wanted(sys.stdin.readline())
        source = wanted.source
        wanted = wanted_here(wanted.backend, source.mirror, source.folder, list(wanted.extras))
        if only_plans:
            _write(Planned(make_plan(wanted)))
            return DONE
        installer = Installer(None, try_out)
        obey(installer, sys.stdin)
        for event in installer.install(wanted):
            _write(event)
    except ProblemError as error:
        _write(error.problem)
        return FAILED
    return DONE


def _write(event: InstallEvent | Problem) -> None:
    sys.stdout.write(event_line(event))
    sys.stdout.flush()


def _known(name: str) -> Machine:
    """The machine of that name with the folder there. Raises ProblemError where it has no program yet."""
    machine = Machines().find(name)
    if machine.home and machine.program:
        return machine
    machine, checks = check_machine(machine)
    if not (machine.home and machine.program):
        failed = next(check for check in checks if check.status == "problem")
        raise ProblemError(request_problem(f"{failed.name}: {failed.detail}", failed.remedy))
    Machines().put(machine)
    return machine
