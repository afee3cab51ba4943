"""The commands `engine show`, `engine install`, `engine check` and `engine remove`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn

from engine.cli import output
from engine.cli.options import AsJson, MachineName
from engine.cli.session import (
    DONE,
    FAILED,
    Interrupt,
    InterruptError,
    ProgressLine,
    saved_results,
    text_column,
)
from engine.experiment.problem import Kind, Problem, ProblemError, request_error, unknown_name
from engine.installation.builds import Build, builds_for
from engine.installation.description import Description, description_here
from engine.installation.hardware import Hardware, hardware_here
from engine.installation.installed import State, engine_here, engines_folder, missing_files_problem
from engine.installation.installer import Installer, Installs, has_leftovers, remove
from engine.installation.request import (
    AUTOMATIC,
    Fetched,
    Installed,
    InstallEvent,
    InstallRequest,
    Planned,
    Source,
    Stage,
    StageBegan,
)
from engine.machines.check import check_known
from engine.machines.machine import Machine, Machines, refuse_kept
from engine.machines.program import RemoteInstaller, answer_of, remote_description, remove_all
from engine.machines.ssh import SshConnection
from engine.words.numbers import duration, size_text
from engine.worker.launcher import Launcher, kept_awake, try_out

_STATES = {
    State.OWN: "PyTorch is in Ammeter's own environment",
    State.READY: "ready",
    State.ABSENT: "not installed (install it with `ammeter engine install`)",
    State.BROKEN: "broken (repair it with `ammeter engine install`)",
}


def show(machine: MachineName = "", as_json: AsJson = False) -> int:
    """Show the installed PyTorch, and which builds are compatible with the machine."""
    found = description_on(machine) if machine else description_here()
    if as_json:
        output.json_object(found.model_dump(mode="json"))
        return DONE
    output.pairs([*_engine_pairs(found), *_hardware_pairs(found.hardware)])
    output.line()
    output.table(("Build", "For", "", "Download", "Why"), map(_build_row, found.builds), ("Download",))
    return DONE


def _engine_pairs(found: Description) -> list[tuple[str, str]]:
    rows = [("Status", _STATES[found.state])]
    if found.problem is not None and found.state is State.BROKEN:
        rows.append(("Problem", found.problem.message))
    if found.torch is not None:
        rows.append(("PyTorch", found.torch))
    if (installation := found.installation) is not None:
        rows += [
            ("Build", installation.backend),
            ("Python", installation.python),
            ("Size", f"{size_text(installation.size_bytes)}, {installation.files:,} files"),
        ]
    return rows if found.state is State.OWN else [*rows, ("Folder", found.folder)]


def _hardware_pairs(hardware: Hardware) -> list[tuple[str, str]]:
    rows = [("CPU", hardware.processor)]
    rows += [("GPU", gpu.name) for gpu in hardware.gpus] or [("GPU", "none found")]
    if hardware.nvidia_driver is not None:
        rows.append(("NVIDIA driver", hardware.nvidia_driver))
    return rows


def _build_row(build: Build) -> tuple[str, str, str, str, str]:
    size = "" if build.download_bytes is None else f"about {size_text(build.download_bytes)}"
    return build.backend, build.title, "compatible" if build.fits else "not compatible", size, build.why


_BACKEND = typer.Option(
    "--backend",
    metavar="BUILD",
    help="PyTorch build, e.g. cu128 or cpu (see `ammeter engine show`). Default: the best one.",
)
_MIRROR = typer.Option(
    "--mirror",
    metavar="URL",
    help="Package index in place of PyPI. PyTorch's builds may be in its folders, as in URL/cu130.",
)
_FOLDER = typer.Option(
    "--find-links", metavar="FOLDER", help="Folder of wheels, for a machine without a network."
)
_EXTRAS = typer.Option("--with", metavar="PACKAGE", help="Extra package, e.g. timm. Repeatable.")


def install(
    backend: Annotated[str, _BACKEND] = AUTOMATIC,
    mirror: Annotated[str | None, _MIRROR] = None,
    find_links: Annotated[Path | None, _FOLDER] = None,
    extras: Annotated[list[str] | None, _EXTRAS] = None,
    machine: MachineName = "",
    as_json: AsJson = False,
) -> int:
    """Install, repair or update PyTorch and its dependencies.

    Ctrl+C stops it. The same command continues with the packages that are complete. The old installation
    stays in use until the new one has trained a step. With --machine, Ammeter is copied there first if it is
    missing or of another version, and mirror and folder are those of that machine.
    """
    if mirror is not None and find_links is not None:
        message = "--mirror and --find-links cannot be combined."
        raise request_error(message, "Remove one of them.", key="mirror")
    wanted = InstallRequest(backend, Source(mirror, find_links), tuple(extras or ()))
    if machine:
        return install_on(machine, wanted, as_json)
    installer = Installer(None, try_out)
    return execute(installer, checked_request(wanted), as_json, lambda: str(engines_folder()))


def execute(installer: Installs, wanted: InstallRequest, as_json: bool, place: Callable[[], str]) -> int:
    """Install PyTorch with a progress line. `place` is called at the end and returns the folder."""
    installation = None
    with Interrupt(installer.stop, "Stopping. Complete packages are kept.") as interrupt, kept_awake():
        try:
            with _InstallProgress() as progress:
                for event in installer.install(wanted):
                    progress.show(event)
                    if isinstance(event, Installed):
                        installation = event.installation
        except ProblemError:
            if interrupt.asked:
                raise InterruptError from None
            raise
    if installation is None:
        raise InterruptError
    size, folder = size_text(installation.size_bytes), place()
    sentence = f"PyTorch {installation.torch} ({installation.backend}) is ready: {size} in {folder}."
    value = {"installation": installation.model_dump(mode="json"), "folder": folder}
    output.outcome(as_json, value, sentence)
    return DONE


def checked_request(wanted: InstallRequest) -> InstallRequest:
    """Return the request if this machine can install it. Raises ProblemError."""
    if engine_here().state is State.OWN:
        message = "PyTorch is in Ammeter's own environment, so no other one is installed."
        raise request_error(message, "Update PyTorch in that environment.")
    names = [AUTOMATIC, *(build.backend for build in builds_for(hardware_here()))]
    if wanted.backend not in names:
        raise ProblemError(unknown_name("backend", wanted.backend, names, "build of PyTorch"))
    return wanted


class _InstallProgress(ProgressLine):
    def __init__(self) -> None:
        super().__init__(
            _STAGES[Stage.RESOLVING],
            text_column("{task.description}"),
            BarColumn(bar_width=28),
            text_column("{task.fields[figures]}"),
            figures="",
        )

    def show(self, event: InstallEvent) -> None:
        """Show one event of the installation."""
        match event:
            case StageBegan():
                self._update(description=_STAGES[event.stage], total=None, completed=0, figures="")
            case Planned():
                plan = event.plan
                if plan.note:
                    self._say(plan.note, always=True)
                self._say(f"PyTorch {plan.torch} ({plan.backend}). Download: {plan.download}")
            case Fetched():
                self._update(
                    total=event.total_bytes, completed=event.done_bytes, figures=_download_words(event)
                )


_STAGES = {
    Stage.SENDING: "Copying Ammeter",
    Stage.RESOLVING: "Looking up the packages",
    Stage.FETCHING: "Downloading and unpacking",
    Stage.TRYING: "Training a test step",
}


def _download_words(event: Fetched) -> str:
    figures = f"{size_text(event.done_bytes)} on disk"
    if event.total_bytes is not None:
        figures = f"{size_text(event.done_bytes)} of about {size_text(event.total_bytes)}"
    return figures if event.seconds_left is None else f"{figures}, {duration(event.seconds_left)} left"


_TRAIN = typer.Option("--train", help="Also train a step.")


def check(train: Annotated[bool, _TRAIN] = False, machine: MachineName = "", as_json: AsJson = False) -> int:
    """Check that PyTorch's files are complete. The exit status is 1 if they are not."""
    if machine:
        return check_on(machine, train, as_json)
    problem = missing_files_problem() or (_train_problem() if train else None)
    if problem is not None:
        output.error(problem, as_json)
        return FAILED
    engine = engine_here()
    sentence = f"{_STATES[engine.state]}."
    if engine.installation is not None:
        sentence = f"All {len(engine.installation.packages):,} packages are complete."
    output.outcome(as_json, {"state": engine.state.value, "whole": True}, sentence)
    return DONE


def _train_problem() -> Problem | None:
    # imported here: the other commands do not need it
    from engine.doctor.doctor import worker_checks

    with Launcher() as launcher:
        failed = [check for check in worker_checks(launcher) if check.status == "problem"]
    if not failed:
        return None
    message = f"PyTorch cannot train a step. {failed[0].name}: {failed[0].detail}"
    return Problem(kind=Kind.NO_ENGINE, message=message, remedy=failed[0].remedy)


def remove_engine(machine: MachineName = "", as_json: AsJson = False) -> int:
    """Remove PyTorch and its downloads. Saved runs are kept.

    With --machine, remove all of Ammeter's files there: program, PyTorch, datasets and checkpoints.
    """
    if machine:
        return remove_on(machine, as_json)
    freed = remove()
    left = ["A worker still uses PyTorch. Its files are removed when Ammeter next starts."] * has_leftovers()
    output.outcome(as_json, {"freed_bytes": freed}, f"Freed {size_text(freed)} in {engines_folder()}.", *left)
    return DONE


def description_on(name: str) -> Description:
    """Return PyTorch and the hardware of a remote machine. Raises ProblemError."""
    machine = _installed_machine(name)
    return remote_description(SshConnection(machine), machine)


def install_on(name: str, wanted: InstallRequest, as_json: bool) -> int:
    """Install PyTorch on the remote machine `name`, after copying Ammeter there if its version differs."""
    installer = RemoteInstaller(Machines().find(name))
    return execute(installer, wanted, as_json, lambda: f"{installer.machine.home}/engine on {name}")


def check_on(name: str, trains: bool, as_json: bool) -> int:
    """Check PyTorch's files on a remote machine, and with `trains` that it trains a step."""
    machine = _installed_machine(name)
    value = answer_of(SshConnection(machine), machine, "engine", "check", *["--train"] * trains)
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


def _installed_machine(name: str) -> Machine:
    """Return the named machine with its folder. Raises ProblemError if Ammeter is not installed there."""
    machine = Machines().find(name)
    if not (machine.home and machine.program):
        machine, checks = check_known(name)
    if not (machine.home and machine.program):
        failed = next(check for check in checks if check.status == "problem")
        raise request_error(f"{failed.name}: {failed.detail}", failed.remedy)
    return machine


ACTIONS: dict[str, Callable[..., int]] = {
    "show": show,
    "install": install,
    "check": check,
    "remove": remove_engine,
}
