"""The machines that this user's programs know, and the file that keeps them.

AMMETER_HOME does not move the file, as it does not move that of trusted code: a folder of runs from elsewhere
must not bring the names of hosts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import tomli_w
from pydantic import AfterValidator, Field, StringConstraints, ValidationError

from engine.experiment.bounded import Bounded
from engine.experiment.paths import machines_path, write_whole
from engine.experiment.problem import Kind, Problem, ProblemError, request_error, unknown_name
from engine.experiment.value import shortened
from engine.machines.slurm import Slurm

_NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}$"
_HOST = r"^[A-Za-z0-9_][A-Za-z0-9_.:%@\[\]-]{0,254}$"  # never an option: it begins with no hyphen
_FOLDER = r"^[A-Za-z0-9._/~+-]{1,200}$"  # it needs no quoting in any shell
_OWN_NAMES = ("", "this machine", "here")


def _within(folder: str) -> str:
    if ".." in folder.split("/") or folder.startswith("-"):
        raise ValueError("a folder without '..' is needed")
    return folder


class Machine(Bounded, frozen=True, extra="forbid"):
    """Another machine, reached by `ssh host`; everything of Ammeter's there is in `folder`, which is relative
    to the home there unless it is absolute. With `slurm` it is the login node of a cluster, whose jobs train,
    or without a host this machine is.

    What the last check saw: `home`, that folder as an absolute path, and the `program` there, by its id.
    """

    name: Annotated[str, StringConstraints(pattern=_NAME)]
    host: Annotated[str, StringConstraints(pattern=rf"{_HOST}|^$")]
    folder: Annotated[str, StringConstraints(pattern=_FOLDER), AfterValidator(_within)] = ".ammeter"
    home: Annotated[str, Field(max_length=4_096, pattern=r"^(/[A-Za-z0-9._/+-]*)?$")] = ""
    program: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{0,64}$")] = ""
    slurm: Slurm | None = None

    @property
    def place(self) -> str:
        """The host in words, and that it is a cluster."""
        if self.slurm is None:
            return self.host
        partition = f", partition {self.slurm.partition}" if self.slurm.partition else ""
        return f"{self.host or 'this machine'} (Slurm{partition})"


class _File(Bounded, frozen=True):
    machines: Annotated[tuple[Machine, ...], Field(max_length=200)] = ()


class Machines:
    """The known machines, in the order of their names; each change is written at once."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or machines_path()

    def all(self) -> tuple[Machine, ...]:
        """Raises ProblemError where the file cannot be read."""
        try:
            read = _File.model_validate(tomllib.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return ()
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
            message = f"The list of machines at {self._path} cannot be read: {_first_line(error)}."
            raise ProblemError(Problem(kind=Kind.REQUEST, message=message, remedy=_REMEDY)) from None
        return tuple(sorted(read.machines, key=lambda machine: machine.name.casefold()))

    def find(self, name: str) -> Machine:
        """The machine of that name, in any case. Raises ProblemError where there is none."""
        known = {machine.name.casefold(): machine for machine in self.all()}
        if name.casefold() not in known:
            names = [machine.name for machine in known.values()]
            raise ProblemError(unknown_name("machine", name, names, "machine"))
        return known[name.casefold()]

    def put(self, machine: Machine) -> None:
        """Adds the machine, or replaces that of the same name."""
        others = [other for other in self.all() if other.name.casefold() != machine.name.casefold()]
        self._write([*others, machine])

    def remove(self, name: str) -> None:
        """Forgets a machine; nothing there changes. Raises ProblemError where there is none of that name."""
        gone = self.find(name)
        self._write([machine for machine in self.all() if machine != gone])

    def _write(self, machines: list[Machine]) -> None:
        tables = [machine.model_dump(exclude_defaults=True) for machine in machines]
        write_whole(self._path, tomli_w.dumps({"machines": tables}), mode=0o600)


_REMEDY = "Correct it, or move it away and add the machines again."


def new_machine(name: str, host: str, folder: str = "", slurm: Mapping[str, object] | None = None) -> Machine:
    """A machine as a person names it; `slurm` has the fields of `Slurm`. Raises ProblemError that says what
    is wrong with it."""
    name = name.strip()
    if name.casefold() in _OWN_NAMES or not re.fullmatch(_NAME, name):
        raise request_error(
            f"'{name}' cannot be a machine's name.",
            "Use up to 40 letters, digits, spaces, dots or hyphens; 'this machine' is taken.",
            key="name",
            value=name,
        )
    given = {"name": name, "host": host.strip(), "slurm": slurm, **({"folder": folder} if folder else {})}
    try:
        machine = Machine.model_validate(given)
    except ValidationError as error:
        wrong = error.errors()[0]
        key = next(str(part) for part in wrong["loc"] if part in _WRONG)
        what, remedy = _WRONG[key]
        value = shortened(str(wrong["input"]))
        why = f", which {wrong['ctx']['error']}" if key == "options" and "ctx" in wrong else ""
        raise request_error(f"'{value}' is not {what}{why}.", remedy, key=key, value=value) from None
    if not machine.place:
        raise request_error("A machine needs a host.", _WRONG["host"][1], key="host", value=host)
    return machine


_WRONG = {
    "host": ("a host", "Name one as for ssh: a name of your ssh configuration, or user@host."),
    "folder": ("a folder there", "Use letters, digits and . _ / ~ + - only, without '..'."),
    "partition": ("a partition", "`sinfo` there lists them."),
    "account": ("an account", "Ask who runs the cluster for yours."),
    "time_limit": (
        "a time limit",
        "Write it as sbatch has it: minutes, 2:30:00, or 1-12:00:00.",
    ),
    "options": ("an option for the job", "Write each as --name=value, as `man sbatch` has it."),
}


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
