"""The files of profiles' traces, beside the store."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from engine.experiment.paths import file_name_of, traces_folder
from engine.protocol.profiles import Profiles
from engine.store.connection import Connection

_TRACE = re.compile(r"\.?\w+-\d+\.json\.gz(\.part)?")


class Traces:
    """The traces by the ids of their studies and the places of the sides."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def folder(self) -> Path:
        return traces_folder(self._connection.path)

    def path(self, study_id: str, place: int) -> Path:
        """The file for the trace of a side; its worker makes the folder."""
        return self.folder / f"{file_name_of(study_id)}-{place + 1}.json.gz"

    def delete(self, study_id: str, place: int | None = None) -> None:
        """Deletes the traces of a study or of one side, and what a killed worker wrote of them."""
        if place is None:
            _remove(path for path in self._all() if _stem(path) == file_name_of(study_id))
        else:
            _remove(self.folder.glob(f"*{self.path(study_id, place).name}*"))

    def keep_only(self, study_ids: Iterable[str]) -> None:
        """Deletes the traces of all other studies."""
        kept = set(map(file_name_of, study_ids))
        _remove(path for path in self._all() if _stem(path) not in kept)

    def _all(self) -> list[Path]:
        """The traces, also half-written ones; the folder may be a link to one that holds other files, too."""
        return [path for path in self.folder.glob("*-*") if _TRACE.fullmatch(path.name)]


def traces_of(profiles: Profiles, folder: Path) -> tuple[Path, ...]:
    """The files of the profiles' traces, as far as they are there."""
    paths = (
        folder / Path(profile.trace).name for profile in profiles.measured() if profile.trace is not None
    )
    # in a folder from elsewhere a link would bring any file of this disk
    return tuple(path for path in paths if path.is_file() and not path.is_symlink())


def _stem(trace: Path) -> str:
    """The id of a trace's study."""
    return trace.name.lstrip(".").split("-")[0]


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        # the system may refuse it for as long as another program has it open
        with suppress(OSError):
            path.unlink()
