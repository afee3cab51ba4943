"""The foot of the setup panel: what the button will do, the button, and the queue's."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QFrame, QLabel, QWidget

from engine.words.numbers import memory_text, need_text
from gui.session.forecaster import Need
from gui.setup.grid_block import GridBlock
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import Button, IconButton, ProgressLine, label, set_property, set_text
from gui.widgets.boxes import Placed, in_column, in_row, wide
from gui.widgets.labels import plain_tip

_WAITS = "Training starts when this machine is quiet."
_WAIT, _WAIT_TIP = "Train when it is quiet", "Trains as soon as other programs are done"


class SetupFoot(QFrame):
    """Two buttons that follow the panel's actions, below what keeps the machine busy.

    `wait_pressed` asks to train once the machine is quiet, or not to wait any more; `engine_wanted` to set
    up the engine.
    """

    wait_pressed = Signal()
    engine_wanted = Signal()

    def __init__(self, run: QAction, queue: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "foot")
        self._run, self._queue = run, queue
        self._sentence, self._is_waiting, self._may_wait = "", False, True
        self._busy: str | None = None
        self._page_offers = False
        self._plan, self._against, self._begins = "", "", ""
        self.grid = GridBlock()
        self.need = NeedLine()
        self.line = label("", "label")
        self.line.setWordWrap(True)
        self.busy = label("", "label")
        self.busy.setWordWrap(True)
        self.busy.hide()
        self.wait_button = Button(_WAIT, "inline", _WAIT_TIP)
        self.wait_button.hide()
        self.wait_button.clicked.connect(self.wait_pressed)
        self.engine_button = Button(
            "Set up the engine", "inline", "Without the engine nothing can be trained"
        )
        self.engine_button.hide()
        self.engine_button.clicked.connect(self.engine_wanted)
        self.run_button = Button("Compare", "primary", "")
        self.run_button.setProperty("tall", "true")
        self.queue_button = Button("Add to queue", "secondary", "")
        in_column(
            self.grid,
            self.need,
            self.line,
            Placed(self.engine_button, 0, Qt.AlignmentFlag.AlignLeft),
            self.busy,
            Placed(self.wait_button, 0, Qt.AlignmentFlag.AlignLeft),
            4,
            self.run_button,
            self.queue_button,
            parent=self,
            margins=16,
            spacing=8,
        )
        for button, action in ((self.run_button, run), (self.queue_button, queue)):
            button.clicked.connect(action.trigger)
            action.changed.connect(self._follow)
        self._follow()

    def set_busy(self, sentence: str | None) -> None:
        """Offers only the queue during what `sentence` names; None while nothing is in progress."""
        self._busy = sentence
        self._show_kinds()
        self._show_line()

    def set_begins(self, words: str) -> None:
        """Sets when what is added to the queue would begin; empty where nothing is in progress."""
        self._begins = words
        self._show_line()

    def set_page_offers(self, offers: bool) -> None:
        """Says whether the page beside the form has the solid button: there is one in sight at most."""
        self._page_offers = offers
        self._show_kinds()

    def _show_kinds(self) -> None:
        self.run_button.setVisible(self._busy is None)
        set_property(self.run_button, "kind", "secondary" if self._page_offers else "primary")
        set_property(self.queue_button, "kind", "secondary" if self._busy is None else "primary")

    def show_plan(self, plan: str, against: str | None, *, may_wait: bool = True) -> None:
        """Shows what the button will do, or what is `against` it; only training waits for quiet."""
        self._plan, self._against, self._may_wait = plan, against or "", may_wait
        self._show_line()
        self._follow()

    def _show_line(self) -> None:
        when = ", ".join(part for part in (self._plan, self._begins) if part)
        waits = self._busy is not None and bool(self._begins)
        set_text(self.line, self._against or (when if waits else self._busy or self._plan))

    def offer_engine(self, action: str) -> None:
        """Offers to set up the engine, by a button with this text; "" for none."""
        if action:
            self.engine_button.setText(action)
            self.engine_button.setAccessibleName(action)
        self.engine_button.setVisible(bool(action))

    def show_busy(self, sentence: str, *, is_waiting: bool) -> None:
        """Shows what keeps the machine busy ("" for nothing), and whether a run waits until it is quiet."""
        self._sentence, self._is_waiting = sentence, is_waiting
        set_text(self.busy, f"{_WAITS} {sentence}".strip() if is_waiting else sentence)
        self.busy.setVisible(bool(self.busy.text()))
        text, tip = ("Do not wait", "Cancels the waiting run") if is_waiting else (_WAIT, _WAIT_TIP)
        self.wait_button.setText(text)
        self.wait_button.setAccessibleName(text)
        self.wait_button.setToolTip(tip)
        self._follow()

    def _follow(self) -> None:
        for button, action in ((self.run_button, self._run), (self.queue_button, self._queue)):
            button.setText(action.text())
            button.setAccessibleName(action.text())
            button.setToolTip(action.toolTip())
            button.setEnabled(action.isEnabled())
        may_wait = bool(self._sentence) and self._run.isEnabled() and self._may_wait
        self.wait_button.setVisible(self._is_waiting or may_wait)


def button_for(action: QAction, icon: str, name: str, parent: QWidget) -> IconButton:
    """An icon button that triggers an action and follows its state."""
    # without a parent it would be shown as a window of its own for a moment
    button = IconButton(icon, name, parent=parent)
    attach(button, action)
    return button


def attach(button: QAbstractButton, action: QAction) -> None:
    """Has the button trigger the action and follow its state."""

    def follow() -> None:
        button.setEnabled(action.isEnabled())
        button.setToolTip(action.toolTip())
        button.setVisible(action.isVisible())

    button.clicked.connect(action.trigger)
    action.changed.connect(follow)
    follow()


def make_action(parent: QWidget, text: str, do: Callable[[], object]) -> QAction:
    """An action that does something, without a shortcut yet."""
    action = QAction(text, parent)
    action.triggered.connect(lambda: do())
    return action


def enable(action: QAction, against: str | None, tip: str) -> None:
    """Enables an action unless something is against it, which its tooltip then says."""
    action.setEnabled(against is None)
    action.setToolTip(plain_tip(against or tip))


_ICON = 12


class NeedLine(QWidget):
    """Hidden while there is nothing to say."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._words = label("", "label")
        self._icon = QLabel()
        self._icon.setFixedSize(QSize(_ICON, _ICON))
        self._verdict = label("", "label")
        self._bar = ProgressLine("Memory needed")
        row = in_row(wide(self._words), self._icon, self._verdict, spacing=6)
        in_column(row, self._bar, parent=self, margins=(0, 0, 0, 8), spacing=6)
        self._fits: bool | None = None
        theme().changed.connect(self._recolor)
        self.hide()

    def show_need(self, need: Need | None, budget_mib: float | None) -> None:
        """Shows the need against the budget, or that it is being estimated, or nothing."""
        if need is None or budget_mib is None:
            self.hide()
            return
        if need.needed_mib is None:
            self._say("Estimating memory…", 0.0, None)
            return
        words = f"Needs {need_text(need.needed_mib, budget_mib)}"
        self._say(words, need.needed_mib / budget_mib, need.needed_mib <= budget_mib)

    def show_cap(self, budget_mib: float | None, device_mib: float | None) -> None:
        """Shows the memory that a limit may use."""
        if budget_mib is None or device_mib is None:
            self.hide()
            return
        words = f"Uses up to {memory_text(budget_mib)} of {memory_text(device_mib)}"
        self._say(words, budget_mib / device_mib, None)

    def text(self) -> str:
        """The text of the line; empty while hidden."""
        return "" if self.isHidden() else f"{self._words.text()} {self._verdict.text()}".strip()

    def fraction(self) -> float:
        return self._bar.fraction()

    def _say(self, words: str, fraction: float, fits: bool | None) -> None:
        set_text(self._words, words)
        self._words.setToolTip(words)
        set_text(self._verdict, {None: "", True: "fits", False: "does not fit"}[fits])
        self._fits = fits
        self._icon.setVisible(fits is not None)
        self._bar.set_progress(min(1.0, fraction))
        self.setAccessibleName(f"{words} {self._verdict.text()}".strip())
        self._recolor()
        self.show()

    def _recolor(self) -> None:
        name = "check" if self._fits else "cross-outline"
        self._icon.setPixmap(pixmap(name, theme().palette.text, _ICON, self.devicePixelRatioF()))
