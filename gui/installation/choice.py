"""What will be set up: this machine, the build of PyTorch, its size and place, and further choices."""

from __future__ import annotations

import os

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QWidget

from engine.experiment.problem import Problem
from engine.installation.machine.builds import Build, automatic_backend, build_title
from engine.installation.place import engines_folder
from engine.installation.wanted import AUTOMATIC, Plan, Source, Wanted
from gui.installation.options import Options
from gui.installation.setup import Found
from gui.installation.words import (
    card_facts,
    card_title,
    download_text,
    has_room,
    network_text,
    room_text,
    size_text,
)
from gui.setup.controls import ChoiceBox
from gui.widgets import Button, ElidedLabel, IconButton, divider, label, set_text
from gui.widgets.boxes import Stretch, in_column, in_row, wide

_NAMES = 104
_ALL_THE_SAME = "It can be set up all the same, to train on the processor."
_BUILD_TIP = "The build of PyTorch: for a graphics card of a maker, or for the processor only"


class ChoiceView(QFrame):
    """`changed` when a different choice has to be resolved; `wanted` is None while it is incomplete."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setAccessibleName("What will be set up")
        self._found: Found | None = None
        self._plan: Plan | None = None
        self.options = Options()
        self._make_parts()
        self._grid = QGridLayout()
        self._grid.setColumnMinimumWidth(0, _NAMES)
        self._grid.setColumnStretch(1, 1)
        self._grid.setHorizontalSpacing(16)
        self._grid.setVerticalSpacing(4)
        self._add("This machine", self._card, self._facts)
        self._add("PyTorch", self.builds, self._why)
        self._add("Download", self._download, self._room)
        self._add("Place", self._place_row())
        self._network_name = self._add("Network", self._network)
        more = in_row(self.more, Stretch(1))
        in_column(self._grid, divider(), more, self.options, parent=self, margins=24, spacing=12)
        self._show_network()
        self._refresh()

    def _make_parts(self) -> None:
        self._card, self._facts = label("Looking at this machine…", "strong"), label("", "hint", wraps=True)
        self.builds = ChoiceBox("Build of PyTorch", _BUILD_TIP)
        self.builds.edited.connect(lambda _backend: self._change())
        self._why = label("", "hint", wraps=True)
        self._download, self._room = label("", "strong", wraps=True), label("", "hint", wraps=True)
        self._place = ElidedLabel(str(engines_folder()), "body", mode=Qt.TextElideMode.ElideMiddle)
        self._network = label("", "body", wraps=True)
        self.more = Button("More choices", "link", "Another source, and further packages", "chevron-right")
        self.more.clicked.connect(lambda: self._open_more(self.options.isHidden()))
        self.options.changed.connect(self._change)
        self.options.hide()

    def wanted(self) -> Wanted | None:
        """The choice; None while the machine is not known yet, or a source is missing."""
        source = self.options.source()
        if self._found is None or source is None:
            return None
        backend = self.builds.value()
        if backend == AUTOMATIC:
            backend = automatic_backend(self._found.hardware)
        return Wanted(backend, source, self.options.chosen_extras())

    def build(self) -> Build | None:
        """The chosen build; with a plan, the one that uv resolved."""
        if self._found is None:
            return None
        backend = self.builds.value()
        if backend == AUTOMATIC:
            backend = self._plan.backend if self._plan else self._found.builds[0].backend
        return self._found.build(backend)

    @property
    def can_begin(self) -> bool:
        """Whether the choice is resolved and has room."""
        return self._plan is not None and has_room(self._plan)

    def show_found(self, found: Found) -> None:
        """Shows the machine and offers its builds."""
        self._found = found
        set_text(self._card, card_title(found.hardware))
        set_text(self._facts, card_facts(found.hardware))
        best, *others = found.builds
        if self.builds.value() == best.backend:
            self.builds.set_value(AUTOMATIC)
        self.builds.set_choices(
            [
                (AUTOMATIC, f"{best.title}, recommended"),
                *(
                    (build.backend, build.title + ("" if build.fits else ", does not fit"))
                    for build in others
                ),
            ]
        )
        if not self.builds.value():
            self.builds.set_value(AUTOMATIC)
        self._refresh()

    def set_wanted(self, wanted: Wanted) -> None:
        """Shows a choice, without emitting `changed`."""
        is_best = self._best is not None and wanted.backend == self._best.backend
        self.builds.set_value(AUTOMATIC if is_best else wanted.backend)
        self.options.set_choice(wanted.source, wanted.extras)
        self._open_more(wanted.source != Source() or bool(wanted.extras))
        self.forget_plan()

    def forget_plan(self) -> None:
        """The plan holds no more; the size is shown roughly until there is another."""
        self._plan = None
        self._refresh()

    def show_plan(self, plan: Plan) -> None:
        """Shows what uv resolved the choice to."""
        self._plan = plan
        self._place.set_whole_text(str(plan.folder))
        self._refresh()

    def show_problem(self, problem: Problem) -> None:
        """Shows why the choice cannot be resolved."""
        self._plan = None
        self._refresh()
        set_text(self._download, problem.message)
        set_text(self._room, problem.remedy)

    def texts(self) -> str:
        """What is said of the choice, for tests."""
        parts = (self._card, self._facts, self._why, self._download, self._room, self._network)
        return "\n".join(part.text() for part in parts)

    def _refresh(self) -> None:
        build, plan = self.build(), self._plan
        set_text(self._why, self._reason(build))
        if plan is not None:
            set_text(self._download, download_text(plan))
            set_text(
                self._room, room_text(plan) if has_room(plan) else f"Too little room: {room_text(plan)}."
            )
        elif self.wanted() is None and self._found is not None:
            set_text(self._download, "Not known yet")
            set_text(self._room, "Give the source under More choices.")
        else:
            roughly = build.download_bytes if build else None
            set_text(self._download, f"about {size_text(roughly)}" if roughly else "…")
            set_text(self._room, "Looking up the exact size…" if build else "")

    def _reason(self, build: Build | None) -> str:
        why = "" if build is None else build.why if build.fits else f"{build.why} {_ALL_THE_SAME}"
        is_automatic = self.builds.value() == AUTOMATIC
        if is_automatic and build is not self._best and self._plan is not None:
            # a mirror may have no builds to choose from
            why = f"The source has the build for {build_title(self._plan.backend)}. {why}".strip()
        note = self._plan.note if self._plan is not None else ""
        return f"{why} {note}".strip()

    @property
    def _best(self) -> Build | None:
        return self._found.builds[0] if self._found else None

    def _change(self) -> None:
        self.options.show_problem()
        self.forget_plan()
        self.changed.emit()

    def _open_more(self, is_open: bool) -> None:
        self.options.setVisible(is_open)
        self.more.set_icon("chevron-down" if is_open else "chevron-right")
        self.more.setAccessibleDescription("open" if is_open else "closed")

    def _show_network(self) -> None:
        words = network_text(os.environ)
        set_text(self._network, words)
        for part in (self._network, self._network_name):
            part.setVisible(bool(words))

    def _place_row(self) -> QWidget:
        copy = IconButton("copy", "Copy the path", "Copy the path of the folder")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._place.whole_text()))
        holder = QWidget()
        in_row(wide(self._place), copy, parent=holder, spacing=8)
        return holder

    def _add(self, name: str, part: QWidget, below: QWidget | None = None) -> QLabel:
        """Adds a row to the grid, and returns the label with its name."""
        row = self._grid.rowCount()
        heading = label(name, "label")
        heading.setBuddy(part)
        heading.setMinimumHeight(part.sizeHint().height())
        self._grid.addWidget(heading, row, 0, Qt.AlignmentFlag.AlignTop)
        self._grid.addWidget(part, row, 1)
        if below is not None:
            self._grid.addWidget(below, row + 1, 1)
        self._grid.setRowMinimumHeight(row + 2, 8)
        return heading
