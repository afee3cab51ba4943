"""Several values of a field: the mark beside its label, and the list to choose them from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QPoint, Qt, Signal
from PySide6.QtWidgets import QFrame, QListWidget, QListWidgetItem, QToolButton, QWidget

from gui.setup.controls import ChoiceBox, Choices, NumberEdit, RecipeEdit
from gui.setup.draft import Draft
from gui.setup.fields import NONE, TEXT_KEYS, text_of
from gui.widgets import Field, set_property
from gui.widgets.boxes import in_column
from gui.widgets.buttons import FilterEdit

_MANY, _ROW, _MOST_ROWS, _WIDTH, _WIDEST = 12, 26, 12, 240, 600


def tip_of(key: str, tip: str) -> str:
    """The tooltip of a typed field, with how several values are typed."""
    how = "a; b" if key in TEXT_KEYS else "1, 2, 3"
    return f"{tip} Several values, typed as {how}, are swept."


class FieldValues(QObject):
    """Shows a setting's values in its field. `edited` carries the field's text with other values.

    Several values are marked, and a click goes back to the first. `choices` are what a field offers that is
    picked and not typed; a click on its mark then chooses several.
    """

    edited = Signal(str)

    def __init__(
        self, key: str, title: str, field: Field, choices: Callable[[], Choices] | None = None
    ) -> None:
        super().__init__(field)
        self._key, self._title, self._field, self._choices = key, title, field, choices
        self._values: tuple[str, ...] = ()
        self._mark: QToolButton | None = None

    def show(self, draft: Draft, key: str | None = None) -> None:
        """Shows the draft's values; a `key` takes the place of the setting, where a field has either."""
        self._key = key or self._key
        values = draft.values(self._key)
        control = self._field.control
        if isinstance(control, NumberEdit):
            control.set_value(draft.text(self._key))
        elif isinstance(control, ChoiceBox | RecipeEdit):
            control.set_values([_offered(value) for value in values] if len(values) > 1 else values)
        is_several = len(values) > 1
        # else each of fifty fields would be styled once more as they are made
        if is_several or control.property("several") is not None:
            set_property(control, "several", "true" if is_several else "false")
        self._values = values
        if self._choices is not None or len(values) > 1 or self._mark is not None:
            self._show_mark()

    def choose(self) -> None:
        """Opens the list to choose several values from."""
        assert self._choices is not None
        chosen = [_offered(value) for value in self._values]
        popup = SeveralPopup(self._title, self._choices(), chosen, self._field)
        popup.chosen.connect(lambda values: self.edited.emit(text_of(self._key, values)))
        popup.show_below(self._field.control)

    def _show_mark(self) -> None:
        mark = self._mark
        if mark is None:
            mark = self._mark = QToolButton(self._field)
            mark.setProperty("kind", "link")
            # no higher than the label, or the control would stand lower than its neighbour
            mark.setFixedHeight(16)
            mark.setCursor(Qt.CursorShape.PointingHandCursor)
            mark.clicked.connect(self._click)
            self._field.add_link(mark)
        several = len(self._values) > 1
        mark.setText("×" if several else "+")
        name = "a single value" if several else "several values"
        mark.setAccessibleName(f"{self._title}: {name}")
        tip = f"{len(self._values):,} values are swept. Click to keep only {self._values[0] or NONE}."
        mark.setToolTip(tip if several else "Choose several values, of which every combination is trained")
        mark.setVisible(several or self._choices is not None)

    def _click(self) -> None:
        if len(self._values) > 1:
            first = self._values[0]
            self.edited.emit(_offered(first))
        else:
            self.choose()


def _offered(value: str) -> str:
    return "" if value == NONE else value


class SeveralPopup(QFrame):
    """Choices with check boxes; `chosen` carries the ticked ones, those ticked before first."""

    chosen = Signal(object)  # list[str]

    def __init__(self, title: str, choices: Choices, ticked: Sequence[str], parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("surface", "panel")
        self.setAccessibleName(f"{title}: several values")
        self._ticked = list(ticked)
        self.list = QListWidget()
        self.list.setProperty("kind", "popup")
        self.list.setUniformItemSizes(True)
        self.list.setAccessibleName(f"{title}: values")
        self.list.setToolTip("Tick the values to train with")
        for value, words in choices:
            item = QListWidgetItem(words)
            item.setData(Qt.ItemDataRole.UserRole, value)
            item.setFlags(
                Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsSelectable
            )
            is_ticked = value in self._ticked
            item.setCheckState(Qt.CheckState.Checked if is_ticked else Qt.CheckState.Unchecked)
            self.list.addItem(item)
        self.filter = FilterEdit("Filter", "Shows the choices that contain this text")
        self.filter.setMaximumWidth(_WIDEST)
        self.filter.setVisible(self.list.count() > _MANY)
        self.filter.textChanged.connect(self._narrow)
        self.list.setFixedHeight(_ROW * min(_MOST_ROWS, self.list.count()) + 12)
        self.list.itemChanged.connect(self._tick)
        in_column(self.filter, self.list, parent=self, margins=4, spacing=4)

    def show_below(self, control: QWidget) -> None:
        """Opens below a control."""
        self.setMinimumWidth(max(_WIDTH, control.width()))
        self.move(control.mapToGlobal(QPoint(0, control.height() + 2)))
        self.show()
        (self.filter if self.filter.isVisible() else self.list).setFocus()

    def _tick(self, item: QListWidgetItem) -> None:
        value = str(item.data(Qt.ItemDataRole.UserRole))
        is_ticked = item.checkState() is Qt.CheckState.Checked
        if not is_ticked and self._ticked == [value]:
            # a setting has a value
            item.setCheckState(Qt.CheckState.Checked)
        elif is_ticked != (value in self._ticked):
            if is_ticked:
                self._ticked.append(value)
            else:
                self._ticked.remove(value)
            self.chosen.emit(list(self._ticked))

    def _narrow(self, text: str) -> None:
        for row in range(self.list.count()):
            item = self.list.item(row)
            item.setHidden(text.strip().casefold() not in item.text().casefold())
