"""The questions of the form: their fields, the texts of the button, and the box that lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, cast

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QListWidget,
    QListWidgetItem,
    QSizePolicy,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, Precision
from engine.protocol.profile import MOST_SIDES
from engine.words.numbers import counted
from gui.session.request import Request
from gui.setup.check import Outcome, button_words, limit_request, plan_words
from gui.setup.draft import Draft
from gui.setup.sweep.survey import Survey
from gui.setup.sweep.survey import button_words as sweep_words
from gui.setup.sweep.survey import plan_words as sweep_plan
from gui.theme.fonts import font
from gui.theme.icons import draw_icon
from gui.theme.theme import theme
from gui.widgets.boxes import in_column
from gui.widgets.messages import Popover

Question = Literal["compare", "script", "limit", "numerics", "profile", "sweep", "tune"]


class QuestionEntry(NamedTuple):
    """A question that the user can choose, such as "Compare precisions": title, description and icon.

    `absent` are the form fields that it does not use.
    """

    title: str
    about: str
    icon: str
    absent: frozenset[str] = frozenset()


_LENGTH = frozenset({"length", "epochs", "steps"})
QUESTIONS: Mapping[Question, QuestionEntry] = {
    "compare": QuestionEntry("Compare precisions", "Which is faster, and does it still learn", "compare"),
    "script": QuestionEntry("Compare scripts", "Two commands, one verdict", "log"),
    "limit": QuestionEntry(
        "Largest batch", "What fits in memory", "limit", _LENGTH | {"batch_size", "repeat"}
    ),
    "numerics": QuestionEntry("Numerics", "Where precision is lost", "pulse", frozenset({"repeat"})),
    "profile": QuestionEntry("Profile", "Where the time goes", "profile", _LENGTH | {"repeat"}),
    "sweep": QuestionEntry("Sweep", "How results change with any setting", "sweep"),
    "tune": QuestionEntry("Tune", "The fastest settings", "tune", _LENGTH | {"repeat"}),
}
_SCRIPT_HINT = (
    "Runs the commands unchanged, alternating, and records their training steps.\n"
    "Compares throughput, memory and loss."
)
_NO_AXIS = "Add a setting to sweep, with two or more values."


def examined_precision(chosen: Sequence[Precision]) -> Precision | None:
    """Return the precision to examine: the first narrow one, else the first."""
    narrow = (precision for precision in chosen if precision.is_narrow)
    return next(narrow, next(iter(chosen), None))


def examined(outcome: Outcome) -> Experiment | None:
    """Return the experiment whose model or numerics are checked: the first one in the selected precision."""
    experiments = [experiment for _, experiment in outcome.experiments]
    precision = examined_precision([experiment.precision for experiment in experiments])
    return next((experiment for experiment in experiments if experiment.precision is precision), None)


def build_job(
    question: Question, draft: Draft, outcome: Outcome, catalog: Catalog, cpu_limit_gib: float | None
) -> Request | Experiment | tuple[Experiment, ...] | None:
    """Return the request of a batch-size search, or the experiments to examine, profile or tune."""
    if question == "limit":
        return limit_request(draft, outcome, catalog, cpu_limit_gib)
    if question == "profile":
        # those in strict FP32 first, as in a comparison
        experiments = (experiment for _, experiment in outcome.experiments)
        return tuple(sorted(experiments, key=lambda experiment: experiment.precision is not Precision.FP32))
    return examined(outcome) if question == "numerics" else outcome.experiments[0][1]


def offer_texts(
    question: Question, outcome: Outcome, machine: str = "this machine"
) -> tuple[str, str, tuple[tuple[Precision, str], ...]]:
    """Return the heading, description and precisions of a comparison, for its empty page."""
    if question == "script":
        return f"Which command trains faster on {machine}?", _SCRIPT_HINT, ()
    sides = tuple((experiment.precision, label) for label, experiment in outcome.experiments)
    if not outcome.experiments:
        return "Which precision is fastest on this machine?", "Select precisions on the left.", ()
    first = outcome.experiments[0][1]
    if len(sides) > 2:
        heading = f"Which of {len(sides)} is fastest on {machine}?"
    elif len(sides) > 1:
        heading = f"What does {sides[1][1]} gain on {machine}?"
    else:
        heading = f"How fast does {first.model} train in {sides[0][1]}?"
    compares = "\nCompares throughput, memory and accuracy." if len(sides) > 1 else ""
    return heading, f"Trains {first.model}: {plan_words(outcome)}.{compares}", sides


def button_text(question: Question, draft: Draft, outcome: Outcome, cells: int = 0) -> str:
    """Return the text of the button. `cells` is the number of combinations of a sweep."""
    match question:
        case "compare":
            return button_words(draft, outcome)
        case "script":
            count = len(outcome.experiments)
            return f"Compare {count} scripts" if count > 1 else "Run the script"
        case "limit":
            return "Find the largest batch"
        case "profile":
            return f"Profile {_sides(outcome)}".rstrip()
        case "sweep":
            return sweep_words(draft, cells) if cells else "Start the sweep"
        case "tune":
            return "Tune"
    experiment = examined(outcome)
    return "Examine the numerics" if experiment is None else f"Examine {experiment.precision.label}"


def _sides(outcome: Outcome) -> str:
    experiments = [experiment for _, experiment in outcome.experiments]
    precisions = dict.fromkeys(experiment.precision for experiment in experiments)
    if len(experiments) > len(precisions):
        return counted(len(experiments), "run")
    return next(iter(precisions)).label if len(precisions) == 1 else counted(len(precisions), "precision")


def plan_text(
    question: Question,
    draft: Draft,
    outcome: Outcome,
    survey: Survey | None = None,
    seconds: float | None = None,
) -> str:
    """Describe the effect of the button. `survey` is for a sweep, `seconds` the time of a comparison."""
    on_one = "" if draft.has_one_device else ", on one device"
    match question:
        case "limit":
            return "A few trials in each precision" if len(draft.selected) > 1 else "A few trials"
        case "numerics":
            return f"Runs the selected parts{on_one}"
        case "profile":
            return "Records a few steps" + (" of each" if len(outcome.experiments) > 1 else "")
        case "tune":
            return "Screens many settings, verifies the fastest"
        case "sweep" if survey is not None and survey.grid is not None:
            return sweep_plan(survey)
    return plan_words(outcome, seconds, is_script=question == "script")


def disabled_reason(question: Question, outcome: Outcome, cells: int = 0) -> str | None:
    """Return a sentence that says why the button is disabled. None if it is enabled."""
    if question == "sweep" and not cells and outcome.reason is None:
        return _NO_AXIS
    if question == "profile" and len(outcome.experiments) > MOST_SIDES:
        return f"At most {MOST_SIDES} runs can be profiled together."
    return outcome.reason


_BOX_HEIGHT, _LOW_HEIGHT, _ROW_HEIGHT, _MARGIN = 56, 44, 60, 5
_ICON, _TEXT = 10, 34
"""Pixels from the left edge."""


def _draw(painter: QPainter, rect: QRectF, entry: QuestionEntry, right: str) -> None:
    """Draw a question into its box or row, with an icon at the right. A check mark is next to the title."""
    palette = theme().palette
    middle = rect.center().y()
    draw_icon(painter, QRectF(rect.left() + _ICON, middle - 9, 18, 18), entry.icon, palette.text2)
    left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
    is_low = rect.height() <= _LOW_HEIGHT
    line = QRectF(rect.left() + _TEXT, middle - (18 if is_low else 19), rect.width() - _TEXT - 12, 20)
    painter.setFont(font(13, 600))
    painter.setPen(QColor(palette.text))
    painter.drawText(line, left, entry.title)
    painter.setFont(font(11 if is_low else 12))
    painter.setPen(QColor(palette.text2))
    painter.drawText(line.translated(0, 16 if is_low else 18), left, entry.about)
    if right:
        top = line.top() + 2 if right == "check" else middle - 8
        draw_icon(painter, QRectF(rect.right() - 24, top, 16, 16), right, palette.text)


class QuestionBox(QAbstractButton):
    """The box that shows the current question. A click, Space, Enter or an arrow key opens the list.

    `chosen` carries the question that the user selects in it.
    """

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.question: Question = "compare"
        self.setFixedHeight(_BOX_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip("Choose what to measure. The form changes to match.")
        self.clicked.connect(lambda: self.list.toggle())
        theme().changed.connect(self.update)
        self.set_question("compare")

    def set_compact(self, is_compact: bool) -> None:
        """Make the box lower, for a low window."""
        self.setFixedHeight(_LOW_HEIGHT if is_compact else _BOX_HEIGHT)

    @cached_property
    def list(self) -> QuestionList:
        """Return the list of questions, created when first opened."""
        questions = QuestionList(self)
        questions.toggled.connect(self.update)
        return questions

    def set_question(self, question: Question) -> None:
        self.question = question
        entry = QUESTIONS[question]
        self.setAccessibleName(f"What do you want to know? {entry.title}")
        self.setAccessibleDescription(entry.about)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(288, self.height())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.list.open()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        palette, painter = theme().palette, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_open = "list" in vars(self) and self.list.is_open
        border = palette.pri if is_open else palette.text3 if self.underMouse() else palette.line2
        painter.setPen(QColor(border))
        painter.setBrush(QColor(palette.field))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
        chevron = "chevron-up" if is_open else "chevron-down"
        _draw(painter, QRectF(self.rect()), QUESTIONS[self.question], chevron)
        painter.end()


class QuestionList(Popover):
    """The popup with the list of questions to choose from."""

    def __init__(self, box: QuestionBox) -> None:
        super().__init__(box)
        self._box = box
        self.rows = QListWidget(self)
        self.rows.setAccessibleName("Questions")
        self.rows.setItemDelegate(_RowDelegate(self.rows, box))
        self.rows.setMouseTracking(True)
        self.rows.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        for question, entry in QUESTIONS.items():
            item = QListWidgetItem(f"{entry.title}: {entry.about}")
            item.setData(Qt.ItemDataRole.UserRole, question)
            self.rows.addItem(item)
        self.rows.itemClicked.connect(self._choose)
        self.rows.itemActivated.connect(self._choose)
        self.rows.itemEntered.connect(self.rows.setCurrentItem)
        self.setFocusProxy(self.rows)
        in_column(self.rows, parent=self, margins=_MARGIN)

    def sizeHint(self) -> QSize:
        return QSize(0, _ROW_HEIGHT * len(QUESTIONS) + 2 * _MARGIN + 2)

    def open(self) -> None:
        self.rows.setCurrentRow(tuple(QUESTIONS).index(self._box.question))
        super().open()

    def _choose(self, item: QListWidgetItem) -> None:
        if self.is_open:
            self.dismiss()
            self._box.chosen.emit(item.data(Qt.ItemDataRole.UserRole))


class _RowDelegate(QStyledItemDelegate):
    def __init__(self, rows: QListWidget, box: QuestionBox) -> None:
        super().__init__(rows)
        self._box = box

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        return QSize(0, _ROW_HEIGHT)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        question = cast("Question", index.data(Qt.ItemDataRole.UserRole))
        rect = QRectF(option.rect)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme().palette.bg3))
            painter.drawRoundedRect(rect, 6, 6)
        _draw(painter, rect, QUESTIONS[question], "check" if question == self._box.question else "")
        painter.restore()
