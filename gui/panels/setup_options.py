"""The part of the setup form that is folded away: the settings that are rarely changed."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from engine.catalog import Catalog
from gui.panels.setup_controls import ChoiceBox, NumberEdit
from gui.panels.setup_draft import Draft
from gui.panels.setup_expander import Expander
from gui.panels.setup_fields import GROUPS, OPTIONS, TIPS
from gui.panels.setup_option import Group, Option, Shape
from gui.panels.setup_words import SUMMARY_LINES, option_lines
from gui.widgets import Field, label, set_text


class OptionsForm(QWidget):
    """Two columns of fields in groups; those that mean nothing beside the others are left out."""

    edited = Signal(str, str)  # dotted key, text
    name_edited = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, Field] = {}
        self._grids: list[tuple[Group, QGridLayout]] = []
        self._headings: dict[str, QLabel] = {}
        self._shown: dict[str, list[Option]] = {}
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for group in GROUPS:
            layout.addLayout(self._make_grid(group))
        self.name = NumberEdit("Name", TIPS["name"], hint="numbered")
        self.name.setMaxLength(200)
        self.name.edited.connect(self.name_edited)
        layout.addWidget(Field("Name", self.name))

    def control(self, key: str) -> NumberEdit | ChoiceBox:
        """The control of a setting."""
        found = self.fields[key].control
        assert isinstance(found, NumberEdit | ChoiceBox)
        return found

    def show_draft(self, draft: Draft, catalog: Catalog | None) -> None:
        """Shows the draft's values, and the fields that apply to it."""
        if catalog is not None:
            devices = [("auto", "Auto"), *((entry.name, entry.name) for entry in catalog.devices)]
            device = self.control("device")
            assert isinstance(device, ChoiceBox)
            device.set_choices(devices)
        for key in self.fields:
            self.control(key).set_value(draft.text(key))
        self.name.set_value(draft.name)
        for group, grid in self._grids:
            self._arrange(group, grid, draft, catalog)

    def _make_grid(self, group: Group) -> QGridLayout:
        grid = QGridLayout()
        grid.setContentsMargins(0, 0, 0, 8)
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(0)
        grid.setColumnStretch(0, 1)
        grid.setColumnStretch(1, 1)
        heading = self._headings[group.title] = label(group.title, "value")
        heading.setFixedHeight(28)
        heading.setAlignment(Qt.AlignmentFlag.AlignTop)
        grid.addWidget(heading, 0, 0, 1, 2)
        for option in group.options:
            field = Field(option.label, self._make_control(option), parent=self)
            field.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Maximum)
            self.fields[option.key] = field
        self._grids.append((group, grid))
        return grid

    def _make_control(self, option: Option) -> NumberEdit | ChoiceBox:
        control: NumberEdit | ChoiceBox
        if option.shape is Shape.CHOICE:
            control = ChoiceBox(option.label, option.tip, option.choices)
        else:
            control = NumberEdit(option.label, option.tip, unit=option.unit, hint=option.hint)
        control.edited.connect(lambda text, key=option.key: self.edited.emit(key, text))
        return control

    def _arrange(self, group: Group, grid: QGridLayout, draft: Draft, catalog: Catalog | None) -> None:
        wanted = [option for option in group.options if draft.applies(option.key, catalog)]
        if wanted == self._shown.get(group.title):
            return
        self._shown[group.title] = wanted
        for option in group.options:
            grid.removeWidget(self.fields[option.key])
        self._headings[group.title].setVisible(bool(wanted))
        place = 2
        for option in wanted:
            # a wide one begins a row of its own and fills it
            place += place % 2 if option.wide else 0
            field, span = self.fields[option.key], 2 if option.wide else 1
            grid.addWidget(field, place // 2, place % 2, 1, span, Qt.AlignmentFlag.AlignTop)
            place += span
        for option in group.options:
            self.fields[option.key].setVisible(option in wanted)


class MoreOptions(QWidget):
    """A heading that folds the options in and out; folded, three lines say how they stand."""

    def __init__(self) -> None:
        super().__init__()
        self.form = OptionsForm()
        self.form.hide()
        self._known_problems: frozenset[str] = frozenset()
        self._head = Expander(
            "More options", "Show the optimizer, its schedule, the loss scaler, the data and everything else"
        )
        self._head.toggled.connect(self.set_open)
        self._note = label("", "note")
        self._summary = QWidget()
        self._lines = [label("", "hint") for _ in range(SUMMARY_LINES)]
        self._lay_out()

    def is_open(self) -> bool:
        return self._head.isChecked()

    def note(self) -> str:
        """How many options were changed, in words."""
        return self._note.text()

    def set_open(self, is_open: bool) -> None:
        """Folds the options out, or in."""
        self._head.setChecked(is_open)
        self.form.setVisible(is_open)
        self._summary.setVisible(not is_open)

    def show_draft(self, draft: Draft, catalog: Catalog | None) -> None:
        """Shows the draft's values and how many of them were changed."""
        self.form.show_draft(draft, catalog)
        changed = draft.changed_options
        set_text(self._note, f"{changed} changed" if changed else "all default")
        for line, text in zip(self._lines, option_lines(draft), strict=True):
            set_text(line, text)

    def show_problems(self, sentences: dict[str, str]) -> None:
        """Puts each reason under its field; a new one in here folds the options out."""
        for key, field in self.form.fields.items():
            field.set_problem(sentences.get(key))
        mine = frozenset(sentences.keys() & OPTIONS.keys())
        if mine - self._known_problems:
            self.set_open(True)
        self._known_problems = mine

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._head, 1)
        row.addWidget(self._note)
        lines = QVBoxLayout(self._summary)
        lines.setContentsMargins(20, 0, 0, 0)
        lines.setSpacing(4)
        for line in self._lines:
            lines.addWidget(line)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 12)
        layout.setSpacing(8)
        layout.addLayout(row)
        layout.addWidget(self._summary)
        layout.addWidget(self.form)
