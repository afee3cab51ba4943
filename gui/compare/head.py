"""The head of an opened result: its title and its buttons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QActionGroup, QIcon, QMouseEvent
from PySide6.QtWidgets import QApplication, QLabel, QMenu, QSizePolicy, QToolButton, QWidget

from engine.compare.comparison import Comparison
from engine.compare.sides import Side
from engine.drawing.looks import side_fills
from engine.experiment.command import Command, refusal
from engine.export.report.report import training_words
from engine.store.record import RunRecord
from engine.words.numbers import date_text
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import Button, ElidedLabel, IconButton, marker_pixmap
from gui.widgets.actions import set_enabled
from gui.widgets.boxes import Placed, in_row
from gui.widgets.buttons import add_choice

FORMATS = (
    ("any", "Report or other file…"),
    ("html", "Save as HTML…"),
    ("pdf", "Save as PDF…"),
    ("csv", "Save samples and metrics as CSV…"),
    ("png", "Save the charts as PNG…"),
    ("svg", "Save the charts as SVG…"),
    ("json", "Save everything as JSON…"),
    ("markdown", "Copy the table as Markdown"),
    ("latex", "Copy the table as LaTeX"),
    ("script", "Save as a Python script…"),
    ("tensorboard", "Write a folder for TensorBoard…"),
    ("mlflow", "Send to MLflow…"),
    ("archive", "Save the runs as .ammeter, to import elsewhere…"),
)
_TIP = "Save a report or other file, or drag the report out"
_HEIGHT, _SIGN = 40, 16


class ExportButton(Button):
    """A button with a menu of export formats. `wanted` carries the name of the chosen format.

    `drag_wanted` is emitted when the button is dragged, and `title_wanted` when the user wants to give the
    report a title.
    """

    wanted = Signal(str)
    drag_wanted = Signal()
    title_wanted = Signal()

    def __init__(self) -> None:
        super().__init__(" Export…", "strip", _TIP, "download")
        self.setAccessibleName("Export")
        self._pressed_at: QPoint | None = None
        self.formats = QMenu(self)
        self.formats.setAccessibleName("Export formats")
        self.formats.setToolTipsVisible(True)
        self._actions = {name: self.formats.addAction(text) for name, text in FORMATS}
        for name, action in self._actions.items():
            action.triggered.connect(lambda _=False, name=name: self.wanted.emit(name))
        self.formats.addSeparator()
        self.formats.addAction("Title of the report…").triggered.connect(lambda: self.title_wanted.emit())
        self.clicked.connect(self._open)

    def show_commands(self, commands: Sequence[Command]) -> None:
        """Set the commands that train, for which there is no Python program to save."""
        against = refusal("export", commands)
        set_enabled(self._actions["script"], None if against is None else against.message, "")

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
            self.drag_wanted.emit()

    def _open(self) -> None:
        width = self.formats.sizeHint().width()
        self.formats.popup(self.mapToGlobal(QPoint(self.width() - width, self.height() + 4)))


class ItemHead(QWidget):
    """The bar above the opened result: its title and buttons, and for a comparison the choice of two sides.

    `baseline_chosen` and `headline_chosen` are emitted when the user chooses another baseline, or another
    side for the headline.
    """

    baseline_chosen = Signal()
    headline_chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(_HEIGHT)
        self._comparison: Comparison | None = None
        self._own_baseline: str | None = None
        self._chosen: str | None = None
        self._preferred: str | None = None
        self._icon_name = "compare"
        self._icon = QLabel()
        self.title, self.about = ElidedLabel("", "title"), ElidedLabel("", "hint")
        self.about.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.sides = IconButton("swap", "Compared runs", "Choose the baseline and the run in the headline")
        self.sides.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.sides.setMenu(QMenu(self))
        self.sides.menu().setAccessibleName("Compared runs")
        self.sides.menu().aboutToShow.connect(self._fill)
        self.show_button = IconButton("play", "Replay", "Replay both runs")
        tip = "Copy these settings to the form of Experiment without running"
        self.settings = Button("Use these settings", "strip", tip)
        self.export = ExportButton()
        buttons = (self.sides, self.show_button, self.settings, self.export)
        in_row(self._icon, self.title, Placed(self.about, 1), *buttons, parent=self, spacing=8)
        theme().changed.connect(self._recolor)
        self.clear()

    def show_comparison(self, comparison: Comparison) -> None:
        """Show a comparison and the choice of its sides. Keep the chosen side if it still exists."""
        self._comparison = comparison
        others = [side for side in comparison.sides if side is not comparison.baseline]
        preferred = (side.id for side in others if self._preferred in [run.id for run in side.runs])
        self._chosen, self._preferred = next(preferred, self._chosen), None
        if self._chosen not in [side.id for side in others]:
            self._chosen = None
        runs = [run for side in comparison.sides for run in side.runs]
        when = date_text(min(run.started or run.created for run in runs))
        about = ", ".join(filter(None, (*training_words(runs), when)))
        self.show_title("compare", title_of(comparison), about)
        for button in (self.sides, self.show_button):
            button.setVisible(len(comparison.sides) > 1)
        self.settings.show()
        self.export.show_commands([comparison.baseline.runs[0].experiment.command])
        self.export.show()

    def show_title(self, icon_name: str, title: str, about: str) -> None:
        self._icon_name = icon_name
        self._recolor()
        self.title.set_whole_text(title)
        self.about.set_whole_text(about)

    def show_failure(self, title: str, about: str) -> None:
        """Show `title` and the explanation `about` in place of the sides, for a comparison that failed."""
        self.clear()
        self.show_title("cross-outline", title, about)
        self.settings.show()

    def clear(self) -> None:
        """Show nothing, because nothing is opened."""
        self._comparison = None
        self.show_title("", "", "")
        for button in (self.sides, self.show_button, self.settings, self.export):
            button.hide()

    def side_run_ids(self) -> tuple[str, ...]:
        """Return the id of one run per side, the baseline first."""
        if self._comparison is None:
            return ()
        baseline = self._comparison.baseline
        return (baseline.id, *(side.id for side in self._comparison.sides if side is not baseline))

    def chosen_baseline(self, runs: Sequence[RunRecord]) -> str | None:
        """Return the id of the user's baseline, or None. It is forgotten once it is not among `runs`."""
        if self._own_baseline not in [run.id for run in runs]:
            self._own_baseline = None
        return self._own_baseline

    def baseline(self) -> str | None:
        """Return the id of the baseline's side."""
        return self._comparison.baseline.id if self._comparison is not None else None

    def headline(self) -> str | None:
        """Return the id of the side in the headline, or None if there is only the baseline."""
        if self._comparison is None:
            return None
        return self._chosen or next((report.side.id for report in self._comparison.ranked), None)

    def set_baseline(self, run_id: str) -> None:
        """Set the baseline that the user chose."""
        self._own_baseline = run_id
        self.baseline_chosen.emit()

    def set_headline(self, side_id: str) -> None:
        """Set the side in the headline."""
        self._chosen = side_id
        self.headline_chosen.emit()

    def prefer_side(self, run_id: str) -> None:
        """Put the side of this run into the headline of the next comparison, unless it is the baseline."""
        self._preferred = run_id

    def swap(self) -> None:
        """Swap the baseline and the side in the headline."""
        headline, baseline = self.headline(), self.baseline()
        if headline is not None and baseline is not None:
            self._chosen = baseline
            self.set_baseline(headline)

    def _fill(self) -> None:
        menu, comparison = self.sides.menu(), self._comparison
        menu.clear()
        if comparison is None:
            return
        others = [side for side in comparison.sides if side is not comparison.baseline]
        self._add_sides("Baseline", comparison.sides, self.baseline(), self.set_baseline)
        self._add_sides("In the headline", others, self.headline(), self.set_headline)
        menu.addSeparator()
        menu.addAction("Swap").triggered.connect(lambda _=False: self.swap())

    def _add_sides(
        self, heading: str, sides: Sequence[Side], chosen: str | None, choose: Callable[[str], None]
    ) -> None:
        assert self._comparison is not None  # the menu is filled for one
        menu, fills = self.sides.menu(), side_fills(self._comparison.sides)
        menu.addSection(heading)
        menu.setToolTipsVisible(True)
        group = QActionGroup(menu)
        for side in sides:
            mark = marker_pixmap(side.precision, 8, fills[side.id], self.devicePixelRatioF())
            words, tip = f"{side.title}   {_runs_of(side)}".rstrip(), ", ".join(side.names)
            do = partial(choose, side.id)
            action = add_choice(menu, words, do, is_chosen=side.id == chosen, tooltip=tip)
            action.setIcon(QIcon(mark))
            group.addAction(action)

    def _recolor(self) -> None:
        if self._icon_name:
            ink, ratio = theme().palette.text2, self.devicePixelRatioF()
            self._icon.setPixmap(pixmap(self._icon_name, ink, _SIGN, ratio))
        self._icon.setVisible(bool(self._icon_name))


def _runs_of(side: Side) -> str:
    run = side.runs[0]
    return f"{len(side.runs)} repeats" if len(side.runs) > 1 else run.name if run.has_own_name else ""


def title_of(comparison: Comparison) -> str:
    """Return a title of the comparison: "FP32 against BF16 AMP", "3 precisions", "FP32"."""
    sides = comparison.sides
    if len(sides) > 2:
        are_precisions = len({side.precision for side in sides}) == len(sides)
        return f"{len(sides)} {'precisions' if are_precisions else 'configurations'}"
    others = [side.title for side in sides if side is not comparison.baseline]
    return " against ".join([comparison.baseline.title, *others])
