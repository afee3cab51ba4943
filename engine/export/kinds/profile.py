"""A profile as a document: what bounds each side, the parts of the step, the limits, and the tables."""

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
from engine.export.document import ADVICE, Cells, Document, Picture, Row, Section, advice_cells, document_of
from engine.profile.charts import bars_drawing, roofline_drawing
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
from engine.profile.verdict import PEAK_MEANING, PEAK_TITLE, gains, peak_sentence, verdicts
from engine.protocol.profile import Bar, Profiles, StepPart, StepProfile
from engine.protocol.ranges import module_title
from engine.store.saved.studies import Study, traces_of
from engine.words.numbers import NONE, number, share_text, throughput_text

BAR, LIMITS = "Where the time goes", "How close to the hardware limits"
TRACE = ".json.gz"
_LONGEST_NAME, _ROOFLINE_HEIGHT = 40, 420.0
_SHOWN_BRIEFLY = ("ms", "TFLOP/s", "GFLOP/s")

_Named = list[tuple[str, StepProfile]]


def document(study: Study[Profiles]) -> Document:
    profiles = study.answer
    experiments = [side.experiment for side in profiles.sides]
    return document_of(
        study,
        "profile",
        f"Where the time of {experiments[0].model} goes: {', '.join(side_names(profiles))}",
        experiments,
        sections(profiles),
        warnings=failures(profiles),
        tables={
            "parts": lambda: _part_rows(profiles),
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
    parts = [_bar(profiles, measured), *_exchange(profiles), _limits(profiles, measured), _energy(measured)]
    parts += [_rows(profiles, table, brief=brief) for table in TABLES]
    parts.append(_advice(profiles))
    return tuple(part for part in parts if part is not None)


def _measured(profiles: Profiles) -> _Named:
    return [
        (name, side.profile)
        for name, side in zip(side_names(profiles), profiles.sides, strict=True)
        if side.profile is not None
    ]


def _named(name: str, text: str, measured: _Named) -> str:
    return f"{name}: {text}" if len(measured) > 1 else text


def answers(profiles: Profiles) -> tuple[str, ...]:
    """Return sentences on each side's gain over the first, its bottleneck, and the next improvement."""
    measured = _measured(profiles)
    known = [verdict for verdict in verdicts(profiles) if verdict is not None]
    bounds = [
        _named(name, f"{verdict.sentence} {verdict.next_step}", measured)
        for (name, _), verdict in zip(measured, known, strict=True)
    ]
    return *(gain.sentence for gain in gains(profiles) if gain is not None), *bounds


def _bar(profiles: Profiles, measured: _Named) -> Section:
    headings = ("Part", *(f"{name}{unit}" for name, _ in measured for unit in (", ms", ", share")))
    rows, notes = tuple(_parts(measured)), tuple(_notes(measured))
    pictures = (bars_picture(profiles),)
    return Section(BAR, answers(profiles), headings, rows, headings[1:], notes, pictures, is_drawn=True)


def bars_picture(profiles: Profiles) -> Picture:
    """Return the parts of each side's step as a bar."""
    return Picture("bars", lambda width: bars_drawing(profiles, width))


def _notes(measured: _Named) -> Iterator[str]:
    names: dict[str, list[str]] = {}
    for name, profile in measured:
        for note in dict.fromkeys(profile.notes):
            names.setdefault(note, []).append(name)
    for note, of in names.items():
        yield note if len(of) == len(measured) else f"{', '.join(of)}: {note}"


def _parts(measured: _Named) -> Iterator[Cells]:
    bars = [profile.bar for _, profile in measured]
    for part in StepPart:
        if any(bar.ms(part) for bar in bars):
            numbers = ((number(bar.ms(part)), share_text(bar.fraction(part))) for bar in bars)
            yield part_title(part, measured[0][1]), *(text for pair in numbers for text in pair)
    yield "Whole step", *(text for bar in bars for text in (number(bar.total_ms), ""))
    if any(profile.validation is not None for _, profile in measured):
        batches = (profile.validation for _, profile in measured)
        whole = (None if bar is None else bar.total_ms for bar in batches)
        yield "Validation batch (separate)", *(text for ms in whole for text in (number(ms), ""))


def _exchange(profiles: Profiles) -> Iterator[Section]:
    if rows := device_rows(profiles):
        sentences = communication_sentences(profiles)
        yield Section(BY_DEVICE, sentences, DEVICE_HEADINGS, rows, DEVICE_HEADINGS[1:], (HOW_MEASURED,))
    if rows := size_rows(profiles):
        yield Section(BY_SIZE, (), SIZE_HEADINGS, rows, SIZE_HEADINGS)


_LIMITS = ("", "GFLOPs per step", "Reached", "Format", "Peak", PEAK_TITLE, "Bandwidth, GB/s")


def _limits(profiles: Profiles, measured: _Named) -> Section | None:
    if all(profile.limits is None for _, profile in measured):
        return None
    known = [(name, peak_sentence(profile)) for name, profile in measured]
    sentences = [_named(name, text, measured) for name, text in known if text is not None]
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
    notes = (PEAK_MEANING,) if sentences else ()
    picture = Picture("limits", lambda width: roofline_drawing(profiles, width, _ROOFLINE_HEIGHT))
    return Section(LIMITS, tuple(sentences), _LIMITS, tuple(rows), right, notes, pictures=(picture,))


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
    return Section("Energy", tuple(dict.fromkeys(sources)), _ENERGY, tuple(rows), _ENERGY[1:])


def _rows(profiles: Profiles, table: Table, *, brief: bool) -> Section | None:
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
    return Section(f"{NOUNS[table]}s", (), (name.heading, *beside, *numbers), tuple(cells), numbers)


def _advice(profiles: Profiles) -> Section | None:
    given = advice_by_side(profiles)
    rows = tuple((names, *advice_cells(item)) for names, item in given)
    if not any(names for names, _ in given):
        return Section("Advice", (), ADVICE, tuple(row[1:] for row in rows)) if rows else None
    return Section("Advice", (), ("For", *ADVICE), rows)


def _part_rows(profiles: Profiles) -> Iterator[Row]:
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
