"""The last catalog of each remote machine, kept here for when the machine does not answer."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from engine.experiment.catalog import Catalog
from engine.experiment.paths import file_name_of, machines_path, read_file, write_whole
from engine.experiment.problem import request_error
from engine.machines.machine import Machines
from engine.store.saved.forecasts import Forecasts
from engine.store.store import Store

_MOST_BYTES = 32 * 1024 * 1024


def _path(machine: str) -> Path:
    return machines_path().with_suffix("") / f"{file_name_of(machine.casefold())}.json"


def keep_catalog(catalog: Catalog) -> None:
    """Save a catalog for the machine that it describes. If it cannot be written, the previous one stays."""
    path = _path(catalog.machine)
    with suppress(OSError):
        # no other user can look into it
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, catalog.model_dump_json())


def kept_catalog(machine: str) -> tuple[Catalog, datetime] | None:
    """Return the saved catalog of a machine and when it was read (UTC). None if there is none."""
    path = _path(machine)
    with suppress(OSError, ValidationError):
        catalog = Catalog.model_validate_json(read_file(path, _MOST_BYTES))
        read = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return catalog.model_copy(update={"machine": machine}), read
    return None


def forget_catalog(machine: str) -> None:
    """Delete the saved catalog of a machine, so that it is read from the machine again."""
    with suppress(OSError):
        _path(machine).unlink(missing_ok=True)


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
