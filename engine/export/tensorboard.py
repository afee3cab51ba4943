"""TensorBoard event files, in a folder for each run, and the tags of curves and metrics.

MLflow uses the same tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from engine.compare.metrics import energy_of
from engine.curves import Columns
from engine.export.content import Content
from engine.lazy_imports import without
from engine.protocol.events import Epoch, Summary
from engine.store.record import RunRecord, Status
from engine.words.names import applying_settings

_CURVES = {
    "train": ("loss", "learning_rate", "grad_scale", "grad_norm"),
    "speed": ("samples_per_second", "data_wait_ms"),
    "memory": ("allocated_mib", "reserved_mib", "device_used_mib", "resident_mib", "other_programs_mib"),
    "device": (
        *("gpu_utilization_percent", "sm_activity_percent", "tensor_activity_percent"),
        *("memory_activity_percent", "power_watts", "temperature_celsius", "clock_mhz", "slowdown"),
    ),
}
CURVE_TAGS = {name: f"{group}/{name}" for group, names in _CURVES.items() for name in names}
"""The tags of the columns of samples, which have one value per step."""

_EPOCH_TAGS = {
    "train_loss": "train/epoch_loss",
    "validation_loss": "validation/loss",
    "validation_accuracy": "validation/accuracy",
}


def curve_values(columns: Columns) -> Iterator[tuple[int, float, dict[str, float]]]:
    """Yield step, seconds since the start, and values by tag, for each step."""
    tags = {tag: columns[name].tolist() for name, tag in CURVE_TAGS.items() if name in columns}
    steps, seconds = columns["step"].tolist(), columns["seconds"].tolist()
    for step, second, values in zip(steps, seconds, zip(*tags.values(), strict=True), strict=True):
        yield int(step), second, dict(zip(tags, values, strict=True))


def epoch_values(epoch: Epoch) -> dict[str, float]:
    """Return the metrics of an epoch by TensorBoard tag, without metrics that do not apply."""
    values = {tag: getattr(epoch, name) for name, tag in _EPOCH_TAGS.items()}
    return {tag: value for tag, value in values.items() if value is not None}


def summary_values(run: RunRecord) -> dict[str, float]:
    """Return the metrics of a run by TensorBoard tag, without metrics that do not apply."""
    summary, energy = run.summary or (), energy_of(run) or ()
    values = (*summary, *((f"energy_{name}", value) for name, value in energy))
    return {f"summary/{name}": float(value) for name, value in values if isinstance(value, int | float)}


def write_tensorboard(content: Content, path: Path) -> None:
    """Write the folder `path`, in which `tensorboard --logdir` finds each run under its name and id.

    Curves are by step, at their time of measurement. Raises OSError if the folder cannot be written.
    """
    path.mkdir(exist_ok=True)
    for run in content.runs:
        # valid on every system; the id distinguishes runs of the same name
        name = re.sub(r"[^\w.-]+", "_", run.name)[:60].strip("._-") or "run"
        folder = path / f"{name}-{run.experiment.precision.value}-{run.id}"
        with closing(_Events(folder, (run.started or run.created).timestamp())) as events:
            _write_texts(events, run)
            for epoch in content.epochs(run.id):
                events.scalars(epoch.step, epoch.seconds, epoch_values(epoch))
            columns = content.samples[run.id]
            for step, seconds, values in curve_values(columns) if columns else ():
                events.scalars(step, seconds, values)
            _write_metrics(events, run)


class _Events:
    """One event file. `began` is the run's start in seconds since 1970."""

    def __init__(self, folder: Path, began: float) -> None:
        with without("torch"):
            from tensorboardX.proto.event_pb2 import Event
            from tensorboardX.proto.summary_pb2 import Summary as Values
            from tensorboardX.record_writer import RecordWriter
        self.began = began
        self._event, self._values = Event, Values
        folder.mkdir(parents=True)
        self._file = RecordWriter(str(folder / f"events.out.tfevents.{int(began)}.ammeter"))
        self._file.write(Event(wall_time=began, file_version="brain.Event:2").SerializeToString())

    def close(self) -> None:
        self._file.close()

    def scalars(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """Add values by tag at one step."""
        scalar = self._values.Value
        summary = self._values(value=[scalar(tag=tag, simple_value=value) for tag, value in values.items()])
        self.add(summary, step, seconds)

    def add(self, summary: Any, step: int = 0, seconds: float = 0.0) -> None:
        event = self._event(wall_time=self.began + seconds, step=step, summary=summary)
        self._file.write(event.SerializeToString())


def _write_metrics(events: _Events, run: RunRecord) -> None:
    from tensorboardX.proto.api_pb2 import Status as Ending
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData
    from tensorboardX.summary import hparams

    summary = run.summary or Summary()
    metrics = summary_values(run)
    settings = {
        name: value if isinstance(value, str | bool | int | float) else str(value)
        for name, value in applying_settings(run.experiment).items()
        if value is not None
    }
    described, begun, ended = hparams(settings, metrics)
    if run.status not in (Status.FINISHED, Status.STOPPED):
        plugin = ended.value[0].metadata.plugin_data
        session = HParamsPluginData.FromString(plugin.content)
        session.session_end_info.status = Ending.Value("STATUS_FAILURE")
        plugin.content = session.SerializeToString()
    for part in (described, begun, ended):
        events.add(part)
    events.scalars(summary.steps, summary.seconds, metrics)


def _write_texts(events: _Events, run: RunRecord) -> None:
    from tensorboardX.summary import text

    events.add(text("settings", _markdown_table(applying_settings(run.experiment))))
    events.add(text("environment", _markdown_table(run.environment.model_dump() if run.environment else {})))
    facts: dict[str, Any] = {"name": run.name, "id": run.id, "status": run.status.value}
    if run.problem is not None:
        facts["problem"] = run.problem.message
    events.add(text("run", _markdown_table(facts)))


def _markdown_table(rows: Mapping[str, Any]) -> str:
    lines = [f"| {_cell(name)} | {_cell(value)} |" for name, value in rows.items()]
    return "\n".join(["| | |", "| --- | --- |", *lines])


def _cell(value: object) -> str:
    text = "none" if value is None else " ".join(str(value).split())
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&-])", r"\\\1", text)
