"""The foot of the setup panel: the plan, the start button, and the button that adds to the queue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel, QWidget

from engine.words.numbers import memory_text, need_text
from gui.session.forecaster import Need
from gui.setup.grid_block import GridBlock
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import Button, ThinProgressBar, label, set_property, set_text
from gui.widgets.actions import connect_button
from gui.widgets.boxes import Placed, Surface, in_column, in_row, wide

_WAITS = "Training starts when this machine is idle."
_WAIT, _WAIT_TIP = "Start when the machine is idle", "Start as soon as other programs are done"


@dataclass(frozen=True)
class FootState:
    """The texts at the bottom of the form.

    `plan` describes the effect of the button, and `against` is the reason why it is disabled. `begins` is
    when a queued job would start. `busy` names the job in progress, during which jobs can only be queued.
    `load` names other programs that keep the machine busy, and `is_waiting` is True while a run waits for
    them to end. `engine` is the text of the button that installs PyTorch. `page_offers` is True if the page
    already has a primary button.
    """

    plan: str = ""
    against: str = ""
    begins: str = ""
    busy: str | None = None
    load: str = ""
    may_wait: bool = True
    is_waiting: bool = False
    engine: str = ""
    page_offers: bool = False


class SetupFoot(Surface):
    """The bottom of the form: the plan, warnings, and the buttons of the actions `run` and `queue`."""

    def __init__(self, run: QAction, queue: QAction) -> None:
        super().__init__("foot")
        self._run, self._facts = run, FootState()
        self.grid, self.need = GridBlock(), NeedLine()
        self.line, self.busy = label("", "label", wraps=True), label("", "label", wraps=True)
        self.wait_button = Button(_WAIT, "inline", _WAIT_TIP)
        self.engine_button = Button("", "inline", "Install PyTorch to start training")
        self.run_button, self.queue_button = Button("", "primary", ""), Button("", "secondary", "")
        self.run_button.setProperty("tall", "true")
        left = Qt.AlignmentFlag.AlignLeft
        above = (self.grid, self.need, self.line, Placed(self.engine_button, 0, left), self.busy)
        below = (Placed(self.wait_button, 0, left), 4, self.run_button, self.queue_button)
        self._column = in_column(*above, *below, parent=self, margins=16, spacing=8)
        connect_button(self.run_button, run, shows_text=True)
        connect_button(self.queue_button, queue, shows_text=True)
        run.changed.connect(self._show)
        self._show()

    def set_compact(self, is_compact: bool) -> None:
        """Leave more room for the form in a low window."""
        self._column.setContentsMargins(16, 8 if is_compact else 16, 16, 8 if is_compact else 16)
        set_property(self.run_button, "low", "true" if is_compact else "false")
        set_property(self.run_button, "tall", "false" if is_compact else "true")

    def set_facts(self, **facts: Any) -> None:
        """Replace some of the `FootState`."""
        if (told := replace(self._facts, **facts)) != self._facts:
            self._facts = told
            self._show()

    def _show(self) -> None:
        facts = self._facts
        is_busy = facts.busy is not None
        self.run_button.setVisible(not is_busy)
        set_property(self.run_button, "kind", "secondary" if facts.page_offers else "primary")
        set_property(self.queue_button, "kind", "primary" if is_busy else "secondary")
        when = ", ".join(filter(None, (facts.plan, facts.begins)))
        set_text(self.line, facts.against or (when if is_busy and facts.begins else facts.busy or facts.plan))
        set_text(self.busy, f"{_WAITS} {facts.load}".strip() if facts.is_waiting else facts.load)
        self.busy.setVisible(facts.is_waiting or bool(facts.load))
        text, tip = ("Do not wait", "Cancel the waiting run") if facts.is_waiting else (_WAIT, _WAIT_TIP)
        self.wait_button.setToolTip(tip)
        may_wait = bool(facts.load) and facts.may_wait and self._run.isEnabled()
        for button, words, is_shown in (
            (self.wait_button, text, facts.is_waiting or may_wait),
            (self.engine_button, facts.engine or "Install PyTorch", bool(facts.engine)),
        ):
            button.set_words(words)
            button.setVisible(is_shown)


_ICON = 12


class NeedLine(QWidget):
    """A line with the memory that the experiment needs, or may use at most. Hidden while unknown."""

    def __init__(self) -> None:
        super().__init__()
        self._words, self._verdict = label("", "label"), label("", "label")
        self._icon = QLabel()
        self._icon.setFixedSize(QSize(_ICON, _ICON))
        self._bar = ThinProgressBar("Memory needed")
        self._fits = False
        self.fraction = self._bar.fraction
        row = in_row(wide(self._words), self._icon, self._verdict, spacing=6)
        in_column(row, self._bar, parent=self, margins=(0, 0, 0, 8), spacing=6)
        theme().changed.connect(self._recolor)
        self.hide()

    def show_need(self, need: Need | None, budget_mib: float | None, *, per_device: bool = False) -> None:
        """Show the needed memory relative to the budget, or that it is being estimated."""
        if need is None or budget_mib is None:
            self.hide()
        elif need.needed_mib is None:
            self._say("Estimating memory…", 0.0, None)
        else:
            needs = "Per device" if per_device else "Needs"
            words = f"{needs} {need_text(need.needed_mib, budget_mib)}"
            self._say(words, need.needed_mib / budget_mib, need.needed_mib <= budget_mib)

    def show_cap(self, budget_mib: float | None, device_mib: float | None) -> None:
        """Show the memory that a batch-size search may use."""
        if budget_mib is None or device_mib is None:
            self.hide()
        else:
            words = f"Uses up to {memory_text(budget_mib)} of {memory_text(device_mib)}"
            self._say(words, budget_mib / device_mib, None)

    def text(self) -> str:
        """Return the text of the line. Empty while hidden."""
        return "" if self.isHidden() else self.accessibleName()

    def _say(self, words: str, fraction: float, fits: bool | None) -> None:
        self._fits, verdict = bool(fits), {None: "", True: "fits", False: "does not fit"}[fits]
        set_text(self._words, words)
        self._words.setToolTip(words)
        set_text(self._verdict, verdict)
        self._icon.setVisible(fits is not None)
        self._bar.set_progress(min(1.0, fraction))
        self.setAccessibleName(f"{words} {verdict}".strip())
        self._recolor()
        self.show()

    def _recolor(self) -> None:
        name = "check" if self._fits else "cross-outline"
        self._icon.setPixmap(pixmap(name, theme().palette.text, _ICON, self.devicePixelRatioF()))
