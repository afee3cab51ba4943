"""The row below the figures of Compare that takes what a kWh costs and emits."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLineEdit, QWidget

from engine.compare.tariff import Tariff, tariff_from
from engine.experiment.problem import ProblemError
from gui.widgets import Button, label, set_property
from gui.widgets.boxes import Stretch, in_row

_HEIGHT = 40


class TariffRow(QWidget):
    """Folded away behind `opener`, which the table places, until it is wanted.

    `changed` when another price or factor was typed, or none; `folded` when it was opened or folded away.
    """

    changed = Signal()
    folded = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(_HEIGHT)
        self._tariff = Tariff()
        self.opener = Button(
            "Price and CO₂",
            "toggle",
            "Type what a kWh costs and emits",
        )
        self.opener.toggled.connect(self._fold)
        self.price = self._edit("Price of a kWh", "A price such as 0.30 EUR: the table then shows the cost")
        self.co2 = self._edit("Grams of CO₂ per kWh", "Grams such as 380: the table then shows the CO₂")
        in_row(
            label("A kWh costs", "body"),
            self.price,
            label("and emits", "body"),
            self.co2,
            label("g CO₂", "unit"),
            Stretch(1),
            parent=self,
            margins=(12, 0, 12, 0),
            spacing=8,
        )
        self.show_for(False)

    def show_for(self, has_energy: bool) -> None:
        """Offers the row if there is an energy."""
        self.opener.setVisible(has_energy)
        self.setVisible(has_energy and self.opener.isChecked())

    def tariff(self) -> Tariff:
        """What was typed last that makes sense."""
        return self._tariff

    def state(self) -> list[str]:
        """The texts of both fields."""
        return [self.price.text(), self.co2.text()]

    def restore(self, state: Sequence[str]) -> None:
        """Takes back what `state` gave. Raises ValueError or TypeError for anything else."""
        price, co2 = state
        self.price.setText(price)
        self.co2.setText(co2)
        self._take()

    def _fold(self, is_open: bool) -> None:
        self.setVisible(is_open and not self.opener.isHidden())
        self.folded.emit()

    def _edit(self, name: str, tip: str) -> QLineEdit:
        edit = QLineEdit()
        edit.setFixedWidth(84)
        edit.setProperty("small", "true")
        edit.setAlignment(Qt.AlignmentFlag.AlignRight)
        edit.setAccessibleName(name)
        edit.setToolTip(tip)
        edit.setPlaceholderText("none")
        edit.editingFinished.connect(self._take)
        edit.textEdited.connect(lambda _text: set_property(edit, "problem", "false"))
        return edit

    def _take(self) -> None:
        price, co2 = self._read(self.price), self._read(self.co2)
        tariff = Tariff(price.price_per_kwh, price.currency, co2.co2_grams_per_kwh)
        if tariff != self._tariff:
            self._tariff = tariff
            self.changed.emit()

    def _read(self, edit: QLineEdit) -> Tariff:
        """The tariff of one field, which is marked where it makes no sense."""
        text = edit.text()
        try:
            tariff = tariff_from(text, "") if edit is self.price else tariff_from("", text)
        except ProblemError:
            set_property(edit, "problem", "true")
            return Tariff()
        set_property(edit, "problem", "false")
        return tariff
