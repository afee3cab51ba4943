"""The findings of a numerics study in one sentence each, the most serious first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from engine.compare.verdict import Piece, Pieces
from engine.experiment.catalog import Precision
from engine.protocol.numerics import (
    Cause,
    DivergenceTest,
    FirstNonfinite,
    Fp32Modules,
    Numerics,
    Operation,
    PrecisionMap,
)
from engine.protocol.ranges import ELSEWHERE, Ranges, dtype_label, module_title
from engine.words.names import listed
from engine.words.numbers import counted, share_text


def findings(numerics: Numerics) -> Iterator[Pieces]:
    """Yield a finding of each known part as a sentence without its period, problems first."""
    results, precision = numerics.results, numerics.experiment.precision
    search, modules, divergence, ranges = results.nan, results.islands, results.ladder, results.range
    problems = results.findings(precision)
    if search is not None and search.first is not None:
        yield _first_words(search.first, precision)
    found = (
        ("islands", () if modules is None else _modules_words(modules, precision)),
        ("ladder", () if divergence is None else _divergence_words(divergence, precision)),
        ("range", () if ranges is None else _range_words(ranges, precision)),
    )
    yield from (words for part, words in found if words and part in problems)
    yield from (words for part, words in found if words and part not in problems)
    if search is not None and search.first is None:
        yield _plain(search.sentence)
    if results.map is not None and results.map.operations:
        yield _map_words(results.map, precision)


def _named(precision: Precision, label: str = "") -> Piece:
    return Piece(label or precision.label, "title", precision=precision)


def _plain(sentence: str) -> Pieces:
    return (Piece(sentence.removesuffix(".")),) if sentence else ()


def _first_words(first: FirstNonfinite, precision: Precision) -> Pieces:
    if first.module == ELSEWHERE or first.cause in (Cause.INPUT, Cause.INITIAL):
        return _plain(first.sentence)
    formats = f" in {' and '.join(map(dtype_label, first.outputs))}" if first.outputs else ""
    operation = f"{first.operation.removeprefix('aten.')}{formats}, {first.direction}, step {first.step:,}"
    module = Piece(module_title(first.module), "strong", precision=precision)
    return Piece(f"The first {'NaN' if first.nan else 'Inf'} comes from "), module, Piece(f": {operation}")


_MOST_NAMED = 3


def _modules_words(found: Fp32Modules, precision: Precision) -> Pieces:
    names = found.modules
    if names is None:
        return _plain(found.sentence)
    if not names:
        return Piece("No module needs "), _named(Precision.FP32), Piece(" in "), _named(precision)
    shown = listed(names) if len(names) <= _MOST_NAMED else counted(len(names), "module")
    who = Piece(shown, "strong", precision=precision)
    return (
        who,
        Piece(" needs " if len(names) == 1 else " need "),
        _named(Precision.FP32),
        Piece(" in "),
        _named(precision),
    )


def _divergence_words(divergence: DivergenceTest, precision: Precision) -> Pieces:
    run = divergence.run_in(precision)
    if run is None or divergence.has_broken_float32:
        return _plain(divergence.sentence)
    who, fp32 = _named(precision, run.label), _named(Precision.FP32)
    if run.diverges_at is not None:
        where = "" if run.first_module is None else f", first in {module_title(run.first_module)}"
        step = Piece(f"step {run.diverges_at:,}", "strong", precision=precision)
        return who, Piece(" diverges from "), fp32, Piece(" at "), step, Piece(where)
    if run.first_module is not None:
        return (
            Piece("The output of "),
            Piece(module_title(run.first_module), "strong", precision=precision),
            Piece(" diverges in "),
            who,
        )
    steps = counted(len(run.losses), "step")
    return who, Piece(" matches "), fp32, Piece(f" for {steps}, except for rounding")


def _range_words(ranges: Ranges, precision: Precision) -> Pieces:
    if sentence := ranges.finding(precision):
        return _plain(sentence)
    return (
        Piece("In "),
        _named(precision),
        Piece(", nothing overflows, and less than 1% of each module's gradients underflow"),
    )


def _map_words(whole: PrecisionMap, precision: Precision) -> Pieces:
    spent = seconds_by_dtype(whole.operations)
    if not spent:
        return ()
    dtype, seconds = max(spent.items(), key=lambda entry: entry[1])
    share = share_text(seconds / (sum(spent.values()) or 1.0))
    return (
        _named(precision),
        Piece(" spends "),
        Piece(share, "strong", precision=precision),
        Piece(f" of the operations' time in {dtype_label(dtype)}"),
    )


def seconds_by_dtype(operations: Iterable[Operation]) -> dict[str, float]:
    """Return the seconds of operations by the dtype that they computed in."""
    spent: dict[str, float] = defaultdict(float)
    for row in operations:
        if (dtype := row.computed_in) is not None:
            spent[dtype] += row.seconds
    return spent
