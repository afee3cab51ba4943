"""What one run came to, as groups of named figures: only those that apply, each with its unit."""

from __future__ import annotations

from collections.abc import Iterator

from engine.events import Summary
from engine.records.figures import MIB_PER_GIB, SPEED, figures, training_peak
from engine.records.large_numbers import number
from engine.records.record import RunRecord

Pair = tuple[str, str]


def summary_groups(run: RunRecord) -> list[tuple[str, list[Pair]]]:
    """Titles with their figures, in the order shown; the first group has no title."""
    summary = run.summary
    if summary is None:
        return []
    groups = (
        ("", [*_outcome(run, summary)]),
        ("How it trained", [*_training(summary)]),
        ("Memory of a step", [*_memory(summary)]),
        ("GPU", [*_card(summary)]),
    )
    return [group for group in groups if group[1]]


def _outcome(run: RunRecord, summary: Summary) -> Iterator[Pair]:
    yield "Speed", _speed(summary)
    for figure in figures([run])[1:]:
        value = figure.value(run)
        if value is not None:
            unit = f" {figure.unit}" if figure.unit else ""
            yield figure.title, f"{figure.text(value)}{unit}{_remark(figure.name, run)}"
    if summary.first_nan_step is not None:
        yield "NaN loss", f"since step {summary.first_nan_step:,}"
    yield "Steps", f"{summary.steps:,}"


def _training(summary: Summary) -> Iterator[Pair]:
    if summary.recipe is not None:
        yield "Recipe", summary.recipe
    for part, why in summary.left_out.items():
        yield "Left out", f"{part}: {why}"
    if summary.float32_mode is not None:
        yield "Products in float32", _FLOAT32[summary.float32_mode]
    if summary.data_wait_fraction is not None:
        yield "Waiting for data", f"{100 * summary.data_wait_fraction:.1f} % of the time"
    if summary.warmup_seconds is not None:
        yield "Warm-up", f"{summary.warmup_seconds:,.1f} s{_of_which(summary)}"
    if summary.paused_seconds is not None:
        yield "Paused", f"{summary.paused_seconds:,.1f} s, in no other figure"


_FLOAT32 = {"strict": "strict", "tf32": "TF32", "default": "as PyTorch comes"}


def _of_which(summary: Summary) -> str:
    named = (("compiling", summary.compile_seconds), ("capturing", summary.capture_seconds))
    known = [f"{name} {seconds:,.1f} s" for name, seconds in named if seconds is not None]
    return f", of which {' and '.join(known)}" if known else ""


def _memory(summary: Summary) -> Iterator[Pair]:
    parts = (
        ("Parameters", summary.parameters_mib),
        ("Gradients", summary.gradients_mib),
        ("Optimizer state", summary.optimizer_state_mib),
        ("Activations", summary.activations_mib),
        ("Other", summary.other_mib),
    )
    return ((name, _size(mib)) for name, mib in parts if mib is not None)


def _card(summary: Summary) -> Iterator[Pair]:
    if summary.gpu_utilization_percent is not None:
        yield "Utilisation", f"{summary.gpu_utilization_percent:.0f} %"
    if summary.power_watts is not None:
        yield "Power", f"{summary.power_watts:,.0f} W"
    if summary.temperature_celsius is not None:
        yield "Temperature", f"{summary.temperature_celsius:.0f} °C at most"
    if summary.clock_mhz is not None:
        yield "Clock", f"{summary.clock_mhz:,.0f} MHz"
    if summary.other_programs_mib is not None:
        yield "Other programs", f"{_size(summary.other_programs_mib)} at most"


def _speed(summary: Summary) -> str:
    if summary.samples_per_second is None:
        return f"none: {summary.speed_note}" if summary.speed_note else "none"
    speed = SPEED.text_with_unit(summary.samples_per_second)
    if summary.samples_per_second_ci is None:
        return speed
    low, high = summary.samples_per_second_ci
    return f"{speed} ({SPEED.text(low)} to {SPEED.text(high)} within this run)"


def _remark(figure_name: str, run: RunRecord) -> str:
    peak, summary = training_peak(run), run.summary
    if figure_name == "peak_memory" and peak is not None:
        return f" {peak[0]}"
    best = None if summary is None else summary.best_validation_accuracy
    if figure_name == "accuracy" and summary is not None and best != summary.final_validation_accuracy:
        after = "" if summary.best_epoch is None else f" after epoch {summary.best_epoch:,}"
        return "" if best is None else f" (best {100 * best:.1f} %{after})"
    return ""


def _size(mib: float) -> str:
    return f"{number(mib / MIB_PER_GIB)} GiB" if mib >= MIB_PER_GIB else f"{number(mib)} MiB"
