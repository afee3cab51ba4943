"""The details of a run in words: its metrics, training, memory by part, devices and GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.compare.evidence import machine_disturbances
from engine.compare.metrics import DATA_WAIT, ENERGY, SPEED, AnyRun, Metric, shown_metrics, training_peak
from engine.compare.observed import OBSERVED, cautions_of, facts_of
from engine.compare.payback import CACHES
from engine.compare.verdict import step_energy_text
from engine.experiment.experiment import setting_title
from engine.experiment.value import in_sentence
from engine.protocol.summary import Compilation, RankMetrics, Summary, slowest_rank
from engine.words.names import Trained, left_out_words, recipe_title, speed_unit
from engine.words.numbers import NONE, memory_text, number

HEADINGS = ("Device", "Throughput", "Step time", "Synchronizing gradients", "Peak memory", "Waiting for data")
_IN_A_LINE = ("{}", "step {}", "synchronizing gradients {}", "peak {}", "waiting for data {}")
BY_DEVICE, MEMORY = "By device", "Memory per step"


@dataclass(frozen=True)
class DeviceRow:
    """The table row of one device in a multi-device run: its name and its metrics, one per column.

    A metric that is unknown is `NONE`.
    """

    name: str
    cells: tuple[str, ...]

    @property
    def words(self) -> str:
        """The known metrics in one line."""
        known = zip(_IN_A_LINE, self.cells, strict=True)
        return " · ".join(form.format(cell) for form, cell in known if cell != NONE)


def device_rows(summary: Summary | None, trained: Trained) -> tuple[DeviceRow, ...]:
    """Return one row per device. The slowest device and the largest peak are marked, unless all are alike."""
    return () if summary is None else tuple(_rows(summary.ranks, speed_unit([trained])))


def _rows(ranks: Sequence[RankMetrics], unit: str) -> Iterator[DeviceRow]:
    slowest = slowest_rank(ranks)
    peaks = [rank.peak_mib for rank in ranks if rank.peak_mib is not None]
    largest = max(peaks) if len(peaks) == len(ranks) and len(set(peaks)) > 1 else None
    for place, rank in enumerate(ranks):
        exchange = rank.communication_ms
        speed = NONE if rank.samples_per_second is None else f"{SPEED.text(rank.samples_per_second)} {unit}"
        peak = NONE if rank.peak_mib is None else memory_text(rank.peak_mib)
        cells = (
            f"{speed}, slowest" if slowest is not None and place == slowest[0] else speed,
            NONE if rank.step_ms is None else f"{number(rank.step_ms)} ms",
            NONE if exchange is None else f"{number(exchange)} ms",
            f"{peak}, largest" if largest is not None and rank.peak_mib == largest else peak,
            NONE if rank.data_wait_fraction is None else f"{100 * rank.data_wait_fraction:.1f}%",
        )
        yield DeviceRow(f"Rank {place}, {rank.device}", cells)


Pair = tuple[str, str]
_FLOAT32 = {
    "strict": "strict (TF32 off)",
    "tf32": "TF32",
    "default": "PyTorch's default (TF32 in convolutions)",
}


def details_of(run: AnyRun) -> list[tuple[str, list[Pair]]]:
    """Return the details of a run that has ended, in groups: the title, and names with values.

    The first group, of the metrics, has no title. What is unknown is left out.
    """
    summary = run.summary
    if summary is None:
        return []
    seen = [*_seen(run, summary)]
    groups = (
        ("", [*_metrics(run, summary)]),
        (OBSERVED, seen if summary.observed is not None else []),
        ("Training", [*(seen if summary.observed is None else []), *_training(summary)]),
        (MEMORY, [(part.capitalize(), memory_text(mib)) for part, mib in memory_parts(summary)]),
        (BY_DEVICE, [(row.name, row.words) for row in device_rows(summary, run.experiment)]),
    )
    known = ((title, [pair for pair in rows if pair[1]]) for title, rows in groups)
    return [(title, rows) for title, rows in known if rows]


def memory_parts(summary: Summary) -> tuple[tuple[str, float], ...]:
    """Return the memory of one step by part, as (name, MiB). Empty if it was not measured."""
    parts = ("parameters", "gradients", "optimizer_state", "activations", "other")
    known = ((part.replace("_", " "), getattr(summary, f"{part}_mib")) for part in parts)
    return tuple((part, float(mib)) for part, mib in known if mib is not None)


def gpu_words(
    value: Callable[[str], float | None], throttled_by: Sequence[str] = (), *, is_over: bool
) -> str:
    """Return what a GPU's sensors report, in a line. Empty if they report nothing.

    `value` returns the metric of a name of `Summary`. Of a run that `is_over` these are means, and maxima of
    the temperature and of the memory of other programs.
    """
    most = "up to " if is_over else ""
    reasons = f" (throttled by {' and '.join(throttled_by)})" if throttled_by else ""
    parts = (
        ("gpu_utilization_percent", "busy {:.0f}%"),
        ("tensor_activity_percent", "Tensor Cores {:.0f}%"),
        ("sm_activity_percent", "SMs {:.0f}%"),
        ("memory_activity_percent", "memory {:.0f}%"),
        ("power_watts", "{:,.0f} W"),
        ("temperature_celsius", f"{most}{{:.0f}} °C"),
        ("clock_mhz", f"{{:,.0f}} MHz{reasons}"),
    )
    known = [form.format(found) for name, form in parts if (found := value(name)) is not None]
    if others := value("other_programs_mib"):
        known.append(f"other programs {most}{memory_text(others)}")
    return " · ".join(known)


def _seen(run: AnyRun, summary: Summary) -> Iterator[Pair]:
    yield from ((fact.title, fact.text) for fact in facts_of(summary))
    yield "Caution", "\n".join(cautions_of(summary, run.experiment.precision))


def _metrics(run: AnyRun, summary: Summary) -> Iterator[Pair]:
    speed, *others = shown_metrics([run])
    yield speed.title, _speed(speed, summary)
    yield "Unreliable", "\n".join(f"the run {clause}" for _, clause in machine_disturbances(summary))
    for metric in others:
        value = metric.value(run)
        if value is not None:
            yield metric.title, f"{metric.text_with_unit(value)}{_remark(metric, run, summary)}"
    yield "First NaN", "" if summary.first_nan_step is None else f"at step {summary.first_nan_step:,}"
    yield "Steps", f"{summary.steps:,}"


def _speed(metric: Metric, summary: Summary) -> str:
    if summary.samples_per_second is None:
        return f"not measured: {in_sentence(summary.speed_note)}" if summary.speed_note else "not measured"
    speed = metric.text_with_unit(summary.samples_per_second)
    if summary.samples_per_second_ci is None:
        return speed
    low, high = map(metric.text, summary.samples_per_second_ci)
    return f"{speed} ({low} to {high} within the run)"


def _remark(metric: Metric, run: AnyRun, summary: Summary) -> str:
    peak, best = training_peak(run), summary.best_validation_accuracy
    if metric.name == "peak_memory" and peak is not None:
        return f" {peak[0]}"
    if metric.name == ENERGY.name and summary.energy is not None:
        return f" ({step_energy_text(summary.energy)})"
    if metric.name == "accuracy" and best is not None and best != summary.final_validation_accuracy:
        after = "" if summary.best_epoch is None else f" after epoch {summary.best_epoch:,}"
        return f" (best {100 * best:.1f}%{after})"
    return ""


def _training(summary: Summary) -> Iterator[Pair]:
    not_done = (f"{setting_title(key)}: {why.rstrip('.')}" for key, why in summary.not_done.items())
    yield "Applied optimizations", recipe_title(summary.recipe or "")
    yield "Not applied", "\n".join(filter(None, (left_out_words(summary.left_out), *not_done)))
    yield "FP32 matmul", _FLOAT32.get(summary.float32_mode or "", "")
    compiled = summary.compilation or Compilation()
    parts = (("compiling", summary.compile_seconds), ("capturing", summary.capture_seconds))
    known = " and ".join(f"{name} {_seconds(seconds)}" for name, seconds in parts if seconds)
    known += f" (with {CACHES[compiled.is_cached]})" if known and compiled.is_cached is not None else ""
    yield "Warm-up", f"{_seconds(summary.warmup_seconds)}{f', including {known}' if known else ''}"
    for title, count in (
        ("Recompilations", compiled.recompilations),
        ("Graph breaks", compiled.graph_breaks),
    ):
        found = compiled.events_of(title.lower().removesuffix("s"))
        yield title, "\n".join((f"{count:,}", *(event.words for event in found))) if count else ""
    waited = summary.data_wait_fraction
    yield DATA_WAIT.title, "" if waited is None else DATA_WAIT.text_with_unit(100 * waited)
    paused = _seconds(summary.paused_seconds or None)
    yield "Paused", paused and f"{paused}, excluded from all other metrics"
    yield "GPU", gpu_words(lambda name: getattr(summary, name), summary.slowed_by, is_over=True)


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:,.1f} s"
