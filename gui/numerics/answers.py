"""The views that answer in words: the first NaN or Inf with its fix, and the fewest FP32 modules."""

from __future__ import annotations

import math

from PySide6.QtCore import QSize, Signal

from engine.drawing.shapes import Box, Drawing, Words
from engine.protocol.numerics import FirstNonfinite, Fp32Modules, Fp32Trial, NonfiniteSearch
from engine.protocol.ranges import (
    ELSEWHERE,
    FORMATS,
    LOSS,
    OPTIMIZER,
    NumberFormat,
    dtype_label,
    module_title,
)
from engine.words.numbers import NONE, counted, memory_text, number, share_text, times
from gui.charts.painter import DrawingView, words_width
from gui.widgets import Button, label
from gui.widgets.answer_page import AnswerPage, facts, names_words
from gui.widgets.boxes import Part, in_row, wide
from gui.widgets.labels import wrapped
from gui.widgets.table import Column, ResultTable
from gui.widgets.table.columns import GROWS, number_column

Facts = tuple[tuple[str, str], ...]

_CLEAN = (
    "Intermediate values may be infinite without harm, such as a masked score, or gradients that the loss "
    "scaler skips. A rarer fault may need more steps. After a NaN in a run, use “Find it” there."
)
_NOT_AGAIN = (
    "The NaN or Inf did not recur at the same operation, so the cause is not certain. Some kernels add in a "
    "different order each time, so a value near the limit may overflow or not. Search again or longer."
)


class NonfiniteView(AnswerPage):
    """Shows the operation that produced the first NaN or Inf.

    `module_chosen` carries the name of a module to show in the precision map.
    """

    module_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__(
            "First NaN or Inf",
            "Which operation produces the first NaN or Inf?",
            "Trains until the loss, a weight or the gradients are NaN or infinite, then repeats the last "
            "steps and records every operation. An operation is named only if both repeats agree.",
            "Search",
            "Search the first steps of the form's experiment",
        )

    def show_search(self, search: NonfiniteSearch | None) -> None:
        """Show the first NaN or Inf. For None, show the empty state."""
        if search is None:
            self.show_empty()
        elif search.first is None:
            went_wrong = search.trouble_step is not None or search.reproduced
            meaning = wrapped(_NOT_AGAIN if went_wrong else _CLEAN, "body")
            self.show_answer(search.sentence, meaning, facts(_course(search)))
        else:
            self.show_answer(search.first.sentence, *self._found(search.first, search))

    def _found(self, first: FirstNonfinite, search: NonfiniteSearch) -> list[Part]:
        head = in_row(wide(wrapped(search.sentence, "body")), spacing=12)
        if first.module not in (LOSS, OPTIMIZER, ELSEWHERE):
            tip = f"Show {module_title(first.module)} in the precision map"
            link = Button("Show in the precision map", "link", tip)
            link.clicked.connect(lambda: self.module_chosen.emit(first.module))
            head.addWidget(link)
        parts: list[Part] = [head, self.block(first.remedy, head="What to do", changes=first.changes)]
        form = next((form for form in FORMATS if form.name in first.outputs), None)
        if form is not None and first.least is not None and first.most is not None:
            inputs = max(abs(first.least), abs(first.most))
            parts.append(MagnitudeLine(inputs, first.result, form))
        return [*parts, facts((*_place_and_values(first), *_course(search)))]


def _place_and_values(first: FirstNonfinite) -> Facts:
    formats = ", ".join(
        f"{' and '.join(dict.fromkeys(map(dtype_label, dtypes)))} {where}"
        for dtypes, where in ((first.inputs, "in"), (first.outputs, "out"))
        if dtypes
    )
    counts = ((first.nan, "NaN"), (first.infinite, "infinite"))
    return (
        ("Module", module_title(first.module) + (f" ({first.class_name})" if first.class_name else "")),
        ("Operation", first.operation),
        ("Pass", first.direction),
        ("Step", f"{first.step:,}"),
        ("Dtypes", formats),
        (
            "Finite inputs",
            "" if first.most is None else f"from {number(first.least)} to {number(first.most)}",
        ),
        ("Results", ", ".join(f"{count:,} {what}" for count, what in counts if count)),
        ("Loss scale", "" if first.grad_scale is None else f"{first.grad_scale:,g}"),
        ("Batch", first.batch),
    )


def _course(search: NonfiniteSearch) -> Facts:
    since = f", from the state after step {search.from_step:,}" if search.from_step else ""
    again = {0: "", 1: "once", 2: "twice"}.get(search.reproduced, f"{search.reproduced} times")
    scales = ""
    if search.last_scale is not None and search.least_scale is not None:
        scales = f"{search.least_scale:,g} at the lowest, {search.last_scale:,g} in the last step"
    return (
        ("Searched", counted(search.steps, "step") + since),
        ("The run went wrong", "" if search.trouble_step is None else f"in step {search.trouble_step:,}"),
        ("Reproduced", again),
        ("Steps skipped", f"{search.skipped:,}" if search.skipped else ""),
        ("Loss scale of the steps", scales),
    )


_LOWEST, _HEIGHT, _TOP, _BAR = 1e-8, 48, 19, 10
"""The smallest magnitude that the line shows, and its pixels."""


class MagnitudeLine(DrawingView):
    """A logarithmic scale of an operation's result or inputs relative to the largest number of a dtype."""

    def __init__(self, inputs: float, result: float | None, form: NumberFormat) -> None:
        super().__init__()
        self._most, self._largest = inputs if result is None else result, form.largest
        self._values = f"{'inputs' if result is None else 'results'} up to {number(self._most)}"
        self._limit = f"{form.label} maximum {number(form.largest, 0)}"
        self.setFixedHeight(_HEIGHT)
        self.setAccessibleName(f"{self._values}, {self._limit}")
        what = "input" if result is None else "result, computed in a wider dtype,"
        self.setToolTip(f"The largest {what} vs. the largest number of {form.label}")

    def sizeHint(self) -> QSize:
        return QSize(240, _HEIGHT)

    def drawing(self) -> Drawing:
        # it ends a tenth of its length beyond the larger of its two marks
        end = math.log(max(self._most, self._largest) / _LOWEST) / 0.9
        most, largest = (
            self.width() * max(0.0, math.log(max(value, _LOWEST) / _LOWEST) / end)
            for value in (self._most, self._largest)
        )
        places = ((self._values, most, _TOP - 7, "text"), (self._limit, largest, _HEIGHT - 4, "text2"))
        # words end there, unless they would start too far left
        words = [
            Words(max(right, words_width(text, 12)), baseline, text, ink, 12, anchor="end")
            for text, right, baseline, ink in places
        ]
        bars = (
            Box(0, _TOP, largest, _BAR, "bg3"),
            Box(0, _TOP, most, _BAR, "text2"),
            Box(largest, _TOP - 3, 1, _BAR + 6, "text"),
        )
        return Drawing(self.width(), _HEIGHT, (*bars, *words))


_VERIFIED = "All of them are needed: for each, a trial without it was worse than FP32."
_NOT_VERIFIED = "Fewer may be enough: not each of them was tested in lower precision."
_CRITERION = "A trial passes if its loss stays finite and within the band of repeated FP32 runs"
_COLUMNS: tuple[Column[Fp32Trial], ...] = (
    Column(
        "Kept in FP32",
        lambda trial: names_words(trial.modules),
        lambda trial: len(trial.modules),
        width=120,
        widest=GROWS,
        about=lambda trial: ", ".join(trial.modules) or "none",
    ),
    Column(
        "Result", lambda trial: "as good as FP32" if trial.is_good else trial.reason, width=120, widest=GROWS
    ),
    number_column("Last loss", lambda trial: trial.final_loss, number, width=80, absent=NONE),
    number_column("Skipped", lambda trial: trial.skipped, "{:,}".format),
    number_column("Seconds", lambda trial: trial.seconds, "{:,.1f}".format),
)


class Fp32ModulesView(AnswerPage):
    """Shows the modules that need FP32, their cost in speed and memory, and the trials that verify them.

    A button keeps these modules in FP32 in the form.
    """

    def __init__(self) -> None:
        super().__init__(
            "FP32 modules",
            "Which modules need FP32?",
            "Short runs with different modules in FP32 find the smallest set that trains as well as FP32. "
            "This takes minutes.",
            "Find them",
            "Find the FP32 modules of the form's experiment",
        )

    def show_modules(self, found: Fp32Modules | None) -> None:
        """Show the modules that were found. For None, show the empty state."""
        if found is None:
            self.show_empty()
            return
        parts: list[Part] = []
        if found.modules or found.changes:
            verified = "" if not found.modules else _VERIFIED if found.is_minimal else _NOT_VERIFIED
            parts.append(self.block(names_words(found.modules or ()), verified, changes=found.changes))
        table = ResultTable("Trials", _COLUMNS, whole=True)
        table.show_rows(found.trials)
        skipped = found.most_skipped_fraction
        share = f", and at most {share_text(skipped)} of its steps are skipped" if skipped else ""
        criterion = wrapped(f"{_CRITERION}{share}.", "hint")
        self.show_answer(
            found.sentence, *parts, facts(_cost(found)), label("Trials", "panelTitle"), criterion, table
        )


def _cost(found: Fp32Modules) -> Facts:
    memory, added = "", found.memory_added_mib
    if added is not None:
        memory = f"{memory_text(abs(added))} {'less' if added < 0 else 'more'} at the peak"
    speed = "" if found.speed_ratio is None else f"{times(found.speed_ratio)}× that without them"
    trials = f"{counted(len(found.trials), 'run')} of {counted(found.steps, 'step')}"
    return (("Throughput", speed), ("Memory", memory), ("Verified by", trials))
