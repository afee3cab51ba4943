"""The commands `ammeter engine` with --machine."""

from __future__ import annotations

from engine.cli import output
from engine.cli.engine import execute
from engine.cli.session import DONE, saved_results
from engine.experiment.problem import request_error
from engine.installation.description import Description
from engine.installation.request import InstallRequest
from engine.machines.catalogs import refuse_kept
from engine.machines.check import check_known
from engine.machines.line import Line
from engine.machines.machine import Machine, Machines
from engine.machines.program import RemoteInstaller, answer_of, remote_description, remove_all


def description_on(name: str) -> Description:
    """Return PyTorch and the hardware of a remote machine. Raises ProblemError."""
    machine = _known(name)
    return remote_description(Line(machine), machine)


def install_on(name: str, wanted: InstallRequest, as_json: bool) -> int:
    """Copy Ammeter to a remote machine if its version differs, and install PyTorch there."""
    installer = RemoteInstaller(Machines().find(name))
    return execute(installer, wanted, as_json, lambda: f"{installer.machine.home}/engine on {name}")


def check_on(name: str, trains: bool, as_json: bool) -> int:
    """Check PyTorch's files on a remote machine, and with `trains` that it trains a step."""
    machine = _known(name)
    value = answer_of(Line(machine), machine, "engine", "check", *["--train"] * trains)
    step = ", and it trains a step" if trains else ""
    output.outcome(as_json, value, f"All files of PyTorch on {machine.name} are complete{step}.")
    return DONE


def remove_on(name: str, as_json: bool) -> int:
    """Remove all of Ammeter's files on a remote machine, unless a run still trains there."""
    machine = Machines().find(name)
    with saved_results() as store:
        refuse_kept(store, machine.name, "Reconnect with `ammeter resume {run}`, and stop it first.")
    remove_all(machine)
    Machines().put(machine.model_copy(update={"program": ""}))
    output.outcome(as_json, {"removed": machine.name}, f"Removed all of Ammeter's files on {machine.name}.")
    return DONE


def _known(name: str) -> Machine:
    """Return the named machine with its folder. Raises ProblemError if Ammeter is not installed there."""
    machine = Machines().find(name)
    if not (machine.home and machine.program):
        machine, checks = check_known(name)
    if not (machine.home and machine.program):
        failed = next(check for check in checks if check.status == "problem")
        raise request_error(f"{failed.name}: {failed.detail}", failed.remedy)
    return machine
