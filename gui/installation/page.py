"""The page *Install PyTorch*: the form, the progress of the installation, and its result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QObject, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QWidget

from engine.experiment.problem import Problem
from engine.installation.description import Description
from engine.installation.installed import Engine, Installation
from engine.installation.request import InstallEvent, InstallPlan, InstallRequest, Source
from engine.words.numbers import duration, size_text
from gui.installation.choice import ChoiceView
from gui.installation.progress import InstallProgress, ProgressView
from gui.installation.setup import EngineSetup
from gui.installation.words import (
    Purpose,
    first_choice,
    purpose_of,
    title_of,
    without_password,
    words_for,
)
from gui.widgets import Button, label, set_text
from gui.widgets.boxes import Placed, Stretch, Surface, in_column, in_row

_WIDTH = 680
_MEANWHILE = "You can use Results, Demo and the guide in the meantime."


class SetupPage(Surface):
    """The page *Install PyTorch*. `progress_changed` carries a Progress, or None at the end.

    `train_wanted` is emitted when the user wants to train with the new installation, `left` when the user
    leaves the page.
    """

    progress_changed = Signal(object)
    train_wanted = Signal()
    left = Signal()

    def __init__(self, setup: EngineSetup, engine: Engine, parent: QWidget | None = None) -> None:
        super().__init__("page", "Install PyTorch", parent)
        self._setup, self._engine = setup, engine
        self.purpose = purpose_of(engine)
        self._found: Description | None = None
        self._progress: InstallProgress | None = None
        self._wanted: InstallRequest | None = None
        self._source = Source()
        self._began = 0.0
        self._lay_out()
        self._connect()
        self.setFocusProxy(self.begin_button)
        self.choice.set_wanted(first_choice(engine))
        self._show_choice()

    def _lay_out(self) -> None:
        self._title, self._sentence, self._remedy = (
            label("", role, wraps=True) for role in ("pageTitle", "body", "body")
        )
        self.choice, self.progress = ChoiceView(), ProgressView()
        self.begin_button = Button("", "primary", "")
        self.train_button = Button("Start training", "primary", "Train the experiment in the form")
        self.again_button = Button("Try again", "primary", "Continue with the complete packages")
        self.back_button = Button("Change options", "secondary", "Choose another build or source")
        self.leave_button = Button("Not now", "secondary", "Go back without changing anything")
        self._meanwhile = label(_MEANWHILE, "hint")
        first = (self.begin_button, self.train_button, self.again_button)
        self._buttons = (*first, self.back_button, self.leave_button)
        inner = QWidget()
        in_column(
            self._title, self._sentence, self._remedy, 8, self.choice, self.progress, parent=inner, spacing=8
        )
        foot = QWidget()
        in_column(
            in_row(*self._buttons, Stretch(1), spacing=8), self._meanwhile, parent=foot, margins=(0, 16, 0, 0)
        )
        area = _Scrolled(inner)
        self.choice.more.clicked.connect(
            lambda: QTimer.singleShot(0, area, lambda: area.ensureWidgetVisible(self.choice.options))
        )
        parts = (area, foot)
        for part in parts:
            part.setMaximumWidth(_WIDTH)
        rows = [in_row(Stretch(1), Placed(part, 100), Stretch(1)) for part in parts]
        in_column(Stretch(2), *rows, Stretch(3), parent=self, margins=(24, 16, 24, 16), spacing=0)

    def _connect(self) -> None:
        self.choice.changed.connect(self._resolve)
        self.progress.stop_wanted.connect(self._setup.stop)
        self.begin_button.clicked.connect(self._begin)
        self.again_button.clicked.connect(self._try_again)
        self.back_button.clicked.connect(self._offer)
        self.train_button.clicked.connect(self.train_wanted)
        self.leave_button.clicked.connect(self.left)
        self._setup.found.connect(self._on_found)
        self._setup.planned.connect(self._on_plan)
        self._setup.plan_failed.connect(self._on_refusal)
        self._setup.began.connect(self._on_start)
        self._setup.progressed.connect(self._on_event)
        self._setup.ended.connect(self._on_end)
        self._setup.problem.connect(self._on_failure)

    def show_engine(self, engine: Engine) -> None:
        """Set the present state of PyTorch. If it is not usable, offer to install it."""
        self._engine = engine
        if not engine.is_usable and self._wanted is None:
            self.offer(purpose_of(engine))

    def offer(self, purpose: Purpose) -> None:
        """Show the form for a purpose. An installation in progress stays on the page."""
        if self._setup.is_busy:
            return
        self.purpose, self._wanted = purpose, None
        self.choice.set_wanted(first_choice(self._engine, self._source))
        self._offer()

    def state(self) -> Mapping[str, Any]:
        """Return the last source and the request of an unfinished installation, without passwords."""
        wanted, source = self._wanted, self._source
        if wanted is None and source == Source():
            return {}
        return {
            "mirror": None if source.mirror is None else without_password(source.mirror),
            "folder": None if source.folder is None else str(source.folder),
            "begun": None if wanted is None else {"backend": wanted.backend, "extras": list(wanted.extras)},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Offer to resume an unfinished installation. Raises KeyError or TypeError for an invalid state."""
        if not state:
            return
        folder, begun = state["folder"], state["begun"]
        self._source = Source(state["mirror"], None if folder is None else Path(folder))
        if begun is not None:
            self._wanted = InstallRequest(str(begun["backend"]), self._source, tuple(begun["extras"]))
            self.purpose = Purpose.RESUME
        self.choice.set_wanted(self._wanted or first_choice(self._engine, self._source))
        self._show_choice()

    def _on_found(self, found: Description) -> None:
        self._found = found
        self.choice.show_found(found)
        self._resolve()

    def _resolve(self) -> None:
        self.choice.forget_plan()
        wanted = self.choice.wanted()
        if wanted is None:
            self._setup.drop_plan()
        elif self.isVisible() and not self._setup.is_busy:
            # the network is asked only once the user looks at the page
            self._setup.plan(wanted)
        self._refresh_words()

    def _on_plan(self, plan: InstallPlan) -> None:
        self.choice.show_plan(plan)
        self._refresh_words()

    def _on_refusal(self, problem: Problem) -> None:
        self.choice.show_problem(problem)
        self._refresh_words(is_refused=True)

    def _begin(self) -> None:
        if self.choice.plan is None:
            self._resolve()
        elif self.choice.can_begin:
            self._setup.start(self.choice.plan.wanted)

    def _try_again(self) -> None:
        if self._wanted is None:
            self._offer()
        else:
            self._setup.start(self._wanted)

    def _offer(self) -> None:
        self._show_choice()
        if self._found is not None:
            self._resolve()
        elif self.isVisible():
            self._setup.look()

    def _on_start(self, wanted: InstallRequest) -> None:
        self._wanted, self._source, self._began = wanted, wanted.source, time.monotonic()
        self._show_words("Installing PyTorch", _MEANWHILE)
        self._show_parts(self.progress)
        self._set_progress(InstallProgress(is_waiting=self._setup.is_waiting))
        self.progress.stop_button.setFocus()

    def _on_event(self, event: InstallEvent) -> None:
        if self._progress is not None:
            self._set_progress(self._progress.after(event))

    def _set_progress(self, progress: InstallProgress | None) -> None:
        self._progress = progress
        if progress is not None:
            self.progress.show_progress(progress)
        self.progress_changed.emit(progress)

    def _on_end(self, installation: Installation | None) -> None:
        self._set_progress(None)
        if installation is None:
            self.purpose = Purpose.RESUME
            self._offer()
            return
        self._wanted = None
        took = duration(time.monotonic() - self._began)
        facts = f"Installed in {took}. It takes {size_text(installation.size_bytes)} of disk space."
        self._show_words(f"{title_of(installation)} is ready", facts)
        self._show_parts(self.train_button)
        self.train_button.setFocus()

    def _on_failure(self, problem: Problem) -> None:
        self._set_progress(None)
        self._show_words("PyTorch could not be installed", problem.message, problem.remedy)
        self._show_parts(self.again_button, self.back_button)
        self.again_button.setFocus()

    def _show_choice(self) -> None:
        is_early = self.purpose in (Purpose.UPDATE, Purpose.CHANGE)
        parts = (self.leave_button,) if is_early else (self._meanwhile,)
        self._show_parts(self.choice, self.begin_button, *parts)
        self._refresh_words()

    def _refresh_words(self, *, is_refused: bool = False) -> None:
        if self.choice.isHidden():
            return
        words = words_for(self.purpose, self._engine, self.choice.plan)
        self._show_words(words.title, words.sentence)
        self.begin_button.set_words("Try again" if is_refused else words.button)
        self.begin_button.setEnabled(is_refused or (words.can_begin and self.choice.can_begin))

    def _show_words(self, title: str, sentence: str, remedy: str = "") -> None:
        set_text(self._title, title)
        set_text(self._sentence, sentence)
        set_text(self._remedy, remedy)
        self._remedy.setVisible(bool(remedy))
        self.setAccessibleDescription(f"{title}. {sentence} {remedy}".strip())

    def _show_parts(self, *parts: QWidget) -> None:
        for part in (self.choice, self.progress, self._meanwhile, *self._buttons):
            part.setVisible(part in parts)

    def words(self) -> str:
        """Return the heading and the text below it."""
        return " ".join(part.text() for part in (self._title, self._sentence, self._remedy) if part.text())

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._found is None:
            self._setup.look()
        elif self.choice.plan is None:
            self._resolve()


class _Scrolled(QScrollArea):
    """As high as its content, or scrolled if there is less room, so the buttons below stay visible."""

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self._content = content
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.setWidget(content)

    def sizeHint(self) -> QSize:
        height = self._content.heightForWidth(self.width() if self.isVisible() else _WIDTH)
        return QSize(_WIDTH, height if height >= 0 else self._content.sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(0, _LEAST)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().eventFilter(watched, event)


_LEAST = 80
