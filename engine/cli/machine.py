"""Commands that do not train: `presets`, `settings`, `catalog`, `check`, `doctor`, `template`, `machines`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.cli import options, output
from engine.cli.options import AsJson
from engine.cli.session import (
    DONE,
    FAILED,
    TargetOption,
    launcher_for,
    open_session,
    open_store,
    saved_results,
)
from engine.doctor.doctor import examine, report_text
from engine.experiment.catalog import OWN_DATA
from engine.experiment.checks import Catalog, DatasetEntry, DeviceEntry
from engine.experiment.experiment import Experiment, flattened, setting_help, setting_title
from engine.experiment.own.library_models import LIBRARIES, Library
from engine.experiment.presets import all_presets, broken_presets
from engine.experiment.problem import (
    Kind,
    Problem,
    ProblemError,
    request_error,
    request_problem,
    unknown_name,
)
from engine.experiment.value import MIB_PER_GIB
from engine.export.files import TEMPLATE_NAME, write_template
from engine.machines.check import check_known
from engine.machines.machine import Machine, Machines, forget_machine, kept_catalog, new_machine, refuse_kept
from engine.protocol.advice import Checked, ModuleRow
from engine.protocol.events import Check
from engine.runner import Runner
from engine.words.names import as_typed
from engine.words.numbers import NONE
from engine.worker.launcher import Launcher, Target


def presets(as_json: AsJson = False) -> int:
    """List the presets."""
    readable, broken = all_presets(), broken_presets()
    if as_json:
        entries = [
            {name: getattr(preset, name) for name in ("name", "title", "about", "kind", "parts")}
            | {"without_gpu": preset.without_gpu_note, "own": preset.is_own}
            for preset in readable
        ]
        problems = [problem.model_dump(mode="json") for problem in broken]
        output.json_object({"presets": entries, "broken": problems})
        return 0
    # without checking for a GPU, which would import torch
    notes = (f"{each.about} {each.without_gpu_note or ''}".rstrip() for each in readable)
    rows = [(each.name, each.kind, note) for each, note in zip(readable, notes, strict=True)]
    output.table(("Name", "Kind", "About"), rows)
    for problem in broken:
        output.line(f"{problem.message} {problem.remedy}")
    return 0


def settings(as_json: AsJson = False) -> int:
    """List every setting of --set, with its default and purpose."""
    defaults = flattened(Experiment())
    if as_json:
        entries = [
            {"key": key, "default": value, "title": setting_title(key), "about": setting_help(key)}
            for key, value in defaults.items()
        ]
        output.json_object({"settings": entries})
        return 0
    rows = [(key, as_typed(value), setting_help(key)) for key, value in defaults.items()]
    output.table(("Setting", "Default", "About"), rows)
    return 0


_LIBRARY = typer.Option(
    "--library", metavar="NAME", help="List only the models of timm or hf (transformers)."
)


def catalog(
    as_json: AsJson = False,
    library: Annotated[str | None, _LIBRARY] = None,
    machine: options.MachineName = "",
    target: TargetOption = Target.PROCESS,
) -> int:
    """List the devices, models, datasets and precisions of a machine."""
    libraries = {name: each for each in LIBRARIES for name in (each.prefix, each.package)}
    if library is not None and library not in libraries:
        raise ProblemError(unknown_name("library", library, libraries, "library of models"))
    with launcher_for(target, machine) as launcher, open_store() as store:
        if store.unwritable is not None:
            output.warning(store.unwritable.message)
        runner = Runner(store, launcher)
        runner.on_wait = lambda words: output.aside(f"{machine}: {words}.")
        entries = runner.catalog(refresh=True)
    if library is not None:
        _show_library(libraries[library], entries, as_json)
    elif as_json:
        counts = {each.prefix: sum(1 for _ in entries.models_of(each)) for each in LIBRARIES}
        values = entries.model_dump(mode="json", exclude={"library_models"})
        output.json_object({**values, "library_models": counts})
    else:
        _show_catalog(entries)
    return 0


def _show_library(library: Library, catalog: Catalog, as_json: bool) -> None:
    if not any(catalog.models_of(library)):
        remedy = "Install it, then list its models again."
        raise request_error(f"{library.missing}.", remedy, key="library")
    models = list(catalog.models_of(library))
    if as_json:
        output.json_object({"models": [entry.model_dump(mode="json") for entry in models]})
    else:
        rows = [(entry.name, _PURPOSES.get(entry.task, entry.task)) for entry in models]
        output.table(("Model", "For"), rows)


_PURPOSES = {"own": "its own synthetic data"}


_REPORT = typer.Option("--report", help="Print Markdown for a bug report, without your names and paths.")


def doctor(
    as_json: AsJson = False,
    report: Annotated[bool, _REPORT] = False,
    machine: options.MachineName = "",
    target: TargetOption = Target.PROCESS,
) -> int:
    """Check whether a machine is ready. The exit status is 1 if there is a problem."""
    if machine:
        return print_checks(check_known(machine)[1], as_json=as_json, report=report)
    with Launcher(target) as launcher:
        checks = examine(launcher)
    return print_checks(checks, as_json=as_json, report=report)


def print_checks(checks: Sequence[Check], *, as_json: bool, report: bool = False) -> int:
    """Print a doctor's checks, and return the exit status."""
    failed = [check for check in checks if check.status == "problem"]
    entries = [check.model_dump(mode="json") for check in checks]
    if as_json and failed:
        message = f"{failed[0].name}: {failed[0].detail}"
        remedy = failed[0].remedy or "Fix it, then try again."
        output.error(Problem(kind=Kind.INTERNAL, message=message, remedy=remedy), as_json, checks=entries)
    elif as_json:
        output.json_object({"checks": entries})
    elif report:
        output.line(report_text(checks))
    else:
        rows = [(check.name, check.status, f"{check.detail}\n{check.remedy}".strip()) for check in checks]
        output.table(("Check", "", "Found"), rows)
    return FAILED if failed else DONE


def template(
    path: Annotated[Path, typer.Argument(metavar="FILE.py", help="File to write.")] = Path(TEMPLATE_NAME),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: AsJson = False,
) -> int:
    """Write a commented model file to start from.

    A model file defines model() and, optionally, batch(size), dataset(), validation_dataset(),
    collate(samples), batch_size(inputs, targets), forward(model, inputs), loss(outputs, targets),
    optimizer(model), accuracy(outputs, targets) and step(train, batch). The guide explains each:
    F1 in the window, or resources/guide/model-file.md.
    """
    written = write_template(path, force=force)
    sentence = f"Wrote {written}. Train it with: ammeter run --model {written}"
    output.outcome(as_json, {"path": str(written.absolute())}, sentence)
    return 0


def _show_catalog(catalog: Catalog) -> None:
    headings = ("Device", "Name", "Memory, GiB", "Precisions")
    output.table(headings, map(_device_row, catalog.devices), ["Memory, GiB"])
    output.line()
    output.table(("Dataset", "For", "Description"), map(_dataset_row, catalog.datasets))
    output.line()
    models = [
        (model.name, model.task, "" if model.parameters is None else f"{model.parameters:,}")
        for model in catalog.models
    ]
    output.table(("Model", "For", "Parameters"), models, ["Parameters"])
    output.line()
    output.line("FILE.py  your own model file. `ammeter template` writes one to start from.")
    for library in LIBRARIES:
        count = sum(1 for _ in catalog.models_of(library))
        output.line(
            f"{library.prefix}:NAME  {count:,} models of {library.package}. "
            f"`ammeter catalog --library {library.prefix}` lists them."
            if count
            else f"{library.prefix}:NAME  {library.missing}."
        )


def _device_row(device: DeviceEntry) -> tuple[str, str, str, str]:
    precisions = [entry.precision.value for entry in device.precisions if entry.available]
    return device.name, device.title, f"{device.memory_mib / MIB_PER_GIB:,.1f}", ", ".join(precisions)


def _dataset_row(dataset: DatasetEntry) -> tuple[str, str, str]:
    title = f"{dataset.title} (not downloaded yet)" if dataset.needs_download else dataset.title
    return dataset.name, _DATA_FOR.get(dataset.name, dataset.task), title


_DATA_FOR = {OWN_DATA: "model files, some hf:TYPE"}


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
    """Check a model, its loss and its file for mixed-precision mistakes, without training it.

    Two small batches pass through the model on the CPU, in FP32 and under autocast. The exit status is 1 if
    the model cannot be trained as it is.
    """
    asked = options.parse(ctx.params)
    options.refuse_script(asked, "check")
    with open_session(target, asked.machine, saves=False) as session:
        experiment = session.experiment(asked, trusts_all=trust_code)
        # Ctrl+C may come before there is a session to stop
        checked = session.runner.check(experiment, lambda: session.interrupt.asked)
    if not as_json:
        _print_checked(experiment, checked, with_tree=tree)
        return FAILED if checked.errors else DONE
    value: dict[str, Any] = checked.model_dump(mode="json", exclude={"event"})
    if checked.errors:
        first = checked.errors[0]
        problem = request_problem(first.sentence, first.remedy, key="model", value=first.place or None)
        output.error(problem, as_json, **value)
        return FAILED
    output.json_object(value)
    return DONE


def _print_checked(experiment: Experiment, checked: Checked, *, with_tree: bool) -> None:
    name = f"{experiment.model}, {experiment.precision.label}"
    if checked.findings:
        rows = [(each.severity, each.place, each.message, each.remedy) for each in checked.findings]
        output.table(("", "Where", "What", "What to do"), rows)
    else:
        output.line(f"{name}: no mistakes found.")
    for finding in checked.findings:
        if finding.detail:
            output.line(f"\n{finding.detail.rstrip()}")
    if checked.tree and with_tree:
        output.line()
        headings = ("Module", "Class", "Parameters", "Output", "Dtype", "Its own")
        output.table(headings, map(_module, checked.tree), ["Parameters"])
    facts = (("inputs", checked.inputs), ("outputs", checked.outputs), ("loss", checked.loss))
    known = ", ".join(f"{what} {text}" for what, text in facts if text)
    output.line()
    output.line(f"{name}: {checked.parameters:,} parameters{', ' if known else ''}{known}.")
    output.line(f"Checked in {checked.seconds:,.1f} s.")


def _module(row: ModuleRow) -> tuple[str, str, str, str, str, str]:
    name = "  " * row.depth + (row.name.rpartition(".")[2] or "the model")
    return name, row.class_name, f"{row.parameters:,}", row.output, row.dtype, ", ".join(row.own)


_OfSlurm = Annotated[str, typer.Option(metavar="NAME", help="As for sbatch.")]
_MachineName = Annotated[str, typer.Argument(metavar="NAME", help="Name for the machine.")]


def list_machines(as_json: AsJson = False) -> int:
    """List the remote machines to train on."""
    machines = Machines().all()
    if as_json:
        output.json_object({"machines": [machine.model_dump() for machine in machines]})
    elif machines:
        output.table(("Name", "Host", "Folder", "Devices"), map(_machine_row, machines))
    else:
        output.line("No remote machines. Add one with `ammeter machines add NAME HOST`.")
    return DONE


def _machine_row(machine: Machine) -> tuple[str, ...]:
    kept = kept_catalog(machine.name)
    known = NONE
    if kept is not None:
        catalog, read = kept
        names = ", ".join(device.title for device in catalog.devices)
        known = f"{names} (as of {output.when(read)})"
    return machine.name, machine.place, machine.home or machine.folder, known


def add_machine(
    name: _MachineName,
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
    """Add a remote machine. Then train on it over SSH with --machine NAME. Nothing changes there yet.

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


def check_machine(name: _MachineName, as_json: AsJson = False) -> int:
    """Check whether a remote machine answers and is ready. The exit status is 1 if there is a problem."""
    return print_checks(check_known(name)[1], as_json=as_json)


def remove_machine(
    name: _MachineName,
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


MACHINE_ACTIONS: dict[str, Callable[..., int]] = {
    "list": list_machines,
    "add": add_machine,
    "check": check_machine,
    "remove": remove_machine,
}
