"""The settings under "More options", and the facts next to the form's fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QGridLayout, QLabel, QSizePolicy, QWidget

from engine.experiment.checks import Catalog, DatasetEntry, most_devices
from engine.experiment.own.code import OWN_DATA
from engine.experiment.setting import EntryKind, Group, Setting
from engine.experiment.settings import MOST_DEVICES
from engine.words.numbers import counted
from gui.setup.controls import ChoiceBox, Choices, NumberEdit
from gui.setup.draft import Draft
from gui.setup.fields import GROUPS, OPTIONS, TIPS, clean, top_options
from gui.setup.several import FieldValues, values_tooltip
from gui.theme.fonts import font
from gui.theme.icons import draw_icon
from gui.theme.theme import theme
from gui.widgets import Field, label, set_text
from gui.widgets.boxes import grid_of, in_column, in_row, wide
from gui.widgets.focus_ring import tab_after

if TYPE_CHECKING:
    from gui.setup.panel import SetupPanel

_INDENT = 20
_EACH = 8
"""Up to this number of devices, every number is offered. Above, only powers of two."""


class Expander(QAbstractButton):
    """A clickable row with an arrow and a title that shows or hides what is below. Checked means shown."""

    def __init__(self, text: str, tooltip: str) -> None:
        super().__init__()
        self._font = font(13, 600)
        self.setText(text)
        self.setCheckable(True)
        self.setAccessibleName(text)
        self.setToolTip(tooltip)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Fixed)
        theme().changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(_INDENT + QFontMetrics(self._font).horizontalAdvance(self.text()) + 4, 24)

    def paintEvent(self, event: QPaintEvent) -> None:
        palette = theme().palette
        painter = QPainter(self)
        chevron = "chevron-down" if self.isChecked() else "chevron-right"
        draw_icon(painter, QRectF(-2, self.height() / 2 - 8, 16, 16), chevron, palette.text2)
        painter.setFont(self._font)
        painter.setPen(QColor(palette.text))
        painter.drawText(self.rect().adjusted(_INDENT, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, self.text())
        painter.end()


def preset_caption(draft: Draft, catalog: Catalog | None) -> str:
    """Return the text that replaces the preset's title after a change. Empty without changes."""
    return f"Modified: {draft.preset.title}" if draft.is_changed(catalog) else ""


def dataset_words(dataset: DatasetEntry | None, draft: Draft) -> tuple[str, ...]:
    """Describe the dataset's samples at the draft's size and classes: in full, then shorter."""
    if dataset is None or dataset.task == OWN_DATA:
        return ()
    size = clean("image_size", draft.text("image_size")) or dataset.image_size
    classes = clean("num_classes", draft.text("num_classes")) if dataset.any_classes else ""
    classes = classes or str(dataset.num_classes or "")
    if dataset.task == "language":
        tokens = f"{draft.text('sequence_length')} tokens"
        return (f"{tokens}, vocabulary {classes}", tokens) if classes else (tokens,)
    if dataset.needs_path:
        return (f"{size}×{size}",)
    if dataset.image_size is None:
        return ("no images",)
    shape = f"{size}×{size}"
    if dataset.train_samples is not None:
        shape = f"{dataset.train_samples:,} of {shape}"
    return (f"{shape}, {classes} classes", shape) if classes else (shape,)


def batch_words(draft: Draft, catalog: Catalog | None) -> str:
    """Return the samples of one batch on all devices, "256 on 2 devices". Empty unless it is one number."""
    batch, count = (clean(key, draft.text(key)).lower() for key in ("batch_size", "devices"))
    device = None if catalog is None else catalog.device(draft.text("device"))
    if count in ("0", "all") and catalog is not None and device is not None:
        count = str(len(catalog.beginning_at(device)))
    if not (batch.isdecimal() and count.isdecimal()):
        return ""
    return f"{int(batch) * int(count):,} on {counted(int(count), 'device')}"


def device_choices(catalog: Catalog) -> Choices:
    """Return the devices that a run can train on, with Auto first."""
    return [("auto", "Auto"), *((entry.name, entry.name) for entry in catalog.devices)]


def count_choices(draft: Draft, catalog: Catalog) -> Choices:
    """Return the numbers of devices that can train a run together, starting with the draft's device."""
    device = catalog.device(draft.with_first_values.text("device"))
    most = 1 if device is None else min(MOST_DEVICES, most_devices(device, catalog))
    counts = [str(count) for count in range(1, most + 1) if count <= _EACH or count.bit_count() == 1]
    every = [("all", f"All {most}")] if most > 1 and device is not None and device.is_gpu else []
    return [*zip(counts, counts, strict=True), *every]


SUMMARY_LINES = 3


def option_lines(draft: Draft, catalog: Catalog | None) -> tuple[str, ...]:
    """Summarize the most important settings under "More options" in three short lines."""
    names = dict(OPTIONS["optimizer.name"].choices)
    optimizers = len(draft.values("optimizer.name"))
    optimizer = f"{optimizers} optimizers" if optimizers > 1 else _value_text(draft, "optimizer.name", names)
    keys = ("step.clip_norm", "memory_cap_gib", "scaler.mode", "seed")
    clip, cap, scaler, seed = (_value_text(draft, key) for key in keys)
    capped = f"memory cap {cap} GiB" if cap else "no memory cap"
    accumulated = clean("step.gradient_accumulation", _value_text(draft, "step.gradient_accumulation"))
    clipping = f"clip norm {clip}" if clip else "no clipping"
    rate = f"learning rate {_value_text(draft, 'optimizer.learning_rate')}"
    if draft.code is not None and not draft.applies("optimizer.name", None):
        optimizer, rate = "Custom optimizer", draft.code.file
    return (
        f"{optimizer} · {rate} · {clipping}",
        f"accumulation {accumulated} · scaler {scaler} · seed {seed}",
        capped if top_options(catalog) else f"{_device_words(draft)} · {capped}",
    )


def _device_words(draft: Draft) -> str:
    device, counts = f"device {_value_text(draft, 'device')}", draft.values("devices")
    words = " or ".join("all" if count.strip() == "0" else count.strip() for count in counts)
    return device if draft.has_one_device else f"{device} × {words}"


def _value_text(draft: Draft, key: str, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a setting's value, or how many values it has."""
    values = draft.values(key)
    return names.get(values[0], values[0]) if len(values) == 1 else f"of {len(values):,} values"


class OptionsForm(QWidget):
    """The fields for further settings, in groups of two columns. Settings that do not apply are hidden."""

    def __init__(self, panel: SetupPanel, parent: QWidget) -> None:
        super().__init__(parent)
        self._panel = panel
        self.fields: dict[str, Field] = {}
        self.values: dict[str, FieldValues] = {}
        self._grids: dict[Group, tuple[QGridLayout, QLabel]] = {}
        self._shown: dict[Group, list[Setting]] = {}
        layout = in_column(parent=self, spacing=0)
        for group in GROUPS:
            layout.addLayout(self._make_grid(group))
        self.name = NumberEdit("Name", TIPS["name"], hint="numbered")
        self.name.setMaxLength(200)
        self.name.edited.connect(lambda name: panel.change(lambda draft: replace(draft, name=name)))
        layout.addWidget(Field("Name", self.name))

    def control(self, key: str) -> NumberEdit | ChoiceBox:
        control = self.fields[key].control
        assert isinstance(control, NumberEdit | ChoiceBox)
        return control

    def show_draft(self, draft: Draft, catalog: Catalog | None) -> None:
        """Show the draft's values in the fields that apply."""
        if catalog is not None:
            device = self.control("device")
            assert isinstance(device, ChoiceBox)
            device.set_choices(device_choices(catalog))
        for values in self.values.values():
            values.show(draft)
        self.name.set_value(draft.name)
        for group in self._grids:
            self._arrange(group, draft, catalog)

    def show_problems(self, sentences: Mapping[str, str]) -> None:
        """Show each problem under its field."""
        for key, field in self.fields.items():
            field.set_problem(sentences.get(key))

    def _make_grid(self, group: Group) -> QGridLayout:
        grid = grid_of(margins=(0, 0, 0, 8), spacing=(8, 0), grows=(0, 1))
        heading = label(group.value, "value")
        heading.setFixedHeight(28)
        heading.setAlignment(Qt.AlignmentFlag.AlignTop)
        grid.addWidget(heading, 0, 0, 1, 2)
        for option in GROUPS[group]:
            field = Field(option.title, self._make_control(option), parent=self)
            field.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Maximum)
            self.fields[option.key] = field
            choices = field.control.choices if isinstance(field.control, ChoiceBox) else None
            edit = partial(self._panel.set_text, option.key)
            self.values[option.key] = FieldValues(option.key, option.title, field, edit, choices)
        self._grids[group] = grid, heading
        return grid

    def _make_control(self, option: Setting) -> NumberEdit | ChoiceBox:
        control: NumberEdit | ChoiceBox
        if option.entry is EntryKind.CHOICE:
            control = ChoiceBox(option.title, option.about, option.choices)
        else:
            tip = values_tooltip(option.key, option.about)
            control = NumberEdit(option.title, tip, unit=option.unit, hint=option.hint)
        control.edited.connect(partial(self._panel.set_text, option.key))
        return control

    def _arrange(self, group: Group, draft: Draft, catalog: Catalog | None) -> None:
        elsewhere = top_options(catalog)
        wanted = [
            option
            for option in GROUPS[group]
            if option.key not in elsewhere and draft.applies(option.key, catalog)
        ]
        if wanted == self._shown.get(group):
            return
        self._shown[group] = wanted
        grid, heading = self._grids[group]
        heading.setVisible(bool(wanted))
        for option in GROUPS[group]:
            grid.removeWidget(self.fields[option.key])
            self.fields[option.key].setVisible(option in wanted)
        place = 2
        for option in wanted:
            # a text fills a row
            span = 2 if option.entry is EntryKind.TEXT else 1
            place += place % span
            field = self.fields[option.key]
            grid.addWidget(field, place // 2, place % 2, 1, span, Qt.AlignmentFlag.AlignTop)
            place += span


class MoreOptions(QWidget):
    """A section of the form with further settings. Folded, it shows a summary of at most three lines."""

    def __init__(self, panel: SetupPanel) -> None:
        super().__init__()
        self._panel = panel
        self._shown: tuple[Draft, Catalog | None] | None = None
        self._sentences: Mapping[str, str] = {}
        self._head = Expander(
            "More options", "Show optimizer, schedule, loss scaler, data and all other settings"
        )
        self._head.toggled.connect(self.set_open)
        self._note = label("", "note")
        self._summary = QWidget()
        self._lines = [label("", "hint") for _ in range(SUMMARY_LINES)]
        in_column(*self._lines, parent=self._summary, margins=(20, 0, 0, 0), spacing=4)
        row = in_row(wide(self._head), self._note)
        self._column = in_column(row, self._summary, parent=self, margins=(0, 0, 0, 12), spacing=8)

    @cached_property
    def form(self) -> OptionsForm:
        """Return the form, made when first unfolded. Its 50 fields would slow the window's start."""
        form = OptionsForm(self._panel, self)
        form.hide()
        if self._shown is not None:
            form.show_draft(*self._shown)
        form.show_problems(self._sentences)
        self._column.addWidget(form)
        tab_after(self._head, form)
        return form

    @property
    def _has_form(self) -> bool:
        return "form" in vars(self)

    def is_open(self) -> bool:
        return self._head.isChecked()

    def note(self) -> str:
        """Return the text with the number of changed options."""
        return self._note.text()

    def set_open(self, is_open: bool) -> None:
        """Unfold or fold the options."""
        self._head.setChecked(is_open)
        if is_open or self._has_form:
            self.form.setVisible(is_open)
        self._summary.setVisible(not is_open)

    def show_draft(self, draft: Draft, catalog: Catalog | None) -> None:
        """Show the draft's values and how many were changed."""
        self._shown = (draft, catalog)
        if self._has_form:
            self.form.show_draft(draft, catalog)
        changed = draft.changed_options(catalog)
        set_text(self._note, f"{changed} changed" if changed else "all default")
        for line, text in zip(self._lines, option_lines(draft, catalog), strict=True):
            set_text(line, text)

    def show_problems(self, sentences: Mapping[str, str]) -> None:
        """Show each problem under its field. Unfold the options if one of them has a new problem."""
        elsewhere = top_options(self._shown[1]) if self._shown is not None else ()
        known, self._sentences = self._sentences, dict(sentences)
        if self._has_form:
            self.form.show_problems(sentences)
        if (sentences.keys() & OPTIONS.keys()) - known.keys() - set(elsewhere):
            self.set_open(True)
