"""The installation form: the machine, the PyTorch build, its size and folder, and further options."""

from __future__ import annotations

import os
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QCheckBox, QFileDialog, QLabel, QWidget

from engine.experiment.problem import Problem
from engine.installation.builds import Build, automatic_backend, build_title
from engine.installation.description import Description
from engine.installation.installed import engines_folder
from engine.installation.request import AUTOMATIC, InstallPlan, InstallRequest, Source
from engine.words.numbers import size_text
from gui.installation.words import (
    EXTRAS,
    download_text,
    gpu_facts,
    gpu_title,
    network_text,
    room_text,
)
from gui.setup.controls import ChoiceBox, NumberEdit
from gui.widgets import Button, ElidedLabel, Field, IconButton, divider, label, set_text
from gui.widgets.boxes import Stretch, Surface, grid_of, in_column, in_row, wide

_NAMES = 104
_ALL_THE_SAME = "You can still install it, to train on the CPU."
_BUILD_TIP = "Which PyTorch build to install: NVIDIA, AMD, Intel, or CPU only"


class ChoiceView(Surface):
    """The form to choose which PyTorch to install. `changed` is emitted when the user edits it.

    The packages to install then have to be resolved again. `plan` is the result, None until then.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("panel", "Installation", parent)
        self._found: Description | None = None
        self.plan: InstallPlan | None = None
        self.options = Options()
        self._make_parts()
        self._grid = grid_of(margins=None, spacing=(16, 4), grows=(1,))
        self._grid.setColumnMinimumWidth(0, _NAMES)
        self._add("This machine", self._gpu, self._facts)
        self._add("PyTorch", self.builds, self._why)
        self._add("Download", self._download, self._room)
        self._add("Folder", self._folder_row())
        self._network_name = self._add("Network", self._network)
        more = in_row(self.more, Stretch(1))
        in_column(self._grid, divider(), more, self.options, parent=self, margins=24, spacing=12)
        words = network_text(os.environ)
        set_text(self._network, words)
        for part in (self._network, self._network_name):
            part.setVisible(bool(words))
        self._refresh()

    def _make_parts(self) -> None:
        self._gpu, self._facts = label("Checking this machine…", "strong"), label("", "hint", wraps=True)
        self.builds = ChoiceBox("Build of PyTorch", _BUILD_TIP)
        self.builds.edited.connect(lambda _backend: self._change())
        self._why = label("", "hint", wraps=True)
        self._download, self._room = label("", "strong", wraps=True), label("", "hint", wraps=True)
        self._place = ElidedLabel(str(engines_folder()), "body", mode=Qt.TextElideMode.ElideMiddle)
        self._network = label("", "body", wraps=True)
        self.more = Button("More options", "link", "Choose another source or extra packages", "chevron-right")
        self.more.clicked.connect(lambda: self._open_more(self.options.isHidden()))
        self.options.changed.connect(self._change)
        self.options.hide()

    def wanted(self) -> InstallRequest | None:
        """Return the request. None while the machine is unknown or a source is missing."""
        source = self.options.source()
        if self._found is None or source is None:
            return None
        backend = self.builds.value()
        if backend == AUTOMATIC:
            backend = automatic_backend(self._found.hardware)
        return InstallRequest(backend, source, self.options.chosen_extras())

    def selected_build(self) -> Build | None:
        """Return the selected build.

        For "automatic" it is the planned build, or else the best build. None before the check of the machine.
        """
        if self._found is None:
            return None
        backend = self.builds.value()
        if backend == AUTOMATIC:
            backend = self.plan.backend if self.plan else self._found.builds[0].backend
        return self._found.build(backend)

    @property
    def can_begin(self) -> bool:
        """True if the request is resolved and fits on the disk."""
        return self.plan is not None and self.plan.fits

    def show_found(self, found: Description) -> None:
        """Show the machine and its builds."""
        self._found = found
        set_text(self._gpu, gpu_title(found.hardware))
        set_text(self._facts, gpu_facts(found.hardware))
        best, *others = found.builds
        if self.builds.value() == best.backend:
            self.builds.set_value(AUTOMATIC)
        choices = [(build.backend, build.title + ", not compatible" * (not build.fits)) for build in others]
        self.builds.set_choices([(AUTOMATIC, f"{best.title}, recommended"), *choices])
        if not self.builds.value():
            self.builds.set_value(AUTOMATIC)
        self._refresh()

    def set_wanted(self, wanted: InstallRequest) -> None:
        """Show a request, without emitting `changed`."""
        is_best = self._best is not None and wanted.backend == self._best.backend
        self.builds.set_value(AUTOMATIC if is_best else wanted.backend)
        self.options.set_choice(wanted.source, wanted.extras)
        self._open_more(wanted.source != Source() or bool(wanted.extras))
        self.forget_plan()

    def forget_plan(self) -> None:
        """Forget the plan, and show a rough size until there is another."""
        self.plan = None
        self._refresh()

    def show_plan(self, plan: InstallPlan) -> None:
        """Show the plan that uv resolved."""
        self.plan = plan
        self._place.set_whole_text(str(plan.folder))
        self._refresh()

    def show_problem(self, problem: Problem) -> None:
        """Show why the request cannot be resolved."""
        self.plan = None
        self._refresh()
        set_text(self._download, problem.message)
        set_text(self._room, problem.remedy)

    def texts(self) -> str:
        """Return the texts of the form, for tests."""
        parts = (self._gpu, self._facts, self._why, self._download, self._room, self._network)
        return "\n".join(part.text() for part in parts)

    def _refresh(self) -> None:
        build, plan = self.selected_build(), self.plan
        set_text(self._why, self._reason(build))
        if plan is not None:
            set_text(self._download, download_text(plan))
            room = room_text(plan)
            set_text(self._room, room if plan.fits else f"Not enough disk space: {room}.")
        elif self.wanted() is None and self._found is not None:
            set_text(self._download, "Unknown")
            set_text(self._room, "Enter the source under More options.")
        else:
            roughly = build.download_bytes if build else None
            set_text(self._download, f"about {size_text(roughly)}" if roughly else "…")
            set_text(self._room, "Looking up the exact size…" if build else "")

    def _reason(self, build: Build | None) -> str:
        why = "" if build is None else build.why if build.fits else f"{build.why} {_ALL_THE_SAME}"
        is_automatic = self.builds.value() == AUTOMATIC
        if is_automatic and build is not self._best and self.plan is not None:
            # a mirror may have no builds to choose from
            why = f"The source has the build for {build_title(self.plan.backend)}. {why}".strip()
        note = self.plan.note if self.plan is not None else ""
        return f"{why} {note}".strip()

    @property
    def _best(self) -> Build | None:
        return self._found.builds[0] if self._found else None

    def _change(self) -> None:
        self.options.show_problem()
        self.changed.emit()

    def _open_more(self, is_open: bool) -> None:
        self.options.setVisible(is_open)
        self.more.set_icon("chevron-down" if is_open else "chevron-right")
        self.more.setAccessibleDescription("open" if is_open else "closed")

    def _folder_row(self) -> QWidget:
        copy = IconButton("copy", "Copy the path", "Copy the path of the folder")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._place.whole_text()))
        holder = QWidget()
        in_row(wide(self._place), copy, parent=holder, spacing=8)
        return holder

    def _add(self, name: str, part: QWidget, below: QWidget | None = None) -> QLabel:
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


_HINT = "The address of a package index, or a folder of wheels (.whl) for a machine without a network."
_WRONG = "Enter an address that starts with https:// or http://, or an existing folder."
_SETTLES_MS = 600


class Options(QWidget):
    """The package source and the extra packages to install. `changed` is emitted after an edit.

    While the user types, it is delayed until typing pauses.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._typing = QTimer(self, singleShot=True, interval=_SETTLES_MS)
        self._typing.timeout.connect(self.changed)
        tip = "Address of a package index, or folder of wheels"
        self.place = NumberEdit("Source of packages", tip, hint="PyTorch's index and PyPI")
        self.place.put_right(IconButton("folder", "Choose a folder", "Choose a folder", do=self._choose))
        self.place.edited.connect(lambda _text: self._typing.start())
        self._field = Field("Source", self.place)
        self._field.set_hint(_HINT)
        self.extras = {name: self._extra(name) for name in EXTRAS}
        rows = [
            in_row(box, wide(label(EXTRAS[name], "hint")), spacing=8) for name, box in self.extras.items()
        ]
        in_column(self._field, label("Also install", "label"), *rows, parent=self, spacing=8)

    def source(self) -> Source | None:
        """Return the source. None if it is neither an address nor a folder."""
        text = self.place.text().strip()
        if text.startswith(("https://", "http://")):
            return Source(mirror=text)
        folder = Path(text).expanduser()
        if text and not folder.is_dir():
            return None
        return Source(folder=folder) if text else Source()

    def chosen_extras(self) -> tuple[str, ...]:
        return tuple(name for name, box in self.extras.items() if box.isChecked())

    def set_choice(self, source: Source, extras: tuple[str, ...]) -> None:
        """Show a request, without emitting `changed`."""
        self.place.set_value(source.mirror or str(source.folder or ""))
        for name, box in self.extras.items():
            box.setChecked(name in extras)
        self.show_problem()

    def show_problem(self) -> None:
        """Show whether the entered source is wrong."""
        self._field.set_problem(_WRONG if self.source() is None else None)

    def problem(self) -> str | None:
        return self._field.problem()

    def _extra(self, name: str) -> QCheckBox:
        box = QCheckBox(name)
        box.setAccessibleName(f"Also install {name}: {EXTRAS[name]}")
        box.setToolTip(f"Install {name}: {EXTRAS[name]}. You can also add it later.")
        box.clicked.connect(self.changed)
        return box

    def _choose(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Choose the folder of wheels", self.place.text())
        if chosen:
            self.place.set_value(chosen)
            self.changed.emit()
