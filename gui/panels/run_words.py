"""What a run consisted of, in words: recipe, warm-up, memory, the card. For details and tooltips; no Qt."""

from __future__ import annotations

from engine.events import Summary
from engine.experiment import Experiment
from engine.records.large_numbers import number
from engine.records.sides import Side
from gui.panels.recipe_names import left_out_words, recipe_title

_FLOAT32 = {
    "strict": "strict, TF32 off",
    "tf32": "in TF32",
    "default": "as PyTorch comes: convolutions in TF32",
}
_MEMORY = (
    ("parameters_mib", "parameters"),
    ("gradients_mib", "gradients"),
    ("optimizer_state_mib", "optimizer state"),
    ("activations_mib", "activations"),
    ("other_mib", "other"),
)


def side_runs(side: Side) -> str:
    """Which runs a side consists of, in a few words: "Run 12", or "3 repeats"."""
    return side.names[0] if len(side.names) == 1 else f"{len(side.names)} repeats"


def detail_lines(experiment: Experiment | None, summary: Summary | None) -> dict[str, str]:
    """What is known of a run, by name; before it has ended only what was asked for."""
    if summary is None:
        return {} if experiment is None else {"Recipe asked for": recipe_title(experiment.step.recipe)}
    lines = {
        "Recipe in force": recipe_title(summary.recipe) if summary.recipe else "",
        "Left out": left_out_words(summary.left_out),
        "Products in FP32": _FLOAT32.get(summary.float32_mode or "", ""),
        "Warm-up, not counted": _warmup(summary),
        "Waiting for data": _percent(summary.data_wait_fraction),
        "The card": _card(summary),
        "First NaN": f"at step {summary.first_nan_step:,}" if summary.first_nan_step is not None else "",
        "Best epoch": f"{summary.best_epoch:,}" if summary.best_epoch is not None else "",
        "Paused": _seconds(summary.paused_seconds) if summary.paused_seconds else "",
    }
    return {name: words for name, words in lines.items() if words}


def memory_parts(summary: Summary | None) -> tuple[tuple[str, float], ...]:
    """The breakdown of the memory of one step as (name, MiB); empty where nobody measured."""
    if summary is None:
        return ()
    found = ((words, getattr(summary, name)) for name, words in _MEMORY)
    return tuple((words, float(size)) for words, size in found if size is not None)


def _warmup(summary: Summary) -> str:
    if summary.warmup_seconds is None:
        return ""
    within = [
        f"{name} {_seconds(seconds)}"
        for name, seconds in (("compiling", summary.compile_seconds), ("capturing", summary.capture_seconds))
        if seconds
    ]
    of_it = f", of it {' and '.join(within)}" if within else ""
    return f"{_seconds(summary.warmup_seconds)}{of_it}"


def _card(summary: Summary) -> str:
    busy, power = summary.gpu_utilization_percent, summary.power_watts
    heat, clock, others = summary.temperature_celsius, summary.clock_mhz, summary.other_programs_mib
    parts = (
        f"{busy:.0f} % busy" if busy is not None else "",
        f"{number(power, 0)} W" if power is not None else "",
        f"{number(clock, 0)} MHz" if clock is not None else "",
        f"up to {heat:.0f} °C" if heat is not None else "",
        f"other programs up to {others / 1024:.1f} GiB" if others else "",
    )
    return ", ".join(part for part in parts if part)


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{fraction * 100:.1f} % of the time"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s"
