"""Several values of a field: the mark next to its label, and the list to select values from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFrame, QListWidget, QListWidgetItem, QToolButton, QWidget

from gui.setup.controls import ChoiceBox, Choices, NumberEdit, RecipeEdit, link_button
from gui.setup.draft import Draft
from gui.setup.fields import NONE, TEXT_KEYS, join_values
from gui.widgets import Field, set_property
from gui.widgets.boxes import in_column
from gui.widgets.buttons import FilterEdit

_MANY, _ROW, _MOST_ROWS, _WIDTH, _WIDEST = 12, 26, 12, 240, 600


def values_tooltip(key: str, tip: str) -> str:
    """Return the tooltip of a typed field, with the syntax of several values."""
    return f"{tip} Enter several values as {'a; b' if key in TEXT_KEYS else '1, 2, 3'} to sweep them."


class FieldValues:
    """Shows the values of a setting in its field, and lets the user choose several for a sweep.

    `edit` receives new text. `choices` returns the possible values of a field that is not typed. At one
    value, a click on the field's mark opens their list. At several values, it keeps only the first.
    """

    def __init__(
        self,
        key: str,
        title: str,
        field: Field,
        edit: Callable[[str], object],
        choices: Callable[[], Choices] | None = None,
    ) -> None:
        self._key, self._title, self._field, self._edit, self._choices = key, title, field, edit, choices
        self._values: tuple[str, ...] = ()
        self._mark: QToolButton | None = None

    def show(self, draft: Draft, key: str | None = None) -> None:
        """Show the draft's values. `key` replaces the setting, if the field can show either of two."""
        self._key = key or self._key
        values = self._values = draft.values(self._key)
        control, is_several = self._field.control, len(values) > 1
        if isinstance(control, NumberEdit):
            control.set_value(draft.text(self._key))
        elif isinstance(control, ChoiceBox | RecipeEdit):
            control.set_values([_offered(value) for value in values] if is_several else values)
        # else each of fifty fields would be styled once more as they are made
        if is_several or control.property("several") is not None:
            set_property(control, "several", "true" if is_several else "false")
        if self._choices is not None or is_several or self._mark is not None:
            self._show_mark(is_several)

    def choose(self) -> None:
        """Open the list to select several values."""
        assert self._choices is not None
        SeveralPopup(
            self._title,
            self._choices(),
            [_offered(value) for value in self._values],
            lambda values: self._edit(join_values(self._key, values)),
            self._field,
        ).show_below(self._field.control)

    def _show_mark(self, is_several: bool) -> None:
        if self._mark is None:
            self._mark = link_button()
            # no higher than the label, or the control would stand lower than its neighbour
            self._mark.setFixedHeight(16)
            self._mark.clicked.connect(self._click)
            self._field.add_link(self._mark)
        self._mark.setText("×" if is_several else "+")
        name = "a single value" if is_several else "several values"
        self._mark.setAccessibleName(f"{self._title}: {name}")
        tip = f"{len(self._values):,} values are swept. Click to keep only {self._values[0] or NONE}."
        also = "Select several values to train every combination"
        self._mark.setToolTip(tip if is_several else also)
        self._mark.setVisible(is_several or self._choices is not None)

    def _click(self) -> None:
        if len(self._values) > 1:
            self._edit(_offered(self._values[0]))
        else:
            self.choose()


def _offered(value: str) -> str:
    return "" if value == NONE else value


class SeveralPopup(QFrame):
    """A popup to select several values of a setting with check boxes.

    `choose` receives the selected values. Those that were selected before come first.
    """

    def __init__(
        self,
        title: str,
        choices: Choices,
        selected: Sequence[str],
        choose: Callable[[list[str]], object],
        parent: QWidget,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("surface", "panel")
        self.setAccessibleName(f"{title}: several values")
        self._selected, self._choose = list(selected), choose
        self.list = QListWidget()
        self.list.setProperty("kind", "popup")
        self.list.setUniformItemSizes(True)
        self.list.setAccessibleName(f"{title}: values")
        self.list.setToolTip("Select the values to train with")
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
            # a setting has a value
            item.setCheckState(Qt.CheckState.Checked)
        elif is_selected != (value in self._selected):
            others = [other for other in self._selected if other != value]
            self._selected = [*others, value] if is_selected else others
            self._choose(list(self._selected))

    def _narrow(self, text: str) -> None:
        for item in map(self.list.item, range(self.list.count())):
            item.setHidden(text.strip().casefold() not in item.text().casefold())
