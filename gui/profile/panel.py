"""The page Profile: where a step's time goes in each precision, and what would make it faster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QAction, QDesktopServices
from PySide6.QtWidgets import QWidget

from engine.experiment.experiment import Precision
from engine.export.document import Document
from engine.export.formats import PROFILE
from engine.export.kinds import profile
from engine.profile.names import side_names
from engine.profile.tables import TABLES
from engine.protocol.profile import Profiles, StepPart
from engine.words.names import dataset_words, listed
from gui.answer.page import PageTexts, StudyPage, state_words
from gui.profile.views import Bars, Roofline, RowsView
from gui.session.views import StudyView
from gui.widgets import Button, EmptyState

_VIEWER = "https://ui.perfetto.dev"
TRACE_WRITTEN = "Open it at ui.perfetto.dev, or at chrome://tracing."


class ProfilePanel(StudyPage[StudyView[Profiles]]):
    """The page that shows the profiles of several precisions side by side.

    `profile_wanted` asks to profile the form's experiments. The button `again` profiles the shown experiments
    again.
    """

    profile_wanted = Signal()
    kind = PageTexts("Profile", "profile", "profile", "steps", PROFILE.formats)
    guides: ClassVar[Mapping[str, str]] = {
        profile.STEP: "profile-a-step",
        profile.OPERATIONS: "kernels-and-roofline",
        profile.ROOFLINE: "kernels-and-roofline",
        profile.DEVICES: "multiple-gpus",
    }

    def __init__(self, parent: QWidget | None = None) -> None:
        self.again = Button("Profile again", "strip", "Profile the same again and keep this profile")
        empty = EmptyState(
            "Where does a step's time go, and what would make it faster?",
            "Records a few steps after warm-up and splits their time into matrix work, memory, copies, the "
            "optimizer and waiting, for each precision side by side.",
        )
        self._table = TABLES[0]
        widgets = {"bars": self._bars, "rows": self._rows, "roofline": Roofline}
        super().__init__(empty, (self.again,), widgets, parent)
        self._traces = self._offer_viewer()
        self.show_view(None)

    def show_view(self, view: StudyView[Profiles] | None) -> None:
        super().show_view(view)
        self.again.setVisible(view is not None and not view.is_unfinished)
        measured = () if view is None else view.answer.measured()
        self._traces.setEnabled(any(known.trace is not None for known in measured))

    def document(self, view: StudyView[Profiles]) -> Document:
        return profile.document(view.study)

    def title(self, view: StudyView[Profiles]) -> str:
        return f"Profile of {listed(side_names(view.answer))}"

    def note(self, view: StudyView[Profiles]) -> str:
        first, names = view.answer.sides[0].experiment, side_names(view.answer)
        place = f", {view.study.place + 1} of {len(names)}" if len(names) > 1 else ""
        what = f"{first.model} on {dataset_words(first.dataset)}, batch {first.batch_size:,}"
        return state_words(view, what, f"{names[view.study.place]}{place}")

    def progress(self, view: StudyView[Profiles]) -> tuple[float, Precision | None]:
        return view.progress, view.study.experiments[view.study.place].precision

    def answer_of(self, view: StudyView[Profiles]) -> Profiles:
        return view.answer

    def state(self) -> dict[str, Any]:
        """Return the state to remember, as plain JSON values."""
        rows = self.rows()
        return {"tab": self.tabs.name(), "table": self._table if rows is None else rows.shown_table()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raise KeyError for a broken one."""
        if state:
            self.tabs.restore(state["tab"])
            self._table = {table: table for table in TABLES}[state["table"]]

    def rows(self) -> RowsView | None:
        """Return the table of kernels, operations and modules, once its tab was opened."""
        view = self.tabs.views.get(profile.OPERATIONS)
        widgets = () if view is None else (section.widget for section in view.sections.values())
        return next((widget for widget in widgets if isinstance(widget, RowsView)), None)

    def _offer_viewer(self) -> QAction:
        # the menu's action for the traces is its last
        menu = self.head.export
        menu.setToolTipsVisible(True)
        traces = menu.actions()[-1]
        traces.setToolTip("Save every recorded kernel and operation, one file per profile")
        open_viewer = menu.addAction("Open the trace viewer Perfetto")
        open_viewer.setToolTip("Open ui.perfetto.dev. The trace stays in your browser.")
        open_viewer.triggered.connect(lambda: QDesktopServices.openUrl(QUrl(_VIEWER)))
        return traces

    def _bars(self) -> Bars:
        bars = Bars()
        bars.chosen.connect(lambda place: self._show_kernels(place.part))
        return bars

    def _rows(self) -> RowsView:
        rows = RowsView()
        rows.open_table(self._table)
        return rows

    def _show_kernels(self, part: StepPart) -> None:
        self.tabs.open(profile.OPERATIONS)
        if (rows := self.rows()) is not None:
            rows.open_table("kernels")
            rows.show_part(part)
