"""Numerics as a document: sentences and a table of the most important rows for each known part.

Underflow and overflow of gradients are at the loss scale. Their exponents are without it.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from engine.drawing.chart_parts import LegendEntry
from engine.drawing.curve_chart import Frame, draw_axes
from engine.drawing.looks import SideLook, mark_fills, precision_look
from engine.drawing.shapes import Drawing, Fill, Point, Stroke, text_width
from engine.experiment.value import BYTES_PER_MIB
from engine.export.document import ADVICE, Document, Picture, Row, Section, advice_cells, document_of
from engine.numerics.range_histogram import Axis, histogram
from engine.protocol.advice import Advices
from engine.protocol.numerics import (
    Direction,
    DivergenceTest,
    Fp32Modules,
    Losses,
    NonfiniteSearch,
    Numerics,
    NumericsResults,
    Operation,
    Part,
    PrecisionMap,
)
from engine.protocol.ranges import (
    FP16,
    QUANTITIES,
    SMALL_FORMATS,
    ModuleRange,
    NumberFormat,
    Quantity,
    Ranges,
    dtype_label,
    merge_exponents,
    module_title,
)
from engine.store.saved.studies import Study
from engine.words.names import listed
from engine.words.numbers import NONE, linear_ticks, memory_text, number, pace_text


def document(study: Study[Numerics]) -> Document:
    answer, problem = study.answer, study.problem
    experiment, results = answer.experiment, answer.results
    return document_of(
        study,
        "numerics",
        f"Numerics of {experiment.model}, {experiment.precision.label}",
        [experiment],
        sections(results),
        warnings=() if problem is None else (f"{problem.message} {problem.remedy}",),
        tables=dict(_tables(results)),
        values=lambda: {
            "run": answer.run_id,
            "parts": list(answer.parts),
            "problem": None if problem is None else problem.model_dump(mode="json"),
            "experiment": json.loads(experiment.to_json()),
            **results.as_json(),
        },
    )


_TITLES: Mapping[Part, str] = {
    "nan": "First NaN or Inf",
    "map": "Precision map",
    "range": "Ranges",
    "ladder": "Divergence",
    "islands": "FP32 modules",
}


def sections(results: NumericsResults) -> tuple[Section, ...]:
    """Return the known parts as sections, with the most important table rows first."""
    makers: tuple[tuple[Any, Callable[[Any], Section]], ...] = (
        (results.nan, _search),
        (results.map, _map),
        (results.range, _ranges),
        (results.range if results.range is not None and results.range.casts else None, _scaling),
        (results.ladder, _divergence),
        (results.islands, _fp32_modules),
        (results.advice, partial(_advice, results=results)),
    )
    return tuple(make(part) for part, make in makers if part is not None)


def _search(search: NonfiniteSearch) -> Section:
    first = search.first
    found = () if first is None else (first.sentence, first.remedy)
    return Section(_TITLES["nan"], (*found, search.sentence))


_MAP = ("Module", "Class", "Forward", "Backward", "Casts", "Cast, MiB", "Moved, MiB", "Time, ms")


def _map(whole: PrecisionMap) -> Section:
    classes = {module.name: module.class_name for module in whole.modules}
    by_module: dict[str, list[Operation]] = defaultdict(list)
    for operation in whole.operations:
        by_module[operation.module].append(operation)
    rows = []
    for name in sorted(by_module, key=lambda name: -sum(row.seconds for row in by_module[name])):
        operations = by_module[name]
        casts = [row for row in operations if row.by_autocast]
        rows.append(
            (
                module_title(name),
                classes.get(name, ""),
                _formats(operations, "forward"),
                _formats(operations, "backward"),
                f"{sum(row.count for row in casts):,}",
                number(_mib(casts)),
                number(_mib(operations)),
                number(1e3 * sum(row.seconds for row in operations)),
            )
        )
    casts = [row for row in whole.operations if row.by_autocast]
    sentence = (
        f"Operations: {sum(row.count for row in whole.operations):,}, of which "
        f"{100 * whole.attributed_fraction:.1f}% of the floating-point ones belong to a known module. "
        f"Casts by autocast: {sum(row.count for row in casts):,}, which moved {memory_text(_mib(casts))}."
    )
    return Section(_TITLES["map"], (sentence,), _MAP, tuple(rows), _MAP[4:], whole.notes)


def _formats(operations: Iterable[Operation], direction: Direction) -> str:
    spent: dict[str, float] = defaultdict(float)
    for row in operations:
        if row.direction == direction and (dtype := row.computed_in) is not None:
            spent[dtype] += row.seconds
    return ", ".join(dtype_label(dtype) for dtype in sorted(spent, key=lambda dtype: -spent[dtype])) or NONE


def _mib(operations: Iterable[Operation]) -> float:
    return sum(row.moved_bytes for row in operations) / BYTES_PER_MIB


_RANGE = ("Module", "Quantity", "Least", "Most", *(form.label for form in SMALL_FORMATS))


def _ranges(ranges: Ranges) -> Section:
    def lost(row: ModuleRange) -> list[float]:
        return [-sum(lost_fractions(ranges, row, form)) for form in SMALL_FORMATS]

    rows = []
    for row in sorted(ranges.rows, key=lost):
        ends = (_power(row.exponents.smallest), _power(row.exponents.largest))
        losses = (_loss(lost_fractions(ranges, row, form)) for form in SMALL_FORMATS)
        rows.append((module_title(row.module), row.quantity, *ends, *losses))
    scale = f" Gradients are at the loss scale {ranges.scale:,.0f}." if ranges.scale != 1 else ""
    sentence = f"Values that would become 0 or overflow in each format, in step {ranges.step + 1:,}.{scale}"

    def draw(width: float, quantity: Quantity) -> Drawing:
        return range_charts(ranges, width)[quantity]

    pictures = tuple(
        Picture(f"{quantity}s", partial(draw, quantity=quantity), f"{quantity.capitalize()}s")
        for quantity in range_charts(ranges, 440.0)
    )
    return Section(_TITLES["range"], (sentence,), _RANGE, tuple(rows), _RANGE[2:], ranges.notes, pictures)


_SCALING = ("Layer", "Numbers", "Format", "Scale", "→ 0", "Saturate")


def _scaling(ranges: Ranges) -> Section:
    rows = tuple(
        (
            module_title(cast.module),
            cast.title,
            cast.form.label,
            cast.scale_text or NONE,
            *(
                percent(cast.share(count)) if cast.scales else NONE
                for count in (cast.became_zero, cast.saturated)
            ),
        )
        for cast in sorted(ranges.casts, key=lambda cast: -cast.share(cast.became_zero))
    )
    sentence = "Values that underflow or saturate in FP8 layers, with the scaling of that step."
    return Section("FP8 scaling", (sentence,), _SCALING, rows, _SCALING[3:])


def lost_fractions(ranges: Ranges, row: ModuleRange, form: NumberFormat) -> tuple[float, float]:
    """Return the fractions of a row that underflow and overflow in a format, gradients at the loss scale."""
    shift = ranges.scale_exponent if row.quantity == "gradient" else 0
    return row.exponents.underflow_fraction(form, shift), row.exponents.overflow_fraction(form, shift)


def _power(value: float | None) -> str:
    return NONE if value is None else f"2^{math.frexp(value)[1] - 1}"


def _loss(shares: tuple[float, float]) -> str:
    lost = zip(shares, ("→ 0", "→ ∞"), strict=True)
    return ", ".join(f"{percent(share)} {where}" for share, where in lost if share) or NONE


def percent(share: float) -> str:
    """Return a fraction in percent. A small one is never rounded to 0."""
    return "under 0.1%" if 0 < share < 5e-4 else f"{100 * share:.1f}%"


_DIVERGENCE = ("Precision", "Diverges at step", "First module", "Skipped", "Last loss")


def _divergence(divergence: DivergenceTest) -> Section:
    rows = tuple(
        (
            run.label,
            NONE if run.diverges_at is None else f"{run.diverges_at:,}",
            NONE if run.first_module is None else module_title(run.first_module),
            f"{run.skipped:,}",
            number(run.losses[-1] if run.losses else None),
        )
        for run in divergence.runs
    )
    sentences = tuple(
        text for text in (divergence.sentence, *(run.sentence for run in divergence.runs)) if text
    )
    right = ("Diverges at step", "Skipped", "Last loss")
    return Section(
        _TITLES["ladder"],
        sentences,
        _DIVERGENCE,
        rows,
        right,
        divergence.notes,
        _divergence_pictures(divergence),
    )


def _divergence_pictures(divergence: DivergenceTest) -> tuple[Picture, ...]:
    def draw(width: float) -> Drawing:
        return divergence_chart(divergence, width) or Drawing(width, 0, ())

    looks = zip(_run_looks(divergence), divergence.runs, strict=True)
    legend = tuple(LegendEntry(look.sample, 24, run.label) for look, run in looks)
    return () if divergence_chart(divergence, 1_000.0) is None else (Picture("ladder", draw, legend=legend),)


_FP32_MODULES = ("Kept in FP32", "As good as FP32", "Loss", "Skipped")


def _fp32_modules(modules: Fp32Modules) -> Section:
    rows = tuple(
        (
            ", ".join(map(module_title, trial.modules)) or "none",
            "yes" if trial.is_good else f"no: {trial.reason}",
            number(trial.final_loss),
            f"{trial.skipped:,}",
        )
        for trial in modules.trials
    )
    costs = []
    if modules.speed_ratio is not None:
        costs.append(f"With them, a step is {pace_text(modules.speed_ratio)} as without.")
    if modules.memory_added_mib is not None:
        costs.append(f"They need {memory_text(modules.memory_added_mib)} more memory.")
    sentences = tuple(text for text in (modules.sentence, *costs) if text)
    return Section(_TITLES["islands"], sentences, _FP32_MODULES, rows, ("Loss", "Skipped"))


def _advice(advices: Advices, results: NumericsResults) -> Section:
    if not advices.items:
        parts = [_TITLES[part] for part in results.findings()]
        there = f"No advice beyond what was found. See {listed(parts)}."
        return Section("Advice", (there if parts else "No result calls for a change.",))
    return Section("Advice", (), ADVICE, tuple(map(advice_cells, advices.items)))


def _tables(results: NumericsResults) -> Iterator[tuple[str, Callable[[], Iterator[Row]]]]:
    """Yield the rows of each known part with the end of its file name."""
    whole, ranges, divergence = results.map, results.range, results.ladder
    modules, advices = results.islands, results.advice
    if whole is not None:
        yield "map", partial(_map_rows, whole)
    if ranges is not None:
        yield "range", partial(_range_rows, ranges)
        if ranges.casts:
            yield "scaling", partial(_scaling_rows, ranges)
    if divergence is not None:
        yield "ladder", partial(_divergence_rows, divergence)
        yield (
            "modules",
            lambda: (
                {"rung": run.label, "precision": run.precision.value, **error.model_dump()}
                for run in divergence.runs
                for error in run.errors
            ),
        )
    if modules is not None:
        yield "islands", lambda: (trial.model_dump() for trial in modules.trials)
    if advices is not None:
        yield (
            "advice",
            lambda: (
                {**item.model_dump(mode="json"), "changes": dict(item.changes)} for item in advices.items
            ),
        )


def _map_rows(whole: PrecisionMap) -> Iterator[Row]:
    classes = {row.name: row.class_name for row in whole.modules}
    for row in whole.operations:
        yield {
            "module": row.module,
            "class": classes.get(row.module, ""),
            "operation": row.name,
            "computed_in": row.computed_in,
            **row.model_dump(exclude={"module", "name"}),
        }


def _range_rows(ranges: Ranges) -> Iterator[Row]:
    for row in ranges.rows:
        names = ("total", "zeros", "infinite", "nan", "smallest", "largest")
        lost: dict[str, float] = {}
        for form in SMALL_FORMATS:
            ends = (f"{form.name}_underflow", f"{form.name}_overflow")
            lost |= zip(ends, lost_fractions(ranges, row, form), strict=True)
        held = {name: getattr(row.exponents, name) for name in names}
        yield {**row.model_dump(exclude={"exponents"}), **held, **lost}


def _scaling_rows(ranges: Ranges) -> Iterator[Row]:
    for cast in ranges.casts:
        shares = (cast.share(count) for count in (cast.became_zero, cast.saturated))
        yield {
            **cast.model_dump(exclude={"exponents", "products"}),
            "products": ", ".join(cast.products),
            "total": cast.exponents.total,
            **dict(zip(("zero_share", "saturated_share"), shares, strict=True)),
        }


def _divergence_rows(divergence: DivergenceTest) -> Iterator[Row]:
    repeats = [(f"FP32 {number}", losses) for number, losses in enumerate(divergence.repeats, 1)]
    for label, losses in (*repeats, *((run.label, run.losses) for run in divergence.runs)):
        for place, loss in enumerate(losses):
            low, high = (
                edge[place] if place < len(edge) else None
                for edge in (divergence.band_low, divergence.band_high)
            )
            yield {"rung": label, "step": place + 1, "loss": loss, "band_low": low, "band_high": high}


_SIDE, _BOTTOM, _HEIGHT = 8.0, 24.0, 190.0


def range_charts(ranges: Ranges, width: float) -> dict[Quantity, Drawing]:
    """Return a histogram of exponents per quantity, over all modules, with gradients at the loss scale."""
    charts = {}
    for quantity in QUANTITIES:
        whole = merge_exponents(tuple(row.exponents for row in ranges.of(quantity)))
        if quantity == "gradient":
            whole = whole.shifted(ranges.scale_exponent)
        if whole.finite:
            share = f"{100 * whole.underflow_fraction(FP16):.1f}%"
            words = f"Exponents of all {quantity}s. {share} would underflow to zero in FP16."
            charts[quantity] = histogram(whole, Axis.of((whole,)), FP16, (width, _HEIGHT), words)
    return charts


def divergence_chart(divergence: DivergenceTest, width: float) -> Drawing | None:
    """Return the losses of each precision over the band of FP32, or None without a finite loss."""
    lines = [run.losses for run in divergence.runs]
    values = [loss for losses in (*lines, divergence.band_low, divergence.band_high) for loss in losses]
    finite = [value for value in values if math.isfinite(value)]
    if not finite or divergence.steps < 2:
        return None
    frame = _loss_frame(divergence, finite, width)
    shapes = draw_axes(frame, "step")
    band = [*_points(divergence.band_high, frame), *reversed(_points(divergence.band_low, frame))]
    if len(band) > 3:
        shapes.append(Fill(tuple(band), "fp32", opacity=0.25))
    for run, look in zip(divergence.runs, _run_looks(divergence), strict=True):
        points = _points(run.losses, frame)
        if len(points) > 1:
            shapes.append(Stroke(tuple(points), look.ink, 1.5, look.dash))
        if points:
            shapes += look.mark(*points[-1], 8)
    description = (
        f"Losses of {len(divergence.runs):,} precisions over {divergence.steps:,} steps, with FP32's band."
    )
    return Drawing(width, _HEIGHT + _BOTTOM, tuple(shapes), description)


def _run_looks(divergence: DivergenceTest) -> tuple[SideLook, ...]:
    precisions = [run.precision for run in divergence.runs]
    return tuple(map(precision_look, precisions, mark_fills(precisions)))


def _loss_frame(divergence: DivergenceTest, finite: Sequence[float], width: float) -> Frame:
    # the band and what is near it stays readable beside a loss that explodes
    known = [
        value for value in (*divergence.band_low, *divergence.band_high) if math.isfinite(value)
    ] or finite
    low, high = min(known), max(known)
    room = 0.5 * (high - low) or 0.5 * abs(high) or 0.5
    low, high = max(min(finite), low - room), min(max(finite), high + room)
    high = high if high > low else low + 1
    left = 12 + max(text_width(tick.text, 11) for tick in linear_ticks(low, high, 5))
    return Frame(left, width - _SIDE, _SIDE, _HEIGHT, 0, divergence.steps, low, high)


def _points(losses: Losses, frame: Frame) -> list[Point]:
    return [(frame.x(step), frame.y(loss)) for step, loss in enumerate(losses, 1) if math.isfinite(loss)]
