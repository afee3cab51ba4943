"""The axes of a sweep in the form: settings with several values, each with an editor of its list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QFontMetrics, QKeyEvent, QWheelEvent
from PySide6.QtWidgets import QFrame, QListWidget, QListWidgetItem, QWidget

from engine.experiment.checks import Catalog
from engine.experiment.setting import EntryKind
from gui.setup.controls import RECIPES, ChoiceBox, NumberEdit
from gui.setup.draft import Draft
from gui.setup.facts import Choices, count_choices, dataset_choices, device_choices
from gui.setup.fields import NONE, OPTIONS, SETTINGS, TEXT_KEYS, clean, join_values, split_values
from gui.setup.sweep.grid_block import GridBlock
from gui.theme.fonts import font
from gui.widgets import Field, IconButton, label
from gui.widgets.boxes import Placed, discard, in_column, in_row, wide
from gui.widgets.buttons import FilterEdit
from gui.widgets.focus_ring import tab_after
from gui.widgets.labels import describe

_MANY, _ROW, _MOST_ROWS, _WIDTH, _WIDEST = 12, 26, 12, 240, 600
_FEW, _WIDEST_LABEL = 3, 132
_ONE_VALUE = "Add another value to sweep it."
_NOT_APPLIED = "It does not apply to this model and dataset, and is not swept."


def axis_choices(key: str, draft: Draft, catalog: Catalog | None) -> Choices | None:
    """Return the possible values of a setting. None if its values are typed."""
    setting = SETTINGS[key]
    if key == "step.recipe":
        return RECIPES
    if setting.entry is EntryKind.CHOICE and setting.choices:
        return setting.choices
    if catalog is None or key not in ("model", "dataset", "device", "devices"):
        return None
    if key == "model":
        return [(entry.name, entry.name) for entry in (*catalog.models, *catalog.library_models)]
    choices = {"device": device_choices(catalog), "dataset": dataset_choices(draft, catalog)}
    return choices.get(key) or count_choices(draft, catalog)


def axis_offers(draft: Draft, catalog: Catalog | None) -> tuple[str, ...]:
    """Return the settings that can become another axis, in the order of the form."""
    length = () if {"epochs", "steps"} & draft.axes.keys() else (draft.length_key,)
    options = (key for key in OPTIONS if key != "name")
    keys = ("batch_size", *length, "step.recipe", "model", "dataset", "path", *options)
    return tuple(key for key in keys if key not in draft.axes and draft.applies(key, catalog))


def first_values(key: str, draft: Draft, choices: Choices | None) -> tuple[str, ...]:
    """Return the values of a new axis: the text of its field, and where they are obvious some more."""
    text = draft.text(key)
    if choices is not None and len(choices) <= _FEW:
        return tuple(value for value, _ in choices)
    size = clean(key, text)
    if key == "batch_size" and size.isdecimal() and int(size) > 1:
        return tuple(f"{value:,}" for value in (int(size) // 2, int(size), int(size) * 2))
    return (text,)


class AxesEditor(QWidget):
    """The list of a sweep's axes. `changed` carries a setting and its values, or None to remove its axis."""

    changed = Signal(str, object)  # tuple[str, ...] | None

    def __init__(self, before: QWidget) -> None:
        """`before` is the widget that the first axis follows in the tab order."""
        super().__init__()
        self._before = before
        self.fields: dict[str, Field] = {}
        self.grid = GridBlock()
        self._shown: tuple[Draft, Catalog | None] | None = None
        self.adder = PopupBox("Add a setting to sweep", "Train every combination of its values")
        self.adder.set_caption("Add a setting…")
        self.adder.edited.connect(self._add)
        self._rows = in_column(spacing=0)
        parts = (label("Sweep over", "label"), 4, self._rows, self.adder, 12, self.grid)
        in_column(*parts, parent=self, spacing=0)

    def show_draft(self, draft: Draft, catalog: Catalog | None) -> None:
        """Show the draft's axes and their values."""
        self._shown = draft, catalog
        for key in self.fields.keys() - draft.axes.keys():
            row = self.fields.pop(key).parentWidget()
            assert row is not None  # it was laid out
            discard(self._rows, row)
        for key, values in draft.axes.items():
            choices = axis_choices(key, draft, catalog)
            if key not in self.fields:
                row, last = self._make_row(key, choices), tuple(self.fields.values())[-2:-1]
                self._rows.addWidget(row)
                tab_after((last[0].parentWidget() if last else None) or self._before, row)
            editor = self.editor(key)
            if choices is not None and isinstance(editor, ValuesBox):
                editor.set_choices(choices)
            editor.set_values(values)
            hint = "" if len(values) > 1 else _ONE_VALUE
            self.fields[key].set_hint(hint if draft.applies(key, catalog) else _NOT_APPLIED)
        self.adder.set_choices([(key, SETTINGS[key].title) for key in axis_offers(draft, catalog)])
        self.adder.setCurrentIndex(-1)

    def editor(self, key: str) -> ValuesEdit | ValuesBox:
        """Return the editor of an axis. Raises KeyError for any other setting."""
        editor = self.fields[key].control
        assert isinstance(editor, ValuesEdit | ValuesBox)
        return editor

    def show_problems(self, sentences: Mapping[str, str]) -> None:
        """Show each problem below its axis."""
        for key, field in self.fields.items():
            field.set_problem(sentences.get(key))

    def _make_row(self, key: str, choices: Choices | None) -> QWidget:
        setting = SETTINGS[key]
        editor = (
            ValuesEdit(key, setting.title, setting.about)
            if choices is None
            else ValuesBox(setting.title, setting.about)
        )
        room = QFontMetrics(font(12)).horizontalAdvance(setting.title) + 12
        editor.set_label(setting.title, min(room, _WIDEST_LABEL))
        editor.values_edited.connect(partial(self.changed.emit, key))
        remove = IconButton("cross", f"Do not sweep {setting.title}", "Remove this setting from the sweep")
        remove.clicked.connect(lambda: self.changed.emit(key, None))
        row, field = QWidget(), Field(setting.title, editor)
        field.set_compact(True)
        self.fields[key] = field
        in_row(wide(field), Placed(remove, 0, Qt.AlignmentFlag.AlignTop), parent=row, spacing=4)
        return row

    def _add(self, key: str) -> None:
        assert self._shown is not None  # its settings were offered
        draft, catalog = self._shown
        choices = axis_choices(key, draft, catalog)
        self.changed.emit(key, first_values(key, draft, choices))
        editor = self.editor(key)
        editor.setFocus(Qt.FocusReason.OtherFocusReason)
        if isinstance(editor, ValuesBox) and len(editor.values) < 2:
            editor.showPopup()


class ValuesEdit(NumberEdit):
    """A text field for the values of an axis, such as "32, 64, 128"."""

    values_edited = Signal(object)  # tuple[str, ...]

    def __init__(self, key: str, name: str, tip: str) -> None:
        example = "a; b" if key in TEXT_KEYS else "1, 2, 3"
        super().__init__(f"Values of {name}", f"{tip} Enter several values as {example}.", hint=example)
        self._key, self._shown = key, False
        self.edited.connect(lambda text: self.values_edited.emit(split_values(key, text)))

    def set_values(self, values: Sequence[str]) -> None:
        """Show the values. What is being typed stays as it is if it has the same."""
        if split_values(self._key, self.text()) != tuple(values) or not self._shown:
            self._shown = True
            self.set_value(join_values(self._key, values))


class PopupBox(ChoiceBox):
    """A box whose list opens with any of its keys. There is no value to step through while it is closed."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Down, Qt.Key.Key_Up)
        if event.key() in keys:
            self.showPopup()
        else:
            event.ignore()

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class ValuesBox(PopupBox):
    """A box that opens a list of check boxes to select the values of an axis."""

    values_edited = Signal(object)  # tuple[str, ...]
    mutes_caption = False

    def __init__(self, name: str, tip: str) -> None:
        super().__init__(f"Values of {name}", tip)
        self._title = name
        self.values: tuple[str, ...] = ()

    def set_values(self, values: Sequence[str]) -> None:
        self.values = tuple(values)
        words = dict(self.choices())
        self.set_caption(", ".join(words.get(value, value) or NONE for value in values))

    def showPopup(self) -> None:
        """Open the list below the box."""
        popup = ValuesPopup(self._title, self.choices(), self.values, self)
        popup.chosen.connect(self.values_edited)
        popup.show_below(self)


class ValuesPopup(QFrame):
    """A popup with a check box per value. `chosen` carries the selected ones, in the order of selection."""

    chosen = Signal(object)  # tuple[str, ...]

    def __init__(self, title: str, choices: Choices, selected: Sequence[str], parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("surface", "panel")
        self.setAccessibleName(f"{title}: several values")
        self._selected = list(selected)
        self.list = QListWidget()
        self.list.setProperty("kind", "popup")
        self.list.setUniformItemSizes(True)
        describe(self.list, f"{title}: values", "Select the values to train with")
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsSelectable
        for value, words in choices:
            item = QListWidgetItem(words)
            item.setData(Qt.ItemDataRole.UserRole, value)
            item.setFlags(flags)
            item.setCheckState(Qt.CheckState.Checked if value in selected else Qt.CheckState.Unchecked)
            self.list.addItem(item)
        self.filter = FilterEdit("Filter", "Show only values that contain this text")
        self.filter.setMaximumWidth(_WIDEST)
        self.filter.setVisible(self.list.count() > _MANY)
        self.filter.textChanged.connect(self._narrow)
        self.list.setFixedHeight(_ROW * min(_MOST_ROWS, self.list.count()) + 12)
        self.list.itemChanged.connect(self._select)
        in_column(self.filter, self.list, parent=self, margins=4, spacing=4)

    def show_below(self, control: QWidget) -> None:
        self.setMinimumWidth(max(_WIDTH, control.width()))
        self.move(control.mapToGlobal(QPoint(0, control.height() + 2)))
        self.show()
        (self.filter if self.filter.isVisible() else self.list).setFocus()

    def _select(self, item: QListWidgetItem) -> None:
        value = str(item.data(Qt.ItemDataRole.UserRole))
        is_selected = item.checkState() is Qt.CheckState.Checked
        if not is_selected and self._selected == [value]:
            # an axis has a value
            item.setCheckState(Qt.CheckState.Checked)
        elif is_selected != (value in self._selected):
            others = [other for other in self._selected if other != value]
            self._selected = [*others, value] if is_selected else others
            self.chosen.emit(tuple(self._selected))

    def _narrow(self, text: str) -> None:
        for item in map(self.list.item, range(self.list.count())):
            item.setHidden(text.strip().casefold() not in item.text().casefold())
