"""Numerics as a document: sentences and a table of the most important rows for each known part.

Underflow and overflow of gradients are at the loss scale. Their exponents are without it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from engine.compare.verdict import join_pieces
from engine.drawing.chart_parts import LegendEntry
from engine.drawing.shapes import Drawing
from engine.experiment.value import BYTES_PER_MIB
from engine.export.document import (
    Action,
    Cell,
    CellText,
    Conclusion,
    Document,
    Picture,
    Section,
    advice_sections,
    changes_words,
    document_of,
    names_words,
    use_action,
)
from engine.export.kinds.numerics_tables import lost_fractions, tables
from engine.numerics.charts import divergence_chart, magnitude_line, range_charts, run_looks
from engine.numerics.findings import findings
from engine.numerics.map_rows import MapRow, own_rows
from engine.protocol.advice import Advices
from engine.protocol.numerics import (
    PART_NAMES,
    DivergenceTest,
    FirstNonfinite,
    Fp32Modules,
    Fp32Trial,
    NonfiniteSearch,
    Numerics,
    NumericsResults,
    Operation,
    PrecisionMap,
    PrecisionRun,
)
from engine.protocol.ranges import (
    ELSEWHERE,
    LOSS,
    OPTIMIZER,
    SMALL_FORMATS,
    LayerCast,
    ModuleRange,
    Quantity,
    Ranges,
    dtype_label,
    module_title,
)
from engine.store.saved.studies import Study
from engine.words.names import listed
from engine.words.numbers import (
    NONE,
    counted,
    memory_text,
    number,
    power_of_two,
    share_text,
    times,
)

TITLES: Mapping[str, str] = {part: name[:1].upper() + name[1:] for part, name in PART_NAMES.items()}
"""The titles of the parts, which are also the tabs of the window, in their order."""
SHOW_MODULE = "module"
"""The name of the action that shows a module in the precision map."""
_MOST_NOTES = 2


def document(study: Study[Numerics]) -> Document:
    """Return the document of a numerics study: the most serious finding, then the results of each part that
    has run.
    """
    answer, problem = study.answer, study.problem
    experiment, results = answer.experiment, answer.results
    first, *others = tuple(findings(answer)) or ((),)
    notes = tuple(join_pieces(pieces) for pieces in others[:_MOST_NOTES])
    return document_of(
        study,
        "numerics",
        f"Numerics of {experiment.model}, {experiment.precision.label}",
        [experiment],
        sections(results, but=join_pieces(first)),
        answers=(Conclusion(None, first, notes),) if first else (),
        warnings=() if problem is None else (f"{problem.message} {problem.remedy}",),
        tables=dict(tables(results)),
        values=lambda: {
            "run": answer.run_id,
            "parts": list(answer.parts),
            "problem": None if problem is None else problem.model_dump(mode="json"),
            "experiment": json.loads(experiment.to_json()),
            **results.as_json(),
        },
    )


def sections(results: NumericsResults, but: str = "") -> tuple[Section, ...]:
    """Return the known parts as sections, with the most important table rows first.

    Sentences that repeat the finding `but` are left out.
    """
    makers: tuple[tuple[Any, Callable[[Any], Iterable[Section]]], ...] = (
        (results.nan, _search_sections),
        (results.map, _map),
        (results.range, _ranges),
        (results.range if results.range is not None and results.range.casts else None, _scaling),
        (results.ladder, _divergence),
        (results.islands, _fp32_modules),
        (results.advice, partial(_advice, results=results)),
    )
    found = (section for make_of, make in makers if make_of is not None for section in make(make_of))
    return tuple(_without_sentence(section, but) for section in found)


def _without_sentence(section: Section, sentence: str) -> Section:
    kept = [
        tuple(text for text in texts if text and text.removesuffix(".") != sentence)
        for texts in (section.sentences, section.notes)
    ]
    return replace(section, sentences=kept[0], notes=kept[1])


_CLEAN = (
    "Intermediate values may be infinite without harm, such as a masked score, or gradients that the loss "
    "scaler skips. A rarer fault may need more steps. After a NaN in a run, use “Find it” there."
)
_NOT_AGAIN = (
    "The NaN or Inf did not recur at the same operation, so the cause is not certain. Some kernels add in a "
    "different order each time, so a value near the limit may overflow or not. Search again or longer."
)


def _search_sections(search: NonfiniteSearch) -> Iterator[Section]:
    title, first = TITLES["nan"], search.first
    if first is None:
        went_wrong = search.trouble_step is not None or search.reproduced
        sentences = (search.sentence, _NOT_AGAIN if went_wrong else _CLEAN)
        yield Section(title, sentences, pairs=_filled_facts(_course(search)), tab=title)
        return
    if first.remedy:
        changes = _filled_facts([("Change", changes_words(first.changes))])
        yield Section(
            "What to do", (first.remedy,), pairs=changes, tab=title, actions=use_action(first.changes)
        )
    actions: tuple[Action, ...] = ()
    if first.module not in (LOSS, OPTIMIZER, ELSEWHERE):
        tip = f"Show {module_title(first.module)} in the precision map"
        actions = (Action("Show in the precision map", tip, SHOW_MODULE, first.module),)
    yield Section(
        title,
        (first.sentence, search.sentence),
        pictures=_magnitude(first),
        pairs=_filled_facts((*_place_and_values(first), *_course(search))),
        tab=title,
        actions=actions,
    )


def _magnitude(first: FirstNonfinite) -> tuple[Picture, ...]:
    def draw(width: float) -> Drawing:
        return magnitude_line(first, width) or Drawing(width, 0, ())

    return () if magnitude_line(first, 440.0) is None else (Picture("magnitude", draw),)


_Facts = Iterable[tuple[str, str]]


def _filled_facts(facts: _Facts) -> tuple[tuple[str, str], ...]:
    return tuple(fact for fact in facts if fact[1])


def _place_and_values(first: FirstNonfinite) -> _Facts:
    formats = ", ".join(
        f"{' and '.join(dict.fromkeys(map(dtype_label, dtypes)))} {where}"
        for dtypes, where in ((first.inputs, "in"), (first.outputs, "out"))
        if dtypes
    )
    counts = ((first.nan, "NaN"), (first.infinite, "infinite"))
    yield "Module", module_title(first.module) + (f" ({first.class_name})" if first.class_name else "")
    yield "Operation", first.operation
    yield "Pass", first.direction
    yield "Step", f"{first.step:,}"
    yield "Dtypes", formats
    yield (
        "Finite inputs",
        "" if first.least is None else f"from {number(first.least)} to {number(first.most)}",
    )
    yield "Results", ", ".join(f"{count:,} {what}" for count, what in counts if count)
    yield "Loss scale", "" if first.grad_scale is None else f"{first.grad_scale:,g}"
    yield "Batch", first.batch


def _course(search: NonfiniteSearch) -> _Facts:
    since = f", from the state after step {search.from_step:,}" if search.from_step else ""
    again = {0: "", 1: "once", 2: "twice"}.get(search.reproduced, f"{search.reproduced} times")
    yield "Searched", counted(search.steps, "step") + since
    yield "The run went wrong", "" if search.trouble_step is None else f"in step {search.trouble_step:,}"
    yield "Reproduced", again
    yield "Steps skipped", f"{search.skipped:,}" if search.skipped else ""
    if search.last_scale is not None and search.least_scale is not None:
        scales = f"{search.least_scale:,g} at the lowest, {search.last_scale:,g} in the last step"
        yield "Loss scale of the steps", scales


_MAP = ("Module", "Class", "Forward", "Backward", "Casts", "Cast, MiB", "Moved, MiB", "Time, ms")


def _map(whole: PrecisionMap) -> Iterator[Section]:
    rows = sorted(own_rows(whole), key=lambda row: -row.seconds)
    casts = [row for row in whole.operations if row.by_autocast]
    sentence = (
        f"Operations: {sum(row.count for row in whole.operations):,}, of which "
        f"{100 * whole.attributed_fraction:.1f}% of the floating-point ones belong to a known module. "
        f"Casts by autocast: {sum(row.count for row in casts):,}, which moved {memory_text(_mib(casts))}."
    )
    title = TITLES["map"]
    yield Section(
        title,
        (sentence,),
        _MAP,
        tuple(map(_map_row, rows)),
        _MAP[4:],
        whole.notes,
        tab=title,
        widget="map",
    )


def _map_row(row: MapRow) -> tuple[Cell, ...]:
    dtypes = (", ".join(dtype_label(dtype) for dtype, _ in shares) or NONE for shares in row.shares.values())
    return (
        module_title(row.name),
        row.class_name,
        *dtypes,
        f"{row.casts:,}",
        number(row.cast_bytes / BYTES_PER_MIB),
        number(row.moved_bytes / BYTES_PER_MIB),
        number(1e3 * row.seconds),
    )


def _mib(operations: Iterable[Operation]) -> float:
    return sum(row.moved_bytes for row in operations) / BYTES_PER_MIB


_RANGE = ("Module", "Quantity", "Least", "Most", *(form.label for form in SMALL_FORMATS))


def _ranges(ranges: Ranges) -> Iterator[Section]:
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
    title = TITLES["range"]
    yield Section(
        title,
        (sentence,),
        _RANGE,
        tuple(rows),
        _RANGE[2:],
        ranges.notes,
        pictures,
        tab=title,
        widget="ranges",
    )


_SCALING = ("Layer", "Tensor", "Dtype", "Scales", "Scale", "→ 0", "Saturate")


def _scaling(ranges: Ranges) -> Iterator[Section]:
    title = TITLES["scaling"]
    casts = sorted(ranges.casts, key=lambda cast: -cast.share(cast.became_zero))
    yield Section(
        title,
        ("Values that underflow or saturate in FP8 layers, with the scaling of that step.",),
        _SCALING,
        tuple(map(_scaling_row, casts)),
        _SCALING[3:],
        ("Before the cast, a tensor is multiplied by one scale, or by one for each row or column.",),
        tab=title,
    )


def _scaling_row(cast: LayerCast) -> tuple[Cell, ...]:
    names = (module_title(cast.module), cast.title, cast.form.label)
    if not cast.scales:
        return (*names, *[CellText(NONE, None)] * 4)
    shares = (cast.share(count) for count in (cast.became_zero, cast.saturated))
    return (
        *names,
        CellText(f"{cast.scales:,}", cast.scales),
        CellText(cast.scale_text, cast.most_scale),
        *(CellText(percent(share), share) for share in shares),
    )


def _power(value: float | None) -> str:
    return NONE if value is None else power_of_two(math.frexp(value)[1] - 1)


def _loss(shares: tuple[float, float]) -> str:
    lost = zip(shares, ("→ 0", "→ ∞"), strict=True)
    return ", ".join(f"{percent(share)} {where}" for share, where in lost if share) or NONE


def percent(share: float) -> str:
    """Return a fraction in percent. A small one is never rounded to 0."""
    return "under 0.1%" if 0 < share < 5e-4 else f"{100 * share:.1f}%"


_DIVERGENCE = ("Precision", "First module", "Diverges at step", "Skipped", "Last loss")
_SAME = "Each run trains from the same weights on the same batches. Only the precision differs."


def _divergence(divergence: DivergenceTest) -> Iterator[Section]:
    title = TITLES["ladder"]
    yield Section(
        title,
        (divergence.sentence, f"{_SAME}{_shaded(divergence)}"),
        _DIVERGENCE,
        tuple(map(_run_row, divergence.runs)),
        _DIVERGENCE[2:],
        (*(run.sentence for run in divergence.runs), *divergence.notes),
        _divergence_pictures(divergence),
        tab=title,
    )
    if any(run.errors for run in divergence.runs):
        yield _module_errors(divergence.runs)


def _shaded(divergence: DivergenceTest) -> str:
    return f" The band is the range of {len(divergence.repeats):,} FP32 runs." if divergence.band_low else ""


def _run_row(run: PrecisionRun) -> tuple[Cell, ...]:
    last = run.losses[-1] if run.losses else None
    return (
        CellText(run.label, mark=run.precision),
        NONE if run.first_module is None else module_title(run.first_module),
        CellText("never", None)
        if run.diverges_at is None
        else CellText(f"{run.diverges_at:,}", run.diverges_at, is_strong=True),
        CellText(f"{run.skipped:,}", run.skipped),
        CellText(number(last), last),
    )


def _module_errors(runs: Iterable[PrecisionRun]) -> Section:
    known = [run for run in runs if run.errors]
    errors = [{error.module: error for error in run.errors} for run in known]
    rows = []
    for name in dict.fromkeys(error.module for run in known for error in run.errors):
        cells: list[Cell] = [module_title(name)]
        for run, by_module in zip(known, errors, strict=True):
            error = by_module.get(name)
            if error is None:
                cells.append(CellText(NONE, None))
                continue
            own = "" if error.explained_error is None else f" ({error_text(error.explained_error)})"
            text = f"{error_text(error.relative_error)}{own}"
            cells.append(CellText(text, error.relative_error, is_strong=name == run.first_module))
        rows.append(tuple(cells))
    labels = tuple(run.label for run in known)
    explains = any(error.explained_error is not None for run in known for error in run.errors)
    about = (
        "Relative error of each module's output against FP32, in the first step with equal weights. "
        "Modules are in the order of the forward pass.",
        *(["The error expected from rounding is in brackets."] if explains else []),
    )
    return Section("Errors by module", about, ("Module", *labels), tuple(rows), labels, tab=TITLES["ladder"])


def error_text(error: float) -> str:
    """Format an error in percent: "0.04%", "12%". Very small ones are powers of ten."""
    percents = 100 * error
    if not math.isfinite(percents):
        return "∞" if math.isinf(percents) else "NaN"
    if percents and percents < 0.001:
        return f"{percents:.0e}%".replace("e-0", "e-")
    return f"{percents:.2g}%" if percents < 100 else f"{percents:,.0f}%"


def _divergence_pictures(divergence: DivergenceTest) -> tuple[Picture, ...]:
    def draw(width: float) -> Drawing:
        return divergence_chart(divergence, width) or Drawing(width, 0, ())

    looks = zip(run_looks(divergence), divergence.runs, strict=True)
    legend = tuple(LegendEntry(look.sample, 24, run.label) for look, run in looks)
    return () if divergence_chart(divergence, 1_000.0) is None else (Picture("ladder", draw, legend=legend),)


_FP32_MODULES = ("Kept in FP32", "Result", "Last loss", "Skipped", "Seconds")
_MOST_OF_TRIAL = 4
_VERIFIED = "All of them are needed: for each, a trial without it was worse than FP32."
_NOT_VERIFIED = "Fewer may be enough: not each of them was tested in lower precision."
_CRITERION = "A trial passes if its loss stays finite and within the band of repeated FP32 runs"


def _fp32_modules(found: Fp32Modules) -> Iterator[Section]:
    title, actions = TITLES["islands"], use_action(found.changes)
    verified = "" if not found.modules else _VERIFIED if found.is_minimal else _NOT_VERIFIED
    yield Section(title, (found.sentence, verified), pairs=_cost_facts(found), tab=title, actions=actions)
    skipped = found.most_skipped_fraction
    share = f", and at most {share_text(skipped)} of its steps are skipped" if skipped else ""
    rows = tuple(map(_trial_row, found.trials))
    yield Section("Trials", (f"{_CRITERION}{share}.",), _FP32_MODULES, rows, _FP32_MODULES[2:], tab=title)


def _cost_facts(found: Fp32Modules) -> tuple[tuple[str, str], ...]:
    memory, added = "", found.memory_added_mib
    if added is not None:
        memory = f"{memory_text(abs(added))} {'less' if added < 0 else 'more'} at the peak"
    speed = "" if found.speed_ratio is None else f"{times(found.speed_ratio)}× that without them"
    trials = f"{counted(len(found.trials), 'run')} of {counted(found.steps, 'step')}"
    return _filled_facts(
        (
            ("Change", changes_words(found.changes)),
            ("Throughput", speed),
            ("Memory", memory),
            ("Verified by", trials if found.trials else ""),
        )
    )


def _trial_row(trial: Fp32Trial) -> tuple[Cell, ...]:
    return (
        CellText(names_words(trial.modules, _MOST_OF_TRIAL), len(trial.modules)),
        "As good as FP32" if trial.is_good else f"{trial.reason[:1].upper()}{trial.reason[1:]}",
        CellText(number(trial.final_loss), trial.final_loss),
        CellText(f"{trial.skipped:,}", trial.skipped),
        CellText(f"{trial.seconds:,.1f}", trial.seconds),
    )


def _advice(advices: Advices, results: NumericsResults) -> Iterable[Section]:
    parts = [TITLES[part] for part in results.findings()]
    there = f"No advice beyond what was found. See {listed(parts)}."
    return advice_sections(
        (("", item) for item in advices.items), there if parts else "No result calls for a change."
    )
