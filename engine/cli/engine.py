"""The verbs `engine show`, `engine install`, `engine check` and `engine remove`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn

from engine.cli import output
from engine.cli.interrupt import Interrupt, InterruptError
from engine.cli.options import AsJson
from engine.cli.session import DONE, FAILED, ProgressLine, text_column
from engine.doctor.doctor import worker_checks
from engine.experiment.problem import Kind, Problem, ProblemError, request_problem, unknown_name
from engine.experiment.value import BYTES_PER_MIB
from engine.installation.builds import Build, builds_for
from engine.installation.description import Description, description_here
from engine.installation.hardware import Hardware, hardware_here
from engine.installation.installed import State, engine_here, engines_folder, whole_problem
from engine.installation.installer import Installer, has_leftovers, remove
from engine.installation.lines import event_line, obey, read_wanted
from engine.installation.plan import make_plan
from engine.installation.wanted import (
    AUTOMATIC,
    Fetched,
    Installed,
    InstallEvent,
    Planned,
    Source,
    Stage,
    StageBegan,
    Unpacked,
    Wanted,
)
from engine.machines.check import check_machine
from engine.machines.line import Line
from engine.machines.machine import Machine, Machines
from engine.machines.program import FarInstaller, answer_of, description_there
from engine.words.numbers import duration, memory_text
from engine.worker.launcher import Launcher, kept_awake, try_out

_STATES = {
    State.OWN: "PyTorch is in the environment that Ammeter runs in",
    State.READY: "ready",
    State.ABSENT: "not set up; `ammeter engine install` does it",
    State.BROKEN: "broken; `ammeter engine install` repairs it",
}


MachineName = Annotated[
    str | None,
    typer.Option(
        "--machine",
        metavar="NAME",
        help="Another machine; `ammeter machines list` names them. Default: here.",
    ),
]


def show(machine: MachineName = None, as_json: AsJson = False) -> int:
    """Show the engine that is here, and which builds of PyTorch fit this machine."""
    found = description_here() if machine is None else _description_on(machine)
    if as_json:
        output.json_object(found.model_dump(mode="json"))
        return DONE
    output.pairs([*_engine_pairs(found), *_hardware_pairs(found.hardware)])
    output.line()
    output.table(("Build", "For", "", "Download", "Why"), map(_build_row, found.builds), ("Download",))
    return DONE


def _description_on(name: str) -> Description:
    machine = known_machine(name)
    return description_there(Line(machine), machine)


def known_machine(name: str) -> Machine:
    """The machine of that name, which has a program. Raises ProblemError."""
    machine = Machines().find(name)
    if not machine.home:
        looked, checks = check_machine(machine)
        if not looked.home or not looked.program:
            failed = next(check for check in checks if check.status == "problem")
            raise ProblemError(request_problem(f"{failed.name}: {failed.detail}", failed.remedy))
        Machines().put(looked)
        return looked
    return machine


def _engine_pairs(found: Description) -> list[output.Pair]:
    rows = [("Engine", _STATES[found.state])]
    if found.problem is not None and found.state is State.BROKEN:
        rows.append(("Problem", found.problem.message))
    if found.torch is not None:
        rows.append(("PyTorch", found.torch))
    if (installation := found.installation) is not None:
        rows += [
            ("Build", installation.backend),
            ("Python", installation.python),
            ("Size", f"{_size(installation.size_bytes)}, {installation.files:,} files"),
        ]
    return rows if found.state is State.OWN else [*rows, ("Place", found.folder)]


def _hardware_pairs(hardware: Hardware) -> list[output.Pair]:
    rows = [("Processor", hardware.processor)]
    rows += [("Graphics card", gpu.name) for gpu in hardware.gpus] or [("Graphics card", "none found")]
    if hardware.nvidia_driver is not None:
        rows.append(("NVIDIA driver", hardware.nvidia_driver))
    return rows


def _build_row(build: Build) -> tuple[str, str, str, str, str]:
    size = "" if build.download_bytes is None else f"about {_size(build.download_bytes)}"
    return build.backend, build.title, "fits" if build.fits else "does not fit", size, build.why


_BACKEND = typer.Option(
    "--backend",
    metavar="BUILD",
    help="The build of PyTorch, such as cu128 or cpu; `ammeter engine show` lists them. Default: what fits.",
)
_MIRROR = typer.Option(
    "--mirror",
    metavar="URL",
    help="A package index that stands in for PyPI; PyTorch's builds may be in its folders, as in URL/cu130.",
)
_FOLDER = typer.Option(
    "--find-links", metavar="FOLDER", help="A folder of wheels, for a machine without network."
)
_EXTRAS = typer.Option("--with", metavar="PACKAGE", help="Another package, such as timm. Repeatable.")


_EVENTS = typer.Option("--events", hidden=True)


def install(
    backend: Annotated[str, _BACKEND] = AUTOMATIC,
    mirror: Annotated[str | None, _MIRROR] = None,
    find_links: Annotated[Path | None, _FOLDER] = None,
    extras: Annotated[list[str] | None, _EXTRAS] = None,
    machine: MachineName = None,
    as_json: AsJson = False,
    as_events: Annotated[bool, _EVENTS] = False,
) -> int:
    """Set up, repair or update the engine: PyTorch and what it needs.

    Ctrl+C ends it and keeps what was fetched; the same command goes on from there. An engine in use stays in
    use until the new one has trained a step. On another machine the program is sent there first, if it is
    missing or another; mirror and folder are then those of that machine.
    """
    if as_events:
        return _install_with_events()
    if machine is not None:
        wanted = _wanted_of(mirror, find_links, extras, backend)
        installer: Installer | FarInstaller = FarInstaller(Machines().find(machine))
    else:
        wanted = _wanted(backend, mirror, find_links, extras)
        installer = Installer(None, try_out)
    installation = None
    with Interrupt(installer.stop, "Stopping; what was fetched is kept.") as interrupt, kept_awake():
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
    if isinstance(installer, FarInstaller):
        Machines().put(installer.machine)
        place = f"{installer.machine.home}/engine on {installer.machine.name}"
    else:
        place = str(engines_folder())
    if installation is None:
        raise InterruptError
    size = _size(installation.size_bytes)
    sentence = f"PyTorch {installation.torch} ({installation.backend}) is ready: {size} in {place}."
    value = {"installation": installation.model_dump(mode="json"), "folder": place}
    output.outcome(as_json, value, sentence)
    return DONE


def _install_with_events() -> int:
    """Installs for a program on another machine, whose requests come by stdin and which reads the events."""
    try:
        wanted, only_plans = read_wanted(sys.stdin.readline())
        wanted = _wanted(wanted.backend, wanted.source.mirror, wanted.source.folder, list(wanted.extras))
        if only_plans:
            _write_event(Planned(make_plan(wanted)))
            return DONE
        installer = Installer(None, try_out)
        obey(installer, sys.stdin)
        for event in installer.install(wanted):
            _write_event(event)
    except ProblemError as error:
        _write_event(error.problem)
        return FAILED
    return DONE


def _write_event(event: InstallEvent | Problem) -> None:
    sys.stdout.write(event_line(event))
    sys.stdout.flush()


def _wanted(backend: str, mirror: str | None, folder: Path | None, extras: list[str] | None) -> Wanted:
    if engine_here().state is State.OWN:
        message = "PyTorch is in the environment that Ammeter runs in, so no engine is installed beside it."
        raise ProblemError(request_problem(message, "Update PyTorch in that environment."))
    names = [AUTOMATIC, *(build.backend for build in builds_for(hardware_here()))]
    if backend not in names:
        raise ProblemError(unknown_name("backend", backend, names, "build of PyTorch"))
    return _wanted_of(mirror, folder, extras, backend)


def _wanted_of(mirror: str | None, folder: Path | None, extras: list[str] | None, backend: str) -> Wanted:
    if mirror is not None and folder is not None:
        message = "--mirror and --find-links exclude each other."
        raise ProblemError(request_problem(message, "Leave one of them out.", key="mirror"))
    return Wanted(backend, Source(mirror, folder), tuple(extras or ()))


class _InstallProgress(ProgressLine):
    def __init__(self) -> None:
        super().__init__(
            _STAGES[Stage.RESOLVING],
            text_column("{task.description}"),
            BarColumn(bar_width=28),
            text_column("{task.fields[figures]}"),
            figures="",
        )
        self._retry: str | None = None

    def show(self, event: InstallEvent) -> None:
        """Takes one event of the installation."""
        match event:
            case StageBegan():
                self._update(description=_STAGES[event.stage], total=None, completed=0, figures="")
            case Planned():
                plan = event.plan
                if plan.note:
                    self._say(plan.note, always=True)
                self._say(f"PyTorch {plan.torch} ({plan.backend}), {_size(plan.download_bytes)} to fetch")
            case Fetched():
                if event.retry is not None and event.retry != self._retry:
                    self._say(event.retry, always=True)
                self._retry = event.retry
                self._update(total=event.total_bytes, completed=event.done_bytes, figures=_fetched(event))
            case Unpacked():
                figures = f"{_size(event.done_bytes)} of {_size(event.total_bytes)}"
                self._update(total=event.total_bytes, completed=event.done_bytes, figures=figures)


_STAGES = {
    Stage.SENDING: "Sending the program",
    Stage.RESOLVING: "Finding the packages",
    Stage.FETCHING: "Fetching",
    Stage.UNPACKING: "Unpacking",
    Stage.TRYING: "Training a step",
}


def _fetched(event: Fetched) -> str:
    figures = f"{_size(event.done_bytes)} of {_size(event.total_bytes)}"
    if event.bytes_per_second is not None:
        figures += f", {_size(event.bytes_per_second)}/s"
    return figures if event.seconds_left is None else f"{figures}, {duration(event.seconds_left)} left"


_TRAIN = typer.Option("--train", help="Train a step with it, too.")


def check(
    train: Annotated[bool, _TRAIN] = False, machine: MachineName = None, as_json: AsJson = False
) -> int:
    """Check that the engine's files are all there. The exit status is 1 if they are not."""
    if machine is not None:
        done = "All files of the engine are there" + (", and it trains a step." if train else ".")
        _pass_on(machine, as_json, done, "check", *["--train"] * train)
        return DONE
    problem = whole_problem() or (_train_problem() if train else None)
    if problem is not None:
        output.error(problem, as_json)
        return FAILED
    engine = engine_here()
    sentence = f"{_STATES[engine.state]}."
    if engine.installation is not None:
        sentence = f"All {len(engine.installation.packages):,} packages are whole."
    output.outcome(as_json, {"state": engine.state.value, "whole": True}, sentence)
    return DONE


def _train_problem() -> Problem | None:
    with Launcher() as launcher:
        failed = [check for check in worker_checks(launcher) if check.status == "problem"]
    if not failed:
        return None
    message = f"The engine does not train a step. {failed[0].name}: {failed[0].detail}"
    return Problem(kind=Kind.NO_ENGINE, message=message, remedy=failed[0].remedy)


def _pass_on(name: str, as_json: bool, done: str, *verb: str) -> None:
    """Does a verb on another machine; `done` is what is said then."""
    machine = known_machine(name)
    output.outcome(as_json, answer_of(Line(machine), machine, "engine", *verb), done)


def remove_engine(machine: MachineName = None, as_json: AsJson = False) -> int:
    """Remove the engine and its downloads. Saved runs stay; another `engine install` brings it back."""
    if machine is not None:
        _pass_on(machine, as_json, f"The engine on {machine} is removed.", "remove")
        return DONE
    freed = remove()
    left = ["A worker still uses the engine; its files go when Ammeter next starts."] * has_leftovers()
    output.outcome(as_json, {"freed_bytes": freed}, f"Freed {_size(freed)} in {engines_folder()}.", *left)
    return DONE


ACTIONS: dict[str, Callable[..., int]] = {
    "show": show,
    "install": install,
    "check": check,
    "remove": remove_engine,
}


def _size(count: float) -> str:
    return memory_text(count / BYTES_PER_MIB)
