"""The full data of a numerics study as rows, for CSV files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from engine.export.document import Row
from engine.protocol.numerics import DivergenceTest, NumericsResults, PrecisionMap
from engine.protocol.ranges import SMALL_FORMATS, ModuleRange, NumberFormat, Ranges


def tables(results: NumericsResults) -> Iterator[tuple[str, Callable[[], Iterator[Row]]]]:
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


def lost_fractions(ranges: Ranges, row: ModuleRange, form: NumberFormat) -> tuple[float, float]:
    """Return the fractions of a row that underflow and overflow in a format, gradients at the loss scale."""
    shift = ranges.scale_exponent if row.quantity == "gradient" else 0
    return row.exponents.underflow_fraction(form, shift), row.exponents.overflow_fraction(form, shift)
