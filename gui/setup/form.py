"""The fields of the form: one row per setting, made from its description. They show a draft."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QBoxLayout, QFrame, QLabel, QScrollArea, QWidget
from shiboken6 import isValid

from engine.experiment.catalog import ARRAYS
from engine.experiment.checks import Catalog
from engine.experiment.presets import Preset
from engine.experiment.setting import EntryKind, Group, Setting
from gui.setup.axes import AxesEditor
from gui.setup.check import Outcome, explanation
from gui.setup.controls import ChoiceBox, LengthEdit, NumberEdit, RecipeEdit
from gui.setup.data import PathEdit
from gui.setup.draft import Draft
from gui.setup.facts import (
    batch_words,
    count_choices,
    dataset_choices,
    dataset_words,
    device_choices,
    options_summary,
)
from gui.setup.fields import CHECK_TIP, GROUPS, MODEL_TIP, OPTIONS, SETTINGS, same_value, top_options
from gui.setup.model.choices import parameters_words, short_folder
from gui.setup.model.search import SearchBox
from gui.setup.question import QUESTIONS, Question
from gui.setup.tiles import Expander, PrecisionTiles
from gui.widgets import Button, Field, divider, label, set_text
from gui.widgets.actions import with_keys
from gui.widgets.boxes import Placed, Stretch, in_column, in_row, wide
from gui.widgets.focus_ring import tab_after
from gui.widgets.labels import plain_tip

_MARGIN, _GAP = 16, 8
_LABEL_WIDTHS = {"batch_size": 84, "length": 84, "step.recipe": 86, "repeat": 54, "hours": 66, "within": 62}
_LABEL, _OPTION_LABEL, _REPEAT_WIDTH = 58, 160, (76, 90)
"""Widths in pixels: of labels inside fields, and of the field Repeats in a wide and in a low window."""
_ON_SEVERAL: tuple[Question, ...] = ("compare", "sweep", "profile", "tune")
"""The questions whose runs have a batch size and may train on multiple devices."""

Editor = NumberEdit | ChoiceBox | RecipeEdit


class BatchEdit(NumberEdit):
    """The batch size, and a button inside the field that finds the largest one."""

    def __init__(self, name: str, tip: str) -> None:
        super().__init__(name, tip)
        self.find_max = Button("Find max", "inner", with_keys("Find the largest batch that fits", "limit"))
        self.put_right(self.find_max)


_OWN: Mapping[str, Callable[[str, str], Editor]] = {
    "model": lambda title, _about: SearchBox(title, MODEL_TIP),
    "devices": ChoiceBox,
    "path": PathEdit,
    "batch_size": BatchEdit,
    "length": LengthEdit,
    "step.recipe": lambda _title, _about: RecipeEdit(),
}


def make_editor(setting: Setting, *, is_option: bool = False) -> Editor:
    """Create the editor of a setting: its own kind of editor, or else one for its type of value.

    With `is_option`, the type alone decides.
    """
    if not is_option and setting.key in _OWN:
        return _OWN[setting.key](setting.title, setting.about)
    if setting.entry is EntryKind.CHOICE:
        return ChoiceBox(setting.title, setting.about, setting.choices)
    return NumberEdit(setting.title, setting.about, unit=setting.unit, hint=setting.hint)


class Row(Field):
    """The field of a setting with its editor. `edited` carries the key and the new text."""

    edited = Signal(str, str)

    def __init__(
        self,
        setting: Setting,
        *,
        is_option: bool = False,
        below: QWidget | None = None,
        link: QWidget | None = None,
        problem: QLabel | None = None,
    ) -> None:
        self.editor = make_editor(setting, is_option=is_option)
        super().__init__(setting.title, self.editor, below=below, link=link, problem=problem)
        self.key, self._title = setting.key, setting.title
        self.editor.edited.connect(partial(self.edited.emit, self.key))
        # the label of a text is above it, since the text needs the full width
        if is_option and setting.entry is not EntryKind.TEXT:
            self.set_compact(True, _OPTION_LABEL)

    def show_text(self, text: str) -> None:
        """Show a value. What is being typed stays as it is if it means the same."""
        typed = self.editor.text() if isinstance(self.editor, NumberEdit) and self.editor.hasFocus() else None
        if typed is None or not same_value(self.key, typed, text):
            self.editor.set_value(text)

    def set_compact(self, is_compact: bool, width: int = 0) -> None:
        super().set_compact(is_compact)
        width = width or _LABEL_WIDTHS.get(self.key, _LABEL)
        self.editor.set_label(self._title if is_compact else "", width)


class FormArea(QScrollArea):
    """The scroll area around the form. Fields keep their width when the scroll bar appears."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        # made in its place: a change of parent would style it and all its children again
        self.form = SetupForm(self.viewport())
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
    """The fields of the setup form. It shows a `Draft` and reports each edit at once.

    `edited` carries the key of a field and its new text, `axis_changed` a setting and the values to sweep.
    `grid_wanted` asks for the table of a sweep's combinations.
    """

    edited = Signal(str, str)
    axis_changed = Signal(str, object)  # tuple[str, ...] | None
    grid_wanted = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._question: Question = "compare"
        self._own: dict[Question, QWidget] = {}
        self.kept_code = KeptCodeLine()
        self.check = Button("Check", "link", CHECK_TIP)
        self.rows = dict(self._make_rows("preset", "device", "devices"))
        self.rows["model"] = Row(SETTINGS["model"], below=self.kept_code, link=self.check)
        self.rows |= self._make_rows("dataset", "path")
        self.tiles = PrecisionTiles()
        self.precision = Field(SETTINGS["precision"].title, self.tiles)
        self._repeat_problem = label("", "problem", wraps=True)
        self._repeat_problem.setContentsMargins(0, 0, 0, 10)
        self.rows |= self._make_rows("batch_size", "length", "step.recipe")
        self.rows["repeat"] = Row(SETTINGS["repeat"], problem=self._repeat_problem)
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
            margins=(_MARGIN, 0, _MARGIN, 0),
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
        axes.grid.map.clicked.connect(self.grid_wanted)
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
        down, across = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        for pair in (self._pairs[1], self._pairs[3]):
            pair.setDirection(down if is_compact else across)
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

    def set_bar_width(self, pixels: int) -> None:
        """Subtract the scroll bar's width from the margin, so fields keep their width."""
        self._column.setContentsMargins(_MARGIN, 0, max(_MARGIN - pixels, 4), 0)

    def problem(self, key: str) -> str | None:
        """Return the problem shown under a setting's field."""
        if key == "precision":
            return self.precision.problem()
        if self._question == "sweep" and key in self.axes.fields:
            return self.axes.fields[key].problem()
        return self._row("length" if key in ("epochs", "steps") else key).problem()

    def _row(self, key: str) -> Row:
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

    def _make_rows(self, *keys: str) -> Iterator[tuple[str, Row]]:
        return ((key, Row(SETTINGS[key])) for key in keys)

    def _side_by_side(self, *keys: str) -> QBoxLayout:
        parts = (Placed(self.rows[key], 1, Qt.AlignmentFlag.AlignTop) for key in keys)
        return in_row(*parts, spacing=_GAP)


class OptionRows(QWidget):
    """The fields of further settings by group. Settings that do not apply are hidden."""

    edited = Signal(str, str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.rows: dict[str, Row] = {}
        self._headings: dict[Group, QWidget] = {}
        layout = in_column(parent=self, spacing=0)
        for group, settings in GROUPS.items():
            heading = self._headings[group] = label(group.value, "value")
            heading.setFixedHeight(28)
            layout.addWidget(heading)
            for setting in settings:
                row = self.rows[setting.key] = Row(setting, is_option=True)
                row.edited.connect(self.edited)
                layout.addWidget(row)
        name = self.rows["name"].editor
        assert isinstance(name, NumberEdit)
        name.setMaxLength(200)

    def show_draft(self, draft: Draft, catalog: Catalog | None, elsewhere: set[str]) -> None:
        """Show the draft's values in the fields that apply and are not `elsewhere` in the form."""
        device = self.rows["device"].editor
        if catalog is not None and isinstance(device, ChoiceBox):
            device.set_choices(device_choices(catalog))
        for group, settings in GROUPS.items():
            shown = {
                setting.key
                for setting in settings
                if setting.key not in elsewhere and draft.applies(setting.key, catalog)
            }
            self._headings[group].setVisible(bool(shown))
            for setting in settings:
                row = self.rows[setting.key]
                row.show_text(draft.text(setting.key))
                row.setVisible(setting.key in shown)

    def show_problems(self, sentences: Mapping[str, str]) -> None:
        """Show each problem under its field."""
        for key, row in self.rows.items():
            row.set_problem(sentences.get(key))


class MoreOptions(QWidget):
    """A section of the form with further settings. Folded, it shows a summary in one line."""

    edited = Signal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[Draft, Catalog | None, set[str]] | None = None
        self._sentences: Mapping[str, str] = {}
        self._is_compact = False
        self._head = Expander(
            "More options", "Show optimizer, schedule, loss scaler, data and all other settings"
        )
        self._head.toggled.connect(self.set_open)
        self._note, self._summary = label("", "note"), label("", "hint")
        self._summary.setIndent(18)
        row = in_row(wide(self._head), self._note)
        self._column = in_column(row, self._summary, parent=self, margins=(0, 0, 0, 12), spacing=4)

    @cached_property
    def form(self) -> OptionRows:
        """Return the fields, made when first unfolded. The 50 of them would slow the window's start."""
        form = OptionRows(self)
        form.edited.connect(self.edited)
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
        self._summary.setHidden(is_open or self._is_compact)

    def set_compact(self, is_compact: bool) -> None:
        """Leave the summary out, in a low window."""
        self._is_compact = is_compact
        self._summary.setHidden(self.is_open() or is_compact)

    def show_draft(self, draft: Draft, catalog: Catalog | None, elsewhere: set[str]) -> None:
        """Show the draft's values and how many were changed. Some settings are `elsewhere` in the form."""
        self._shown = (draft, catalog, elsewhere)
        if self._has_form:
            self.form.show_draft(*self._shown)
        changed = draft.changed_options(catalog)
        set_text(self._note, f"{changed} changed" if changed else "all default")
        set_text(self._summary, options_summary(draft.first))

    def show_problems(self, sentences: Mapping[str, str]) -> None:
        """Show each problem under its field. Unfold the options if one of them has a new problem."""
        elsewhere = set() if self._shown is None else self._shown[2]
        known, self._sentences = self._sentences, dict(sentences)
        if self._has_form:
            self.form.show_problems(sentences)
        if (sentences.keys() & OPTIONS.keys()) - known.keys() - elsewhere:
            self.set_open(True)


class KeptCodeLine(QWidget):
    """A line that says that the model file has changed, and that the code of a saved run or preset is used.

    Its `button` uses the file on disk instead. The line is hidden while both are equal.
    """

    def __init__(self) -> None:
        super().__init__()
        self._text = label("", "hint", wraps=True)
        self.button = Button("Use the file", "link", "Use the current code on disk")
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
