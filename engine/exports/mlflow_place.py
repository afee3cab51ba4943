"""Where MLflow keeps runs: a folder, a database or a tracking server, as a person writes it."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit, urlunsplit

from engine.problem import ProblemError, request_problem

PREFIX = "mlflow:"
"""What a destination begins with, as in `mlflow:./mlruns` or `mlflow:http://host:5000`."""

_SERVERS = ("http", "https", "databricks")
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
# two letters at least: one is a drive of Windows
_SCHEME = re.compile(r"([a-z][a-z0-9.]+)(?:\+[a-z0-9]+)?:", re.IGNORECASE)
_ALLOWED = "a folder, http(s)://HOST:PORT, or a database such as sqlite:///mlflow.db"


@dataclass(frozen=True)
class MlflowPlace:
    """`uri` is as MLflow takes it; `shown` is as it may be printed, without a password."""

    uri: str
    shown: str
    is_folder: bool = False
    is_server: bool = False

    @property
    def how_to_open(self) -> str:
        """What a person types to see the runs, or where they look."""
        if self.is_server:
            return f"They are at {self.shown}."
        if self.is_folder:
            # its newer versions keep to databases unless they are told otherwise
            return f"To see them: MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {self.shown}"
        return f"To see them: mlflow ui --backend-store-uri {self.shown}"


def is_mlflow(destination: str) -> bool:
    """Whether an export's destination is MLflow and no file."""
    return destination.lower().startswith(PREFIX)


def place_of(destination: str) -> MlflowPlace:
    """The place that a destination names, with or without its prefix.

    Raises ProblemError for one that MLflow does not know, and for a folder that holds other things.
    """
    text = destination[len(PREFIX) :] if is_mlflow(destination) else destination
    text = text.strip()
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    if not text:
        _refuse(destination, f"{PREFIX} names no place")
    if scheme in _SERVERS:
        if scheme != "databricks" and not urlsplit(text).hostname:
            _refuse(destination, f"{text} names no server")
        return MlflowPlace(text, _without_password(text), is_server=True)
    if scheme in _DATABASES:
        _check_database(destination)
        return MlflowPlace(text, _without_password(text))
    if scheme not in ("", "file"):
        _refuse(destination, f"MLflow keeps no runs in {scheme}")
    folder = Path(re.sub(r"^file:(//(?=/))?", "", text, flags=re.IGNORECASE)).expanduser().absolute()
    _check_folder(folder, destination)
    return MlflowPlace(folder.as_uri(), str(folder), is_folder=True)


def _check_database(destination: str) -> None:
    if importlib.util.find_spec("sqlalchemy") is None or importlib.util.find_spec("alembic") is None:
        message = "The MLflow that is installed here is its client alone, which opens no databases."
        remedy = "Install mlflow whole, or give a folder or a tracking server."
        raise ProblemError(request_problem(message, remedy, key="to", value=destination, allowed=_ALLOWED))


def _check_folder(folder: Path, destination: str) -> None:
    if not folder.parent.is_dir():
        _refuse(destination, f"There is no folder {folder.parent}")
    if folder.exists() and not folder.is_dir():
        _refuse(destination, f"{folder} is a file")
    if folder.is_dir() and any(folder.iterdir()) and not any(folder.glob("*/meta.yaml")):
        _refuse(destination, f"{folder} holds other files, and no runs of MLflow")


def _without_password(uri: str) -> str:
    parts = urlsplit(uri)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=place, query="")) if parts.netloc else uri.partition("?")[0]


def _refuse(destination: str, sentence: str) -> NoReturn:
    remedy = f"Give {_ALLOWED}."
    problem = request_problem(f"{sentence}.", remedy, key="to", value=destination, allowed=_ALLOWED)
    raise ProblemError(problem)
