"""The user's list of remote machines, the file that keeps it, and the last catalog of each machine.

AMMETER_HOME moves neither this file nor the one of trusted code: a folder of runs must not add hosts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import tomli_w
from pydantic import AfterValidator, Field, StringConstraints, ValidationError

from engine.experiment.catalog import Catalog
from engine.experiment.paths import file_name_of, machines_path, read_file, write_whole
from engine.experiment.problem import Kind, Problem, ProblemError, request_error, unknown_name
from engine.experiment.value import Bounded, check_keys, shortened
from engine.store.saved.forecasts import Forecasts
from engine.store.store import Store

_NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}$"
_HOST = r"^[A-Za-z0-9_][A-Za-z0-9_.:%@\[\]-]{0,254}$"  # never an option: it begins with no hyphen
_FOLDER = r"^[A-Za-z0-9._/~+-]{1,200}$"  # it needs no quoting in any shell
_OWN_NAMES = ("", "this machine", "here")


def _checked_folder(folder: str) -> str:
    if ".." in folder.split("/") or folder.startswith("-"):
        raise ValueError("a folder without '..' is needed")
    return folder


_OPTION = re.compile(r"--([a-z][a-z0-9-]{1,40})(=[^\x00-\x1f\x7f]{1,200})?")
_FLAGS = ("contiguous", "get-user-env", "hold", "overcommit", "reboot", "spread-job", "use-min-nodes")
_OURS = (
    *(
        "wrap",
        "output",
        "error",
        "input",
        "export",
        "export-file",
        "chdir",
        "parsable",
        "array",
        "uid",
        "gid",
    ),
    *("clusters", "test-only", "wait", "usage", "help", "version", "open-mode", "nodes", "job-name"),
)
"""What would break the job, whose script, files, answer and one node are Ammeter's. `sbatch` also takes the
beginning of a name for it."""


def _checked_option(option: str) -> str:
    found = _OPTION.fullmatch(option)
    if found is None:
        raise ValueError("it must have the form --name=value")
    if any(ours.startswith(found[1]) for ours in _OURS):
        raise ValueError("Ammeter sets it itself")
    if not found[2] and found[1] not in _FLAGS:
        # it would take our own next option for its value
        raise ValueError("its value is missing (--name=value)")
    return option


_Word = StringConstraints(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.,@+-]{0,99})?$")


class Slurm(Bounded, frozen=True, extra="forbid"):
    """The sbatch options for the jobs of a cluster. Each of `options` has the form "--name=value"."""

    partition: Annotated[str, _Word] = ""
    account: Annotated[str, _Word] = ""
    time_limit: Annotated[str, StringConstraints(pattern=r"^((\d{1,4}-)?\d{1,6}(:\d{1,2}){0,2})?$")] = ""
    options: Annotated[tuple[Annotated[str, AfterValidator(_checked_option)], ...], Field(max_length=40)] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments for sbatch."""
        named = {"partition": self.partition, "account": self.account, "time": self.time_limit}
        return (*(f"--{name}={value}" for name, value in named.items() if value), *self.options)


class Machine(Bounded, frozen=True, extra="forbid"):
    """A remote machine, reached by `ssh host`. With `slurm`, the host is the login node of a cluster.

    All of Ammeter's files there are in `folder`, an absolute path or relative to the home folder. With
    `slurm` and without a host, this machine is the login node. The last check set `home`, the absolute path
    of `folder`, and `program`, the id of the Ammeter version there.
    """

    name: Annotated[str, StringConstraints(pattern=_NAME)]
    host: Annotated[str, StringConstraints(pattern=rf"{_HOST}|^$")]
    folder: Annotated[str, StringConstraints(pattern=_FOLDER), AfterValidator(_checked_folder)] = ".ammeter"
    home: Annotated[str, Field(max_length=4_096, pattern=r"^(/[A-Za-z0-9._/+-]*)?$")] = ""
    program: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{0,64}$")] = ""
    slurm: Slurm | None = None

    @property
    def place(self) -> str:
        """The host in words, with the partition of a cluster."""
        if self.slurm is None:
            return self.host
        partition = f", partition {self.slurm.partition}" if self.slurm.partition else ""
        return f"{self.host or 'this machine'} (Slurm{partition})"


class _File(Bounded, frozen=True):
    machines: Annotated[tuple[Machine, ...], Field(max_length=200)] = ()


class Machines:
    """The user's list of remote machines, sorted by name, in a file that each change updates at once."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or machines_path()

    def all(self) -> tuple[Machine, ...]:
        """Return all machines. Raises ProblemError if the file cannot be read."""
        try:
            table = tomllib.loads(read_file(self._path, _MOST_BYTES).decode("utf-8"))
            check_keys(table)
            read = _File.model_validate(table)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RecursionError) as error:
            message = f"The list of machines at {self._path} cannot be read: {_first_line(error)}."
            raise ProblemError(Problem(kind=Kind.REQUEST, message=message, remedy=_REMEDY)) from None
        return tuple(sorted(read.machines, key=lambda machine: machine.name.casefold()))

    def find(self, name: str) -> Machine:
        """Return the machine with that name, in any case. Raises ProblemError if there is none."""
        known = {machine.name.casefold(): machine for machine in self.all()}
        if name.casefold() not in known:
            names = [machine.name for machine in known.values()]
            raise ProblemError(unknown_name("machine", name, names, "machine"))
        return known[name.casefold()]

    def put(self, machine: Machine) -> None:
        """Add a machine, or replace the machine of the same name."""
        others = [other for other in self.all() if other.name.casefold() != machine.name.casefold()]
        self._write_file([*others, machine])

    def remove(self, name: str) -> None:
        """Remove a machine from the list without changing the machine. Raises ProblemError if unknown."""
        gone = self.find(name)
        self._write_file([machine for machine in self.all() if machine != gone])

    def _write_file(self, machines: list[Machine]) -> None:
        tables = [machine.model_dump(exclude_defaults=True) for machine in machines]
        write_whole(self._path, tomli_w.dumps({"machines": tables}), mode=0o600)


_MOST_BYTES = 2**20
_REMEDY = "Fix the file, or move it away and add the machines again."


def new_machine(name: str, host: str, folder: str = "", slurm: Mapping[str, object] | None = None) -> Machine:
    """Return a machine from a user's input. `slurm` has the fields of `Slurm`. Raises ProblemError."""
    name = name.strip()
    if name.casefold() in _OWN_NAMES or not re.fullmatch(_NAME, name):
        raise request_error(
            f"'{name}' is not a valid machine name.",
            "Use up to 40 letters, digits, spaces, dots or hyphens. 'this machine' is reserved.",
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
        why = f": {wrong['ctx']['error']}" if key == "options" and "ctx" in wrong else ""
        raise request_error(f"'{value}' is not {what}{why}.", remedy, key=key, value=value) from None
    if not machine.place:
        raise request_error("A machine needs a host.", _WRONG["host"][1], key="host", value=host)
    return machine


_WRONG = {
    "host": ("a valid host", "Enter it as for ssh: a name from your ssh configuration, or user@host."),
    "folder": ("a valid folder", "Use letters, digits and . _ / ~ + - only, without '..'."),
    "partition": ("a valid partition", "Run `sinfo` there to list them."),
    "account": ("a valid account", "Ask the cluster's administrator for yours."),
    "time_limit": ("a valid time limit", "Write it as for sbatch: minutes, 2:30:00, or 1-12:00:00."),
    "options": ("a valid job option", "Write each as --name=value (see `man sbatch`)."),
}


def _first_line(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text.strip().partition("\n")[0].rstrip(".")


_MOST_CATALOG_BYTES = 32 * 1024 * 1024


def _catalog_path(machine: str) -> Path:
    return machines_path().with_suffix("") / f"{file_name_of(machine.casefold())}.json"


def keep_catalog(catalog: Catalog) -> None:
    """Save a catalog for the machine that it describes. If it cannot be written, the previous one stays."""
    path = _catalog_path(catalog.machine)
    with suppress(OSError):
        # no other user can look into it
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, catalog.model_dump_json())


def kept_catalog(machine: str) -> tuple[Catalog, datetime] | None:
    """Return the saved catalog of a machine and when it was read (UTC). None if there is none."""
    path = _catalog_path(machine)
    with suppress(OSError, ValidationError):
        catalog = Catalog.model_validate_json(read_file(path, _MOST_CATALOG_BYTES))
        read = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return catalog.model_copy(update={"machine": machine}), read
    return None


def forget_catalog(machine: str) -> None:
    """Delete the saved catalog of a machine, so that it is read from the machine again."""
    with suppress(OSError):
        _catalog_path(machine).unlink(missing_ok=True)


def refuse_kept(store: Store, machine: str, remedy: str) -> None:
    """Raise ProblemError if a run is still training on a machine. In `remedy`, `{run}` is its id."""
    for run_id in store.remote_runs(machine):
        message = f"{store.name(run_id)[1]} is still training on {machine}."
        raise request_error(message, remedy.format(run=run_id), key="machine", value=machine)


def forget_machine(store: Store, machine: str) -> None:
    """Remove a machine from the list, with its catalog saved here. Raises ProblemError."""
    Machines().remove(machine)
    forget_catalog(machine)
    Forecasts(store.path.parent, machine).forget()
