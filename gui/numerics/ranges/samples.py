"""The slider of the steps at which a run's ranges were sampled."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSlider, QWidget

from gui.widgets import label, set_text
from gui.widgets.boxes import in_row, wide

_TIP = "The ranges of a run, sample by sample: left and right arrow keys go to the one before and after"


class SampleSlider(QWidget):
    """`moved` carries the number of the chosen sample, from 0."""

    moved = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setProperty("kind", "plain")
        self.slider.setAccessibleName("Sample")
        self.slider.setToolTip(_TIP)
        self.slider.valueChanged.connect(self.moved)
        self._value = label("", "value")
        self._value.setMinimumWidth(86)
        in_row(
            label("After step", "label"),
            wide(self.slider),
            self._value,
            parent=self,
            margins=(0, 6, 0, 0),
            spacing=12,
        )

    def show_count(self, count: int) -> None:
        """Offers that many samples, the newest chosen."""
        self.slider.blockSignals(True)
        self.slider.setRange(0, count - 1)
        self.slider.setValue(count - 1)
        self.slider.setEnabled(count > 1)
        self.slider.blockSignals(False)

    def show_step(self, step: int) -> None:
        """Shows after which step the chosen sample was taken."""
        set_text(self._value, f"{step:,}")

    def words(self) -> str:
        return self._value.text()
