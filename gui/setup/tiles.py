"""The tiles to select precisions: the four that are compared most, and the others below More formats."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Precision
from gui.setup.draft import Draft
from gui.setup.facts import fp8_notes
from gui.setup.question import Question, examined_precision
from gui.theme.fonts import font
from gui.theme.icons import draw_icon
from gui.theme.theme import theme
from gui.widgets import PrecisionChip, label
from gui.widgets.boxes import grid_of, in_column, in_row, wide

_INDENT = 18


class Expander(QAbstractButton):
    """A clickable row with an arrow and a title that shows or hides what is below. Checked means shown."""

    def __init__(self, text: str, tooltip: str, *, height: int = 24, weight: int = 600) -> None:
        super().__init__()
        self._font = font(13 if weight == 600 else 12, weight)
        self.setText(text)
        self.setCheckable(True)
        self.setAccessibleName(text)
        self.setToolTip(tooltip)
        self.setFixedHeight(height)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Fixed)
        theme().changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(
            _INDENT + QFontMetrics(self._font).horizontalAdvance(self.text()) + 4, self.minimumHeight()
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        palette = theme().palette
        painter = QPainter(self)
        chevron = "chevron-down" if self.isChecked() else "chevron-right"
        draw_icon(painter, QRectF(-2, self.height() / 2 - 8, 16, 16), chevron, palette.text2)
        painter.setFont(self._font)
        painter.setPen(QColor(palette.text))
        painter.drawText(self.rect().adjusted(_INDENT, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, self.text())
        painter.end()


_COMMON = (Precision.FP32, Precision.TF32, Precision.FP16, Precision.BF16)
_MORE = (Precision.FP8, Precision.BF16_PURE, Precision.DEFAULT, Precision.FP16_UNSCALED)
_MORE_HINT = f"{_MORE[0].label}, {_MORE[1].label} and {len(_MORE) - 2} more"


class PrecisionTiles(QWidget):
    """One tile per precision. `chosen` carries the selected ones. Some questions take only one."""

    chosen = Signal(object)  # tuple[Precision, ...]

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Precision")
        self.chips = {precision: PrecisionChip(precision) for precision in _COMMON}
        self._takes_one = False
        self.more = Expander("More formats", "Show the less common precisions", height=20, weight=500)
        self.chips |= {precision: PrecisionChip(precision) for precision in _MORE}
        self._hint, self._others = label(_MORE_HINT, "hint"), QWidget()
        grids = (grid_of(spacing=(8, 8)), grid_of(self._others, spacing=(8, 8)))
        for grid, precisions in zip(grids, (_COMMON, _MORE), strict=True):
            for place, precision in enumerate(precisions):
                grid.addWidget(self.chips[precision], place // 2, place % 2)
                self.chips[precision].clicked.connect(partial(self._select, precision))
        for precision in _MORE:
            self.chips[precision].set_small()
        self.more.toggled.connect(self._unfold)
        self._unfold(False)
        parts = (grids[0], in_row(wide(self.more), self._hint), self._others)
        in_column(*parts, parent=self, spacing=6)

    def set_compact(self, is_compact: bool) -> None:
        """Make the tiles lower, for a low window."""
        for precision in _COMMON:
            self.chips[precision].set_low(is_compact)

    def last(self) -> QWidget:
        """Return the last widget in the tab order."""
        return self.chips[_MORE[-1]]

    def show_draft(self, draft: Draft, catalog: Catalog | None, question: Question) -> None:
        """Select the draft's precisions, and show on each tile whether the device supports it."""
        device = catalog.device(draft.text("device")) if catalog else None
        self._takes_one = question == "numerics"
        selected = draft.selected
        if self._takes_one and (examined := examined_precision(selected)) is not None:
            selected = (examined,)
        notes: Mapping[Precision, str] = {Precision.FP8: ". FP8 ".join(fp8_notes(draft, catalog))}
        for precision, chip in self.chips.items():
            is_selected = precision in selected
            chip.setChecked(is_selected)
            entry = device.precision(precision) if device else None
            available = entry is None or entry.available
            chip.takes_one = self._takes_one
            note = ". ".join(filter(None, (entry.note if entry else None, notes.get(precision))))
            chip.set_available(available, entry.reason if entry else None, note)
            # a chip that is selected though unavailable can at least be unselected
            chip.setEnabled(available or is_selected)
        if set(selected) & set(_MORE):
            self.more.setChecked(True)

    def _unfold(self, is_open: bool) -> None:
        self._others.setVisible(is_open)
        self._hint.setHidden(is_open)

    def _select(self, clicked: Precision, _is_checked: bool = False) -> None:
        selected = tuple(precision for precision in Precision if self.chips[precision].isChecked())
        if self._takes_one:
            selected = (clicked,)
            if not self.chips[clicked].isChecked():
                # the one that is selected stays so
                self.chips[clicked].setChecked(True)
                return
        self.chosen.emit(selected)
