"""Help > PyTorch: the installed versions, size and folder, with buttons to update, check or remove them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QWidget

from engine.experiment.problem import Problem
from engine.installation.installed import Engine, Installation, State, engines_folder
from engine.words.numbers import counted, date_text, size_text
from gui.installation.setup import EngineSetup
from gui.installation.words import Purpose, title_of
from gui.widgets import Button, ElidedLabel, IconButton, label, set_text
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.messages import ask
from gui.widgets.table import Column, ResultTable
from gui.widgets.table.columns import GROWS

_WIDTH, _NAMES, _TABLE = 560, 88, 200
_PACKAGES = (
    Column[tuple[str, str]]("Package", lambda package: package[0], widest=GROWS),
    Column[tuple[str, str]]("Version", lambda package: package[1], widest=GROWS),
)
_OWN = (
    "PyTorch belongs to the Python environment that Ammeter runs in. Update it with the tool that created "
    "the environment."
)
_REMOVES = (
    "Remove PyTorch? To train again, you would have to download it again. Your runs, presets and datasets "
    "are kept."
)


def show_engine_dialog(
    parent: QWidget, setup: EngineSetup, engine: Engine, show_page: Callable[[Purpose], object]
) -> EngineDialog:
    """Open the window's dialog or bring it to the front. `show_page` shows the page for a purpose."""
    dialog = parent.findChild(EngineDialog)
    if dialog is None:
        dialog = EngineDialog(setup, parent)
        dialog.page_wanted.connect(show_page)
    dialog.show_engine(engine)
    dialog.show()
    dialog.activateWindow()
    return dialog


class EngineDialog(QDialog):
    """The dialog *Help > PyTorch*: the installed PyTorch, and buttons to check, update, change or remove it.

    It is not modal, and deleted when closed. `page_wanted` carries the Purpose with which to open the
    installation page.
    """

    page_wanted = Signal(object)

    def __init__(self, setup: EngineSetup, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("PyTorch")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._setup = setup
        self._engine = Engine(State.ABSENT)
        self._content: QWidget | None = None
        self._answer = label("", "strong", wraps=True)
        self._make_buttons()
        self._column = in_column(
            self._answer,
            in_row(*self._shown(), Stretch(1), self.close_button, spacing=8),
            parent=self,
            margins=24,
            spacing=16,
        )
        self.setFixedWidth(_WIDTH)
        setup.checked.connect(self._show_check)
        setup.refused.connect(self._show_problem)
        setup.removed.connect(self._show_removal)

    def _make_buttons(self) -> None:
        self.set_up_button = self._to_page("Install…", Purpose.FIRST, "Choose and download a PyTorch build")
        self.repair_button = self._to_page("Repair…", Purpose.REPAIR, "Install the same build again")
        self.update_button = self._to_page("Update…", Purpose.UPDATE, "Look for a newer version of PyTorch")
        self.change_button = self._to_page("Change…", Purpose.CHANGE, "Choose another build or add packages")
        self.check_button = Button("Check", "secondary", "Check that no file is missing")
        self.remove_button = Button("Remove…", "secondary", "Remove PyTorch and its downloads, not your runs")
        self.close_button = Button("Close", "secondary", "Close", do=self.close)
        self.check_button.clicked.connect(self._check)
        self.remove_button.clicked.connect(self._remove)

    def show_engine(self, engine: Engine) -> None:
        """Show the present state of PyTorch."""
        self._engine = engine
        if self._content is not None:
            self._content.hide()
            self._content.deleteLater()
        self._content = _content(engine)
        self._column.insertWidget(0, self._content)
        self._answer.hide()
        self._show_buttons()

    def _shown(self, *, is_damaged: bool = False) -> dict[Button, bool]:
        state = self._engine.state
        is_broken = is_damaged or state is State.BROKEN
        return {
            self.set_up_button: state is State.ABSENT,
            self.repair_button: is_broken,
            self.update_button: state is State.READY and not is_broken,
            self.change_button: state is State.READY and not is_broken,
            self.check_button: state is State.READY,
            self.remove_button: state in (State.READY, State.BROKEN),
        }

    def _show_buttons(self, *, is_damaged: bool = False) -> None:
        for button, is_shown in self._shown(is_damaged=is_damaged).items():
            button.setVisible(is_shown)
            button.setEnabled(not self._setup.is_busy or button is self.check_button)

    def _to_page(self, text: str, purpose: Purpose, tip: str) -> Button:
        return Button(text, "secondary", tip, do=lambda: self._go(purpose))

    def _go(self, purpose: Purpose) -> None:
        self.page_wanted.emit(purpose)
        self.close()

    def _check(self) -> None:
        self.check_button.setEnabled(False)
        self._say("Checking every file…")
        self._setup.check()

    def _remove(self) -> None:
        if ask(self, _REMOVES, "Remove", "Keep"):
            self.remove_button.setEnabled(False)
            self._say("Removing…")
            self._setup.remove()

    def _show_check(self, problem: Problem | None) -> None:
        self._show_buttons(is_damaged=problem is not None)
        self._say("All files are complete." if problem is None else problem.message)

    def _show_problem(self, problem: Problem) -> None:
        self._show_buttons()
        self._say(f"{problem.message} {problem.remedy}")

    def _show_removal(self, freed_bytes: int) -> None:
        self.show_engine(Engine(State.ABSENT))
        self._say(f"PyTorch was removed, which freed {size_text(freed_bytes)}. Your runs are kept.")

    def _say(self, words: str) -> None:
        set_text(self._answer, words)
        self._answer.show()
        # Qt gives a wrapped text no height that the window lacks
        self.adjustSize()

    def answer(self) -> str:
        """Return the result of a check or a removal, or ""."""
        return "" if self._answer.isHidden() else self._answer.text()


def _content(engine: Engine) -> QWidget:
    here, problem = engine.installation, engine.problem
    title = "PyTorch" if here is None else title_of(here)
    texts = [] if problem is None else [problem.message]
    facts, place = _installation_facts(here) if here is not None else (), engine.packages or engines_folder()
    if engine.state is State.OWN:
        title, texts, place = "PyTorch in this environment", [_OWN], Path(sys.prefix)
        facts = (("PyTorch", _version("torch")), ("torchvision", _version("torchvision")))
    parts: list[QWidget] = [label(title, "title")]
    parts += [label(text, "body", wraps=True) for text in texts]
    parts += [_fact(name, label(words, "body")) for name, words in facts]
    if facts:
        parts.append(_place(place))
    if here is not None:
        table = ResultTable("Packages", _PACKAGES)
        table.show_rows(sorted(here.packages.items()))
        table.setFixedHeight(_TABLE)
        parts.append(table)
    holder = QWidget()
    in_column(*parts, parent=holder, spacing=8)
    return holder


def _installation_facts(here: Installation) -> tuple[tuple[str, str], ...]:
    made = date_text(datetime.fromtimestamp(here.made).astimezone())
    return (
        ("torchvision", here.packages.get("torchvision", "not installed")),
        ("Size", f"{size_text(here.size_bytes)} in {counted(here.files, 'file')}"),
        ("Installed", f"{made}, for Python {here.python}"),
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "version unknown"


def _place(folder: Path) -> QWidget:
    open_button = IconButton("folder", "Open the folder", "Open the folder in the file manager")
    open_button.clicked.connect(lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))))
    place = ElidedLabel(str(folder), "body", mode=Qt.TextElideMode.ElideMiddle)
    return _fact("Folder", place, open_button)


def _fact(name: str, value: QWidget, *more: QWidget) -> QWidget:
    holder, heading = QWidget(), label(name, "label")
    heading.setFixedWidth(_NAMES)
    in_row(heading, wide(value), *more, parent=holder, spacing=16)
    return holder
