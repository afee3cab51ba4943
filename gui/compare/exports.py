"""The foot of the column: every format in which a comparison can be exported."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QFrame, QMenu, QWidget

from gui.widgets import Button, label
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.shortcuts import keys_of

_QUICK = (
    ("html", "HTML", "A report in one web page, which needs no network"),
    ("pdf", "PDF", "The report to print or to send"),
    ("csv", "CSV", "Every sample and the table of figures, for a notebook or a spreadsheet"),
    ("png", "PNG", "The charts as a picture"),
)
MORE = (
    ("svg", "Save the charts as SVG…"),
    ("json", "Save everything as JSON…"),
    ("markdown", "Copy the table as Markdown"),
    ("latex", "Copy the table as LaTeX"),
    ("tensorboard", "Write a folder for TensorBoard…"),
    ("mlflow", "Send to MLflow…"),
    ("archive", "Save the whole runs as .ammeter, to import elsewhere…"),
)


class ExportBlock(QFrame):
    """`wanted` carries the name of a format, "any" for the dialog's choice; `drag_wanted` when the report is
    dragged out of the window; `title_wanted` to give it a title; `import_wanted` to import runs."""

    wanted = Signal(str)
    drag_wanted = Signal()
    title_wanted = Signal()
    import_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "foot")
        self._count = label("", "unit")
        self.menu = QMenu(self)
        self.menu.setAccessibleName("More export formats")
        for name, text in MORE:
            self.menu.addAction(text).triggered.connect(lambda _=False, name=name: self.wanted.emit(name))
        self.menu.addSeparator()
        title_action = self.menu.addAction("Title of the report…")
        title_action.triggered.connect(lambda: self.title_wanted.emit())
        self._format_actions = self.menu.actions()
        self.menu.addSeparator()
        import_action = self.menu.addAction(f"Import runs from an archive…\t{keys_of('import')}")
        import_action.triggered.connect(lambda: self.import_wanted.emit())
        self._buttons: list[Button] = []
        self._lay_out()

    def set_runs(self, count: int) -> None:
        """Sets how many runs would be exported."""
        runs = "1 run" if count == 1 else f"{count:,} runs, this comparison"
        self._count.setText(runs if count else "no run is ticked")
        for button in self._buttons:
            button.setEnabled(count > 0)
        for action in self._format_actions:
            action.setEnabled(count > 0)

    def _lay_out(self) -> None:
        head = in_row(label("Export", "label"), Stretch(1), self._count)
        quick = in_row(*(wide(self._button(*words)) for words in _QUICK), spacing=8)
        tip = "A stand-alone program that repeats the training of the run in the headline, to read and change"
        second = in_row(wide(self._button("script", "Python script", tip, "code")), spacing=8)
        more = Button(
            " More", "narrow", "More export formats, the clipboard, and importing runs", "chevron-up"
        )
        more.setFixedWidth(76)
        more.setAccessibleName("More")
        more.clicked.connect(lambda: self._open_menu(more))
        second.addWidget(more)
        report = DragButton("Export report", "Save the report, or drag it out of the window (Ctrl+E)")
        report.clicked.connect(lambda: self.wanted.emit("any"))
        report.dragged.connect(self.drag_wanted)
        self._buttons.append(report)
        in_column(head, quick, second, report, parent=self, margins=(16, 12, 16, 16), spacing=8)

    def _button(self, name: str, text: str, tip: str, icon: str | None = None) -> Button:
        button = Button(f" {text}" if icon else text, "narrow", tip, icon)
        button.setAccessibleName(text)
        button.clicked.connect(lambda: self.wanted.emit(name))
        self._buttons.append(button)
        return button

    def _open_menu(self, button: QWidget) -> None:
        size = self.menu.sizeHint()
        self.menu.popup(button.mapToGlobal(QPoint(button.width() - size.width(), -size.height())))


class DragButton(Button):
    """A button that can also be dragged: `dragged` once the pointer has moved away while pressed."""

    dragged = Signal()

    def __init__(self, text: str, tooltip: str) -> None:
        super().__init__(f" {text}", "primary", tooltip, "download")
        self.setAccessibleName(text)
        self.setProperty("low", "true")
        self._pressed_at: QPoint | None = None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        self._pressed_at = event.position().toPoint() if event.button() is Qt.MouseButton.LeftButton else None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._pressed_at is None:
            return
        way = event.position().toPoint() - self._pressed_at
        if way.manhattanLength() >= QApplication.startDragDistance():
            self._pressed_at = None
            # the release must not count as a click
            self.setDown(False)
            self.dragged.emit()
