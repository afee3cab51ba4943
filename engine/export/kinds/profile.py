"""Makes the document of a profile: each side's bottleneck, the parts of the step, the device's limits, and
tables.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from engine.experiment.problem import request_error
from engine.experiment.value import shortened
from engine.export.document import (
    Action,
    Cells,
    CellText,
    Conclusion,
    Document,
    Picture,
    Row,
    Section,
    advice_sections,
    document_of,
    use_action,
)
from engine.profile.charts import bars_drawing, roofline_drawing
from engine.profile.gain import gains, headline
from engine.profile.names import ENERGY_COUNTERS, advice_by_side, failures, part_title, side_names
from engine.profile.tables import (
    BY_DEVICE,
    BY_SIZE,
    DEVICE_HEADINGS,
    HOW_MEASURED,
    NOUNS,
    SIZE_HEADINGS,
    TABLES,
    Table,
    columns_of,
    communication_sentences,
    device_rows,
    side_rows,
    size_rows,
)
from engine.profile.verdict import PEAK_MEANING, PEAK_TITLE, peak_sentence, verdicts
from engine.protocol.profile import Bar, Profiles, StepPart, StepProfile
from engine.protocol.ranges import module_title
from engine.store.saved.studies import Study, traces_of
from engine.words.numbers import NONE, counted, number, share_text, throughput_text

BAR, PARTS, LIMITS = "Where the time goes", "Parts of a step", "How close to the hardware limits"
STEP, OPERATIONS, ROOFLINE, DEVICES = "Step", "Operations", "Roofline", "Devices"
TRACE = ".json.gz"
_LONGEST_NAME, _ROOFLINE_HEIGHT = 40, 420.0
_SHOWN_BRIEFLY = ("ms", "TFLOP/s", "GFLOP/s")

_Named = list[tuple[str, StepProfile]]


def document(study: Study[Profiles], *, brief: bool = False) -> Document:
    """Return the document of a profile. `brief` shortens names and omits columns, for a terminal."""
    profiles = study.answer
    experiments = [side.experiment for side in profiles.sides]
    return document_of(
        study,
        "profile",
        f"Where the time of {experiments[0].model} goes: {', '.join(side_names(profiles))}",
        experiments,
        sections(profiles, brief=brief),
        answers=_answers(profiles),
        warnings=failures(profiles),
        tables={
            "parts": lambda: _step_part_rows(profiles),
            "sides": lambda: _side_rows(profiles),
            **{table: partial(_time_rows, profiles, table) for table in TABLES},
            "devices": lambda: _rank_rows(profiles),
            "advice": lambda: (
                {"sides": names, **item.model_dump(mode="json"), "changes": dict(item.changes)}
                for names, item in advice_by_side(profiles)
            ),
        },
        values=lambda: values(profiles),
        most_rows=100,
    )


def values(profiles: Profiles) -> dict[str, Any]:
    """Return the sides with profiles, verdicts, gains over the first and problems, for --json."""
    sides = zip(side_names(profiles), verdicts(profiles), gains(profiles), profiles.sides, strict=True)
    return {
        "sides": [
            {
                "name": name,
                "verdict": None if verdict is None else asdict(verdict),
                "gain": None if gain is None else asdict(gain),
                "fraction_of_measured_peak": getattr(side.profile, "fraction_of_measured_peak", None),
                **json.loads(side.model_dump_json()),
            }
            for name, verdict, gain, side in sides
        ]
    }


def write_traces(study: Study[Profiles], path: Path) -> None:
    """Copy the traces to `path` and to numbered files next to it. Raises ProblemError if one is missing."""
    traces = () if study.folder is None else traces_of(study.answer, study.folder)
    if not traces:
        message = "This profile has no trace, or it was deleted."
        raise request_error(message, "Run the profile again.", key="to", value=path.name)
    for place, trace in enumerate(traces, 1):
        beside = f"{path.name[: -len(TRACE)]}-{place}{TRACE}"
        shutil.copyfile(trace, path if place == 1 else path.with_name(beside))
    if missing := len(study.answer.measured()) - len(traces):
        message = f"{missing} of {len(traces) + missing} traces could not be exported, the others were."
        raise request_error(message, "Run the profile again.", key="to", value=path.name)


def sections(profiles: Profiles, *, brief: bool = False) -> tuple[Section, ...]:
    """Return the known parts as sections, with the longest table rows first.

    With multiple sides, tables omit shares and calls, which would not fit a page. `brief` is for a terminal:
    long names are cut, and the tables have fewer columns.
    """
    measured = _measured(profiles)
    if not measured:
        return ()
    parts: list[Section | None] = [_bar(profiles), parts_table(profiles), *_bounds(profiles)]
    parts += advice_sections(advice_by_side(profiles), tab=STEP)
    parts += [*_communication_section(profiles), _limits(profiles, measured, brief=brief), _energy(measured)]
    parts += [_table_section(profiles, table, brief=brief) for table in TABLES]
    return tuple(part for part in parts if part is not None)


def _answers(profiles: Profiles) -> tuple[Conclusion, ...]:
    measured = profiles.measured()
    if not measured:
        return ()
    pieces, notes = headline(profiles)
    each = " of each" if len(measured) > 1 else ""
    return (Conclusion(None, pieces, (*notes, f"{counted(measured[0].steps, 'step')} recorded{each}")),)


def _measured(profiles: Profiles) -> _Named:
    return [
        (name, side.profile)
        for name, side in zip(side_names(profiles), profiles.sides, strict=True)
        if side.profile is not None
    ]


def _with_side_name(name: str, text: str, measured: _Named) -> str:
    return f"{name}: {text}" if len(measured) > 1 else text


def _bar(profiles: Profiles) -> Section:
    return Section(BAR, pictures=(bars_picture(profiles),), is_drawn=True, tab=STEP, widget="bars")


def parts_table(profiles: Profiles) -> Section:
    """Return the parts of each side's step, and of two sides their difference."""
    measured = _measured(profiles)
    has_difference = len(measured) == 2
    headings = ("Part", *(f"{name}{unit}" for name, _ in measured for unit in (", ms", ", share")))
    headings += ("Difference, ms",) if has_difference else ()
    rows, notes = tuple(_parts_section(measured, has_difference=has_difference)), tuple(_side_notes(measured))
    return Section(PARTS, (), headings, rows, headings[1:], notes, tab=STEP)


def answers(profiles: Profiles) -> tuple[str, ...]:
    """Return sentences on each side's gain over the first, its bottleneck, and the next improvement."""
    measured = _measured(profiles)
    known = [verdict for verdict in verdicts(profiles) if verdict is not None]
    bounds = [
        _with_side_name(name, f"{verdict.sentence} {verdict.next_step}", measured)
        for (name, _), verdict in zip(measured, known, strict=True)
    ]
    return *(gain.sentence for gain in gains(profiles) if gain is not None), *bounds


def _bounds(profiles: Profiles) -> Iterator[Section]:
    """Yield the bottleneck of each side and what to try, with a button that applies the settings to
    the form.
    """
    shown = {side.experiment.precision.value for side in profiles.sides}
    for name, verdict, gain in zip(side_names(profiles), verdicts(profiles), gains(profiles), strict=True):
        if verdict is None:
            continue
        is_known = all(key == "precision" and value in shown for key, value in verdict.changes)
        helps = not verdict.changes or not is_known
        told = "" if gain is None else gain.sentence
        sentences = tuple(filter(None, (told, verdict.sentence, verdict.next_step if helps else "")))
        actions = use_action(verdict.changes if helps else (), verdict.action)
        yield Section(f"What limits {name}", sentences, tab=STEP, actions=actions)


def bars_picture(profiles: Profiles) -> Picture:
    """Return the parts of each side's step as a bar."""
    return Picture("bars", lambda width: bars_drawing(profiles, width))


def _side_notes(measured: _Named) -> Iterator[str]:
    names: dict[str, list[str]] = {}
    for name, profile in measured:
        for note in dict.fromkeys(profile.notes):
            names.setdefault(note, []).append(name)
    for note, of in names.items():
        yield note if len(of) == len(measured) else f"{', '.join(of)}: {note}"


def _parts_section(measured: _Named, *, has_difference: bool) -> Iterator[Cells]:
    bars = [profile.bar for _, profile in measured]
    longest = max((abs(bars[-1].ms(part) - bars[0].ms(part)) for part in StepPart), default=0.0)
    for part in StepPart:
        if any(bar.ms(part) for bar in bars):
            cells = [cell for bar in bars for cell in _part_cells(bar.ms(part), bar.fraction(part))]
            cells += [_difference(bars[-1].ms(part) - bars[0].ms(part), longest)] if has_difference else []
            yield part_title(part, measured[0][1]), *cells
    whole = [cell for bar in bars for cell in _part_cells(bar.total_ms, None)]
    whole += [_difference(bars[-1].total_ms - bars[0].total_ms, 0.0)] if has_difference else []
    yield CellText("Whole step", is_strong=True), *whole
    if any(profile.validation is not None for _, profile in measured):
        batches = (profile.validation for _, profile in measured)
        times = (None if bar is None else bar.total_ms for bar in batches)
        cells = [cell for ms in times for cell in _part_cells(ms, None)]
        yield "Validation batch (separate)", *cells, *([""] if has_difference else [])


def _part_cells(ms: float | None, fraction: float | None) -> tuple[CellText, CellText]:
    share = "" if fraction is None else share_text(fraction)
    return CellText(number(ms) if ms else NONE, ms), CellText(share if ms else "", fraction)


def _difference(ms: float, longest: float) -> CellText:
    text = f"+{number(ms)}" if ms > 0 else number(ms).replace("-", "−")
    return CellText(text, ms, bar=ms / longest if longest else None)


def _communication_section(profiles: Profiles) -> Iterator[Section]:
    if rows := device_rows(profiles):
        sentences = communication_sentences(profiles)
        yield Section(
            BY_DEVICE, sentences, DEVICE_HEADINGS, rows, DEVICE_HEADINGS[1:], (HOW_MEASURED,), tab=DEVICES
        )
    if rows := size_rows(profiles):
        yield Section(BY_SIZE, (), SIZE_HEADINGS, rows, SIZE_HEADINGS, tab=DEVICES)


_HOW_TO_READ = (
    "Each point is a kernel, or an operation where kernels cannot be counted. Larger points take more of "
    "the step. Points further right have a higher arithmetic intensity (FLOP/byte). Higher points compute "
    "faster. The lines are measured limits: the sloped line is the memory roof, and the horizontal lines "
    "are the compute ceilings of matmuls and convolutions. A point just below a line cannot get much "
    "faster. A point far below all lines waits for something else, or is too small to fill the device."
)
_NO_LIMITS = "The limits of this device were not measured, so there is no roofline."
_LIMITS = ("", "GFLOPs per step", "Reached", "Format", "Peak", PEAK_TITLE, "Bandwidth, GB/s")


def _limits(profiles: Profiles, measured: _Named, *, brief: bool) -> Section:
    if all(profile.limits is None for _, profile in measured):
        return Section(LIMITS, (_NO_LIMITS,), tab=ROOFLINE)
    known = [(name, peak_sentence(profile)) for name, profile in measured]
    sentences = [_with_side_name(name, text, measured) for name, text in known if text is not None]
    rows = []
    for name, profile in measured:
        limits, flops, peak = profile.limits, profile.flops, profile.peak_tflops
        fraction = profile.fraction_of_measured_peak
        reached = flops / profile.step_ms / 1e9 if flops and profile.step_ms else None
        rows.append(
            (
                name,
                number(None if flops is None else flops / 1e9),
                NONE if reached is None else throughput_text(reached),
                profile.format.upper(),
                NONE if peak is None else throughput_text(peak),
                NONE if fraction is None else share_text(fraction),
                number(None if limits is None else limits.gb_per_second),
            )
        )
    right = tuple(heading for heading in _LIMITS[1:] if heading != "Format")
    notes = (*(() if brief else (_HOW_TO_READ,)), *((PEAK_MEANING,) if sentences else ()))
    picture = Picture("limits", lambda width: roofline_drawing(profiles, width, _ROOFLINE_HEIGHT))
    shown = (LIMITS, tuple(sentences), _LIMITS, tuple(rows), right, notes, (picture,))
    return Section(*shown, tab=ROOFLINE, widget="roofline")


_ENERGY = ("", "J per step", "J per 1,000 samples", "Mean, W", "Idle, W", "J per step above idle")


def _energy(measured: _Named) -> Section | None:
    rows, sources = [], []
    for name, profile in measured:
        energy = profile.energy
        if energy is not None:
            net = energy.net_joules
            numbers = (
                energy.per_step(),
                energy.per_thousand_samples(),
                energy.mean_watts,
                energy.idle_watts,
                None if net is None else net / energy.steps,
            )
            rows.append((name, *map(number, numbers)))
            sources.append(ENERGY_COUNTERS[energy.source])
    if not rows:
        return None
    about = Action("About energy", "Explain how energy is measured", "guide", "how-it-is-measured")
    shown = ("Energy", tuple(dict.fromkeys(sources)), _ENERGY, tuple(rows), _ENERGY[1:])
    return Section(*shown, tab=ROOFLINE, actions=(about,))


def _table_section(profiles: Profiles, table: Table, *, brief: bool) -> Section | None:
    rows = side_rows(profiles, table)
    if not rows:
        return None
    names = side_names(profiles)
    name, *columns = columns_of(profiles, table, rows)
    if brief:
        columns = [
            column
            for column in columns
            if column.side is None or column.shows_units or column.heading in _SHOWN_BRIEFLY
        ]
    elif len(names) > 1:
        columns = [column for column in columns if not column.is_in_tip]
    beside = ("Launched by",) if any(cell.operation for row in rows for cell in row.known) else ()
    cells = []
    for row in rows:
        title = module_title(row.name) if table == "modules" else row.name
        launchers = (cell.operation for cell in row.known if cell.operation is not None)
        launcher = [next(launchers, NONE)] if beside else []
        shown = shortened(title, _LONGEST_NAME) if brief else title
        cells.append((shown, *launcher, *(column.text(row) for column in columns)))
    # of one side its name is not needed
    sides = [f"{names[column.side]} " if column.side is not None else "" for column in columns]
    numbers = tuple(
        f"{side if len(names) > 1 else ''}{column.heading}"
        for side, column in zip(sides, columns, strict=True)
    )
    headings, title = (name.heading, *beside, *numbers), f"{NOUNS[table]}s"
    return Section(title, (), headings, tuple(cells), numbers, tab=OPERATIONS, widget="rows")


def _step_part_rows(profiles: Profiles) -> Iterator[Row]:
    for name, profile in _measured(profiles):
        for of, bar in (("step", profile.bar), ("validation batch", profile.validation or Bar())):
            for entry in bar.parts:
                share = bar.fraction(entry.part)
                yield {"side": name, "of": of, "part": entry.part.value, "ms": entry.ms, "share": share}


def _rank_rows(profiles: Profiles) -> Iterator[Row]:
    for name, profile in _measured(profiles):
        for place, rank in enumerate(profile.exchange.ranks if profile.exchange is not None else ()):
            parts = {f"{entry.part.value} ms": entry.ms for entry in rank.bar.parts}
            yield {"side": name, "rank": place, **rank.model_dump(mode="json", exclude={"bar"}), **parts}


_NOT_FIGURES = {"bar", "validation", "limits", "energy", "advice", "notes", "exchange", *TABLES}


def _side_rows(profiles: Profiles) -> Iterator[Row]:
    for name, profile in _measured(profiles):
        limits, energy = profile.limits, profile.energy
        row = {"side": name, **profile.model_dump(mode="json", exclude=_NOT_FIGURES)}
        row["fraction_of_measured_peak"] = profile.fraction_of_measured_peak
        if limits is not None:
            row |= {f"peak_{peak.format}_tflops": peak.tflops for peak in limits.peaks}
            row["peak_gb_per_second"] = limits.gb_per_second
        if energy is not None:
            row |= {f"energy_{key}": value for key, value in energy.model_dump(mode="json").items()}
            row |= {"joules_per_step": energy.per_step(), "mean_watts": energy.mean_watts}
        yield row


def _time_rows(profiles: Profiles, table: Table) -> Iterator[Row]:
    for name, profile in _measured(profiles):
        for row in getattr(profile, table):
            achieved = {"tflops": row.tflops, "gb_per_second": row.gb_per_second}
            yield {"side": name, **row.model_dump(mode="json"), **achieved}
