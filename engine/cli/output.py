"""Prints the commands' results: runs and comparisons, as text and tables or as a JSON object.

Results go to stdout, as do problems with `--json`. Remarks and progress go to stderr. Metrics that do not
apply to a run are skipped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table

from engine.compare.details import details_of
from engine.compare.failure import Failure
from engine.experiment.experiment import Experiment, all_settings
from engine.experiment.problem import Problem
from engine.experiment.value import printable
from engine.export.document import Document, Section
from engine.export.writers.text import cell_words
from engine.store.record import RunRecord
from engine.words.names import dataset_words
<<<<<<< HEAD
from engine.words.numbers import counted, memory_text

Pair = tuple[str, str]


def summary_groups(run: RunRecord) -> list[tuple[str, list[Pair]]]:
    """Return the title and the metrics of each group, in order. The first group has no title."""
    summary = run.summary
    if summary is None:
        return []
    groups = (
        ("", [*_outcome_rows(run, summary)]),
        ("Training", [*_training(summary)]),
        ("Memory per step", _memory(summary)),
        (BY_DEVICE, [(row.name, row.words) for row in device_rows(summary, run.experiment.dataset)]),
        ("GPU", _gpu(summary)),
    )
    return [group for group in groups if group[1]]


def _outcome_rows(run: RunRecord, summary: Summary) -> Iterator[Pair]:
    yield "Throughput", _throughput(summary)
    for _, disturbance in machine_disturbances(summary):
        yield "Unreliable", f"the run {disturbance}"
    for figure in shown_metrics([run])[1:]:
        value = figure.value(run)
        if value is not None:
            yield figure.title, f"{figure.text_with_unit(value)}{_metric_remark(figure.name, run)}"
    if summary.first_nan_step is not None:
        yield "NaN loss", f"since step {summary.first_nan_step:,}"
    yield "Steps", f"{summary.steps:,}"


def _training(summary: Summary) -> Iterator[Pair]:
    if summary.recipe is not None:
        yield "Optimizations", summary.recipe
    for part, reason in summary.left_out.items():
        yield "Skipped", f"{part}: {reason}"
    for key, reason in summary.not_done.items():
        yield "Not done", f"{setting_title(key)}: {reason}"
    if summary.float32_mode is not None:
        yield "FP32 matmul", _FLOAT32[summary.float32_mode]
    waited = summary.data_wait_fraction
    yield from _known(
        ("Waiting for data", None if waited is None else 100 * waited, "{:.1f}% of the time"),
        ("Warm-up", summary.warmup_seconds, f"{{:,.1f}} s{_memory_parts_words(summary)}"),
        ("Paused", summary.paused_seconds, "{:,.1f} s, excluded from all other metrics"),
    )


_FLOAT32 = {"strict": "strict (TF32 off)", "tf32": "TF32", "default": "PyTorch's default"}


def _known(*rows: tuple[str, float | None, str]) -> list[Pair]:
    return [(title, form.format(value)) for title, value, form in rows if value is not None]


def _memory_parts_words(summary: Summary) -> str:
    parts = (("compiling", summary.compile_seconds), ("capturing", summary.capture_seconds))
    known = [f"{name} {seconds:,.1f} s" for name, seconds in parts if seconds is not None]
    return f", of which {' and '.join(known)}" if known else ""


def _memory(summary: Summary) -> list[Pair]:
    parts = ("parameters", "gradients", "optimizer_state", "activations", "other")
    known = [(part, getattr(summary, f"{part}_mib")) for part in parts]
    return [(part.capitalize().replace("_", " "), memory_text(mib)) for part, mib in known if mib is not None]


def _gpu(summary: Summary) -> list[Pair]:
    others = summary.other_programs_mib
    return [
        *_known(
            ("Utilization", summary.gpu_utilization_percent, "{:.0f}%"),
            ("SMs active", summary.sm_activity_percent, "{:.0f}%"),
            ("Tensor Cores active", summary.tensor_activity_percent, "{:.0f}%"),
            ("Memory active", summary.memory_activity_percent, "{:.0f}%"),
            ("Power", summary.power_watts, "{:,.0f} W"),
            ("Temperature", summary.temperature_celsius, "up to {:.0f} °C"),
            ("Clock", summary.clock_mhz, "{:,.0f} MHz"),
        ),
        *([] if others is None else [("Other programs", f"up to {memory_text(others)}")]),
    ]


def _throughput(summary: Summary) -> str:
    if summary.samples_per_second is None:
        return f"not measured: {in_sentence(summary.speed_note)}" if summary.speed_note else "not measured"
    speed = SPEED.text_with_unit(summary.samples_per_second)
    if summary.samples_per_second_ci is None:
        return speed
    low, high = summary.samples_per_second_ci
    return f"{speed} ({SPEED.text(low)} to {SPEED.text(high)} within the run)"


def _metric_remark(figure_name: str, run: RunRecord) -> str:
    peak, summary = training_peak(run), run.summary
    if figure_name == "peak_memory" and peak is not None:
        return f" {peak[0]}"
    energy = energy_of(run)
    if figure_name == ENERGY.name and energy is not None:
        return f" ({step_energy_text(energy)})"
    best = None if summary is None else summary.best_validation_accuracy
    if figure_name == "accuracy" and summary is not None and best != summary.final_validation_accuracy:
        after = "" if summary.best_epoch is None else f" after epoch {summary.best_epoch:,}"
        return "" if best is None else f" (best {100 * best:.1f}%{after})"
    return ""

=======
from engine.words.numbers import counted
>>>>>>> main

_WIDTH_WITHOUT_TERMINAL = 160


def json_object(value: dict[str, Any]) -> None:
    """Print `value` as the single object of `--json`. NaN and infinity must already be text."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")
    sys.stdout.flush()


def json_object_of(name: str, entries: Iterable[dict[str, Any]], rest: Callable[[], dict[str, Any]]) -> None:
    """Print the single object of `--json` without keeping it in memory.

    It starts with the list `entries` under the key `name`. The result of `rest` follows.
    """
    sys.stdout.write(f'{{"{name}": [')
    for place, entry in enumerate(entries):
        sys.stdout.write((", " if place else "") + json.dumps(entry, allow_nan=False))
    sys.stdout.write(f"], {json.dumps(rest(), allow_nan=False)[1:]}\n")
    sys.stdout.flush()


def outcome(as_json: bool, value: dict[str, Any], *lines: str) -> None:
    """Print the result of a command: `value` as the single object of `--json`, or else as lines of text."""
    if as_json:
        json_object(value)
    else:
        for text in lines:
            line(text)


def error(problem: Problem, as_json: bool, **values: Any) -> None:
    """Print a problem: on stdout as JSON, together with `values`, or on stderr as two lines."""
    if as_json:
        json_object({"error": problem.model_dump(mode="json"), **values})
    else:
        console = _console(sys.stderr)
        # on the command line, settings are set by their keys
        key = f" ({problem.key})" if problem.key in all_settings() else ""
        console.print(f"ammeter: {printable(problem.message)}{key}", soft_wrap=True)
        console.print(f"         {printable(problem.remedy)}", soft_wrap=True)


def failure(failed: Failure) -> None:
    """Print why a run failed, and the remedies, on stderr."""
    console, (title, *others) = _console(sys.stderr), failed.lines()
    console.print(f"ammeter: {printable(title)}", soft_wrap=True)
    for text in others:
        console.print(f"         {printable(text)}", soft_wrap=True)


def line(text: str = "") -> None:
    """Print a line on stdout."""
    _console(sys.stdout).print(printable(text), soft_wrap=True)


def source(text: str) -> None:
    """Print the text of a program, with its tabs."""
    sys.stdout.write(f"{printable(text).rstrip()}\n")


def warning(text: str) -> None:
    """Print a remark on stderr, for people and scripts."""
    _console(sys.stderr).print(f"ammeter: {printable(text)}", soft_wrap=True)


def aside(text: str) -> None:
    """Print a remark on stderr, for people: only on a terminal."""
    if sys.stderr.isatty():
        _console(sys.stderr).print(printable(text), soft_wrap=True)


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair per line."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(printable(name), printable(value))
    _draw(table)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Print a table. The columns in `right` are aligned to the right."""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        grid.add_column(printable(heading), justify="right" if heading in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*map(printable, row))
    _draw(grid)


def long_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a part of a table of thousands of rows, without folding, which takes a millisecond per row."""
    cells = [headings, *(tuple(map(printable, row)) for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def document(shown: Document, most_rows: int = 1_000_000) -> None:
    """Print a document: title, answers and sections, without its setup."""
    line(shown.title)
    for answer in shown.answers:
        line(answer.text)
    for text in shown.warnings:
        line(f"Caution: {text}")
    line()
    sections((section for section in shown.sections if section.part == "answer"), most_rows)


def sections(shown: Iterable[Section], most_rows: int = 1_000_000) -> None:
    """Print sections: sentences, and tables of at most `most_rows` rows. Charts alone are skipped."""
    written = (section for section in shown if section.sentences or section.rows or section.notes)
    for place, section in enumerate(written):
        if place:
            line()
        line(section.title)
        for sentence in section.sentences:
            line(sentence)
        if section.pairs:
            pairs(section.pairs)
        rows, more = section.first_rows(most_rows)
        if rows:
            table(section.headings, [list(map(cell_words, row)) for row in rows], section.right)
        if more:
            line(f"{counted(more, 'more row')}. --json prints all.")
        for note in section.notes:
            line(note)


def when(moment: datetime) -> str:
    """Format a time for a list, in local time."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def progress_console() -> Console:
    """Return the console of progress lines, on stderr."""
    return _console(sys.stderr)


def _draw(grid: Table) -> None:
    console = _console(sys.stdout)
    with console.capture() as captured:
        console.print(grid)
    # rich pads every line to the table's width, which is noise in a file
    sys.stdout.writelines(f"{row.rstrip()}\n" for row in captured.get().splitlines())


def _console(stream: Any) -> Console:
    width = None if stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width)


def title(experiment: Experiment) -> str:
    """Return the model, its data and the precision as text."""
    return f"{experiment.model} on {dataset_words(experiment.dataset)}, {experiment.precision.label}"


def run_summary(run: RunRecord) -> None:
    """Print the metrics of a run in groups, and its id."""
    line(f"{run.name}: {title(run.experiment)}{f' on {run.machine}' if run.machine else ''}")
    groups = details_of(run)
    for heading, rows in groups:
        if heading:
            line(f"\n{heading}")
        pairs(rows)
    if len(groups) > 1:
        line()
    line(f"{run.status.value.capitalize()}. Saved as {run.id}.")
