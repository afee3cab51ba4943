"""The choices of a search for the largest batch in the form: the memory cap, and multiples of a number."""

from __future__ import annotations

import math

from PySide6.QtCore import Signal
from PySide6.QtGui import QIcon, QIntValidator
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLineEdit, QWidget

from engine.experiment.checks import DeviceEntry
from engine.experiment.value import MIB_PER_GIB
from gui.setup.check import default_memory_cap, memory_cap_choices
from gui.setup.controls import ChoiceBox
from gui.setup.model.choices import ChoiceGroup, Row
from gui.setup.model.search import SearchBox
from gui.widgets import Field
from gui.widgets.boxes import in_column, in_row
from gui.widgets.labels import plain_tip

_GRANULARITIES, _USUAL = (1, 8, 16, 32, 64), "8"


class LimitOptions(QWidget):
    """The choices of a search: the memory limit, and a number that the batch size must be a multiple of."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        tip = "Round the batch down to a multiple. 8 suits Tensor Cores."
        self.granularity_box = box = SearchBox("Multiples of", tip, takes_any=True)
        box.setValidator(QIntValidator(1, 1_000_000, box))
        box.set_groups([ChoiceGroup("", [Row(str(size)) for size in _GRANULARITIES])])
        box.set_value(_USUAL)
        self.memory = MemoryChooser()
        in_row(self.memory, Field("Multiples of", box), parent=self, spacing=12)

    def granularity(self) -> int:
        """Return the number of which the answer is a multiple."""
        text = self.granularity_box.currentText().replace(",", "").strip()
        return max(1, int(text)) if text.isdecimal() else 1


_LEAST_GIB = 0.1
_WIDTH = 340


class OtherSize(QDialog):
    """A dialog to enter a memory size that is not in the list of sizes. `agreed` carries the size in GiB.

    After invalid text the dialog stays open and shows the error below the field.
    """

    agreed = Signal(float)

    def __init__(self, title: str, size_gib: float, most_gib: float, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self._most_gib = most_gib
        self._range = f"from {_LEAST_GIB:g} to {math.floor(most_gib * 100) / 100:g}"
        self.edit = QLineEdit(f"{size_gib:g}")
        self.edit.setAccessibleName(title)
        self.edit.selectAll()
        self.field = Field(f"GiB, {self._range}", self.edit)
        self.field.setMinimumWidth(_WIDTH)
        kinds = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel)
        for button in buttons.buttons():
            # the style's coloured icons match nothing else here
            button.setIcon(QIcon())
        in_column(self.field, buttons, parent=self, margins=16)
        self.edit.textChanged.connect(lambda _text: self.field.set_problem(None))
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)

    def accept(self) -> None:
        """Close with a valid size, or stay open and show the problem."""
        size = typed_gib(self.edit.text(), self._most_gib)
        if size is None:
            wanted = f"a number {self._range}"
            typed = self.edit.text().strip()
            self.field.set_problem(f"“{typed}” is not {wanted}." if typed else f"Enter {wanted}.")
            # a wrapped label gets its height only from a new layout of the window
            self.adjustSize()
            self.edit.selectAll()
            self.edit.setFocus()
            return
        self.agreed.emit(size)
        super().accept()


def typed_gib(text: str, most_gib: float) -> float | None:
    """Return the typed size, to a hundredth of a GiB. None if it is not a number, or out of range."""
    try:
        size = round(float(text.strip().replace(",", ".")), 2)
    except ValueError:
        return None
    return size if _LEAST_GIB <= size <= math.floor(most_gib * 100) / 100 else None


_TITLE = "Memory cap"
WHOLE = ""
OTHER = "other"
_GPU_TIP = (
    "Simulate a GPU with this much memory. On a real one, CUDA itself needs a few hundred MiB, so keep a "
    "margin."
)
_CPU_TIP = "Limit the memory of the batch. A CPU has no GPU memory as a limit."


class MemoryChooser(Field):
    """A field to limit the memory of the search. `chosen` carries GiB as text, or "" for all memory."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        self.box = ChoiceBox(_TITLE, _GPU_TIP)
        super().__init__(_TITLE, self.box, parent=parent)
        self._device: DeviceEntry | None = None
        self.value = WHOLE
        self.box.edited.connect(self._take)

    def show_sizes(self, device: DeviceEntry | None, cap: str) -> None:
        """Offer the sizes for `device`, with the form's `cap` chosen."""
        self._device, self.value = device, _key(cap, device)
        self.setVisible(device is not None)
        choices = _choices(device, self.value)
        if list(choices) != list(self.box.choices()):
            # one that is no longer offered would be added
            self.box.clear()
            self.box.set_choices(choices)
        self.box.setToolTip(plain_tip(_GPU_TIP if device is None or device.is_gpu else _CPU_TIP))
        self.box.set_value(self.value)

    def _take(self, key: str) -> None:
        if key != OTHER:
            self.chosen.emit(key)
            return
        # the old choice stays until a size has been typed
        self.box.set_value(self.value)
        if self._device is not None:
            most = self._device.memory_mib / MIB_PER_GIB
            dialog = OtherSize(_TITLE, float(self.value or most), most, self)
            dialog.agreed.connect(lambda size: self.chosen.emit(f"{size:g}"))
            dialog.finished.connect(dialog.deleteLater)
            dialog.open()


def _choices(device: DeviceEntry | None, value: str) -> tuple[tuple[str, str], ...]:
    if device is None:
        return ()
    sizes = set(memory_cap_choices(device)) | ({float(value)} if value else set())
    numbers = [(f"{size:g}", f"{size:g} GiB") for size in sorted(sizes)]
    whole = [(WHOLE, "This GPU")] if device.is_gpu else []
    return (*numbers, *whole, (OTHER, "Other…"))


def _key(cap: str, device: DeviceEntry | None) -> str:
    try:
        size = float(cap)
    except ValueError:
        size = 0.0
    if 0 < size < 100_000:
        return f"{size:g}"
    usual = default_memory_cap(device)
    return WHOLE if usual is None else f"{usual:g}"
