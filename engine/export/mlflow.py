"""Sending runs to MLflow through its own client, an optional extra: to a folder, database or tracking server.

Nothing is printed. A server that does not answer is reported soon. Either all runs are kept or none.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit, urlunsplit

from engine.curves import Columns
from engine.experiment.problem import Kind, Problem, ProblemError, request_error
from engine.export.content import Content
from engine.export.formats import MLFLOW, is_mlflow
from engine.export.tensorboard import curve_values, epoch_values, summary_values
from engine.protocol.events import Epoch
from engine.store.record import RunRecord, Status
from engine.words.names import applying_settings

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "Ammeter"  # the MLflow experiment of the runs, unless MLFLOW_EXPERIMENT_NAME names another
MOST_STEPS = 2_500  # a longer run sends every nth: MLflow draws no more, and a million take many minutes
_MOST_METRICS, _MOST_PARAMETERS, _MOST_LETTERS = 1_000, 100, 6_000
"""MLflow's limits of a request, and of a parameter's length."""

_SERVERS = ("http", "https", "databricks")
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
# at least two letters: a single one is a Windows drive
_SCHEME = re.compile(r"([a-z][a-z0-9.]+)(?:\+[a-z0-9]+)?:", re.IGNORECASE)
_ALLOWED = "a folder, http(s)://HOST:PORT, or a database such as sqlite:///mlflow.db"


@dataclass(frozen=True)
class MlflowDestination:
    """The location to which MLflow logs runs: `uri` for MLflow, `shown` without a password for messages."""

    uri: str
    shown: str
    is_folder: bool = False
    is_server: bool = False

    @property
    def how_to_open(self) -> str:
        """A sentence on how to open the runs."""
        if self.is_server:
            return f"They are at {self.shown}."
        # newer versions of MLflow refuse folders by default
        allow = "MLFLOW_ALLOW_FILE_STORE=true " if self.is_folder else ""
        return f"To open them: {allow}mlflow ui --backend-store-uri {self.shown}"


def parse_destination(destination: str) -> MlflowDestination:
    """Return the location that a destination names, with or without its prefix.

    Raises ProblemError if MLflow does not support it, and for a folder that contains other files.
    """
    text = (destination[len(MLFLOW) :] if is_mlflow(destination) else destination).strip()
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    remedy = f"Use {_ALLOWED}."
    if not text:
        fault = f"{MLFLOW} needs a destination"
    elif scheme in _SERVERS:
        if scheme == "databricks" or urlsplit(text).hostname:
            return MlflowDestination(text, _without_password(text), is_server=True)
        fault = f"{text} does not name a server"
    elif scheme in _DATABASES:
        if all(importlib.util.find_spec(name) for name in ("sqlalchemy", "alembic")):
            return MlflowDestination(text, _without_password(text))
        fault = "Only the MLflow client is installed, which cannot open databases"
        remedy = "Install the full mlflow package, or use a folder or a tracking server."
    elif scheme not in ("", "file"):
        fault = f"MLflow does not support {scheme}"
    else:
        folder = Path(_path_in(text) if scheme else text).expanduser().absolute()
        if not folder.parent.is_dir():
            fault = f"The folder {folder.parent} does not exist"
        elif folder.exists() and not folder.is_dir():
            fault = f"{folder} is a file"
        elif folder.is_dir() and any(folder.iterdir()) and not any(folder.glob("*/meta.yaml")):
            fault = f"{folder} contains other files but no MLflow runs"
        else:
            return MlflowDestination(folder.as_uri(), str(folder), is_folder=True)
    raise request_error(f"{fault}.", remedy, key="to", value=destination, allowed=_ALLOWED)


def _path_in(uri: str) -> str:
    path = re.sub(r"^file:(//(?=/))?", "", uri, flags=re.IGNORECASE)
    # Windows' drives come after a slash that is no part of the path
    return re.sub(r"^/(?=[a-z]:)", "", path, flags=re.IGNORECASE)


def _without_password(uri: str) -> str:
    parts = urlsplit(uri)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=place, query="")) if parts.netloc else uri.partition("?")[0]


@dataclass(frozen=True)
class Logged:
    """The result of logging runs to MLflow, with MLflow's run ids in the order of `Content.runs`.

    For the runs in `thinned`, only some of the steps were logged.
    """

    place: MlflowDestination
    experiment: str
    run_ids: tuple[str, ...]
    thinned: tuple[RunRecord, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences on the runs sent, the steps omitted, and how to open them."""
        count = "1 run is" if len(self.run_ids) == 1 else f"{len(self.run_ids):,} runs are"
        sentences = [f"{count} in MLflow's experiment {self.experiment}."]
        if self.thinned:
            names = ", ".join(run.name for run in self.thinned)
            sentences.append(f"Not every step was sent of runs longer than {MOST_STEPS:,} steps: {names}.")
        return (*sentences, self.place.how_to_open)


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


def log_runs(content: Content, destination: str) -> Logged:
    """Send all runs to `destination`, as in `mlflow:./mlruns` or `mlflow:http://host:5000`.

    Each becomes a new run: settings are parameters, curves are metrics by step at their time of measurement,
    the environment is tags. Raises ProblemError if MLflow is not installed, cannot be reached or refuses,
    and then deletes the new runs.
    """
    place = parse_destination(destination)
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    begun: list[str] = []
    thinned = []
    with _environment(_QUIET), _answered(place):
        try:
            from mlflow import MlflowClient
        except ImportError:
            message = "MLflow is not installed. It comes with the optional extra `mlflow`."
            remedy = "Install Ammeter with that extra, or export to a file."
            raise request_error(message, remedy, key="to", value=place.shown) from None
        client = MlflowClient(tracking_uri=place.uri)
        with _environment(_AT_FIRST):
            known = client.get_experiment_by_name(name)
            experiment = str(client.create_experiment(name) if known is None else known.experiment_id)
        with _environment({**_AFTERWARDS, **_set_by_user(_AFTERWARDS)}), _all_or_none(client, begun):
            for run in content.runs:
                curves = content.samples[run.id]
                tags = _tags(run, _stride(curves))
                sent = client.create_run(experiment, _start_ms(run), tags=tags, run_name=run.name)
                begun.append(sent.info.run_id)
                _send(client, begun[-1], run, curves, content.epochs(run.id))
                thinned += [run] if _stride(curves) > 1 else []
    return Logged(place, name, tuple(begun), tuple(thinned))


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
def _all_or_none(client: MlflowClient, begun: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        from mlflow.exceptions import MlflowException

        for run_id in begun:
            with suppress(MlflowException, OSError):
                client.delete_run(run_id)
        raise


@contextmanager
def _answered(place: MlflowDestination) -> Iterator[None]:
    try:
        yield
    except ProblemError:
        raise
    except OSError as error:
        _raise_store_problem(place, error.strerror or str(error))
    except Exception as error:
        # imported here, since it exists only with the extra
        from mlflow.exceptions import MlflowException, RestException

        if not isinstance(error, MlflowException):
            raise
        if place.is_server and not isinstance(error, RestException):
            failure = "cannot be reached" if _is_unreachable(error) else "does not respond like MLflow"
            message = f"The MLflow server at {place.shown} {failure}."
            remedy = "Check the address and whether the server is running."
            raise request_error(message, remedy, key="to", value=place.shown) from error
        _raise_store_problem(place, str(error).partition("\n")[0][:200], error)


def _is_unreachable(error: BaseException | None) -> bool:
    # the cause is the network, not an answer
    while error is not None:
        if type(error).__module__.partition(".")[0] in ("requests", "urllib3"):
            return True
        error = error.__cause__ or error.__context__
    return False


def _raise_store_problem(
    place: MlflowDestination, reason: str, error: BaseException | None = None
) -> NoReturn:
    message = f"Could not send the runs to MLflow at {place.shown}: {reason.rstrip('.')}."
    remedy = "Nothing was kept there. Choose another destination, or export to a file."
    raise ProblemError(Problem(kind=Kind.STORE, message=message, remedy=remedy)) from error


_ENDINGS = {
    Status.FINISHED: "FINISHED",
    Status.STOPPED: "KILLED",
    Status.INTERRUPTED: "KILLED",
    Status.FAILED: "FAILED",
}


def _start_ms(run: RunRecord) -> int:
    return round((run.started or run.created).timestamp() * 1_000)


def _send(
    client: MlflowClient, run_id: str, run: RunRecord, curves: Columns, epochs: Sequence[Epoch]
) -> None:
    from mlflow.entities import Metric, Param

    settings = applying_settings(run.experiment).items()
    parameters = [Param(name, str(value)[:_MOST_LETTERS]) for name, value in settings]
    for first in range(0, len(parameters), _MOST_PARAMETERS):
        client.log_batch(run_id, params=parameters[first : first + _MOST_PARAMETERS], synchronous=True)
    metrics = [
        Metric(tag, value, _start_ms(run) + round(seconds * 1_000), step)
        for step, seconds, metrics in _run_metrics(run, curves, epochs)
        for tag, value in metrics.items()
    ]
    for first in range(0, len(metrics), _MOST_METRICS):
        client.log_batch(run_id, metrics=metrics[first : first + _MOST_METRICS], synchronous=True)
    if run.status in _ENDINGS:
        end_ms = round(run.ended.timestamp() * 1_000) if run.ended else None
        client.set_terminated(run_id, _ENDINGS[run.status], end_ms)
    elif run.status is Status.QUEUED:
        client.update_run(run_id, status="SCHEDULED")


def _run_metrics(
    run: RunRecord, curves: Columns, epochs: Sequence[Epoch]
) -> Iterator[tuple[int, float, dict[str, float]]]:
    if curves:
        count = len(curves["step"])
        rows = sorted({*range(0, count, _stride(curves)), count - 1})
        yield from curve_values({name: column[rows] for name, column in curves.items()})
    for epoch in epochs:
        yield epoch.step, epoch.seconds, epoch_values(epoch)
    if run.summary is not None:
        yield run.summary.steps, run.summary.seconds, summary_values(run)


def _tags(run: RunRecord, stride: int) -> dict[str, str]:
    environment = run.environment.model_dump() if run.environment else {}
    tags: dict[str, object] = {
        "ammeter.run": run.id,
        "ammeter.status": run.status.value,
        "ammeter.precision": run.experiment.precision.label,
        "ammeter.comparison": run.comparison,
        "ammeter.label": run.label,
        "ammeter.problem": run.problem.message if run.problem else None,
        "ammeter.steps_sent": f"1 of {stride:,}, and the last" if stride > 1 else None,
        **{f"environment.{name}": value for name, value in environment.items()},
    }
    return {name: str(value)[:_MOST_LETTERS] for name, value in tags.items() if value is not None}


def _stride(curves: Columns) -> int:
    return -(-len(curves["step"]) // MOST_STEPS) if curves else 1
