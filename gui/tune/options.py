"""What *Find the fastest* may change, and what it must keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QGridLayout, QWidget

from engine.protocol.tune import CHANGE_KINDS, ChangeKind, TuningPlan
from gui.widgets import Button, ComboBox, Field, label
from gui.widgets.boxes import Stretch, in_column, in_row

_WORDS: Mapping[ChangeKind, tuple[str, str]] = {
    "precision": ("Precision", "FP32, TF32, FP16 AMP and BF16 AMP, as far as this device has them"),
    "recipe": ("Recipe", "Channels last, fused optimizer, CUDA graphs, torch.compile"),
    "checkpointing": ("Checkpointing", "Activation checkpointing, which makes room for larger batches"),
    "batch": ("Batch", "How an optimizer step is split into batches"),
    "loader": ("Loader", "How many processes load the data, and whether memory is pinned"),
}
_GUIDE = "fastest"
_CAPS_GIB = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 48.0, 80.0)


class FastestOptions(QWidget):
    """Stands in the form. `guide_wanted` asks for a page of the guide."""

    guide_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.boxes = {kind: _box(*_WORDS[kind]) for kind in CHANGE_KINDS}
        self.changes_batch = _box("Other batch sizes", "Lets the samples of a step change: other training")
        self.guard = ComboBox()
        self.guard.setAccessibleName("What guards the accuracy")
        self.guard.setToolTip("What the proof demands of the winner's losses")
        self.guard.addItem("like FP32's", "alike")
        self.guard.addItem("any", "none")
        self.cap = ComboBox()
        self.cap.setAccessibleName("Memory cap")
        self.cap.setToolTip("Settings that need more memory than this do not count")
        self.cap.addItem("all", None)
        for size in _CAPS_GIB:
            self.cap.addItem(f"{size:g} GiB", size)
        guide = Button("How it is found", "link", "How the fastest is found and proven")
        guide.clicked.connect(lambda: self.guide_wanted.emit(_GUIDE))
        grid = QGridLayout()
        grid.setContentsMargins(0, 2, 0, 14)
        grid.setVerticalSpacing(8)
        for place, box in enumerate((*self.boxes.values(), self.changes_batch)):
            grid.addWidget(box, place // 2, place % 2)
        head = in_row(label("May change", "label"), Stretch(1), guide)
        row = in_row(Field("Memory", self.cap), Field("Losses", self.guard), spacing=12)
        in_column(head, grid, row, parent=self, spacing=4)

    def plan(self) -> TuningPlan:
        """The choices."""
        kinds = tuple(kind for kind, box in self.boxes.items() if box.isChecked())
        return TuningPlan(
            kinds=kinds, changes_batch=self.changes_batch.isChecked(), guard=self.guard.currentData()
        )

    def memory_cap_gib(self) -> float | None:
        """The memory cap; None for all memory."""
        size: float | None = self.cap.currentData()
        return size

    def state(self) -> dict[str, Any]:
        """What is remembered across a restart, as plain JSON values."""
        return {**self.plan().model_dump(mode="json"), "cap": self.memory_cap_gib()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a `state`. Raises KeyError or TypeError for a broken one."""
        for kind, box in self.boxes.items():
            box.setChecked(kind in state["kinds"])
        self.changes_batch.setChecked(bool(state["changes_batch"]))
        self.guard.setCurrentIndex(max(0, self.guard.findData(state["guard"])))
        self.cap.setCurrentIndex(max(0, self.cap.findData(state["cap"])))


def _box(text: str, tip: str) -> QCheckBox:
    box = QCheckBox(text)
    box.setAccessibleName(text)
    box.setToolTip(tip)
    box.setChecked(text in [words for words, _ in _WORDS.values()])
    return box
