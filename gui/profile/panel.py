"""The workspace Timing: where a step's time goes, side by side, and what would make it shorter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QScrollArea,
    QStackedLayout,
    QWidget,
)

from engine.export.formats import PROFILE
from engine.profile.names import failures
from engine.profile.tables import TABLES
from engine.protocol.profile.bar import StepPart
from engine.protocol.profile.profiles import Timing
from gui.profile.advice_view import TimingAdvice
from gui.profile.answer import ENERGY_PAGE, TimingAnswer
from gui.profile.bars_view import BarsView
from gui.profile.export import offer_viewer
from gui.profile.roofline_view import RooflineView
from gui.profile.rows_view import RowsView
from gui.profile.words import facts, notes, progress
from gui.session.orders.head import WorkHead
from gui.session.orders.studies import StudyView
from gui.widgets import Button, ElidedLabel, EmptyState, label, set_text
from gui.widgets.answers.answer_page import wrapped
from gui.widgets.answers.view_tabs import ViewTab, ViewTabs
from gui.widgets.boxes import in_column, wide

_NOTHING_YET = (
    "Where does a step's time go, and what would make it shorter?",
    "A profile records some steps of what the form describes, after warm-up: matrix work, memory, copies, "
    "the optimizer, and what the device waits for, in each precision side by side.",
    "Profile",
    "Profiles the form's experiments, FP32 first",
)
_AWAITED = "The first profile is shown as soon as it is there."


_View = BarsView | RowsView | RooflineView | TimingAdvice


class TimingPanel(QFrame):
    """Shows a timing.

    `explain_wanted` asks for one of what the form describes, `again` for the same once more; `changes_wanted`
    carries Changes for the form, `guide_wanted` a page of the guide.
    """

    explain_wanted = Signal()
    changes_wanted = Signal(object)
    guide_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "page")
        self._view: StudyView[Timing] | None = None
        self._shown: Timing | None = None
        self._stale: set[str] = set()
        self.again = Button("Profile again", "strip", "Profile the same once more; this timing is kept")
        self.head = WorkHead("Profile", "profile", "steps", PROFILE.formats, self.again)
        self._traces = offer_viewer(self.head.export)
        self.empty = EmptyState(*_NOTHING_YET, is_solid=True)
        self.failures = wrapped("", "problem")
        self.answer = TimingAnswer()
        self.notes = ElidedLabel("", "hint")
        self.bars, self.rows = BarsView(), RowsView()
        self.roofline, self.advice = RooflineView(), TimingAdvice()
        self._views: Mapping[str, _View] = {
            "bars": self.bars,
            "rows": self.rows,
            "roofline": self.roofline,
            "advice": self.advice,
        }
        self.tabs = ViewTabs(
            "Views of the timing",
            (
                ViewTab("bars", "Step", "step-time", self._step()),
                ViewTab("rows", "Kernels, operations, modules", "kernels", self.rows),
                ViewTab("roofline", "Roofline", "roofline", self.roofline),
                ViewTab("advice", "Advice", "advice", self.advice),
            ),
        )
        self._lay_out()
        self._connect()
        self.show_view(None)

    def show_view(self, view: StudyView[Timing] | None) -> None:
        """Shows a timing so far; None for the empty state."""
        self._view = view
        timing = None if view is None else view.answer
        if view is None:
            self.head.show_view(None, "", 0.0, None, is_known=False)
        else:
            note = progress(view) if view.is_unfinished else facts(view)
            precision, is_known = view.study.experiments[view.study.place].precision, view.answer.is_known
            self.head.show_view(view, note, view.progress, precision, is_known=is_known)
        self.again.setVisible(view is not None and not view.is_unfinished)
        page: QWidget = self.empty
        if view is not None:
            page = self._content if view.study.is_known or not view.is_unfinished else self._awaited
        self._pages.setCurrentWidget(page)
        if timing != self._shown:
            # the worker's phase changes often: nothing is filled again for it
            self._shown = timing
            self._show_timing(timing)

    def view(self) -> StudyView[Timing] | None:
        return self._view

    def state(self) -> dict[str, Any]:
        """What is remembered across a restart, as plain JSON values."""
        return {"tab": self.tabs.name(), "table": self.rows.shown_table()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a `state`. Raises KeyError for a broken one."""
        if state:
            self.tabs.open(state["tab"])
            self.rows.open_table({table: table for table in TABLES}[state["table"]])

    def _show_timing(self, timing: Timing | None) -> None:
        profiles = () if timing is None else timing.profiles()
        self._traces.setEnabled(any(profile.trace is not None for profile in profiles))
        set_text(self.failures, "\n".join(failures(timing)) if profiles and timing is not None else "")
        self.failures.setVisible(bool(self.failures.text()))
        self.answer.show_timing(timing)
        self.notes.set_whole_text("" if timing is None else notes(timing))
        self.notes.setVisible(bool(self.notes.whole_text()))
        self._stale = set(self._views)
        self._fill_tab()

    def _fill_tab(self) -> None:
        """Fills the view in front; the others wait until they are looked at: all of them take too long."""
        name = self.tabs.name()
        if name in self._stale:
            self._stale.remove(name)
            self._views[name].show_timing(self._shown)

    def _connect(self) -> None:
        self.empty.pressed.connect(self.explain_wanted)
        self.tabs.currentChanged.connect(self._fill_tab)
        self.bars.part_chosen.connect(self._show_kernels)
        for view in self._views.values():
            view.wanted.connect(self.explain_wanted)
        self.answer.guide.clicked.connect(lambda: self.guide_wanted.emit(ENERGY_PAGE))
        for teller in (self.answer, self.advice):
            teller.changes_wanted.connect(self.changes_wanted)
        self.tabs.guide_wanted.connect(self.guide_wanted)

    def _show_kernels(self, part: StepPart) -> None:
        self.rows.open_table("kernels")
        self.rows.show_part(part)
        self.tabs.open("rows")

    def _lay_out(self) -> None:
        panel = QFrame()
        panel.setProperty("surface", "panel")
        self._pages = QStackedLayout()
        in_column(self.head.problem, wide(self._pages), parent=panel, margins=(12, 10, 12, 8), spacing=8)
        parts = (self.failures, self.answer.large, wide(self.tabs), self.notes)
        self._content = QWidget()
        in_column(*parts, parent=self._content, spacing=8)
        self._awaited = label(_AWAITED, "empty")
        self._awaited.setAlignment(Qt.AlignmentFlag.AlignCenter)
        # its first page is shown at once, and would be a window of its own before it has its place
        for page in (self.empty, self._awaited, self._content):
            self._pages.addWidget(page)
        in_column(self.head, wide(panel), parent=self, margins=16, spacing=8)

    def _step(self) -> QScrollArea:
        """The sides' answers above their bars, which scroll together."""
        page, area = QWidget(), QScrollArea()
        in_column(self.answer, wide(self.bars), parent=page, spacing=4)
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setAccessibleName("Step")
        area.setWidget(page)
        return area
