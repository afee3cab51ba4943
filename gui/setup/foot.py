"""The foot of the setup panel, always as high: what is needed, what is planned, and the one button."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from engine.words.numbers import memory_text
from gui.session.forecaster import Need
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import Button, ElidedLabel, ThinProgressBar, label, set_text
from gui.widgets.actions import connect_button
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, wide
from gui.widgets.labels import plain_tip

HEIGHT = 112
_WORDS, _NEED, _FACTS = 16, 24, 46
_WAITS = "Training starts when this machine is idle."
_WAIT, _WAIT_TIP = "Start when idle", "Start as soon as other programs are done"


@dataclass(frozen=True)
class FootState:
    """The texts at the bottom of the form.

    `plan` describes the effect of the button, and `against` is the reason why it is disabled. `begins` is
    when a queued job would start. `load` names other programs that keep the machine busy, and `is_waiting` is
    True while a run waits for them to end. `engine` is the text of the button that installs PyTorch.
    """

    plan: str = ""
    against: str = ""
    begins: str = ""
    load: str = ""
    may_wait: bool = True
    is_waiting: bool = False
    engine: str = ""


class SetupFoot(QWidget):
    """The bottom of the form, 112 px high: memory, plan, and the button of the action `run`.

    Without PyTorch, the button installs it. While other programs keep the machine busy, a strip above offers
    to wait for them.
    """

    def __init__(self, run: QAction) -> None:
        super().__init__()
        self._run, self._facts = run, FootState()
        self.need, self.line = NeedLine(), ElidedLabel(role="label")
        self.against = label("", "label", wraps=True)
        self.busy, self.wait_button = label("", "label", wraps=True), Button(_WAIT, "inline", _WAIT_TIP)
        self.run_button = Button("", "primary", "")
        self.engine_button = Button("", "primary", "Install PyTorch to start training")
        for button in (self.run_button, self.engine_button):
            button.setProperty("low", "true")
            button.setFixedHeight(36)
        self.line.setFixedHeight(_WORDS)
        self.against.setFixedHeight(_FACTS)
        self.against.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self._strip, foot = Surface("foot"), Surface("foot")
        in_row(wide(self.busy), self.wait_button, parent=self._strip, margins=(16, 8, 16, 8), spacing=8)
        facts = QWidget()
        facts.setFixedHeight(_FACTS)
        in_column(self.need, 6, self.line, self.against, parent=facts, spacing=0)
        buttons = (self.run_button, self.engine_button)
        in_column(facts, 8, *buttons, parent=foot, margins=(16, 9, 16, 12), spacing=0)
        foot.setFixedHeight(HEIGHT)
        # its sentence may need more lines than at the width of its size hint
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        in_column(self._strip, foot, parent=self, spacing=0)
        connect_button(self.run_button, run, shows_text=True)
        run.changed.connect(self._show)
        self._show()

    def set_facts(self, **facts: Any) -> None:
        """Replace some of the `FootState`."""
        if (told := replace(self._facts, **facts)) != self._facts:
            self._facts = told
            self._show()

    def text(self) -> str:
        """Return why the button is disabled, or else the plan."""
        return self.against.text() or self.line.whole_text()

    def _show(self) -> None:
        facts = self._facts
        set_text(self.against, facts.against)
        self.against.setToolTip(plain_tip(facts.against))
        self.line.set_whole_text(" · ".join(filter(None, (facts.plan, facts.begins))), facts.plan)
        for part, is_shown in (
            (self.against, bool(facts.against)),
            (self.need, not facts.against),
            (self.line, not facts.against),
            (self.run_button, not facts.engine),
            (self.engine_button, bool(facts.engine)),
        ):
            part.setVisible(is_shown)
        self.engine_button.set_words(facts.engine or "Install PyTorch")
        set_text(self.busy, f"{_WAITS} {facts.load}".strip() if facts.is_waiting else facts.load)
        words, tip = ("Do not wait", "Cancel the waiting run") if facts.is_waiting else (_WAIT, _WAIT_TIP)
        self.wait_button.set_words(words, tip)
        may_wait = bool(facts.load) and facts.may_wait and self._run.isEnabled()
        self.wait_button.setVisible(facts.is_waiting or may_wait)
        self._strip.setVisible(facts.is_waiting or bool(facts.load))


_ICON = 12


class NeedLine(QWidget):
    """A line with the memory that the experiment needs, or may use at most, above its bar."""

    def __init__(self) -> None:
        super().__init__()
        self._words, self._verdict = ElidedLabel(role="label"), label("", "label")
        self._icon = QLabel()
        self._icon.setFixedSize(QSize(_ICON, _ICON))
        self._bar = ThinProgressBar("Memory needed")
        self._fits: bool | None = None
        self.fraction = self._bar.fraction
        self._words.setFixedHeight(_WORDS)
        row = in_row(wide(self._words), self._icon, self._verdict, spacing=4)
        in_column(row, self._bar, Stretch(), parent=self, spacing=4)
        self.setFixedHeight(_NEED)
        theme().changed.connect(self._recolor)
        self._say("", 0.0, None)

    def show_need(
        self, need: Need | None, budget_mib: float | None, *, per_device: bool = False, most: str = ""
    ) -> None:
        """Show the needed memory relative to the budget. `most` names the precision that needs the most."""
        if need is None or budget_mib is None:
            self._say("", 0.0, None)
        elif need.needed_mib is None:
            self._say("Estimating memory…", 0.0, None)
        else:
            words = f"About {amount_of(need.needed_mib, budget_mib)}" + (", per device" if per_device else "")
            whole = f"{words}, {most} the most" if most else words
            self._say(whole, need.needed_mib / budget_mib, need.needed_mib <= budget_mib, words)

    def show_cap(self, budget_mib: float | None, device_mib: float | None) -> None:
        """Show the memory that a batch-size search may use."""
        if budget_mib is None or device_mib is None:
            self._say("", 0.0, None)
        else:
            self._say(f"Uses up to {amount_of(budget_mib, device_mib)}", budget_mib / device_mib, None)

    def show_words(self, words: str) -> None:
        """Show the memory that a sweep needs."""
        self._say(words, None, None)

    def text(self) -> str:
        """Return the text of the line. Empty while unknown."""
        return self.accessibleName()

    def _say(self, words: str, fraction: float | None, fits: bool | None, shorter: str = "") -> None:
        self._fits, verdict = fits, {None: "", True: "fits", False: "does not fit"}[fits]
        self._words.set_whole_text(words, *filter(None, (shorter,)))
        set_text(self._verdict, verdict)
        self._icon.setVisible(fits is not None)
        self._bar.set_progress(min(1.0, fraction or 0.0))
        self._bar.setVisible(bool(words) and fraction is not None)
        self.setAccessibleName(f"{words} {verdict}".strip())
        self._recolor()

    def _recolor(self) -> None:
        name = "check" if self._fits else "cross-outline"
        self._icon.setPixmap(pixmap(name, theme().palette.text, _ICON, self.devicePixelRatioF()))


def amount_of(part_mib: float, whole_mib: float) -> str:
    """Return an amount of memory with the whole in one unit: "5.5 of 24 GiB"."""
    part, whole = memory_text(part_mib), memory_text(whole_mib)
    (number, unit), (_, other) = part.rsplit(" ", 1), whole.rsplit(" ", 1)
    return f"{number if unit == other else part} of {whole}"
