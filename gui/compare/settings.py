"""The settings of two sides of a comparison: what differs, what matters most, and all on request."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QSizePolicy, QWidget

from engine.compare.comparison import Comparison, SettingRow, setting_rows
from engine.compare.sides import Side
from engine.experiment.experiment import FACTS, setting_title
from gui.widgets import Button, ElidedLabel, divider, label
from gui.widgets.boxes import Part, Stretch, in_column, in_row
from gui.widgets.labels import plain_tip

_ROW, _MARGIN = 24, 12
_FIRST = ("model", "dataset", "batch_size", "epochs", "steps", "step.recipe", "optimizer.name")
_MOST_FIRST = 5


class SettingsCard(QFrame):
    """The settings of the baseline and of the side in the headline, read-only."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setAccessibleName("Settings")
        self._rows: tuple[SettingRow, ...] = ()
        self._texts: list[list[str]] = []
        self.show_all = Button("Show all", "inline", "List all settings, or the most important ones alone")
        self.show_all.setCheckable(True)
        self.show_all.toggled.connect(lambda _on: self._fill())
        self._rows_holder = QWidget()
        head = in_row(
            label("Settings", "panelTitle"), label("read-only", "unit"), Stretch(1), self.show_all, spacing=8
        )
        self._column = in_column(head, self._rows_holder, Stretch(1), parent=self, margins=_MARGIN, spacing=8)

    def show_pair(self, comparison: Comparison, side: Side) -> None:
        """Lists the settings of the baseline and of `side`, which may be the baseline itself."""
        pair = (comparison.baseline, side) if side is not comparison.baseline else (side,)
        self._rows = tuple(setting_rows(pair))
        self._fill()

    def texts(self) -> list[list[str]]:
        """The rows' texts: title, then the values, one where both have the same."""
        return self._texts

    def _fill(self) -> None:
        differing = [row for row in self._rows if row.differs]
        same = [row for row in self._rows if not row.differs]
        by_key = {row.key: row for row in same}
        first = [by_key[key] for key in _FIRST if key in by_key][:_MOST_FIRST]
        shown = same if self.show_all.isChecked() else first
        self._texts = [_texts(row) for row in (*differing, *shown)]
        # the machine is listed with them, but is no setting: a report counts as many
        left = sum(row.key not in FACTS for row in same if row not in shown)
        both = ", the same in both" if differing or len(self._rows[0].texts) > 1 else ""
        parts: list[Part] = [_grid(differing), 6, divider(), 6] if differing else []
        parts += [_grid(shown), *([label(f"{left:,} more{both}", "unit")] if left else [])]
        holder = QWidget()
        in_column(*parts, parent=holder, spacing=0)
        self._column.replaceWidget(self._rows_holder, holder)
        self._rows_holder.hide()
        self._rows_holder.deleteLater()
        self._rows_holder = holder
        holder.show()
        settings = sum(row.key not in FACTS for row in self._rows)
        self.show_all.setText("Show fewer" if self.show_all.isChecked() else f"Show all {settings:,}")
        self.show_all.setAccessibleName(self.show_all.text())


def _texts(row: SettingRow) -> list[str]:
    return [setting_title(row.key), *(row.texts if row.differs else row.texts[:1])]


def _grid(rows: Sequence[SettingRow]) -> QWidget:
    holder = QWidget()
    grid = QGridLayout(holder)
    grid.setContentsMargins(0, 0, 0, 0)
    grid.setHorizontalSpacing(8)
    grid.setVerticalSpacing(0)
    for number, row in enumerate(rows):
        texts = _texts(row)
        for column, text in enumerate(texts):
            role = "body" if column == 0 else "strong" if column == 2 else "value"
            grid.addWidget(_cell(text, role), number, column, 1, 2 if len(texts) == column + 1 == 2 else 1)
    for column, stretch in enumerate((3, 3, 3)):
        grid.setColumnStretch(column, stretch)
    return holder


def _cell(text: str, role: str) -> QLabel:
    result = ElidedLabel(text, role)
    result.setFixedHeight(_ROW)
    result.setToolTip(plain_tip(text))
    result.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return result
