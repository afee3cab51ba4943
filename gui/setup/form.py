"""The fields of the form: one row per setting, made from its description. They show a draft."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QBoxLayout, QFrame, QScrollArea, QWidget
from shiboken6 import isValid

from engine.experiment.catalog import ARRAYS
from engine.experiment.checks import Catalog
from engine.experiment.presets import Preset
from gui.setup.check import Outcome, explanation
from gui.setup.controls import ChoiceBox, LengthEdit, RecipeEdit
from gui.setup.data import PathEdit
from gui.setup.draft import Draft
from gui.setup.facts import (
    batch_words,
    count_choices,
    dataset_choices,
    dataset_words,
    device_choices,
)
from gui.setup.fields import CHECK_TIP, MODEL_TIP, SETTINGS, top_options
from gui.setup.model.choices import parameters_words, short_folder
from gui.setup.model.search import SearchBox
from gui.setup.question import QUESTIONS, Question
from gui.setup.rows import BatchEdit, Editor, KeptCodeLine, MoreOptions, SettingRow
from gui.setup.sweep.axes import AxesEditor
from gui.setup.tiles import PrecisionTiles
from gui.widgets import Button, Field, divider, label
from gui.widgets.boxes import Placed, Stretch, in_column, in_row, set_beside
from gui.widgets.focus_ring import tab_after
from gui.widgets.labels import plain_tip

MARGIN, _GAP = 16, 8
_REPEAT_WIDTH = (76, 90)
"""The width of the field Repeats in pixels, in a wide and in a low window."""
_ON_SEVERAL: tuple[Question, ...] = ("compare", "sweep", "profile", "tune")
"""The questions whose runs have a batch size and may train on multiple devices."""


class FormColumn(QWidget):
    """The fields of a form in one column, which a subclass makes."""

    refused: ClassVar[str | None] = None
    """Why actions on a model are not available with this form. None if they are."""
    reset_tip: ClassVar[str] = "Discard the changes to the preset"
    _column: QBoxLayout

    def set_bar_width(self, pixels: int) -> None:
        """Subtract the scroll bar's width from the margin, so fields keep their width."""
        self._column.setContentsMargins(MARGIN, 0, max(MARGIN - pixels, 4), 0)


_Form = TypeVar("_Form", bound=FormColumn)


class FormArea(QScrollArea, Generic[_Form]):
    """The scroll area around a form. Fields keep their width when the scroll bar appears."""

    def __init__(self, make: Callable[[QWidget], _Form], parent: QWidget) -> None:
        super().__init__(parent)
        # made in its place: a change of parent would style it and all its children again
        self.form = make(self.viewport())
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


class SetupForm(FormColumn):
    """The fields of the setup form. It shows a `Draft` and reports each edit at once.

    `edited` carries the key of a field and its new text, `axis_changed` a setting and the values to sweep.
    """

    edited = Signal(str, str)
    axis_changed = Signal(str, object)  # tuple[str, ...] | None

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._question: Question = "compare"
        self._own: dict[Question, QWidget] = {}
        self.kept_code = KeptCodeLine()
        self.check = Button("Check", "link", CHECK_TIP)
        self.rows = dict(self._make_rows("preset", "device", "devices"))
        self.rows["model"] = SettingRow(SETTINGS["model"], below=self.kept_code, link=self.check)
        self.rows |= self._make_rows("dataset", "path")
        self.tiles = PrecisionTiles()
        self.precision = Field(SETTINGS["precision"].title, self.tiles)
        self._repeat_problem = label("", "problem", wraps=True)
        self._repeat_problem.setContentsMargins(0, 0, 0, 10)
        self.rows |= self._make_rows("batch_size", "length", "step.recipe")
        self.rows["repeat"] = SettingRow(SETTINGS["repeat"], problem=self._repeat_problem)
        self.rows |= self._make_rows("within", "hours")
        for row in self.rows.values():
            row.edited.connect(self.edited)
        self.more = MoreOptions()
        self.more.edited.connect(self.edited)
        self._pairs = [
            self._side_by_side(*keys)
            for keys in (
                ("device", "devices"),
                ("batch_size", "length"),
                ("step.recipe", "repeat"),
                ("within", "hours"),
            )
        ]
        devices, lengths, recipe, plan = self._pairs
        self._column = in_column(
            self.rows["preset"],
            devices,
            *(self.rows[key] for key in ("model", "dataset", "path")),
            self.precision,
            lengths,
            recipe,
            self._repeat_problem,
            self._recipe.parts,
            plan,
            divider(),
            10,
            self.more,
            Stretch(),
            parent=self,
            margins=(MARGIN, 0, MARGIN, 0),
            spacing=0,
        )
        tab_after(self.model, self.check)
        self.set_compact(False)

    def editor(self, key: str) -> Editor:
        """Return the editor of a field, also of one under "More options". Raises KeyError."""
        return self._row(key).editor

    @property
    def model(self) -> SearchBox:
        editor = self.rows["model"].editor
        assert isinstance(editor, SearchBox)
        return editor

    @property
    def batch(self) -> BatchEdit:
        editor = self.rows["batch_size"].editor
        assert isinstance(editor, BatchEdit)
        return editor

    @property
    def length(self) -> LengthEdit:
        editor = self.rows["length"].editor
        assert isinstance(editor, LengthEdit)
        return editor

    @property
    def _recipe(self) -> RecipeEdit:
        editor = self.rows["step.recipe"].editor
        assert isinstance(editor, RecipeEdit)
        return editor

    @cached_property
    def axes(self) -> AxesEditor:
        """Return the axes of a sweep, made on demand."""
        axes = AxesEditor(self.tiles.last())
        axes.changed.connect(self.axis_changed)
        self.put("sweep", axes)
        return axes

    def set_presets(self, presets: Sequence[Preset]) -> None:
        self._box("preset").set_choices([(preset.name, preset.title) for preset in presets])

    def show_draft(
        self, draft: Draft, catalog: Catalog | None, *, caption: str = "", keeps_model: bool = False
    ) -> None:
        """Show the draft, with facts from the catalog. A `caption` replaces the title of the preset.

        `keeps_model`: the typed model stays as it is.
        """
        self._box("preset").set_caption(caption)
        first, is_sweep = draft.first, self._question == "sweep"
        if catalog is not None:
            self._box("dataset").set_choices(dataset_choices(first, catalog))
            self._box("device").set_choices(device_choices(catalog))
            self._box("devices").set_choices(count_choices(first, catalog))
        swept = {*draft.axes, *("length" for key in ("epochs", "steps") if key in draft.axes)}
        hidden = swept | QUESTIONS[self._question].absent | (set() if is_sweep else {"within", "hours"})
        hidden |= {"device", "devices"} - set(top_options(catalog))
        hidden |= set() if catalog is not None and draft.applies("path", catalog) else {"path"}
        for key, row in self.rows.items():
            if key == "preset" or (key == "model" and keeps_model):
                continue
            row.show_text(draft.text(key))
            row.setHidden(key in hidden)
        if is_sweep:
            self.axes.show_draft(draft, catalog)
        if "step.recipe" in hidden:
            self._recipe.parts.hide()
        self.length.unit.set_value(draft.length_key)
        self._show_facts(first, catalog)
        self.tiles.show_draft(first, catalog, self._question)
        self.more.show_draft(draft, catalog, swept | set(top_options(catalog)))

    def put(self, question: Question, options: QWidget) -> None:
        """Add the fields of a single question."""
        self._own[question] = options
        self._column.insertWidget(self._column.indexOf(self.precision) + 1, options)
        options.setVisible(question == self._question)
        tab_after(self.tiles.last(), options)

    def show_question(self, question: Question) -> None:
        """Show only the fields that the question needs."""
        self._question = question
        for asked, options in self._own.items():
            options.setVisible(asked == question)

    def set_compact(self, is_compact: bool) -> None:
        """Fit the form into a low window, with labels inside the fields."""
        for row in self.rows.values():
            row.set_compact(is_compact)
        self.precision.set_compact(is_compact)
        self.tiles.set_compact(is_compact)
        self.more.set_compact(is_compact)
        self.rows["repeat"].setFixedWidth(_REPEAT_WIDTH[is_compact])
        for pair in (self._pairs[1], self._pairs[3]):
            set_beside(pair, not is_compact)
            pair.setSpacing(0 if is_compact else _GAP)
            for place in range(pair.count()):
                pair.setStretch(place, 0 if is_compact else 1)

    def show_outcome(self, outcome: Outcome) -> None:
        """Show each problem under its field."""
        sentences = {key: explanation(problem) for key, problem in outcome.problems.items()}
        if (length := sentences.get("epochs") or sentences.get("steps")) is not None:
            sentences["length"] = length
        for key, row in self.rows.items():
            row.set_problem(sentences.get(key))
        self.precision.set_problem(sentences.get("precision"))
        if self._question == "sweep":
            self.axes.show_problems(sentences)
        self.more.show_problems(sentences)

    def problem(self, key: str) -> str | None:
        """Return the problem shown under a setting's field."""
        if key == "precision":
            return self.precision.problem()
        if self._question == "sweep" and key in self.axes.fields:
            return self.axes.fields[key].problem()
        return self._row("length" if key in ("epochs", "steps") else key).problem()

    def _row(self, key: str) -> SettingRow:
        return self.rows[key] if key in self.rows else self.more.form.rows[key]

    def _box(self, key: str) -> ChoiceBox:
        editor = self.rows[key].editor
        assert isinstance(editor, ChoiceBox)
        return editor

    def _show_facts(self, draft: Draft, catalog: Catalog | None) -> None:
        preset, batch, path = self._box("preset"), self.rows["batch_size"], self.rows["path"].editor
        preset.set_value(draft.preset.name)
        preset.setToolTip(plain_tip(draft.preset.about_for(draft.has_gpu)) or SETTINGS["preset"].about)
        smaller = None if catalog is None or draft.has_gpu else draft.preset.without_gpu_note
        self.rows["preset"].set_hint(smaller or "")
        is_shared = self._question in _ON_SEVERAL and not draft.has_one_device
        batch.set_note("per device" if is_shared else "")
        batch.set_hint(batch_words(draft, catalog) if is_shared else "")
        assert isinstance(path, PathEdit)
        path.is_file = draft.text("dataset") == ARRAYS
        model = catalog.model(draft.text("model")) if catalog else None
        dataset = catalog.dataset(draft.text("dataset")) if catalog else None
        code = draft.code
        size = parameters_words(model)
        sizes = (size, size.removesuffix(" parameters")) if code is None else (short_folder(code.folder),)
        self.model.set_info(*sizes)
        place = "" if code is None else f"{Path(code.folder, code.file)}\n\n"
        self.model.field.setToolTip(plain_tip(place + MODEL_TIP))
        self._box("dataset").set_info(*dataset_words(dataset, draft))
        is_missing = dataset is not None and dataset.needs_download
        self.rows["dataset"].set_note("downloaded on first use" if is_missing else "")

    def _make_rows(self, *keys: str) -> Iterator[tuple[str, SettingRow]]:
        return ((key, SettingRow(SETTINGS[key])) for key in keys)

    def _side_by_side(self, *keys: str) -> QBoxLayout:
        parts = (Placed(self.rows[key], 1, Qt.AlignmentFlag.AlignTop) for key in keys)
        return in_row(*parts, spacing=_GAP)
