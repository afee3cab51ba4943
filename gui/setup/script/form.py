"""The form of the question Compare scripts: a field for each command, where they run, and how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QHideEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QCheckBox, QWidget

from engine.experiment.command import usual_repeats
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.own.trust import TrustedCode
from engine.experiment.setting import EntryKind, Setting
from engine.worker.script.places import Found, Place
from gui.session.request import Request
from gui.setup.check import Outcome, explanation, named_request
from gui.setup.controls import FLUSH, InnerNote, NumberEdit
from gui.setup.data import PathEdit
from gui.setup.fields import ENOUGH_REPEATS, SETTINGS
from gui.setup.form import MARGIN, FormColumn
from gui.setup.rows import SettingRow
from gui.setup.script.draft import MOST_COMMANDS, TITLES, ScriptDraft, check_scripts
from gui.setup.script.places import PlaceReader
from gui.setup.tiles import Expander
from gui.theme.theme import theme
from gui.widgets import (
    Button,
    Field,
    IconButton,
    Segmented,
    divider,
    draw_marker,
    label,
    set_property,
    set_text,
)
from gui.widgets.boxes import Placed, Stretch, in_column, in_row, wide
from gui.widgets.labels import describe

_COMMAND_TIP = "Training command, as typed in a terminal. It runs unchanged."
_HINTS = ("python train.py", "python train.py --amp")
_ADD_TIP = "Compare one more command"
_DONE = "When the steps are done"
_DONE_TIP = "Stop the script after its measured steps, or let it finish"
_DONE_CHOICES = (("stop", "Stop the script"), ("whole", "Let it finish"))
_ABOUT = {
    "steps": ("Steps to measure in each run, after the warm-up.", "steps"),
    "repeat": (
        f"Runs per command. Runs alternate, each in a new process. {ENOUGH_REPEATS}",
        "each",
    ),
    "warmup": ("Steps at the beginning of each run that are not measured.", "steps"),
}
_ALSO, _NEEDS_TWO = "also memory <= 0.8, loss", "needs a second command"
_MARKER_X, _MARKER_ROOM = 18, 18


def _setting(key: str) -> Setting:
    about, unit = _ABOUT[key]
    return Setting(TITLES[key], about, unit=unit, key=key, entry=EntryKind.NUMBER)


class CommandEdit(NumberEdit):
    """The field of a command, with the marker of its side, and a button that removes it."""

    def __init__(self, place: int) -> None:
        super().__init__(f"Command {place + 1}", _COMMAND_TIP, hint=_HINTS[min(place, 1)])
        self._precision: Precision | None = None
        self.setProperty("role", "command")
        self.remove = IconButton("cross", f"Remove command {place + 1}", "Remove this command")
        if place:
            self.put_right(self.remove)
        theme().changed.connect(self.update)

    def show_line(self, line: str, precision: Precision | None, *, is_wrong: bool) -> None:
        """Show a command, in the color of the precision that its last run was seen to use, if any."""
        self.set_value(line)
        self._precision = precision
        set_property(self, "seen", "" if precision is None else precision.value)
        set_property(self, "problem", "true" if is_wrong else "false")

    def keep_clear(self) -> None:
        super().keep_clear()
        margins = self.textMargins()
        margins.setLeft(FLUSH + _MARKER_ROOM)
        self.setTextMargins(margins)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter, center = QPainter(self), QPointF(_MARKER_X, self.height() / 2)
        if self._precision is None:
            draw_marker(painter, center, Precision.FP32, fill="hollow", color=theme().palette.text2)
        else:
            draw_marker(painter, center, self._precision)
        painter.end()


class ScriptForm(FormColumn):
    """The fields of a comparison of scripts. It owns the `ScriptDraft` that they show.

    `changed` is emitted after every change. The panel then calls `show_draft`.
    """

    changed = Signal()
    refused = "This is not available for scripts."
    reset_tip = "Clear the form"

    def __init__(self, parent: QWidget, trusted: TrustedCode) -> None:
        super().__init__(parent)
        self.draft = ScriptDraft()
        self.precision_seen: Callable[[str, Experiment], Precision | None] = lambda _name, _experiment: None
        """Returns the precision that the last run of a command was seen to use. Set by the window."""
        self._trusted, self._reader = trusted, PlaceReader(self)
        self._is_here = True
        self._found: Found | None = None
        self._reader.changed.connect(self.changed)
        self.lines: list[CommandEdit] = []
        self._column = in_column(parent=self, margins=(MARGIN, 0, MARGIN, 0), spacing=0)

    def set_draft(self, draft: ScriptDraft) -> None:
        """Show another draft."""
        self.draft = draft
        self.changed.emit()

    def make(self) -> bool:
        """Create the fields on first use, to keep the window's start fast. Return True if it created them."""
        if self.lines:
            return False
        holder = QWidget()
        self._list = in_column(parent=holder, spacing=8)
        self.add = Button(" Add a command", "link", _ADD_TIP, "plus", do=self._add)
        below = QWidget()
        in_row(self.add, Stretch(1), parent=below)
        self.commands = Field("Commands", holder, below=below)
        self.commands.set_note("the first is the baseline")
        about, title = SETTINGS["command.folder"].about, "Select the folder of the scripts"
        folder = PathEdit("Folder", about, title, "select the folder")
        venv = PathEdit(
            "Environment", SETTINGS["command.venv"].about, "Select the environment", "found in the folder"
        )
        require = SETTINGS["command.require"]
        requirements, self._check = (
            NumberEdit(require.title, require.about, hint=require.hint),
            InnerNote("✓"),
        )
        requirements.setProperty("role", "command")
        requirements.put_right(self._check)
        self.rows = {
            "folder": SettingRow(SETTINGS["command.folder"], editor=folder),
            **{key: SettingRow(_setting(key)) for key in TITLES},
            "venv": SettingRow(SETTINGS["command.venv"], editor=venv),
            "require": SettingRow(require, editor=requirements),
        }
        self.rows["require"].set_note("optional")
        repeats = self.rows["repeat"].editor
        assert isinstance(repeats, NumberEdit)
        self._repeats = repeats
        for key, row in self.rows.items():
            row.edited.connect(lambda _key, text, key=key: self._change(**{key: text}))
        self.done = Segmented(_DONE_CHOICES, _DONE, _DONE_TIP)
        self.done.changed.connect(lambda key: self._change(whole=key == "whole"))
        self.shell = QCheckBox("Run in a shell")
        describe(self.shell, "Run in a shell", "Expand variables, pipes and globs")
        self.shell.clicked.connect(lambda is_on: self._change(shell=is_on))
        self.more = Expander("More options", "Show warm-up, environment and shell")
        self.more.toggled.connect(self._unfold)
        self._note, self._summary, self._options = label("", "note"), label("", "hint"), QWidget()
        self._summary.setIndent(18)
        options = (self.rows["warmup"], self.rows["venv"], self.shell)
        in_column(*options, parent=self._options, margins=(0, 8, 0, 12), spacing=0)
        top = Qt.AlignmentFlag.AlignTop
        fields = in_column(
            self.commands,
            self.rows["folder"],
            in_row(*(Placed(self.rows[key], 1, top) for key in ("steps", "repeat")), spacing=8),
            Field(_DONE, self.done),
            self.rows["require"],
            divider(),
            10,
            in_row(wide(self.more), self._note),
            self._summary,
            self._options,
            Stretch(1),
            spacing=0,
        )
        self._column.addLayout(fields)
        self._make_line(0)
        self._unfold(False)
        return True

    def show_draft(self, is_here: bool) -> Outcome:
        """Show the draft, with each problem at its field, and return what it describes.

        If `is_here` is False, the scripts are on a remote machine and are not looked up.
        """
        draft, self._is_here = self.draft, is_here
        outcome = check_scripts(draft, self._find)
        seen = {run.command.line: self.precision_seen(name, run) for name, run in outcome.experiments}
        sentences = {key: explanation(problem) for key, problem in outcome.problems.items()}
        while len(self.lines) < len(draft.lines):
            self._make_line(len(self.lines))
        wrong = ""
        for place, edit in enumerate(self.lines):
            edit.setVisible(place < len(draft.lines))
            if place < len(draft.lines):
                # an empty field is not wrong yet, the foot says what is missing
                problem = sentences.get(f"line{place}", "") if draft.lines[place].strip() else ""
                wrong = wrong or problem
                line = draft.lines[place]
                edit.show_line(line, seen.get(line.strip()), is_wrong=bool(problem))
        self.commands.set_problem(wrong or None)
        self.add.setVisible(len(draft.lines) < MOST_COMMANDS)
        for key, row in self.rows.items():
            text = getattr(draft, key)
            row.show_text(text)
            row.set_problem(sentences.get(key) if text.strip() or key in TITLES else None)
        self.rows["folder"].set_note("" if self._found is None else self._found.environment)
        self._repeats.setPlaceholderText(str(usual_repeats(len(outcome.experiments))))
        self._check.setVisible(bool(draft.require.strip()) and "require" not in sentences)
        is_alone = len(outcome.experiments) == 1 and bool(draft.require.strip())
        self.rows["require"].set_hint(_NEEDS_TWO if is_alone else _ALSO)
        self.done.set_value("whole" if draft.whole else "stop")
        self.shell.setChecked(draft.shell)
        usual = ScriptDraft()
        changed = sum(getattr(draft, key) != getattr(usual, key) for key in ("warmup", "venv", "shell"))
        set_text(self._note, f"{changed} changed" if changed else "all default")
        set_text(
            self._summary, f"Warm-up {draft.warmup} steps, {'in a shell' if draft.shell else 'no shell'}"
        )
        if sentences.keys() & {"warmup", "venv"}:
            self.more.setChecked(True)
        return outcome

    def request(self, outcome: Outcome) -> Request:
        """Create the request of a valid form.

        Commands that the user typed here are trusted. Others must be accepted before they run.
        """
        draft = self.draft
        typed = {line.strip() for place, line in enumerate(draft.lines) if place in draft.typed}
        for _, experiment in outcome.experiments:
            if experiment.command.line in typed:
                self._trusted.name_command(experiment.command)
        return named_request(None, outcome)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._reader.stop()

    def _find(self, place: Place) -> Found | None:
        may_look = self._is_here and all(map(self._trusted.may_look, (place.folder, place.venv)))
        self._found = self._reader.find(place) if may_look else None
        return self._found

    def _make_line(self, place: int) -> None:
        edit = CommandEdit(place)
        edit.edited.connect(lambda line: self.set_draft(self.draft.with_line(place, line)))
        edit.remove.clicked.connect(lambda: self._remove(place))
        self.lines.append(edit)
        self._list.addWidget(edit)

    def _add(self) -> None:
        self._change(lines=(*self.draft.lines, ""))
        self.lines[len(self.draft.lines) - 1].setFocus()

    def _remove(self, place: int) -> None:
        self.set_draft(self.draft.without_line(place))
        self.lines[place - 1].setFocus()

    def _change(self, **values: Any) -> None:
        for key in {"folder", "venv"} & values.keys():
            self._trusted.name_path(values[key])
        self.set_draft(self.draft.with_fields(**values))

    def _unfold(self, is_open: bool) -> None:
        self._options.setVisible(is_open)
        self._summary.setHidden(is_open)
