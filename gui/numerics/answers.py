"""The views whose answer is words: the first NaN or Inf with its remedy, and the fewest FP32 modules."""

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
from engine.protocol.numerics.numerics import Islands, IslandTrial
from engine.words.numbers import NONE, counted, memory_text, number, share_text, times
from gui.charts.painter import Painted, words_width
from gui.widgets import Button, label
from gui.widgets.answer_page import AnswerPage, facts, names_words, wrapped
from gui.widgets.boxes import Part, in_row, wide
from gui.widgets.table import Column, ResultTable
from gui.widgets.table.columns import GROWS, number_column

Facts = tuple[tuple[str, str], ...]

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
        super().__init__(
            "First NaN or Inf",
            "Which operation makes the first NaN or Inf?",
            "Trains until the loss, a weight or the gradients are NaN or infinite, then repeats the last "
            "steps with every operation watched. The operation is named only if it comes twice.",
            "Look for it",
            "Look through the first steps of the form's experiment",
        )

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
        ("Formats", formats),
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
        scales = f"{search.least_scale:,g} at the lowest, {search.last_scale:,g} at the end"
    return (
        ("Looked through", counted(search.steps, "step") + since),
        ("The run went wrong", "" if search.trouble_step is None else f"in step {search.trouble_step:,}"),
        ("Reproduced", again),
        ("Steps skipped", f"{search.skipped:,}" if search.skipped else ""),
        ("Loss scale of the steps", scales),
    )


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
        # it ends a tenth of its length beyond the larger of its two marks
        end = math.log(max(self._most, self._largest) / _LOWEST) / 0.9
        most, largest = (
            self.width() * max(0.0, math.log(max(value, _LOWEST) / _LOWEST) / end)
            for value in (self._most, self._largest)
        )
        places = ((self._values, most, _TOP - 7, "text"), (self._limit, largest, _HEIGHT - 4, "text2"))
        # words end there, unless they would begin too far left
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


_PROVEN = "None can be left out: for each there is a trial without it that was worse than FP32."
_NOT_PROVEN = "Fewer may do: not every one of them has been left out in a trial."
_CRITERION = "A trial is good if its loss stays within the band of repeated FP32 runs, never NaN or infinite"
_COLUMNS: tuple[Column[IslandTrial], ...] = (
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


class IslandsView(AnswerPage):
    """The modules that must stay in FP32 with a button, their price, and the trials that prove them."""

    def __init__(self) -> None:
        super().__init__(
            "FP32 modules",
            "Which modules must stay in FP32?",
            "Short runs with some of the modules in FP32 find the fewest with which training is as good as "
            "in FP32 alone. This takes minutes.",
            "Find them",
            "Find them for the form's experiment",
        )

    def show_islands(self, islands: Islands | None) -> None:
        """Shows the modules that were found; None for the empty state."""
        if islands is None:
            self.show_empty()
            return
        parts: list[Part] = []
        if islands.modules or islands.changes:
            proof = "" if not islands.modules else _PROVEN if islands.is_minimal else _NOT_PROVEN
            parts.append(self.block(names_words(islands.modules or ()), proof, changes=islands.changes))
        table = ResultTable("Trials", _COLUMNS, whole=True)
        table.show_rows(islands.trials)
        skipped = islands.most_skipped_fraction
        share = f", and if at most {share_text(skipped)} of its steps are skipped" if skipped else ""
        criterion = wrapped(f"{_CRITERION}{share}.", "hint")
        self.show_answer(
            islands.sentence, *parts, facts(_price(islands)), label("Trials", "panelTitle"), criterion, table
        )


def _price(islands: Islands) -> Facts:
    memory, added = "", islands.memory_added_mib
    if added is not None:
        memory = f"{memory_text(abs(added))} {'less' if added < 0 else 'more'} at the peak"
    speed = "" if islands.speed_ratio is None else f"{times(islands.speed_ratio)}× that without them"
    trials = f"{counted(len(islands.trials), 'run')} of {counted(islands.steps, 'step')}"
    return (("Speed", speed), ("Memory", memory), ("Proven by", trials))
