"""The verbs `machines list`, `machines add`, `machines check` and `machines remove`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Annotated

import typer

from engine.cli import output
from engine.cli.machine import tell_checks
from engine.cli.options import AsJson
from engine.cli.session import DONE, saved_results
from engine.experiment.problem import request_error
from engine.machines.catalogs import forget_machine, kept_catalog, refuse_kept
from engine.machines.machine import Machine, Machines, new_machine
from engine.words.numbers import NONE

_OfSlurm = Annotated[str, typer.Option(metavar="NAME", help="As sbatch has it.")]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="What the machine is called here.")]


def list_(as_json: AsJson = False) -> int:
    """List the other machines that runs can train on."""
    machines = Machines().all()
    if as_json:
        output.json_object({"machines": [machine.model_dump() for machine in machines]})
    elif machines:
        output.table(("Name", "Host", "Folder", "Devices"), map(_row, machines))
    else:
        output.line("No other machine is known. `ammeter machines add NAME HOST` adds one.")
    return DONE


def _row(machine: Machine) -> tuple[str, ...]:
    kept = kept_catalog(machine.name)
    known = NONE
    if kept is not None:
        catalog, read = kept
        names = ", ".join(device.title for device in catalog.devices)
        known = f"{names} (as of {output.when(read)})"
    return machine.name, machine.place, machine.home or machine.folder, known


def add(
    name: _Name,
    host: Annotated[
        str,
        typer.Argument(
            metavar="[HOST]",
            help="As for ssh: a name of your ssh configuration, or user@host; with --slurm that of its login "
            "node, and left out where sbatch is on this machine.",
            show_default=False,
        ),
    ] = "",
    folder: Annotated[
        str,
        typer.Option(
            "--folder", metavar="FOLDER", help="Where all of Ammeter's is kept there.", show_default=True
        ),
    ] = ".ammeter",
    slurm: Annotated[
        bool, typer.Option("--slurm", help="It is a cluster: runs train in jobs of Slurm, on whole nodes.")
    ] = False,
    partition: _OfSlurm = "",
    account: _OfSlurm = "",
    time: Annotated[str, typer.Option("--time", metavar="LIMIT", help="The time limit of a job.")] = "",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="--NAME=VALUE", help="A further option of sbatch, such as --gres=gpu:1."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Add a machine that ssh reaches, to train on with --machine NAME. Nothing is changed there yet.

    ssh must log in without asking: with a key and its agent, and with a host key that is known already. Of a
    cluster the folder must be on a file system that the login node shares with the others.
    """
    wishes = {"partition": partition, "account": account, "time_limit": time, "options": option or []}
    if any(wishes.values()) and not slurm:
        raise request_error("These are options of a cluster.", "Add --slurm.", key="slurm")
    machine = new_machine(name, host, folder, wishes if slurm else None)
    machines = Machines()
    if any(machine.name.casefold() == known.name.casefold() for known in machines.all()):
        message = f"There is a machine called {machine.name} already."
        remedy = f"Choose another name, or `ammeter machines remove {machine.name}` first."
        raise request_error(message, remedy, key="name", value=name)
    machines.put(machine)
    typed = shlex.quote(machine.name)
    lines = [
        f"Added {machine.name}.",
        f"`ammeter machines check {typed}` looks whether it is ready,",
        f"`ammeter engine install --machine {typed}` sets it up.",
    ]
    output.outcome(as_json, machine.model_dump(), *lines)
    return DONE


def check(name: _Name, as_json: AsJson = False) -> int:
    """Look whether a machine answers and is ready. The exit status is 1 if something is wrong."""
    # imported here, since each call of any verb would wait for it
    from engine.machines.check import check_known

    return tell_checks(check_known(name)[1], as_json=as_json)


def remove(
    name: _Name,
    force: Annotated[
        bool, typer.Option("--force", help="Give up runs that still train there; what they have is kept.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Forget a machine. Its runs stay among the saved ones, and what is there stays there.

    `ammeter engine remove --machine NAME` removes that; call it first.
    """
    machine = Machines().find(name)
    with saved_results(writes=True) as store:
        if not force:
            refuse_kept(store, machine.name, "`ammeter resume {run}` reads on; --force gives it up.")
        for run_id in store.kept_runs(machine.name):
            store.take_up(run_id)
            store.close_lost(run_id)
        forget_machine(store, machine.name)
    output.outcome(as_json, {"removed": machine.name}, f"Forgot {machine.name}.")
    return DONE


ACTIONS: dict[str, Callable[..., int]] = {"list": list_, "add": add, "check": check, "remove": remove}
