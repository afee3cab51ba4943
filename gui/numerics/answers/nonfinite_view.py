"""The view of the first NaN or Inf: the operation that made it, and the remedy."""

from __future__ import annotations

import math

from PySide6.QtCore import QSize, Signal

from engine.drawing.shapes import Box, Drawing, Words
from engine.protocol.numerics.formats import FORMATS, NumberFormat, dtype_label
from engine.protocol.numerics.nonfinite import (
    ELSEWHERE,
    LOSS,
    OPTIMIZER,
    FirstNonfinite,
    NonfiniteSearch,
    module_title,
)
from engine.words.numbers import counted, number
from gui.charts.painter import Painted, words_width
from gui.widgets import Button
from gui.widgets.answer_page import AnswerPage, facts, wrapped
from gui.widgets.boxes import Part, in_row, wide

_NOTHING_YET = (
    "Which operation makes the first NaN or Inf?",
    "Trains until the loss, a weight or the gradients are NaN or infinite, then repeats the last steps with "
    "every operation watched. The operation is named only if it comes twice.",
    "Look for it",
    "Look through the first steps of the form's experiment",
)
_CLEAN = (
    "Numbers in between may be infinite and do no harm: a masked score, or gradients that the loss scaler "
    "skips. A rarer fault may need more steps: when a run meets a NaN, Find it repeats the steps before it."
)
_NOT_AGAIN = (
    "It did not come twice at the same operation, so none is named. Some kernels add in another order each "
    "time, which can decide whether a number near the limit overflows: look again, or through more steps."
)


class NonfiniteView(AnswerPage):
    """`module_chosen` carries the name of the module to show in the precision map."""

    module_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__("First NaN or Inf", *_NOTHING_YET)

    def show_search(self, search: NonfiniteSearch | None) -> None:
        """Shows the first NaN or Inf; None for the empty state."""
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
        return [*parts, facts((*_place(first), *_values(first), *_course(search)))]


def _labels(dtypes: tuple[str, ...]) -> str:
    return " and ".join(dict.fromkeys(map(dtype_label, dtypes)))


def _place(first: FirstNonfinite) -> tuple[tuple[str, str], ...]:
    formats = ((first.inputs, "in"), (first.outputs, "out"))
    return (
        ("Module", module_title(first.module) + (f" ({first.class_name})" if first.class_name else "")),
        ("Operation", first.operation),
        ("Pass", first.direction),
        ("Step", f"{first.step:,}"),
        ("Formats", ", ".join(f"{_labels(dtypes)} {where}" for dtypes, where in formats if dtypes)),
    )


def _values(first: FirstNonfinite) -> tuple[tuple[str, str], ...]:
    counts = ((first.nan, "NaN"), (first.infinite, "infinite"))
    made = ", ".join(f"{count:,} {what}" for count, what in counts if count)
    spread = "" if first.most is None else f"from {number(first.least)} to {number(first.most)}"
    scale = "" if first.grad_scale is None else f"{first.grad_scale:,g}"
    return (("Finite inputs", spread), ("Results", made), ("Loss scale", scale), ("Batch", first.batch))


def _course(search: NonfiniteSearch) -> tuple[tuple[str, str], ...]:
    """The steps looked through, and the course of the loss scale."""
    since = f", from the state after step {search.from_step:,}" if search.from_step else ""
    scales = ""
    if search.last_scale is not None and search.least_scale is not None:
        scales = f"{search.least_scale:,g} at the lowest, {search.last_scale:,g} at the end"
    return (
        ("Looked through", counted(search.steps, "step") + since),
        ("The run went wrong", "" if search.trouble_step is None else f"in step {search.trouble_step:,}"),
        ("Reproduced", _again(search)),
        ("Steps skipped", f"{search.skipped:,}" if search.skipped else ""),
        ("Loss scale of the steps", scales),
    )


def _again(search: NonfiniteSearch) -> str:
    return {0: "", 1: "once", 2: "twice"}.get(search.reproduced, f"{search.reproduced} times")


_LOWEST, _HEIGHT, _TOP, _BAR = 1e-8, 48, 19, 10
"""The least magnitude that the line shows, and its pixels."""


class MagnitudeLine(Painted):
    """The magnitudes of an operation's inputs, or of its result where that is known, against the largest
    number of its format, on a logarithmic line."""

    def __init__(self, inputs: float, result: float | None, form: NumberFormat) -> None:
        super().__init__()
        self._most, self._largest = inputs if result is None else result, form.largest
        self._values = f"{'inputs' if result is None else 'results'} up to {number(self._most)}"
        self._limit = f"{form.label} ends at {number(form.largest, 0)}"
        self.setFixedHeight(_HEIGHT)
        self.setAccessibleName(f"{self._values}; {self._limit}")
        what = "input" if result is None else "result, computed in a wider format,"
        self.setToolTip(f"The largest {what} against the largest number of {form.label}")

    def sizeHint(self) -> QSize:
        return QSize(240, _HEIGHT)

    def drawing(self) -> Drawing:
        most, largest = self._place(self._most), self._place(self._largest)
        shapes = (
            Box(0, _TOP, largest, _BAR, "bg3"),
            Box(0, _TOP, most, _BAR, "text2"),
            Box(largest, _TOP - 3, 1, _BAR + 6, "text"),
            _ending(self._values, most, _TOP - 7, "text"),
            _ending(self._limit, largest, _HEIGHT - 4, "text2"),
        )
        return Drawing(self.width(), _HEIGHT, shapes)

    def _place(self, value: float) -> float:
        """A magnitude's place; the line ends a tenth of its length beyond the larger of its two marks."""
        end = math.log(max(self._most, self._largest) / _LOWEST) / 0.9
        return self.width() * max(0.0, math.log(max(value, _LOWEST) / _LOWEST) / end)


def _ending(words: str, right: float, baseline: float, ink: str) -> Words:
    """Words that end there, unless they would begin too far left."""
    return Words(max(right, words_width(words, 12)), baseline, words, ink, 12, anchor="end")
