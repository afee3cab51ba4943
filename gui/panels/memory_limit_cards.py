"""The choice of the card that a search is made for: a smaller one, or the device's own memory."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from engine.catalog import DeviceEntry
from gui.widgets import Segmented, label, set_text

GPU_SIZES = (8.0, 12.0, 16.0, 24.0, 48.0, 80.0)
CPU_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""A CPU has no card; these are limits for the worker, of which those up to half the machine's memory are
offered."""
WHOLE = ""


class CardChooser(QWidget):
    """`chosen` carries the size in GiB as the form's field has it; empty for the device's own memory."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = label("", "label")
        self._segments: Segmented | None = None
        self._shown: tuple[tuple[str, str], ...] = ()
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(12)
        self._row.addWidget(self._label)

    def show_cards(self, device: DeviceEntry | None, cap: str) -> None:
        """Offers what makes sense on `device`, with the form's `cap` chosen among it."""
        choices = _choices(device, cap)
        if choices != self._shown:
            self._build(choices, device)
        if self._segments is not None:
            self._segments.set_value(_key(cap))

    def choices(self) -> tuple[str, ...]:
        """What is offered, as the buttons have it."""
        return tuple(text for _, text in self._shown)

    def value(self) -> str:
        return self._segments.value() if self._segments is not None else WHOLE

    def choose(self, key: str) -> None:
        """Presses a segment, as a person would."""
        if self._segments is not None:
            self._segments.button(key).click()

    def _build(self, choices: tuple[tuple[str, str], ...], device: DeviceEntry | None) -> None:
        if self._segments is not None:
            self._row.removeWidget(self._segments)
            self._segments.hide()
            self._segments.deleteLater()
            self._segments = None
        self._shown = choices
        if device is None:
            return
        set_text(self._label, "Card size, GB" if device.is_gpu else "Limit, GiB")
        tip = (
            "Search as a card of this size would; the rest of this one is left alone"
            if device.is_gpu
            else "How much memory the batch may take: a CPU has no card whose memory could be the limit"
        )
        self._segments = Segmented(choices, self._label.text(), tip)
        self._segments.changed.connect(self.chosen)
        self._row.addWidget(self._segments)


def _choices(device: DeviceEntry | None, cap: str) -> tuple[tuple[str, str], ...]:
    if device is None:
        return ()
    gib = device.memory_mib / 1024
    sizes = {size for size in GPU_SIZES if size < gib}
    if not device.is_gpu:
        sizes = {size for size in CPU_SIZES if size <= gib / 2}
    if _key(cap):
        sizes.add(float(_key(cap)))
    whole = ((WHOLE, "This GPU" if device.is_gpu else "None"),)
    numbers = tuple((f"{size:g}", f"{size:g}") for size in sorted(sizes))
    return (*numbers, *whole) if device.is_gpu else (*whole, *numbers)


def _key(cap: str) -> str:
    """The cap as the segments name it; empty for none, and for what is no size."""
    try:
        size = float(cap)
    except ValueError:
        return WHOLE
    return f"{size:g}" if 0 < size < 100_000 else WHOLE
