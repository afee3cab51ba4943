"""The window below its top bar: form and page, and dropped files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, QSize, Qt, Signal
from PySide6.QtGui import QDropEvent, QResizeEvent
from PySide6.QtWidgets import QSplitter, QStackedWidget, QWidget

from gui.widgets import label
from gui.widgets.boxes import Placed, Surface, in_column
from gui.widgets.notice import Notice
from gui.window.top_bar import SIDE_WIDTH

_LEAST_SIDE, _WIDEST_SIDE = 304, 440
_NARROW, _LOW = 1_280, 748
"""Below one of them, in pixels, the form is compact. The window is 52 px higher."""
_CONTROLS = 64
"""Height of the controls at the lower edge of Demo."""


class Body(QSplitter):
    """The window below the top bar: one of several pages, with a side panel if that page has one.

    Pages must be created as children of `pages`, and side panels of `side`. Moving them there later would
    restyle them, which is slow. `compact_changed` tells whether there is little room.
    """

    compact_changed = Signal(bool)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._is_compact = False
        self._pages: dict[str, tuple[QWidget, QWidget | None]] = {}
        self.side = QStackedWidget(self)
        self.side.setMinimumWidth(_LEAST_SIDE)
        self.side.setMaximumWidth(_WIDEST_SIDE)
        self.pages = _Pages(self)
        self.setChildrenCollapsible(False)
        self.addWidget(self.side)
        self.addWidget(self.pages)
        self.setStretchFactor(1, 1)
        self.setSizes([SIDE_WIDTH, 1120])
        self.notice = Notice(self.pages)

    def add(self, key: str, page: QWidget, side: QWidget | None) -> None:
        self._pages[key] = (page, side)
        self.pages.addWidget(page)
        if side is not None and self.side.indexOf(side) < 0:
            self.side.addWidget(side)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_compact = self.width() < _NARROW or self.height() < _LOW
        if is_compact != self._is_compact:
            self._is_compact = is_compact
            usual, wanted = (SIDE_WIDTH, _LEAST_SIDE) if is_compact else (_LEAST_SIDE, SIDE_WIDTH)
            if self.side.width() == usual:
                # a width that the user has chosen stays
                self.setSizes([wanted, self.width() - wanted])
            self.compact_changed.emit(is_compact)

    @property
    def page(self) -> str:
        """Return the key of the page in sight."""
        return tuple(self._pages)[self.pages.currentIndex()]

    @property
    def place(self) -> str:
        """Return the place of the current page: "experiment", "results" or "show"."""
        return self.page if self.page in ("results", "show") else "experiment"

    def show_page(self, key: str) -> None:
        """Show a page. Raises ValueError for an unknown key."""
        if key not in self._pages:
            raise ValueError(f"Unknown page '{key}'.")
        page, side = self._pages[key]
        self.pages.setCurrentWidget(page)
        if side is not None:
            self.side.setCurrentWidget(side)
        self.side.setVisible(side is not None)
        self.notice.keep_free(_CONTROLS if key == "show" else 0)


class _Pages(QStackedWidget):
    """A stack as narrow as the page in sight allows, whatever room the hidden pages need."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.currentChanged.connect(self.updateGeometry)

    def minimumSizeHint(self) -> QSize:
        page = self.currentWidget()
        return super().minimumSizeHint() if page is None else page.minimumSizeHint()


class ModelDrops(QObject):
    """Opens a Python file that is dragged onto the window: a model or a script. Shows a frame during a drag.

    Other files, and several files at once, are ignored.
    """

    def __init__(self, window: QWidget, open_model: Callable[[str], object]) -> None:
        super().__init__(window)
        self._open = open_model
        self.frame = _Frame(window)
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        drops = (QEvent.Type.DragEnter, QEvent.Type.DragMove, QEvent.Type.Drop)
        if kind in drops and isinstance(event, QDropEvent):
            path = _model_in(event.mimeData())
            self.frame.point_out(path if kind != QEvent.Type.Drop else None)
            if path is not None:
                event.acceptProposedAction()
                if kind == QEvent.Type.Drop:
                    self._open(str(path))
                return True
        elif kind in (QEvent.Type.DragLeave, QEvent.Type.Hide):
            self.frame.point_out(None)
        return super().eventFilter(watched, event)


def _model_in(data: QMimeData) -> Path | None:
    paths = [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
    return paths[0] if len(paths) == 1 and paths[0].suffix.lower() == ".py" else None


class _Frame(Surface):
    """A frame over the window that lets the mouse through."""

    def __init__(self, window: QWidget) -> None:
        super().__init__("drop", parent=window)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._words = label("", "strong")
        note = Surface("popover")
        in_column(self._words, parent=note, margins=(20, 12, 20, 12))
        in_column(Placed(note, 0, Qt.AlignmentFlag.AlignCenter), parent=self)
        self.hide()

    def point_out(self, path: Path | None) -> None:
        """Show over the window that dropping this file opens it. None hides the message."""
        if path is not None:
            self._words.setText(f"Drop {path.name} to train with it")
            self.setGeometry(self.window().rect())
            self.raise_()
        self.setVisible(path is not None)
