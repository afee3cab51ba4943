"""The right of Results: the head, and below it a comparison, a study, or why a run failed."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QStackedLayout, QWidget

from engine.experiment.own.code import Code
from engine.experiment.problem import Problem
from gui.compare.head import ItemHead
from gui.compare.panel import ComparePanel
from gui.results.studies import StudyPages
from gui.train.failure import FailureCard
from gui.widgets.boxes import Stretch, in_column, wide


class ItemPage(QFrame):
    """Shows one of them at a time."""

    def __init__(self, studies: StudyPages, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "page")
        self.head, self.comparison, self.studies = ItemHead(), ComparePanel(self), studies
        self.failure = FailureCard()
        failed = QWidget()
        in_column(self.failure, Stretch(1), parent=failed, margins=16)
        self._failed = failed
        pages = QWidget()
        self._pages = QStackedLayout(pages)
        for page in (self.comparison, self.studies, failed):
            self._pages.addWidget(page)
        head = QWidget()
        in_column(self.head, parent=head, margins=(16, 12, 16, 0))
        in_column(head, wide(pages), parent=self, spacing=0)

    def show_comparison(self) -> None:
        """Brings the comparison to the front."""
        self._pages.setCurrentWidget(self.comparison)

    def show_studies(self) -> None:
        """Brings the opened study to the front."""
        self._pages.setCurrentWidget(self.studies)

    def show_failure(self, problem: Problem, detail: str, code: Code | None) -> None:
        """Says why a run failed; `detail` is the whole message, `code` the model's own code."""
        self.failure.tell(problem, detail, code)
        self._pages.setCurrentWidget(self._failed)

    @property
    def is_comparison(self) -> bool:
        """Whether the comparison is in front."""
        return self._pages.currentWidget() is self.comparison
