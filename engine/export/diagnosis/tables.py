"""The parts of a diagnosis as people read them: sentences, and a table of what matters most."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from engine.experiment.value import BYTES_PER_MIB
from engine.export.sections.section import ADVICE, Section, advice_cells, first_rows
from engine.protocol.numerics.advice import Advices
from engine.protocol.numerics.diagnosis import Diagnosis
from engine.protocol.numerics.formats import SMALL_FORMATS, NumberFormat, dtype_label
from engine.protocol.numerics.islands import Islands
from engine.protocol.numerics.ladder import Ladder
from engine.protocol.numerics.nonfinite import NonfiniteSearch
from engine.protocol.numerics.precision_map import (
    Direction,
    Operation,
    PrecisionMap,
    module_title,
)
from engine.protocol.numerics.ranges import ModuleRange, Ranges
from engine.words.numbers import NONE, memory_text, number, pace_text


def sections(diagnosis: Diagnosis, most_rows: int | None = None) -> tuple[Section, ...]:
    """The known parts; their tables have at most `most_rows` rows, the most telling first."""
    parts = (
        None if diagnosis.nan is None else _search(diagnosis.nan),
        None if diagnosis.map is None else _map(diagnosis.map, most_rows),
        None if diagnosis.range is None else _ranges(diagnosis.range, most_rows),
        None if diagnosis.ladder is None else _ladder(diagnosis.ladder),
        None if diagnosis.islands is None else _islands(diagnosis.islands, most_rows),
        None if diagnosis.advice is None else _advice(diagnosis.advice, diagnosis.nan),
    )
    return tuple(part for part in parts if part is not None)


def _search(search: NonfiniteSearch) -> Section:
    first = search.first
    found = () if first is None else (first.sentence, first.remedy)
    return Section("First NaN or Inf", (*found, search.sentence))


_MAP = ("Module", "Class", "Forward", "Backward", "Casts", "Cast, MiB", "Moved, MiB", "Time, ms")


def _map(whole: PrecisionMap, most_rows: int | None) -> Section:
    classes = {module.name: module.class_name for module in whole.modules}
    by_module: dict[str, list[Operation]] = defaultdict(list)
    for operation in whole.operations:
        by_module[operation.module].append(operation)
    ordered = sorted(by_module, key=lambda name: -sum(row.seconds for row in by_module[name]))
    rows = [_map_row(name, classes.get(name, ""), by_module[name]) for name in ordered]
    casts = [row for row in whole.operations if row.by_autocast]
    sentence = (
        f"Operations: {sum(row.count for row in whole.operations):,}, of which "
        f"{100 * whole.attributed_fraction:.1f} % of the floating-point ones are attributed to a module. "
        f"Casts by autocast: {sum(row.count for row in casts):,}, which moved {memory_text(_mib(casts))}."
    )
    kept, left_out = first_rows(rows, most_rows)
    return Section("Precision map", (sentence,), _MAP, kept, _MAP[4:], left_out, whole.notes)


def _map_row(name: str, class_name: str, operations: Sequence[Operation]) -> tuple[str, ...]:
    casts = [row for row in operations if row.by_autocast]
    return (
        module_title(name),
        class_name,
        _formats(operations, "forward"),
        _formats(operations, "backward"),
        f"{sum(row.count for row in casts):,}",
        number(_mib(casts)),
        number(_mib(operations)),
        number(1e3 * sum(row.seconds for row in operations)),
    )


def _formats(operations: Iterable[Operation], direction: Direction) -> str:
    spent: dict[str, float] = defaultdict(float)
    for row in operations:
        if row.direction == direction and (dtype := row.computed_in) is not None:
            spent[dtype] += row.seconds
    return ", ".join(dtype_label(dtype) for dtype in sorted(spent, key=lambda dtype: -spent[dtype])) or NONE


def _mib(operations: Iterable[Operation]) -> float:
    return sum(row.moved_bytes for row in operations) / BYTES_PER_MIB


_RANGE = ("Module", "Quantity", "Least", "Most", *(form.label for form in SMALL_FORMATS))


def _ranges(ranges: Ranges, most_rows: int | None) -> Section:
    ordered = sorted(ranges.rows, key=lambda row: [-share for share in _lost(ranges, row)])
    rows = [_range_row(ranges, row) for row in ordered]
    scale = f"; gradients are those at the loss scale {ranges.scale:,.0f}" if ranges.scale != 1 else ""
    sentence = f"What each format would round to 0 or make infinite in step {ranges.step + 1:,}{scale}."
    kept, left_out = first_rows(rows, most_rows)
    return Section("Ranges", (sentence,), _RANGE, kept, _RANGE[2:], left_out, ranges.notes)


def _lost(ranges: Ranges, row: ModuleRange) -> list[float]:
    """The share of the numbers that each format loses, in the order of `SMALL_FORMATS`."""
    return [sum(lost_shares(ranges, row, form)) for form in SMALL_FORMATS]


def lost_shares(ranges: Ranges, row: ModuleRange, form: NumberFormat) -> tuple[float, float]:
    """The shares of a row that underflow and overflow in a format, gradients at the loss scale."""
    shift = ranges.scale_exponent if row.quantity == "gradient" else 0
    return row.exponents.underflow_fraction(form, shift), row.exponents.overflow_fraction(form, shift)


def _range_row(ranges: Ranges, row: ModuleRange) -> tuple[str, ...]:
    held = row.exponents
    ends = (_power(held.smallest), _power(held.largest))
    return (
        module_title(row.module),
        row.quantity,
        *ends,
        *(_loss(ranges, row, form) for form in SMALL_FORMATS),
    )


def _power(value: float | None) -> str:
    return NONE if value is None else f"2^{math.frexp(value)[1] - 1}"


def _loss(ranges: Ranges, row: ModuleRange, form: NumberFormat) -> str:
    lost = zip(lost_shares(ranges, row, form), ("→ 0", "→ ∞"), strict=True)
    return ", ".join(f"{percent(share)} {where}" for share, where in lost if share) or NONE


def percent(share: float) -> str:
    """A share in percent; a small one is never rounded to 0."""
    return "under 0.1 %" if 0 < share < 5e-4 else f"{100 * share:.1f} %"


_LADDER = ("Rung", "Parts at step", "Parts first", "Skipped", "Last loss")


def _ladder(ladder: Ladder) -> Section:
    rows = tuple(
        (
            rung.label,
            NONE if rung.parts_at is None else f"{rung.parts_at:,}",
            NONE if rung.first_module is None else module_title(rung.first_module),
            f"{rung.skipped:,}",
            number(rung.losses[-1] if rung.losses else None),
        )
        for rung in ladder.rungs
    )
    sentences = tuple(text for text in (ladder.sentence, *(rung.sentence for rung in ladder.rungs)) if text)
    return Section(
        "Ladder", sentences, _LADDER, rows, ("Parts at step", "Skipped", "Last loss"), 0, ladder.notes
    )


_ISLANDS = ("Kept in FP32", "As good as FP32", "Loss", "Skipped")


def _islands(islands: Islands, most_rows: int | None) -> Section:
    rows = [
        (
            ", ".join(map(module_title, trial.modules)) or "none",
            "yes" if trial.is_good else f"no: {trial.reason}",
            number(trial.final_loss),
            f"{trial.skipped:,}",
        )
        for trial in islands.trials
    ]
    costs = []
    if islands.speed_ratio is not None:
        costs.append(f"A step is {pace_text(islands.speed_ratio)} as without them.")
    if islands.memory_added_mib is not None:
        costs.append(f"They add {memory_text(islands.memory_added_mib)}.")
    sentences = tuple(text for text in (islands.sentence, *costs) if text)
    kept, left_out = first_rows(rows, most_rows)
    return Section("FP32 modules", sentences, _ISLANDS, kept, ("Loss", "Skipped"), left_out)


def _advice(advices: Advices, search: NonfiniteSearch | None) -> Section:
    if not advices.items:
        what = "Nothing" if search is None or search.first is None else "Nothing else"
        return Section("Advice", (f"{what} that was measured calls for a change.",))
    return Section("Advice", (), ADVICE, tuple(map(advice_cells, advices.items)))
