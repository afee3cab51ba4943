"""Ammeter and PyTorch on a remote machine: send, install, try, activate and remove them.

All files are in one folder there. A program is `program/<id>`. `program/current` links to the one in use.
"""

from __future__ import annotations

import functools
import io
import json
import shlex
import tarfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import engine
import resources
from engine.experiment.problem import Kind, Problem, ProblemError, request_error
from engine.experiment.value import check_size, shortened
from engine.installation.description import Description
from engine.installation.installed import python_here
from engine.installation.request import (
    AUTOMATIC,
    LONGEST_LINE,
    Installed,
    InstallEvent,
    InstallPlan,
    InstallRequest,
    Planned,
    Stage,
    StageBegan,
    Stopped,
    cleaned,
    read_event,
    request_line,
)
from engine.installation.uv import explained, find_uv
from engine.machines.machine import Machine, Machines, forget_catalog
from engine.machines.ssh import (
    NOT_FOUND,
    Channel,
    RemoteFacts,
    ScriptOutput,
    SshConnection,
    inspect_machine,
    program_words,
    run_script,
)

REQUIREMENTS = (
    "numpy",
    "pillow",
    "platformdirs",
    "pydantic",
    "tomli-w",
    "nvidia-ml-py",
    "psutil",
    "wakepy",
    "jeepney",
    "typer",
    "rich",
    "jinja2",
    "fpdf2",
    "fonttools",
    "tensorboardx",
)
"""The packages that Ammeter needs without its window and without PyTorch."""
PYTHONS = ">=3.11,<3.15"
_LEFT_OUT = ("__pycache__", "guide", "screenshots")


@functools.cache
def program_id() -> str:
    """Return twelve hexadecimal digits that identify the files and the versions of their requirements."""
    listed = sorted(f"{name} {sha256(data).hexdigest()}\n" for name, data in _program_files().items())
    return sha256("".join(listed).encode()).hexdigest()[:12]


def program_archive(folder: str, uv: bytes) -> bytes:
    """Return the program as tar.gz, all in `folder`, with `uv` if given. The last file marks it complete."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz", compresslevel=3) as archive:
        for name, data in {**_program_files(), **({"uv": uv} if uv else {}), "whole": b""}.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mode = len(data), 0o700 if name == "uv" else 0o600
            archive.addfile(member, io.BytesIO(data))
    return written.getvalue()


def _program_files() -> dict[str, bytes]:
    found = {
        f"{package.__name__}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for package in (engine, resources)
        for folder in [Path(str(package.__file__)).parent]
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part in _LEFT_OUT or part.startswith(".") for part in path.relative_to(folder).parts)
    }
    return found | {"requirements.txt": "".join(map(_requirement, REQUIREMENTS)).encode()}


def _requirement(name: str) -> str:
    try:
        # the versions that work together here
        return f"{name}=={version(name)}\n"
    except PackageNotFoundError:  # one that only Linux needs
        return f"{name}\n"


_PREPARE = """
umask 077
mkdir -p "$1" && cd "$1" && : > .ammeter-folder && mkdir -p program
"""
_INSTALL = """
umask 077
cd "$1/program" || exit 1
unset VIRTUAL_ENV CONDA_PREFIX PYTHONHOME PYTHONPATH
export UV_CACHE_DIR="$1/program/cache" UV_NO_PROGRESS=1 NO_COLOR=1
uv=$3
[ -x "$2.part/uv" ] && uv=$1/program/$2.part/uv
new=$2.new
rm -rf "$new"
"$uv" venv -q --no-python-downloads --python "$4" "$new" 2>/dev/null ||
"$uv" venv -q --no-python-downloads --python "$5" "$new" 2>/dev/null ||
UV_PYTHON_INSTALL_DIR="$1/python" "$uv" venv -q --python "$4" "$new" || exit 1
"$uv" pip install -q --python "$new/bin/python" LINKS -r "$2.part/requirements.txt" || exit 1
cp -R "$2.part/engine" "$2.part/resources" "$new"/lib/python3*/site-packages/ &&
cp "$uv" "$new/bin/uv" && rm -rf "$2" && mv "$new" "$2" && rm -rf "$2.part" cache
"""
_SWITCH = """
cd "$1/program" || exit 1
ln -sfn "$2" current.part && mv -fT current.part current || exit 1
# what a worker still runs from is left to the next time
for each in "$1"/workers/*/; do
  if [ -e "$each/keeper.json" ] && [ ! -e "$each/ended" ]; then exit 0; fi
done
for each in */; do
  each=${each%/}
  case $each in "$2" | current) ;; *) rm -rf "$each" ;; esac
done
"""
_REMOVE = """
cd "$1" 2>/dev/null || exit 0
[ -f .ammeter-folder ] || [ -e program/current/bin/python ] || exit 0
for each in workers/*/keeper.json; do
  pid=$(sed -n 's/.*"pid": *\\([0-9][0-9]*\\).*/\\1/p' "$each" 2>/dev/null)
  if [ -n "$pid" ] && tr '\\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null |
    grep -q 'engine.remote_main .* keep '
  then kill "$pid"; fi
done
rm -rf program python engine datasets home workers .ammeter-folder && cd / && rmdir "$1" 2>/dev/null
true
"""
_INSTALL_SECONDS = 1_800.0
_MOST_CHATTER = 64 * 1024


def answer_of(line: SshConnection, machine: Machine, *verb: str, program: str = "current") -> dict[str, Any]:
    """Return the JSON object that a command prints on a remote machine.

    Raises ProblemError if the command fails or its answer is a problem.
    """
    script = shlex.join(program_words(machine.home, *verb, "--json", program=program))
    answer = run_script(line, script, seconds=300.0)
    if answer.status in NOT_FOUND:
        raise ProblemError(not_installed_problem(machine))
    try:
        said = answer.text.strip().rpartition("\n")[2]
        check_size(said)
        value = cleaned(json.loads(said))
        error = value.get("error")
        problem = None if error is None else Problem.model_validate(error)
    except (ValueError, AttributeError, RecursionError):
        raise ProblemError(_useless(machine, answer.text)) from None
    if problem is not None:
        raise ProblemError(problem)
    assert isinstance(value, dict)
    return value


def remote_description(line: SshConnection, machine: Machine, program: str = "current") -> Description:
    """Return the description of a remote machine's PyTorch and hardware. Raises ProblemError."""
    value = answer_of(line, machine, "engine", "show", program=program)
    try:
        return Description.model_validate(value)
    except ValidationError as error:
        raise ProblemError(_useless(machine, str(error))) from None


def remove_all(machine: Machine, line: SshConnection | None = None) -> None:
    """End all of Ammeter's processes on a machine and delete all its files. Raises ProblemError."""
    line = line or SshConnection(machine)
    run_script(line, _REMOVE, [inspect_machine(line, machine).home], 300.0)


class RemoteInstaller:
    """Installs PyTorch on a remote machine, after copying Ammeter there if its version differs.

    Use it for one installation, after which `machine` is updated and saved. Any thread may call `stop`.
    The installed version stays in use until the new one has trained a step.
    """

    def __init__(self, machine: Machine, line: SshConnection | None = None) -> None:
        self.machine = machine
        self._line = line or SshConnection(machine)
        self._stopped = threading.Event()
        self._channel: Channel | None = None

    def stop(self) -> None:
        """Stop the installation. Complete packages are kept on the machine."""
        self._stopped.set()
        if (channel := self._channel) is not None:
            channel.put(None)

    def install(self, wanted: InstallRequest) -> Iterator[InstallEvent]:
        """Install. The events end without `Installed` if it was stopped. Raises ProblemError."""
        try:
            look, new = self._look_at_machine(), program_id()
            if look.program != new:
                yield StageBegan(Stage.SENDING)
                self._send_program(look, wanted)
            there = remote_description(self._line, self.machine, new)
            keeps = look.program != new and wanted.backend == AUTOMATIC and not wanted.extras
            if there.engine.is_usable and keeps:
                yield StageBegan(Stage.TRYING)
                answer_of(self._line, self.machine, "engine", "check", "--train", program=new)
            else:
                yield from self._events("install", wanted)
            done = self._run(_SWITCH, self.machine.home, new)
            why = shortened(done.text.strip(), 200)
            self._demand(done.status == 0, f"The new version of Ammeter could not be activated: {why}.")
            self.machine = self.machine.model_copy(update={"program": new})
            Machines().put(self.machine)
            forget_catalog(self.machine.name)
            if there.installation is not None and keeps:
                yield Installed(there.installation)
        except Stopped:
            return

    def plan(self, wanted: InstallRequest) -> InstallPlan:
        """Return the plan of an installation, after copying Ammeter there. Raises ProblemError, Stopped."""
        self.describe(wanted)
        for event in self._events("plan", wanted):
            if isinstance(event, Planned):
                return event.plan
        raise Stopped

    def describe(self, wanted: InstallRequest = InstallRequest()) -> Description:  # noqa: B008 - frozen
        """Describe the machine. Sends the program first, without activating it. Raises ProblemError."""
        look = self._look_at_machine()
        if look.program != program_id():
            self._send_program(look, wanted)
        return remote_description(self._line, self.machine, program_id())

    def _look_at_machine(self) -> RemoteFacts:
        look = inspect_machine(self._line, self.machine)
        if not look.is_own:
            raise request_error(
                f"The folder {look.home} on {self.machine.name} contains other files.",
                "Name a folder for this machine that only Ammeter uses.",
                key="folder",
                value=self.machine.folder,
            )
        self.machine = self.machine.model_copy(update={"home": look.home, "program": look.program})
        self._check_stopped()
        return look

    def _send_program(self, look: RemoteFacts, wanted: InstallRequest) -> None:
        """Create `program/<id>` there, unless an earlier attempt did."""
        new, home = program_id(), look.home
        if self._run(f'[ -x "$1/program/{new}/bin/uv" ]', home).status == 0:
            return
        is_made = self._run(_PREPARE, home).status == 0
        self._demand(is_made, f"The folder {home} could not be created on {self.machine.name}.")
        if self._run(f'[ -e "$1/program/{new}.part/whole" ]', home).status != 0:
            archive = program_archive(f"{new}.part", _uv_for(look))
            self._line.ask(
                ["tar", "-xzof", "-", "-C", f"{home}/program"], stdin=archive, seconds=_INSTALL_SECONDS
            )
        self._check_stopped()
        mirror, folder = wanted.source.mirror, wanted.source.folder
        settings = f"export UV_DEFAULT_INDEX={shlex.quote(mirror)}\n" if mirror else ""
        links = f"--no-index --find-links {shlex.quote(str(folder))}" if folder else ""
        script = settings + _INSTALL.replace("LINKS", links)
        done = self._run(script, home, new, look.uv or "uv", python_here(), PYTHONS)
        if done.status != 0:
            raise ProblemError(explained(done.text, wanted.source), detail=done.text)
        self._check_stopped()

    def _run(self, script: str, *arguments: str) -> ScriptOutput:
        return run_script(self._line, script, arguments, _INSTALL_SECONDS)

    def _events(self, verb: str, wanted: InstallRequest) -> Iterator[InstallEvent]:
        channel = self._channel = self._line.open(
            program_words(self.machine.home, verb, program=program_id())
        )
        self._check_stopped()
        last: InstallEvent | None = None
        chatter = 0
        try:
            channel.put(request_line(wanted))
            while line := channel.stdout.readline(LONGEST_LINE):
                # before the first event the login may chatter
                if last is None and not line.startswith(b"{") and chatter < _MOST_CHATTER:
                    chatter += len(line)
                    continue
                last = read_event(line)
                yield last
        finally:
            self._channel = None
            status, complaint = channel.close()
        self._check_stopped()
        if not isinstance(last, Installed | Planned):
            said = shortened(complaint or f"ssh ended with status {status}", 200)
            message = f"The installation on {self.machine.name} stopped before it was finished: {said}"
            remedy = "Start it again. It continues with the complete packages."
            raise ProblemError(Problem(kind=Kind.DOWNLOAD, message=message, remedy=remedy))

    def _check_stopped(self) -> None:
        if self._stopped.is_set():
            raise Stopped

    def _demand(self, is_done: bool, message: str) -> None:
        if not is_done:
            raise request_error(
                message, "Check disk space and write permission there, or name another folder.", key="folder"
            )


def _uv_for(look: RemoteFacts) -> bytes:
    """Return this machine's uv if it also runs there, else b"". Raises ProblemError if neither has one."""
    uv = b""
    if look.is_same_platform:
        with suppress(ProblemError, OSError):
            uv = find_uv().read_bytes()
    # not a script that leads to it
    if uv.startswith(b"\x7fELF"):
        return uv
    if not look.uv:
        raise request_error("uv, which installs what Ammeter needs, is missing there.", INSTALL_UV)
    return b""


def _useless(machine: Machine, text: str) -> Problem:
    last = shortened(text.strip().rpartition("\n")[2], 200)
    message = f"Ammeter on {machine.name} gave an unexpected answer: {last or 'nothing'}."
    return Problem(kind=Kind.NO_ENGINE, message=message, remedy=install_remedy(machine))


def not_installed_problem(machine: Machine) -> Problem:
    """Return the problem of a machine without Ammeter."""
    message = f"Ammeter is not set up on {machine.name} yet."
    return Problem(kind=Kind.NO_ENGINE, message=message, remedy=install_remedy(machine))


def install_remedy(machine: Machine) -> str:
    """Return a sentence that says how to install Ammeter or PyTorch on the machine."""
    command = f"ammeter engine install --machine {shlex.quote(machine.name)}"
    return f"Set it up in the window's list of machines, or with `{command}`."


INSTALL_UV = "Install it there: curl -LsSf https://astral.sh/uv/install.sh | sh"
