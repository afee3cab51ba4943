"""The page of the guide that is read: a column of text with its pictures and links."""

from __future__ import annotations

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QColor, QResizeEvent, QTextCursor, QTextDocument
from PySide6.QtWidgets import QFrame, QTextBrowser, QTextEdit, QWidget

from gui.guide import GuidePage, picture_bytes
from gui.panels.guide_look import COLUMN_WIDTH, set_page
from gui.panels.guide_pictures import picture
from gui.theme import theme

_LEAST_MARGIN = 24


class GuideBrowser(QTextBrowser):
    """Shows one page; a link is told: `page_wanted` carries a page's name, `web_wanted` an address."""

    page_wanted = Signal(str)
    web_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._page: GuidePage | None = None
        self._words = ""
        self.setOpenLinks(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName("Page of the guide")
        self.anchorClicked.connect(self._follow)
        theme().changed.connect(self._set_anew)

    def set_page(self, page: GuidePage) -> None:
        """Shows a page from its top."""
        self._page = page
        self._set_anew()
        self.verticalScrollBar().setValue(0)
        self._bring_up_mark()

    def mark(self, words: str) -> None:
        """Marks each of the words in the page and brings the first into sight; none clears the marks."""
        self._words = words
        self._mark()
        self._bring_up_mark()

    def _mark(self) -> None:
        found = []
        for word in self._words.split():
            cursor = self.document().find(word)
            while not cursor.isNull():
                found.append(self._marked(cursor))
                cursor = self.document().find(word, cursor)
        self.setExtraSelections(found)

    def _bring_up_mark(self) -> None:
        places = [self.cursorRect(one.cursor).top() for one in self.extraSelections()]
        height = self.viewport().height()
        if places and not 0 <= min(places) < height:
            bar = self.verticalScrollBar()
            bar.setValue(bar.value() + min(places) - height // 3)

    def _marked(self, cursor: QTextCursor) -> QTextEdit.ExtraSelection:
        selection = QTextEdit.ExtraSelection()
        selection.cursor = cursor
        selection.format.setBackground(QColor(theme().palette.bg3))
        return selection

    def _set_anew(self) -> None:
        if self._page is None:
            return
        place = self.verticalScrollBar().value()
        self.setMarkdown(self._page.text)
        set_page(self.document(), theme().palette)
        self._settle()
        self._mark()
        self.verticalScrollBar().setValue(place)

    def _follow(self, url: QUrl) -> None:
        if url.scheme() == "https":
            self.web_wanted.emit(url.toString())
        elif url.isRelative() and url.path().endswith(".md"):
            self.page_wanted.emit(url.path().removesuffix(".md"))

    def loadResource(self, kind: int, name: QUrl | str) -> object:
        """The pictures of the guide in the theme's colours, and nothing else from anywhere."""
        path = name.path() if isinstance(name, QUrl) else name
        if kind == QTextDocument.ResourceType.ImageResource.value and path.startswith("pictures/"):
            svg = picture_bytes(path.removeprefix("pictures/"))
            if svg is not None:
                return picture(svg, theme().palette, self.devicePixelRatioF())
        return None

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._settle()

    def _settle(self) -> None:
        """Keeps the lines at a length that is easy to read, however wide the window is."""
        frame = self.document().rootFrame()
        shape = frame.frameFormat()
        spare = self.viewport().width() - COLUMN_WIDTH
        shape.setLeftMargin(_LEAST_MARGIN + 8)
        shape.setRightMargin(max(_LEAST_MARGIN, spare - _LEAST_MARGIN - 8))
        shape.setTopMargin(28)
        shape.setBottomMargin(40)
        frame.setFrameFormat(shape)
