"""A connection to MLflow through its own client, to a folder, a database or a tracking server.

It prints nothing, soon reports a server that does not answer, and logs everything or nothing.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit, urlunsplit

from engine.experiment.problem import Kind, Problem, ProblemError, request_problem

if TYPE_CHECKING:
    from mlflow import MlflowClient

PREFIX = "mlflow:"
"""The beginning of a destination such as `mlflow:./mlruns` or `mlflow:http://host:5000`."""

_SERVERS = ("http", "https", "databricks")
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
# at least two letters: a single one is a Windows drive
_SCHEME = re.compile(r"([a-z][a-z0-9.]+)(?:\+[a-z0-9]+)?:", re.IGNORECASE)
_ALLOWED = "a folder, http(s)://HOST:PORT, or a database such as sqlite:///mlflow.db"


@dataclass(frozen=True)
class MlflowPlace:
    """Where MLflow keeps the runs: `uri` for MLflow, `shown` for messages, without a password."""

    uri: str
    shown: str
    is_folder: bool = False
    is_server: bool = False

    @property
    def how_to_open(self) -> str:
        """A sentence on how to see the runs."""
        if self.is_server:
            return f"They are at {self.shown}."
        if self.is_folder:
            # newer versions of MLflow refuse folders by default
            return f"To see them: MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {self.shown}"
        return f"To see them: mlflow ui --backend-store-uri {self.shown}"


def is_mlflow(destination: str) -> bool:
    """Whether an export's destination is MLflow."""
    return destination.lower().startswith(PREFIX)


def place_of(destination: str) -> MlflowPlace:
    """The place that a destination names, with or without its prefix.

    Raises ProblemError for one that MLflow does not know, and for a folder that holds other files.
    """
    text = destination[len(PREFIX) :] if is_mlflow(destination) else destination
    text = text.strip()
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
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
    folder = Path(_path_in(text) if scheme else text).expanduser().absolute()
    _check_folder(folder, destination)
    return MlflowPlace(folder.as_uri(), str(folder), is_folder=True)


def _path_in(uri: str) -> str:
    """The path in a URI such as file:///tmp/runs, file:runs or file:///C:/runs."""
    path = re.sub(r"^file:(//(?=/))?", "", uri, flags=re.IGNORECASE)
    # Windows' drives come after a slash that is no part of the path
    return re.sub(r"^/(?=[a-z]:)", "", path, flags=re.IGNORECASE)


def _check_database(destination: str) -> None:
    if importlib.util.find_spec("sqlalchemy") is None or importlib.util.find_spec("alembic") is None:
        message = "Only MLflow's client is installed here, which cannot open databases."
        remedy = "Install the full mlflow, or give a folder or a tracking server."
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


_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ALLOW_FILE_STORE": "true",
}
"""Set while MLflow is in use: it sends no telemetry, prints nothing to stdout, and may write to a folder."""

_AT_FIRST = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
_AFTERWARDS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
}
"""A missing server is reported at once, not after MLflow's seven attempts of two minutes each."""


@dataclass(frozen=True)
class Connection:
    """MLflow's client and the experiment that runs join; `begun` are the ids of the runs so far."""

    client: MlflowClient
    experiment_id: str
    begun: list[str] = field(default_factory=list)


@contextmanager
def connected(place: MlflowPlace, experiment: str) -> Iterator[Connection]:
    """Connects to `place`, and creates the experiment if it does not exist.

    Raises ProblemError if MLflow is not installed, cannot be reached or refuses; then the new runs are
    deleted.
    """
    with _environment(_QUIET), _answered(place):
        client = _client(place)
        with _environment(_AT_FIRST):
            connection = Connection(client, _experiment(client, experiment))
        with _environment({**_AFTERWARDS, **_set_by_user(_AFTERWARDS)}), _all_or_none(connection):
            yield connection


def _client(place: MlflowPlace) -> MlflowClient:
    try:
        from mlflow import MlflowClient
    except ImportError:
        message = "MLflow is not installed here; it comes with the optional extra `mlflow`."
        remedy = "Install Ammeter with that extra, or export to a file."
        raise ProblemError(request_problem(message, remedy, key="to", value=place.shown)) from None
    return MlflowClient(tracking_uri=place.uri)


def _experiment(client: MlflowClient, name: str) -> str:
    experiment = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if experiment is None else experiment.experiment_id)


def _set_by_user(names: Mapping[str, str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    # MLflow reads these variables at each request, and has no other way
    before = _set_by_user(values)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)
        os.environ.update(before)


@contextmanager
def _all_or_none(connection: Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        from mlflow.exceptions import MlflowException

        for run_id in connection.begun:
            with suppress(MlflowException, OSError):
                connection.client.delete_run(run_id)
        raise


@contextmanager
def _answered(place: MlflowPlace) -> Iterator[None]:
    try:
        yield
    except ProblemError:
        raise
    except OSError as error:
        _fail(place, error.strerror or str(error))
    except Exception as error:
        # imported here, since it exists only with the extra
        from mlflow.exceptions import MlflowException, RestException

        if not isinstance(error, MlflowException):
            raise
        if place.is_server and not isinstance(error, RestException):
            failure = "cannot be reached" if _is_unreachable(error) else "does not answer like one"
            message = f"The MLflow server at {place.shown} {failure}."
            remedy = "Check the address, and that the server runs."
            raise ProblemError(request_problem(message, remedy, key="to", value=place.shown)) from error
        _fail(place, str(error).partition("\n")[0][:200], error)


def _is_unreachable(error: BaseException | None) -> bool:
    # the cause is the network, not an answer
    while error is not None:
        if type(error).__module__.partition(".")[0] in ("requests", "urllib3"):
            return True
        error = error.__cause__ or error.__context__
    return False


def _fail(place: MlflowPlace, reason: str, error: BaseException | None = None) -> NoReturn:
    message = f"MLflow could not take the runs at {place.shown}: {reason.rstrip('.')}."
    remedy = "Nothing was kept there. Choose another place, or export to a file."
    raise ProblemError(Problem(kind=Kind.STORE, message=message, remedy=remedy)) from error
