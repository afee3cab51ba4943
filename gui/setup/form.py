"""The fields of the setup panel. They show a draft and pass the user's changes to the panel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QWidget
from shiboken6 import isValid

from engine.experiment.catalog import ARRAYS
from engine.experiment.checks import Catalog
from engine.experiment.experiment import Precision, setting_help, setting_title
from engine.experiment.own.code import OWN_DATA
from engine.experiment.presets import Preset
from engine.experiment.settings import PLAIN
from gui.setup.check import Outcome, converted_length, explanation
from gui.setup.controls import RECIPES, ChoiceBox, InnerNote, LengthEdit, NumberEdit, RecipeEdit, link_button
from gui.setup.data import PathEdit
from gui.setup.draft import Draft
from gui.setup.fields import TIPS, top_options
from gui.setup.model.choices import parameters_words, short_folder
from gui.setup.model.search import SearchBox
from gui.setup.options import (
    MoreOptions,
    batch_words,
    count_choices,
    dataset_words,
    device_choices,
    preset_caption,
)
from gui.setup.question import QUESTIONS, Question, examined_precision
from gui.setup.several import FieldValues, values_tooltip
from gui.widgets import Button, Field, PrecisionChip, divider, label, set_text
from gui.widgets.actions import with_keys
from gui.widgets.boxes import Placed, Stretch, grid_of, in_column, in_row, wide
from gui.widgets.focus_ring import tab_after
from gui.widgets.labels import plain_tip

if TYPE_CHECKING:
    from gui.setup.panel import SetupPanel

_MARGIN = 16
_REPEAT_WIDTH = 76
_COMPARED_MOST = (Precision.FP32, Precision.TF32, Precision.FP16, Precision.BF16)
_CHIP_ORDER = (
    *_COMPARED_MOST,
    Precision.FP8,
    Precision.BF16_PURE,
    Precision.DEFAULT,
    Precision.FP16_UNSCALED,
)
"""The precisions that are compared most, then, in smaller tiles, the less common ones."""


_ON_SEVERAL: tuple[Question, ...] = ("compare", "sweep", "profile", "tune")
"""The questions whose runs have a batch size and may train on multiple devices."""
_ON_ONE_PRECISION = frozenset({"numerics"})
"""The questions about a single precision. Selecting one tile deselects the others."""


class FormArea(QScrollArea):
    """The scroll area around the form. Fields keep their width when the scroll bar appears."""

    def __init__(self, panel: SetupPanel) -> None:
        super().__init__(panel)
        # made in its place: a change of parent would style it and all its children again
        self.form = SetupForm(panel, self.viewport())
        self.setWidget(self.form)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName("The experiment's settings")
        self._bar = self.verticalScrollBar()
        self._bar.rangeChanged.connect(self._fit_bar)

    def _fit_bar(self, _low: int, high: int) -> None:
        # its range changes once more while the panel is taken down
        if isValid(self._bar):
            self.form.set_bar_width(self._bar.sizeHint().width() if high else 0)


class SetupForm(QWidget):
    """The fields of the setup form. It shows a `Draft` and passes each edit to the panel at once."""

    def __init__(self, panel: SetupPanel, parent: QWidget) -> None:
        super().__init__(parent)
        self._panel = panel
        self.preset = ChoiceBox("Preset", TIPS["preset"])
        self.device = ChoiceBox(setting_title("device"), setting_help("device"))
        self.devices = ChoiceBox(setting_title("devices"), setting_help("devices"))
        self.model = SearchBox(setting_title("model"), TIPS["model"])
        self.kept_code = KeptCodeLine(lambda: panel.picker.use_file())
        self.check = Button("Check", "link", TIPS["check"])
        self.dataset = ChoiceBox(setting_title("dataset"), setting_help("dataset"))
        self.path = PathEdit(setting_title("path"), setting_help("path"))
        about_batch = values_tooltip("batch_size", setting_help("batch_size"))
        self.batch_size = NumberEdit(setting_title("batch_size"), about_batch)
        self.find_max = link_button("Find max", with_keys("Find the largest batch that fits", "limit"))
        self.batch_size.put_right(self.find_max)
        self.length = LengthEdit("Length", values_tooltip("epochs", TIPS["length"]))
        self.recipe = RecipeEdit()
        self.repeat = NumberEdit("Repeat", TIPS["repeat"])
        self.repeat.put_right(InnerNote("×"))
        self.within = NumberEdit("To within", TIPS["within"], unit="%", hint="any")
        self.hours = NumberEdit("Time limit", TIPS["hours"], unit="h", hint="no limit")
        self.chips = {precision: PrecisionChip(precision) for precision in Precision}
        self.more = MoreOptions(panel)
        self._own: dict[Question, QWidget] = {}
        self._question: Question = "compare"
        self._chip_note = label("", "hint", wraps=True)
        model = Field(setting_title("model"), self.model, below=self.kept_code, link=self.check)
        controls = {
            "device": self.device,
            "devices": self.devices,
            "dataset": self.dataset,
            "path": self.path,
            "precision": self._make_chips(),
            "batch_size": self.batch_size,
            "length": self.length,
            "step.recipe": self.recipe,
            "repeat": self.repeat,
            "within": self.within,
            "hours": self.hours,
        }
        own = {"length": "Length", "repeat": "Repeat", "within": "To within", "hours": "Time limit"}
        self._fields = {"model": model}
        for key, control in controls.items():
            self._fields[key] = Field(own.get(key) or setting_title(key), control)
        self.preset_field = Field("Preset", self.preset)
        self.show_path = self._fields["path"].set_note
        """Shows the contents of the path next to its label."""
        self._connect()
        self._fields["repeat"].setFixedWidth(_REPEAT_WIDTH)
        self._column = in_column(
            self.preset_field,
            self._side_by_side("device", "devices"),
            *(self._fields[key] for key in ("model", "dataset", "path", "precision")),
            self._side_by_side("batch_size", "length"),
            self._side_by_side("step.recipe", "repeat"),
            self.recipe.parts,
            self._side_by_side("within", "hours"),
            4,
            divider(),
            12,
            self.more,
            Stretch(),
            parent=self,
            margins=(_MARGIN, 0, _MARGIN, 0),
            spacing=0,
        )

    def set_presets(self, presets: Sequence[Preset]) -> None:
        self.preset.set_choices([(preset.name, preset.title) for preset in presets])

    def show_draft(self, draft: Draft, catalog: Catalog | None) -> None:
        """Show the draft, with facts from the catalog."""
        self.preset.set_value(draft.preset.name)
        self.preset.setToolTip(plain_tip(draft.preset.about_for(draft.has_gpu)) or TIPS["preset"])
        self.preset.set_caption(preset_caption(draft, catalog))
        smaller = None if catalog is None or draft.has_gpu else draft.preset.without_gpu_note
        self.preset_field.set_hint(smaller or "")
        if catalog is not None:
            model = catalog.model(draft.with_first_values.text("model").strip())
            brings_data = model is not None and model.task == OWN_DATA
            datasets = (entry for entry in catalog.datasets if entry.name != OWN_DATA or brings_data)
            self.dataset.set_choices([(entry.name, entry.title) for entry in datasets])
            self.device.set_choices(device_choices(catalog))
            self.devices.set_choices(count_choices(draft, catalog))
        for key in ("device", "devices"):
            self._fields[key].setVisible(key in top_options(catalog))
        for key, values in self.values.items():
            # a path that is still being typed stays as it is
            if key != "model" or self._panel.picker.pending is None:
                values.show(draft)
        self.lengths.show(draft, draft.length_key)
        self.path.is_file = draft.with_first_values.text("dataset") == ARRAYS
        self._fields["path"].setVisible(catalog is not None and draft.applies("path", catalog))
        self.find_max.setHidden("batch_size" in draft.multi_valued_keys)
        self.batch_size.keep_clear()
        self.length.set_unit(draft.length_key)
        self.repeat.set_value(draft.repeats)
        self.within.set_value(draft.within_percent)
        self.hours.set_value(draft.most_hours)
        is_shared = self._question in _ON_SEVERAL and not draft.has_one_device
        self._fields["batch_size"].set_note("per device" if is_shared else "")
        self._fields["batch_size"].set_hint(batch_words(draft, catalog) if is_shared else "")
        self._show_facts(draft, catalog)
        self._show_chips(draft, catalog)
        self.more.show_draft(draft, catalog)

    def put(self, question: Question, options: QWidget) -> None:
        """Add the fields of a single question."""
        self._own[question] = options
        self._column.insertWidget(self._column.indexOf(self._fields["precision"]) + 1, options)
        options.setVisible(question == self._question)
        tab_after(self.chips[_CHIP_ORDER[-1]], options)

    def show_question(self, question: Question) -> None:
        """Show only the fields that the question needs."""
        self._question = question
        for key in ("batch_size", "length", "repeat"):
            self._fields[key].setVisible(key not in QUESTIONS[question].absent)
        for key in ("within", "hours"):
            self._fields[key].setVisible(question == "sweep")
        for asked, options in self._own.items():
            options.setVisible(asked == question)

    def set_compact(self, is_compact: bool) -> None:
        """Fit all precisions and the batch size into a low window without scrolling."""
        for field in (self.preset_field, *self._fields.values()):
            field.set_compact(is_compact)
        self._fields["precision"].hide_head(is_compact)
        self._tiles.setVerticalSpacing(4 if is_compact else 8)
        for precision in _COMPARED_MOST:
            self.chips[precision].set_small(is_compact)

    def show_outcome(self, outcome: Outcome) -> None:
        """Show each problem under its field."""
        sentences = {key: explanation(problem) for key, problem in outcome.problems.items()}
        length = sentences.get("epochs") or sentences.get("steps")
        for key, field in self._fields.items():
            field.set_problem(length if key == "length" else sentences.get(key))
        self.more.show_problems(sentences)

    def set_bar_width(self, pixels: int) -> None:
        """Subtract the scroll bar's width from the margin, so fields keep their width."""
        self._column.setContentsMargins(_MARGIN, 0, max(_MARGIN - pixels, 4), 0)

    def problem(self, key: str) -> str | None:
        """Return the problem shown under a setting's field."""
        field = self._fields.get("length" if key in ("epochs", "steps") else key)
        return (field or self.more.form.fields[key]).problem()

    def _show_facts(self, draft: Draft, catalog: Catalog | None) -> None:
        if "model" in draft.multi_valued_keys or "dataset" in draft.multi_valued_keys:
            catalog = None
        model = catalog.model(draft.text("model")) if catalog else None
        dataset = catalog.dataset(draft.text("dataset")) if catalog else None
        code = draft.code
        self.model.set_info(parameters_words(model) if code is None else short_folder(code.folder))
        place = "" if code is None else f"{Path(code.folder, code.file)}\n\n"
        self.model.field.setToolTip(plain_tip(place + TIPS["model"]))
        self.dataset.set_info(*dataset_words(dataset, draft))
        is_missing = dataset is not None and dataset.needs_download
        self._fields["dataset"].set_note("downloaded on first use" if is_missing else "")

    def _show_chips(self, draft: Draft, catalog: Catalog | None) -> None:
        device = catalog.device(draft.text("device")) if catalog else None
        notes: dict[str, list[str]] = {}
        chosen, takes_one = draft.selected, self._question in _ON_ONE_PRECISION
        if takes_one and (examined := examined_precision(chosen)) is not None:
            chosen = (examined,)
        for precision, chip in self.chips.items():
            is_selected = precision in chosen
            chip.setChecked(is_selected)
            entry = device.precision(precision) if device else None
            available = entry is None or entry.available
            chip.takes_one = takes_one
            chip.set_available(available, entry.reason if entry else None, entry.note if entry else None)
            # a chip that is selected though unavailable can at least be unselected
            chip.setEnabled(available or is_selected)
            if is_selected and entry is not None and entry.available and entry.note:
                notes.setdefault(entry.note, []).append(precision.label)
        for note in _fp8_notes(draft, catalog):
            notes[note] = [Precision.FP8.label]
        count = "" if takes_one and chosen else f"{len(chosen) or 'none'} selected"
        self._fields["precision"].set_note(count)
        lines = (f"{' and '.join(labels)}: {note}" for note, labels in notes.items())
        set_text(self._chip_note, "\n".join(lines))
        self._chip_note.setVisible(bool(notes))

    def _make_chips(self) -> QWidget:
        holder = QWidget()
        holder.setAccessibleName("Precision")
        grid = self._tiles = grid_of(holder, spacing=(8, 8))
        for place, precision in enumerate(_CHIP_ORDER):
            grid.addWidget(self.chips[precision], place // 2, place % 2)
            self.chips[precision].clicked.connect(partial(self._select, precision))
        for precision in _CHIP_ORDER[len(_COMPARED_MOST) :]:
            self.chips[precision].set_small()
        self._chip_note.hide()
        grid.addWidget(self._chip_note, grid.rowCount(), 0, 1, 2)
        return holder

    def _select(self, clicked: Precision, _is_checked: bool = False) -> None:
        chosen = tuple(precision for precision, chip in self.chips.items() if chip.isChecked())
        if self._question in _ON_ONE_PRECISION:
            chosen = (clicked,)
            if not self.chips[clicked].isChecked():
                # the one that is selected stays so
                self.chips[clicked].setChecked(True)
                return
        self._panel.change(lambda draft: draft.with_precisions(chosen))

    def _side_by_side(self, *keys: str) -> QHBoxLayout:
        parts = (Placed(self._fields[key], 1, Qt.AlignmentFlag.AlignTop) for key in keys)
        return in_row(*parts, spacing=12)

    def _connect(self) -> None:
        panel = self._panel

        def change_length(text: str) -> None:
            panel.change(lambda draft: draft.with_length(draft.length_key, text))

        def use_model(text: str) -> None:
            panel.picker.set_model(text)

        self.preset.edited.connect(panel.choose_preset)
        self.model.edited.connect(use_model)
        self.model.typed.connect(lambda text: panel.picker.set_model(text, is_typed=True))
        choices = {
            "device": self.device.choices,
            "devices": self.devices.choices,
            "dataset": self.dataset.choices,
            "path": None,
            "batch_size": None,
            "step.recipe": lambda: RECIPES,
        }
        self.values = {
            "model": FieldValues(
                "model", setting_title("model"), self._fields["model"], use_model, self.model.choices
            )
        }
        for key, offered in choices.items():
            edit, field = panel.set_path if key == "path" else partial(panel.set_text, key), self._fields[key]
            assert isinstance(field.control, NumberEdit | ChoiceBox | RecipeEdit)
            field.control.edited.connect(edit)
            self.values[key] = FieldValues(key, setting_title(key), field, edit, offered)
        convert = lambda draft: draft.with_length(*converted_length(draft, panel.outcome()))  # noqa: E731
        self.lengths = FieldValues("epochs", "Length", self._fields["length"], change_length)
        self.length.edited.connect(change_length)
        self.length.unit_button.clicked.connect(lambda: panel.change(convert))
        self.find_max.clicked.connect(lambda: panel.submit("limit"))
        self.repeat.edited.connect(lambda text: panel.change(lambda draft: replace(draft, repeats=text)))
        self.within.edited.connect(
            lambda text: panel.change(lambda draft: replace(draft, within_percent=text))
        )
        self.hours.edited.connect(lambda text: panel.change(lambda draft: replace(draft, most_hours=text)))


def _fp8_notes(draft: Draft, catalog: Catalog | None) -> Iterator[str]:
    """Yield the limitations of FP8 for the draft, if FP8 is selected."""
    if Precision.FP8 not in draft.selected or catalog is None:
        return
    model, device = catalog.model(draft.text("model")), catalog.device(draft.text("device"))
    if model is not None and model.is_convolutional:
        yield f"has no effect on {model.name}, because convolutions are not converted"
    elif device is not None and device.is_gpu and draft.text("step.recipe") in ("", PLAIN):
        yield f"is unlikely to be faster without Compile in {setting_title('step.recipe')}"


class KeptCodeLine(QWidget):
    """A line that says that the model file has changed, and that the code of a saved run or preset is used.

    A button uses the file on disk instead. The line is hidden while both are equal.
    """

    def __init__(self, use_file: Callable[[], object]) -> None:
        super().__init__()
        self._text = label("", "hint", wraps=True)
        self.button = Button("Use the file", "link", "Use the current code on disk")
        self.button.clicked.connect(lambda: use_file())
        in_row(wide(self._text), self.button, parent=self, spacing=8)
        self.hide()

    def show_kept(self, draft: Draft, *, differs: bool) -> None:
        """Show the source of the code, if the file on disk differs."""
        code, whose = draft.code if differs else None, "run" if draft.keeps_code else "preset"
        set_text(
            self._text, "" if code is None else f"Uses the {whose}'s code. {code.file} has changed since."
        )
        self.setVisible(code is not None)

    def text(self) -> str:
        """Return the sentence. Empty while hidden."""
        return self._text.text()
