"""The commands `machines list`, `machines add`, `machines check` and `machines remove`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Annotated

import typer

from engine.cli import output
from engine.cli.machine import print_checks
from engine.cli.options import AsJson
from engine.cli.session import DONE, saved_results
from engine.experiment.problem import request_error
from engine.machines.catalogs import forget_machine, kept_catalog, refuse_kept
from engine.machines.machine import Machine, Machines, new_machine
from engine.words.numbers import NONE

_OfSlurm = Annotated[str, typer.Option(metavar="NAME", help="As for sbatch.")]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name for the machine.")]


def list_(as_json: AsJson = False) -> int:
    """List the remote machines to train on."""
    machines = Machines().all()
    if as_json:
        output.json_object({"machines": [machine.model_dump() for machine in machines]})
    elif machines:
        output.table(("Name", "Host", "Folder", "Devices"), map(_row, machines))
    else:
        output.line("No remote machines. Add one with `ammeter machines add NAME HOST`.")
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
            help="Host as for ssh: a name from your ssh configuration, or user@host. With --slurm, the login "
            "node, or nothing if sbatch is on this machine.",
            show_default=False,
        ),
    ] = "",
    folder: Annotated[
        str,
        typer.Option(
            "--folder", metavar="FOLDER", help="Folder for Ammeter's files on the machine.", show_default=True
        ),
    ] = ".ammeter",
    slurm: Annotated[
        bool, typer.Option("--slurm", help="Cluster: train in Slurm jobs, on full nodes.")
    ] = False,
    partition: _OfSlurm = "",
    account: _OfSlurm = "",
    time: Annotated[str, typer.Option("--time", metavar="LIMIT", help="Time limit of a job.")] = "",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="--NAME=VALUE", help="Further sbatch option, e.g. --gres=gpu:1. Repeatable."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Add a remote machine, to train on over ssh with --machine NAME. Nothing changes there yet.

    ssh must log in without a prompt: with a key in its agent, and a known host key. On a cluster the folder
    must be on a file system that the login node shares with the others.
    """
    wishes = {"partition": partition, "account": account, "time_limit": time, "options": option or []}
    if any(wishes.values()) and not slurm:
        raise request_error("These options apply to a cluster only.", "Add --slurm.", key="slurm")
    machine = new_machine(name, host, folder, wishes if slurm else None)
    machines = Machines()
    if any(machine.name.casefold() == known.name.casefold() for known in machines.all()):
        message = f"A machine named {machine.name} already exists."
        remedy = f"Choose another name, or run `ammeter machines remove {machine.name}` first."
        raise request_error(message, remedy, key="name", value=name)
    machines.put(machine)
    typed = shlex.quote(machine.name)
    lines = [
        f"Added {machine.name}.",
        f"`ammeter machines check {typed}` checks whether it is ready.",
        f"`ammeter engine install --machine {typed}` installs PyTorch on it.",
    ]
    output.outcome(as_json, machine.model_dump(), *lines)
    return DONE


def check(name: _Name, as_json: AsJson = False) -> int:
    """Check whether a remote machine answers and is ready. The exit status is 1 if there is a problem."""
    # imported here, because every other command would wait for it
    from engine.machines.check import check_known

    return print_checks(check_known(name)[1], as_json=as_json)


def remove(
    name: _Name,
    force: Annotated[
        bool,
        typer.Option("--force", help="Give up runs that still train there. Their results so far are kept."),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Forget a remote machine. Its saved runs, and Ammeter's files on it, are kept.

    To remove these files, first run `ammeter engine remove --machine NAME`.
    """
    machine = Machines().find(name)
    with saved_results(writes=True) as store:
        if not force:
            refuse_kept(
                store, machine.name, "Reconnect with `ammeter resume {run}`, or give it up with --force."
            )
        for run_id in store.remote_runs(machine.name):
            store.take_over(run_id)
            store.close_lost(run_id)
        forget_machine(store, machine.name)
    output.outcome(as_json, {"removed": machine.name}, f"Forgot {machine.name}.")
    return DONE


ACTIONS: dict[str, Callable[..., int]] = {"list": list_, "add": add, "check": check, "remove": remove}
