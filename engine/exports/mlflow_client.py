"""A connection to MLflow by its own client: quiet, quick to say that nobody answers, and all or none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from engine.exports.mlflow_place import MlflowPlace
from engine.problem import Kind, Problem, ProblemError, request_problem

if TYPE_CHECKING:
    from mlflow import MlflowClient

_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ALLOW_FILE_STORE": "true",
}
"""Set for as long as MLflow is in use: it must send nothing to its makers, print nothing to stdout, which is
the verbs' own, and may write to a folder."""

_AT_FIRST = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
_AFTERWARDS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
}
"""A server that is not there is told at once, not after MLflow's seven attempts of two minutes each."""


@dataclass(frozen=True)
class Connection:
    """MLflow's client, and the experiment that runs join. `begun` are the ids of those begun so far."""

    client: MlflowClient
    experiment_id: str
    begun: list[str] = field(default_factory=list)


@contextmanager
def connected(place: MlflowPlace, experiment: str) -> Iterator[Connection]:
    """Connects to `place`; the experiment is made where it is not there yet.

    Raises ProblemError where MLflow is not installed, cannot be reached or refuses; the runs that were begun
    are deleted then.
    """
    with _environment(_QUIET), _answered(place):
        client = _client(place)
        with _environment(_AT_FIRST):
            connection = Connection(client, _experiment(client, experiment))
        with _environment({**_AFTERWARDS, **_given(_AFTERWARDS)}), _all_or_none(connection):
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
    found = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if found is None else found.experiment_id)


def _given(names: Mapping[str, str]) -> dict[str, str]:
    """What the user has set of these variables."""
    return {name: os.environ[name] for name in names if name in os.environ}


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for a while: MLflow reads them at each request, and has no other way."""
    before = _given(values)
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
        # only here: without the extra there is no such class
        from mlflow.exceptions import MlflowException, RestException

        if not isinstance(error, MlflowException):
            raise
        if place.is_server and not isinstance(error, RestException):
            why = "cannot be reached" if _is_unreachable(error) else "does not answer as one does"
            message = f"The MLflow server at {place.shown} {why}."
            remedy = "Check the address, and that the server runs."
            raise ProblemError(request_problem(message, remedy, key="to", value=place.shown)) from error
        _fail(place, str(error).partition("\n")[0][:200], error)


def _is_unreachable(error: BaseException | None) -> bool:
    """Whether it began with the network, and not with an answer."""
    while error is not None:
        if type(error).__module__.partition(".")[0] in ("requests", "urllib3"):
            return True
        error = error.__cause__ or error.__context__
    return False


def _fail(place: MlflowPlace, reason: str, error: BaseException | None = None) -> NoReturn:
    message = f"MLflow could not take the runs at {place.shown}: {reason.rstrip('.')}."
    remedy = "Nothing was kept there. Choose another place, or export to a file."
    raise ProblemError(Problem(kind=Kind.STORE, message=message, remedy=remedy)) from error
