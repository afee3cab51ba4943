"""A row of the form for each setting, made from its description, and the section of further settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QWidget

from engine.experiment.checks import Catalog
from engine.experiment.setting import EntryKind, Group, Setting
from gui.setup.controls import ChoiceBox, LengthEdit, NumberEdit, RecipeEdit
from gui.setup.data import PathEdit
from gui.setup.draft import Draft
from gui.setup.facts import (
    device_choices,
    options_summary,
)
from gui.setup.fields import GROUPS, MODEL_TIP, OPTIONS, same_value
from gui.setup.model.search import SearchBox
from gui.setup.tiles import Expander
from gui.widgets import Button, Field, label, set_text
from gui.widgets.actions import with_keys
from gui.widgets.boxes import in_column, in_row, wide
from gui.widgets.focus_ring import tab_after

_LABEL_WIDTHS = {"batch_size": 84, "length": 84, "step.recipe": 86, "repeat": 54, "hours": 66, "within": 62}
_LABEL, _OPTION_LABEL = 58, 160
"""The widths of labels inside fields in pixels, unless a setting has its own."""

Editor = NumberEdit | ChoiceBox | RecipeEdit


class BatchEdit(NumberEdit):
    """The batch size, and a button inside the field that finds the largest one."""

    def __init__(self, name: str, tip: str) -> None:
        super().__init__(name, tip)
        self.find_max = Button("Find max", "inner", with_keys("Find the largest batch that fits", "limit"))
        self.put_right(self.find_max)


_OWN: Mapping[str, Callable[[str, str], Editor]] = {
    "model": lambda title, _about: SearchBox(title, MODEL_TIP),
    "devices": ChoiceBox,
    "path": PathEdit,
    "batch_size": BatchEdit,
    "length": LengthEdit,
    "step.recipe": lambda _title, _about: RecipeEdit(),
}


def make_editor(setting: Setting, *, is_option: bool = False) -> Editor:
    """Create the editor of a setting: its own kind of editor, or else one for its type of value.

    With `is_option`, the type alone decides.
    """
    if not is_option and setting.key in _OWN:
        return _OWN[setting.key](setting.title, setting.about)
    if setting.entry is EntryKind.CHOICE:
        return ChoiceBox(setting.title, setting.about, setting.choices)
    return NumberEdit(setting.title, setting.about, unit=setting.unit, hint=setting.hint)


class SettingRow(Field):
    """The field of a setting with its editor. `edited` carries the key and the new text."""

    edited = Signal(str, str)

    def __init__(
        self,
        setting: Setting,
        *,
        is_option: bool = False,
        below: QWidget | None = None,
        link: QWidget | None = None,
        problem: QLabel | None = None,
        editor: Editor | None = None,
    ) -> None:
        self.editor = editor or make_editor(setting, is_option=is_option)
        super().__init__(setting.title, self.editor, below=below, link=link, problem=problem)
        self.key, self._title = setting.key, setting.title
        self.editor.edited.connect(partial(self.edited.emit, self.key))
        # the label of a text is above it, since the text needs the full width
        if is_option and setting.entry is not EntryKind.TEXT:
            self.set_compact(True, _OPTION_LABEL)

    def show_text(self, text: str) -> None:
        """Show a value. What is being typed stays as it is if it means the same."""
        typed = self.editor.text() if isinstance(self.editor, NumberEdit) and self.editor.hasFocus() else None
        if typed is None or not same_value(self.key, typed, text):
            self.editor.set_value(text)

    def set_compact(self, is_compact: bool, width: int = 0) -> None:
        super().set_compact(is_compact)
        width = width or _LABEL_WIDTHS.get(self.key, _LABEL)
        self.editor.set_label(self._title if is_compact else "", width)


class OptionRows(QWidget):
    """The fields of further settings by group. Settings that do not apply are hidden."""

    edited = Signal(str, str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.rows: dict[str, SettingRow] = {}
        self._headings: dict[Group, QWidget] = {}
        layout = in_column(parent=self, spacing=0)
        for group, settings in GROUPS.items():
            heading = self._headings[group] = label(group.value, "value")
            heading.setFixedHeight(28)
            layout.addWidget(heading)
            for setting in settings:
                row = self.rows[setting.key] = SettingRow(setting, is_option=True)
                row.edited.connect(self.edited)
                layout.addWidget(row)
        name = self.rows["name"].editor
        assert isinstance(name, NumberEdit)
        name.setMaxLength(200)

    def show_draft(self, draft: Draft, catalog: Catalog | None, elsewhere: set[str]) -> None:
        """Show the draft's values in the fields that apply and are not `elsewhere` in the form."""
        device = self.rows["device"].editor
        if catalog is not None and isinstance(device, ChoiceBox):
            device.set_choices(device_choices(catalog))
        for group, settings in GROUPS.items():
            shown = {
                setting.key
                for setting in settings
                if setting.key not in elsewhere and draft.applies(setting.key, catalog)
            }
            self._headings[group].setVisible(bool(shown))
            for setting in settings:
                row = self.rows[setting.key]
                row.show_text(draft.text(setting.key))
                row.setVisible(setting.key in shown)

    def show_problems(self, sentences: Mapping[str, str]) -> None:
        """Show each problem under its field."""
        for key, row in self.rows.items():
            row.set_problem(sentences.get(key))


class MoreOptions(QWidget):
    """A section of the form with further settings. Folded, it shows a summary in one line."""

    edited = Signal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[Draft, Catalog | None, set[str]] | None = None
        self._sentences: Mapping[str, str] = {}
        self._is_compact = False
        self._head = Expander(
            "More options", "Show optimizer, schedule, loss scaler, data and all other settings"
        )
        self._head.toggled.connect(self.set_open)
        self._note, self._summary = label("", "note"), label("", "hint")
        self._summary.setIndent(18)
        row = in_row(wide(self._head), self._note)
        self._column = in_column(row, self._summary, parent=self, margins=(0, 0, 0, 12), spacing=4)

    @cached_property
    def form(self) -> OptionRows:
        """Return the fields, made when first unfolded. The 50 of them would slow the window's start."""
        form = OptionRows(self)
        form.edited.connect(self.edited)
        form.hide()
        if self._shown is not None:
            form.show_draft(*self._shown)
        form.show_problems(self._sentences)
        self._column.addWidget(form)
        tab_after(self._head, form)
        return form

    @property
    def _has_form(self) -> bool:
        return "form" in vars(self)

    def is_open(self) -> bool:
        return self._head.isChecked()

    def note(self) -> str:
        """Return the text with the number of changed options."""
        return self._note.text()

    def set_open(self, is_open: bool) -> None:
        """Unfold or fold the options."""
        self._head.setChecked(is_open)
        if is_open or self._has_form:
            self.form.setVisible(is_open)
        self._summary.setHidden(is_open or self._is_compact)

    def set_compact(self, is_compact: bool) -> None:
        """Leave the summary out, in a low window."""
        self._is_compact = is_compact
        self._summary.setHidden(self.is_open() or is_compact)

    def show_draft(self, draft: Draft, catalog: Catalog | None, elsewhere: set[str]) -> None:
        """Show the draft's values and how many were changed. Some settings are `elsewhere` in the form."""
        self._shown = (draft, catalog, elsewhere)
        if self._has_form:
            self.form.show_draft(*self._shown)
        changed = draft.changed_options(catalog)
        set_text(self._note, f"{changed} changed" if changed else "all default")
        set_text(self._summary, options_summary(draft.first))

    def show_problems(self, sentences: Mapping[str, str]) -> None:
        """Show each problem under its field. Unfold the options if one of them has a new problem."""
        elsewhere = set() if self._shown is None else self._shown[2]
        known, self._sentences = self._sentences, dict(sentences)
        if self._has_form:
            self.form.show_problems(sentences)
        if (sentences.keys() & OPTIONS.keys()) - known.keys() - elsewhere:
            self.set_open(True)


class KeptCodeLine(QWidget):
    """A line that says that the model file has changed, and that the code of a saved run or preset is used.

    Its `button` uses the file on disk instead. The line is hidden while both are equal.
    """

    def __init__(self) -> None:
        super().__init__()
        self._text = label("", "hint", wraps=True)
        self.button = Button("Use the file", "link", "Use the current code on disk")
        in_row(wide(self._text), self.button, parent=self, spacing=8)
        self.hide()

    def show_kept(self, draft: Draft, *, differs: bool) -> None:
        """Show the source of the code, if the file on disk differs."""
        code, whose = draft.code if differs else None, "run" if draft.keeps_code else "preset"
        set_text(
            self._text, "" if code is None else f"Uses the {whose}'s code. {code.file} has changed since."
        )
        self.setVisible(code is not None)

    def text(self) -> str:
        """Return the sentence. Empty while hidden."""
        return self._text.text()
