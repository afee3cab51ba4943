"""The verbs of the engine with --machine."""

from __future__ import annotations

from engine.cli import output
from engine.cli.engine import carry_out
from engine.cli.session import DONE, saved_results
from engine.experiment.problem import request_error
from engine.installation.description import Description
from engine.installation.wanted import Wanted
from engine.machines.catalogs import refuse_kept
from engine.machines.check import check_known
from engine.machines.line import Line
from engine.machines.machine import Machine, Machines
from engine.machines.program import RemoteInstaller, answer_of, remote_description, remove_all


def description_on(name: str) -> Description:
    """The engine and the hardware of another machine. Raises ProblemError."""
    machine = _known(name)
    return remote_description(Line(machine), machine)


def install_on(name: str, wanted: Wanted, as_json: bool) -> int:
    """Sends the program to another machine where it differs, and sets up its engine."""
    installer = RemoteInstaller(Machines().find(name))
    return carry_out(installer, wanted, as_json, lambda: f"{installer.machine.home}/engine on {name}")


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
        refuse_kept(store, machine.name, "`ammeter resume {run}` reads on; stop it first.")
    remove_all(machine)
    Machines().put(machine.model_copy(update={"program": ""}))
    output.outcome(as_json, {"removed": machine.name}, f"All that was Ammeter's on {machine.name} is gone.")
    return DONE


def _known(name: str) -> Machine:
    """The machine of that name with the folder there. Raises ProblemError where it has no program yet."""
    machine = Machines().find(name)
    if not (machine.home and machine.program):
        machine, checks = check_known(name)
    if not (machine.home and machine.program):
        failed = next(check for check in checks if check.status == "problem")
        raise request_error(f"{failed.name}: {failed.detail}", failed.remedy)
    return machine
