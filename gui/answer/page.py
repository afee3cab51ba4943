"""The page of a study: a head with buttons, the answer in one sentence, one quiet line, and tabs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, NamedTuple

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QStackedLayout, QTabWidget, QToolButton, QWidget

from engine.experiment.experiment import Precision
from engine.experiment.value import printable
from engine.export.document import Action, Conclusion, Document
from engine.words.numbers import date_text, share_text
from gui.answer.sections import DocumentView, Offer
from gui.session.views import View, WorkView
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import Button, ElidedLabel, EmptyState, ThinProgressBar, label, set_text
from gui.widgets.boxes import Surface, in_column, in_row, wide
from gui.widgets.buttons import ExportMenu, FileFormat, IconButton, StudyMenu
from gui.widgets.quiet_line import QuietLine
from gui.widgets.verdict_label import VerdictLabel

_SIZES = ((28, 16), (24, 14), (22, 14))
_AWAITED = "Waiting for the first results."
_HEAD_HEIGHT, _ICON, _LINE = 40, 16, 38


class PageTexts(NamedTuple):
    """The words of a kind of study: its title and icon, how a sentence names it and its contents, formats."""

    title: str
    icon: str
    noun: str
    contents: str
    formats: Sequence[FileFormat]


class AnswerHead(QWidget):
    """The head of every answer: its title, its subject, its buttons, and its progress."""

    def __init__(self, kind: PageTexts, *more: QWidget) -> None:
        """Place the buttons `more` before the menu."""
        super().__init__()
        noun, contents = kind.noun, kind.contents
        self.title, self.note = label(kind.title, "title"), ElidedLabel("", "legend")
        self._icon, self._icon_name = QLabel(), kind.icon
        self.progress = ThinProgressBar(noun.capitalize())
        self.stop = Button("Stop", "strip", f"Stop the {noun} and keep the finished {contents}", "stop")
        self.settings = Button("Use these settings", "strip", "Put these settings into the form")
        self.settings.hide()
        self.menu = StudyMenu(noun, contents)
        self.export_button = Button(" Export…", "strip", f"Save the {noun} as a file", "download")
        self.export = ExportMenu(self.export_button, noun, kind.formats)
        self.export_button.setMenu(self.export)
        # beside the last button, so that those which the first result brings do not move it
        buttons = (*more, self.settings, self.menu.button, self.stop, self.export_button)
        row = in_row(self._icon, self.title, 4, wide(self.note), *buttons, spacing=8)
        in_column(wide(row), self.progress, parent=self, margins=(0, 4, 0, 0), spacing=0)
        # the title stays where it is when the work ends
        policy = self.progress.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.progress.setSizePolicy(policy)
        self.setFixedHeight(_HEAD_HEIGHT)
        theme().changed.connect(self._recolor)
        self._recolor()

    def hide_title(self) -> None:
        """Hide the title, because the surrounding page shows it."""
        self.title.hide()
        self._icon.hide()

    def _recolor(self) -> None:
        ink, ratio = theme().palette.text2, self.devicePixelRatioF()
        self._icon.setPixmap(pixmap(self._icon_name, ink, _ICON, ratio))

    def show_view(
        self,
        view: WorkView | None,
        note: str,
        fraction: float,
        precision: Precision | None,
        *,
        is_known: bool,
    ) -> None:
        """Show the work so far, or nothing for None. With `is_known`, it can be exported."""
        is_busy = view is not None and view.is_unfinished
        self.menu.set_shown(None if view is None or is_busy else view.key)
        self.note.set_whole_text(note)
        self.stop.setVisible(is_busy)
        self.progress.setVisible(is_busy)
        self.progress.set_progress(fraction, precision)
        self.export_button.setVisible(view is not None)
        self.export_button.setEnabled(is_known)


class StudyPage(Surface, Generic[View]):
    """The page of one kind of study. A subclass returns the document of a view.

    While no study is shown, the page is `empty`, a question with a button. `changes_wanted` carries the
    `Changes` that a button puts into the form, `guide_wanted` a page of the guide, `asked` any other `Action`
    of a section, and `offer_taken` the title of a tab whose offer was accepted. `rows_selected` carries the
    title of a section and the places of its selected rows.
    """

    guide_wanted = Signal(str)
    changes_wanted = Signal(object)  # Changes
    asked = Signal(object)  # Action
    offer_taken = Signal(str)
    rows_selected = Signal(str, object)  # tuple[int, ...]
    kind: ClassVar[PageTexts]
    guides: ClassVar[Mapping[str, str]] = {}
    """The guide page of each tab, in the tabs' order."""

    def __init__(
        self,
        empty: EmptyState,
        buttons: Sequence[QWidget] = (),
        widgets: Mapping[str, Callable[[], QWidget]] | None = None,
        parent: QWidget | None = None,
        *,
        foot: QWidget | None = None,
    ) -> None:
        """`widgets` makes the interactive parts that sections name. `foot` is below the tabs."""
        super().__init__("page", parent=parent)
        self.head, self.empty = AnswerHead(self.kind, *buttons), empty
        self.is_in_results = False
        self._view: View | None = None
        self._document: Document | None = None
        self._answer: Any = None
        self._shown: object = None
        self._offers: Mapping[str, Offer] = {}
        self._widgets = widgets or {}
        self.problem = label("", "problem", wraps=True)
        self.sentence, self.quiet = VerdictLabel(_SIZES), QuietLine()
        # so that the tabs are at the same place below a sentence in smaller type
        self.sentence.setMinimumHeight(_LINE)
        self.tabs = AnswerTabs(self.kind.title, self.guides, self._view_of)
        self.tabs.guide_wanted.connect(self.guide_wanted)
        self.tabs.currentChanged.connect(self._fill_tab)
        content, pages = QWidget(), QWidget()
        lines = in_column(self.problem, self.sentence, self.quiet, spacing=6)
        column = in_column(lines, wide(self.tabs), parent=content, spacing=10)
        if foot is not None:
            column.addWidget(foot)
        self._pages = QStackedLayout(pages)
        offer = Surface("panel")
        in_column(empty, parent=offer)
        # its first page is shown at once, and would be a window of its own before it has its place
        self._pages.addWidget(offer)
        self._pages.addWidget(content)
        in_column(self.head, wide(pages), parent=self, margins=(16, 12, 16, 16), spacing=8)

    def document(self, view: View) -> Document:
        """Return the document of a study, also of an unfinished one."""
        raise NotImplementedError

    def note(self, view: View) -> str:
        """Return a line on the study's experiment and its state."""
        raise NotImplementedError

    def title(self, view: View) -> str:
        """Return the title of a study."""
        return self.kind.title

    def progress(self, view: View) -> tuple[float, Precision | None]:
        """Return the share that is done, 0 to 1, and the precision at work."""
        return view.fraction or 0.0, None

    def answer_of(self, view: View) -> Any:
        """Return the study's answer, which interactive parts show."""
        raise NotImplementedError

    def offers(self, view: View) -> Mapping[str, Offer]:
        """Return the offers to start a study, by the title of the tab that shows one while it has no
        results.
        """
        return {}

    def view(self) -> View | None:
        """Return the study that is shown."""
        return self._view

    def show_view(self, view: View | None) -> None:
        """Show a study so far, or the question for None."""
        before, self._view = self._view, view
        self._pages.setCurrentIndex(0 if view is None else 1)
        if view is None:
            self._document = self._answer = None
            self.head.title.setText(self.kind.title)
            self.head.show_view(None, "", 0.0, None, is_known=False)
            return
        shown = (self.answer_of(view), self.offers(view), view.is_unfinished, view.problem)
        is_other = before is None or before.key != view.key
        if self._document is None or is_other or shown != self._shown:
            # the worker's phase changes often: nothing is filled again for it
            self._shown, self._answer, self._offers = shown, *shown[:2]
            self._document = self.document(view)
            if view.is_unfinished and self._document.nothing:
                self._document = replace(self._document, nothing=_AWAITED)
            self._show_document(self._document)
        set_text(self.head.title, self.title(view))
        self.head.show_view(view, self.note(view), *self.progress(view), is_known=self.is_known)
        problem = view.problem
        set_text(self.problem, f"{problem.message} {problem.remedy}" if problem is not None else "")
        self.problem.setVisible(problem is not None)

    @property
    def is_known(self) -> bool:
        """True if there is an answer to export."""
        return self._document is not None and not self._document.nothing

    def show_in_results(self) -> None:
        """Offer what only a saved study offers: its settings for the form."""
        self.is_in_results = True
        self.head.settings.show()

    def show_in_tab(self) -> None:
        """Hide the title, because the surrounding page shows it."""
        self.head.hide_title()
        layout = self.layout()
        assert layout is not None  # made in __init__
        layout.setContentsMargins(0, 8, 0, 0)

    def text(self) -> str:
        """Return the sentence, the quiet line and its details."""
        return f"{self.sentence.accessibleName()} {self.quiet.text()}".strip()

    def section_widget(self, tab: str, section: str) -> QWidget | None:
        """Return the interactive widget of a section, if it is made."""
        view = self.tabs.views.get(tab)
        found = None if view is None else view.sections.get(section)
        return None if found is None else found.widget

    def _show_document(self, document: Document) -> None:
        sections = [section for section in document.sections if section.part == "answer"]
        answer = document.answers[0] if document.answers else Conclusion(None, (), ())
        self.sentence.setVisible(bool(answer.pieces))
        self.sentence.show_lines((answer.pieces,))
        warnings = document.warnings if sections else (document.nothing,)
        clauses = [clause.rstrip(".") for clause in (*warnings, *answer.notes) if clause]
        self.quiet.show_clauses(tuple(map(printable, clauses)), [("Training", document.subject)])
        # so that the tabs are at the same place below an answer without clauses
        self.quiet.setVisible(bool(clauses or answer.pieces))
        tabs = (section.tab for section in sections)
        self.tabs.set_tabs(dict.fromkeys((*tabs, *self._offers)))
        self._fill_tab()

    def _fill_tab(self) -> None:
        # the other tabs are filled when they are opened
        name = self.tabs.name()
        if self._document is not None and name in self.tabs.views:
            sections = [section for section in self._document.sections if section.part == "answer"]
            shown = [section for section in sections if section.tab == name]
            self.tabs.views[name].show_sections(shown, self._answer, self._offers.get(name))

    def _view_of(self, name: str) -> DocumentView:
        view = DocumentView(name or self.kind.title, self._widgets)
        view.asked.connect(self._on_asked)
        view.wanted.connect(lambda: self.offer_taken.emit(name))
        view.rows_selected.connect(self.rows_selected)
        return view

    def _on_asked(self, action: Action) -> None:
        match action.name:
            case "use":
                self.changes_wanted.emit(action.value)
            case "guide":
                self.guide_wanted.emit(action.value)
            case _:
                self.asked.emit(action)


class AnswerTabs(QTabWidget):
    """The tabs of an answer, each a `DocumentView`, with a help button. A single tab has no bar.

    `guide_wanted` carries the guide page of the current tab.
    """

    guide_wanted = Signal(str)

    def __init__(self, title: str, guides: Mapping[str, str], make: Callable[[str], DocumentView]) -> None:
        super().__init__()
        self._guides, self._make = guides, make
        self.views: dict[str, DocumentView] = {}
        self._wanted = ""
        self.guide = IconButton("help", "Guide to this view", "Explain this view and what to do")
        self.guide.clicked.connect(lambda: self.guide_wanted.emit(self._guides.get(self.name(), "")))
        self.setDocumentMode(True)
        self.tabBar().setDrawBase(False)
        self.tabBar().setAccessibleName(f"Views of {title}")
        for arrow in self.tabBar().findChildren(QToolButton):
            arrow.setToolTip(arrow.accessibleName())
        self.setCornerWidget(self.guide)
        self.currentChanged.connect(self._forget_wanted)

    def set_tabs(self, names: Mapping[str, None]) -> None:
        """Show these tabs in the order of the guides. The tab in front stays there if it can."""
        order = [
            *(name for name in self._guides if name in names),
            *(n for n in names if n not in self._guides),
        ]
        if list(self.views) == order:
            return
        front = self._wanted or self.name()
        self.blockSignals(True)
        for name in [name for name in self.views if name not in order]:
            gone = self.views.pop(name)
            self.removeTab(self.indexOf(gone))
            gone.deleteLater()
        # those that stay are not taken out: they would lose the keyboard's focus
        for place, name in enumerate(order):
            if name not in self.views:
                self.views[name] = self._make(name)
                self.insertTab(place, self.views[name], name)
        self.views = {name: self.views[name] for name in order}
        if front not in self.views:
            self.setCurrentIndex(0)
        self.open(front)
        self.blockSignals(False)
        self.tabBar().setVisible(len(order) > 1)
        self.guide.setVisible(bool(order))

    def open(self, name: str) -> None:
        """Bring a tab to the front, now or when it appears."""
        self._wanted = name
        if name in self.views:
            self._wanted = ""
            self.setCurrentWidget(self.views[name])

    def restore(self, name: str) -> None:
        """Open the tab with this saved title. Raises KeyError if there is no such tab."""
        if name:
            self.open({title: title for title in self._guides}[name])

    def _forget_wanted(self) -> None:
        # another tab was opened meanwhile
        self._wanted = ""

    def name(self) -> str:
        """Return the title of the tab in front. Without tabs, return the title of the tab to open later."""
        view = self.currentWidget()
        return next((name for name, each in self.views.items() if each is view), self._wanted)


def state_words(view: WorkView, what: str, doing: str) -> str:
    """Return the progress of the work in words. Once it is over, return `what`, the device and the date."""
    if view.is_waiting:
        return "waiting in the queue"
    if not view.is_live:
        return ", ".join(part for part in (what, view.device_name, date_text(view.created)) if part)
    share = f", {share_text(view.fraction)}" if view.fraction is not None else ""
    return f"{doing}: {view.doing or 'starting a process'}{share}"
