"""The setup panel: describes an experiment, validates it during typing, and requests its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.own.trust import TrustedCode
from engine.experiment.presets import Preset, all_presets
from engine.experiment.problem import Problem
from engine.experiment.sweep import Grid
from engine.export.document import changes_words
from engine.protocol.advice import Changes, advisable_changes
from gui.session.request import Request
from gui.setup.check import Outcome, check, converted_length, request, unresolved
from gui.setup.data import DataReader, FolderCounter
from gui.setup.draft import Draft
from gui.setup.facts import preset_caption
from gui.setup.fields import CHECK_TIP
from gui.setup.foot import SetupFoot
from gui.setup.form import FormArea, FormColumn, SetupForm
from gui.setup.model.picker import ModelPicker
from gui.setup.question import (
    QUESTIONS,
    Question,
    build_job,
    button_text,
    disabled_reason,
    examined,
    plan_text,
)
from gui.setup.saving import OwnPresets, SetupHead
from gui.setup.script.draft import ScriptDraft
from gui.setup.script.form import ScriptForm
from gui.setup.sweep.survey import PENDING, Survey, SurveyThread, memory_words, sweep_request
from gui.widgets.actions import ClickGuard, connect_button, make_action, set_enabled
from gui.widgets.boxes import Surface, in_column, wide
from gui.widgets.focus_ring import tab_after

WIDTH = 320
_LOOKING = "Looking at this machine…"
_NOT_NOW = "The model can be checked when no run is active."


class SetupPanel(Surface):
    """The side panel with the setup form. It owns the chosen question and the `Draft`, which the form shows.

    `submitted` carries a Request to run or queue, `check_wanted` the experiment whose model to check, and
    `page_wanted` a question. `draft_changed` is emitted after every change, `preset_chosen` carries a Preset.
    `changed_itself` carries a message about a change that the form made by itself, and its undo function.
    """

    submitted = Signal(object)  # Request
    check_wanted = Signal(object)  # Experiment
    page_wanted = Signal(str)
    draft_changed = Signal()
    preset_chosen = Signal(object)  # Preset
    changed_itself = Signal(str, object)  # Callable[[], object]
    reported = Signal(object)  # Problem

    def __init__(
        self,
        parent: QWidget | None = None,
        trusted: TrustedCode | None = None,
        expected_seconds: Callable[[Experiment], float | None] = lambda _: None,
    ) -> None:
        super().__init__("side", parent=parent)
        self.expected_seconds = expected_seconds
        self.presets: tuple[Preset, ...] = ()
        self.draft: Draft | None = None
        self._catalog: Catalog | None = None
        self._looking = _LOOKING
        self._outcome = Outcome((), {})
        self._file_problem: Problem | None = None
        self._refused: dict[Experiment, Problem] = {}
        self._is_busy = False
        self._without_engine: str | None = None
        self.question: Question = "compare"
        self._handlers: dict[Question, tuple[Callable[[Any], object], Callable[[str], object]]] = {}
        self._clicks = ClickGuard()
        self.cpu_limit_gib: float | None = None
        """The memory for a batch-size search on a CPU without a memory cap. None for the default."""
        self.own_presets = OwnPresets(self)
        self.folder, self.data, self.survey_thread = FolderCounter(self), DataReader(self), SurveyThread(self)
        self.run_action = make_action(self, "Compare", self._submit_form)
        self.run_action.setAutoRepeat(False)
        self.check_action = make_action(self, "Check", self._check_model)
        self.reset_action = make_action(self, "Reset the form", self._reset)
        trusted = trusted or TrustedCode()
        self._lay_out(trusted)
        self.picker = ModelPicker(self.form.model, trusted, self)
        self._connect()
        self._refresh()

    def set_presets(self, presets: Sequence[Preset]) -> None:
        """Offer these presets, and select the first unless one is selected."""
        self.presets = tuple(presets)
        self.form.set_presets(presets)
        if self.draft is None and presets:
            self.choose_preset(presets[0].name)

    def choose_preset(self, name: str) -> None:
        """Start from a preset. Raises KeyError for an unknown name."""
        preset = {preset.name: preset for preset in self.presets}[name]
        swept_before = self.draft is not None and bool(Draft(self.draft.preset).axes)
        self.set_draft(Draft(preset))
        if preset.kind in ("limit", "numerics"):
            self.set_question(preset.kind)
        elif self.draft is not None and self.draft.axes:
            self.set_question("sweep")
        elif swept_before and self.question == "sweep":
            self.set_question("compare")
        self.preset_chosen.emit(preset)

    def show_reading(self, machine: str) -> None:
        """Show that the catalog of a machine is being read ("" for this machine). Drafts stay."""
        self._looking = f"Looking at {machine}…" if machine else _LOOKING
        self._catalog = None
        self._without_engine = None
        self._refused.clear()
        self._refresh()

    def set_catalog(self, catalog: Catalog) -> None:
        """Set the catalog of devices, models and precisions. Without it, the start button is disabled."""
        self._catalog = catalog
        if self.draft is not None:
            self.draft = self._here(self.draft)
            self._refresh()

    def set_engine(self, missing: str | None, action: str = "") -> None:
        """Show why PyTorch is `missing`, and offer `action`. None if it is installed."""
        self._without_engine = missing
        self.foot.set_facts(engine=action if missing is not None else "")
        self._refresh()

    def show_refusal(self, experiment: Experiment, problem: Problem) -> None:
        """Show at its field why a setting is refused, before training starts."""
        # a folder may be mended without a change in the form, which looks at it again by itself
        if problem.key != "path":
            self._refused[experiment] = problem
            self._on_change()

    def set_busy(self, is_busy: bool) -> None:
        """Set whether a job is in progress. The button then adds to the queue."""
        if is_busy != self._is_busy:
            self._is_busy = is_busy
            self._refresh()

    def set_compact(self, is_compact: bool) -> None:
        """Fit into a low or narrow window, with labels inside the fields."""
        self.form.set_compact(is_compact)
        self._head.set_compact(is_compact)
        self._refresh()

    def set_question(self, question: Question) -> None:
        """Switch to another question, with its fields, button and page."""
        if question != self.question:
            self.question = question
            self.question_box.set_question(question)
            self._refresh()
            self.page_wanted.emit(question)
            self.draft_changed.emit()

    def use_changes(self, changes: Changes) -> None:
        """Put settings from advice into the form, and show a message."""
        changes = advisable_changes(changes)
        if self.draft is not None and changes:
            before = self.draft
            self.set_draft(before.with_changes(changes))
            told = f"Changed in the form: {changes_words(changes)}."
            self.changed_itself.emit(told, lambda: self.set_draft(before))

    def set_text(self, key: str, text: str) -> None:
        """Put a setting into the form, as if it was typed."""
        self.change(lambda draft: draft.with_change(key, text))

    def set_axis(self, key: str, values: Sequence[str] | None) -> None:
        """Set the values that a sweep tries of a setting. None removes them."""
        self.change(lambda draft: draft.with_axis(key, values))

    def text(self, key: str) -> str:
        """Return the text of a field, in a sweep the first of its values. Empty without a draft."""
        return self._asked_draft.first.text(key) if self.draft is not None else ""

    @property
    def has_one_device(self) -> bool:
        """Return False if any run of the question trains on multiple devices."""
        return self.draft is None or self._asked_draft.has_one_device

    def register_handler(
        self, question: Question, submit: Callable[[Any], object], refuse: Callable[[str], object]
    ) -> None:
        """Register who runs a question: `submit` receives the job, `refuse` why the form is invalid."""
        self._handlers[question] = submit, refuse

    def submit(self, question: Question) -> None:
        """Submit the form as a job for `question`. Does nothing until that question's page exists."""
        if question not in self._handlers:
            return
        if self._without_engine is not None:
            self.foot.engine_button.click()
            return
        self.set_question(question)
        self.reread()
        submit, refuse = self._handlers[question]
        against = self._against(question)
        if against is not None or self.draft is None or self._catalog is None:
            refuse(against or _LOOKING)
        else:
            submit(build_job(question, self._asked_draft, self._outcome, self._catalog, self.cpu_limit_gib))

    def use_settings(
        self,
        experiment: Experiment,
        precisions: Sequence[Precision] = (),
        *,
        sides: Sequence[Experiment] = (),
    ) -> None:
        """Put a run's settings into the form, as changes to the selected preset. The axes of a sweep stay.

        With `precisions`, these are selected in place of the run's own. A run of a script opens its question,
        with the commands of all `sides` of its comparison.
        """
        if experiment.is_script:
            self._ask(self.scripts.draft.with_experiment(experiment, sides))
            return
        if self._catalog is not None:
            experiment = unresolved(experiment, self._catalog)
        chosen = precisions or (experiment.precision,)
        self.change(lambda draft: draft.with_experiment(experiment).with_precisions(chosen))
        if self.question in ("sweep", "script"):
            self.set_question("compare")

    def reread(self) -> None:
        """Read the user's model file again from disk."""
        self.picker.finish()
        if self.draft is not None and self.picker.follow(self.draft) != (self.draft, self._file_problem):
            self.set_draft(self.draft)

    def request(self) -> Request | None:
        """Return the request that the button would send, with the current model file. None if invalid."""
        self.reread()
        if self.draft is None or self._shown_outcome().reason is not None:
            return None
        if self.question == "script":
            return self.scripts.request(self._outcome)
        first, survey = request(self.draft, self._outcome), self.survey()
        if self.question != "sweep":
            return first
        return None if survey is None else sweep_request(self.draft, first, survey)

    def outcome(self) -> Outcome:
        """Return the form's experiments, with the first value of each axis, and their problems."""
        return self._outcome

    def survey(self) -> Survey | None:
        """Return the survey of the sweep that the button would train. None if there is no sweep."""
        return self.survey_thread.survey() if self.is_sweeping else None

    def to_forecast(self) -> tuple[Experiment, ...]:
        """Return the experiments whose memory must be forecast for the form."""
        if self.is_sweeping:
            return () if (survey := self.survey()) is None else survey.fit.unknown
        if self._outcome.reason is not None or self.question == "script":
            return ()
        return tuple(experiment for _, experiment in self._outcome.experiments)

    def state(self) -> dict[str, Any]:
        """Return the state to save across restarts, as plain JSON values."""
        if self.draft is None:
            return {}
        is_open, recent = self.form.more.is_open(), self.picker.state()
        own = {"options_open": is_open, "recent_models": recent, "question": self.question}
        return {**self.draft.to_state(), **own, "scripts": self.scripts.draft.model_dump(mode="json")}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. If its preset no longer exists, its settings become changes to another preset.

        Raises KeyError, TypeError or ValueError for an invalid state.
        """
        if self.draft is None or not state:
            return
        self.picker.restore(state.get("recent_models", []))
        offered = {preset.name: preset for preset in self.presets}
        preset = offered.get(state["preset"], self.draft.preset)
        self.set_draft(Draft.from_state(state, preset, has_gpu=self._here(self.draft).has_gpu))
        self.form.more.set_open(bool(state.get("options_open", False)))
        if "scripts" in state:
            self.scripts.draft = ScriptDraft.model_validate(state["scripts"])
        self.set_question(next((key for key in QUESTIONS if key == state.get("question")), self.question))

    def sizeHint(self) -> QSize:
        return QSize(WIDTH, 848)

    def set_draft(self, draft: Draft) -> None:
        """Show another draft in the form."""
        if self.draft is not None and draft.text("model") != self.draft.text("model"):
            # another model has taken the place of the path that was being typed
            self.picker.pending = None
        self.draft, self._file_problem = self.picker.follow(self._here(draft))
        self._on_change()

    def open_script(self, file: Path) -> None:
        """Put a Python file without a model into the form as a script, and show a message."""
        undo = partial(self._ask, self.scripts.draft, self.question)
        self._ask(self.scripts.draft.with_file(file))
        self.changed_itself.emit(f"{file.name} has no model(), so it was opened as a script.", undo)

    def _ask(self, scripts: ScriptDraft, question: Question = "script") -> None:
        self.scripts.set_draft(scripts)
        self.set_question(question)

    def change(self, change: Callable[[Draft], Draft]) -> None:
        """Change the draft, as if the user did."""
        if self.draft is not None:
            self.set_draft(change(self.draft))

    @property
    def is_sweeping(self) -> bool:
        """Return True if the button would train a sweep."""
        return bool(self.survey_thread.cells) and self.question == "sweep"

    @property
    def _asked_draft(self) -> Draft:
        """The draft as the question uses it. Only Sweep has axes."""
        assert self.draft is not None
        return self.draft if self.question == "sweep" else self.draft.without_axes()

    def _here(self, draft: Draft) -> Draft:
        return draft.on_machine(self._catalog is not None and self._catalog.has_gpu)

    def _edit(self, key: str, text: str) -> None:
        if key == "preset":
            self.choose_preset(text)
        elif key == "model":
            self.picker.set_model(text)
        else:
            if key == "path":
                self.picker.name_path(text)
            self.set_text(key, text)

    def _use_picked(self, draft: Draft) -> None:
        self.set_draft(draft)
        if self.question == "script":
            self.set_question("compare")

    def _set_unit(self, unit: str) -> None:
        if self.draft is not None and unit != self.draft.length_key:
            key, text = converted_length(self.draft, self._outcome)
            self.change(lambda draft: draft.with_length(key, text))

    def _submit_form(self) -> None:
        if self.draft is None:
            return
        if self._clicks.is_repeated((self.question, self.draft, self.scripts.draft)):
            return
        if self.question != "script":
            self.picker.remember(self.draft)
        if self.question not in ("compare", "script", "sweep"):
            self.submit(self.question)
        elif (wanted := self.request()) is not None:
            self.submitted.emit(wanted)

    def _check_model(self) -> None:
        self.reread()
        if (experiment := examined(self._outcome)) is not None and self._outcome.reason is None:
            self.check_wanted.emit(experiment)

    def _refresh(self) -> None:
        form: FormColumn = self.scripts if self.question == "script" else self.form
        self._area.setVisible(form is self.form)
        self._script_area.setVisible(form is self.scripts)
        planned, survey = "", None
        if self.draft is not None:
            if form is self.scripts:
                if self.scripts.make():
                    tab_after(self.question_box, self.scripts)
                self._outcome = self.scripts.show_draft(self._catalog is None or not self._catalog.machine)
            else:
                self._show_draft(self.draft)
            asked, survey = self._asked_draft, self.survey()
            idle = button_text(self.question, asked, self._outcome, self.survey_thread.cells)
            self.run_action.setText("Add to queue" if self._is_busy else idle)
            seconds = self._outcome.seconds(self.expected_seconds)
            planned = plan_text(self.question, asked, self._outcome, survey, seconds)
        against = self._against(self.question)
        set_enabled(self.run_action, against, planned)
        unfit = form.refused or self._outcome.reason or self._unready()
        set_enabled(self.check_action, unfit or (_NOT_NOW if self._is_busy else None), CHECK_TIP)
        may_wait = self.question in ("compare", "script", "sweep") and not self._is_busy
        self.foot.set_facts(plan=planned, against=against or "", may_wait=may_wait)
        if survey is not None:
            self.foot.need.show_words(memory_words(survey))
        unsound = form.refused or (self._against("sweep") if self.is_sweeping else self._outcome.reason)
        self.own_presets.refresh(self.draft, unsound if self.draft is not None else against)
        set_enabled(self.reset_action, None if self.draft else against, form.reset_tip)

    def _show_draft(self, draft: Draft) -> None:
        catalog, refused, file_problem = self._catalog, self._refused, self._file_problem
        asked, ignored = self._asked_draft, QUESTIONS[self.question].absent
        outcome = check(asked, catalog, refused, file_problem, look=self.data.find, ignored=ignored)
        self._outcome = outcome
        self.survey_thread.follow(asked, catalog, outcome, refused, file_problem)
        self.picker.show(draft, catalog)
        self.form.show_question(self.question)
        caption, is_typed = preset_caption(draft, catalog), self.picker.pending is not None
        self.form.show_draft(asked, catalog, caption=caption, keeps_model=is_typed)
        self.form.show_outcome(self._shown_outcome())
        if self.question == "sweep":
            self.form.axes.grid.show_survey(self.survey())
        self.form.kept_code.show_kept(draft, differs=self.picker.differs(draft))
        self.folder.set_paused(self._is_busy)
        self.folder.follow(asked, catalog)
        self._show_folder()

    def _reset(self) -> None:
        if self.question == "script":
            self.scripts.set_draft(ScriptDraft())
        else:
            self.change(Draft.reset)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        for reader in (self.folder, self.data, self.survey_thread):
            reader.stop()

    def _shown_outcome(self) -> Outcome:
        return self.survey_thread.with_cell_problems(self._outcome) if self.is_sweeping else self._outcome

    def _on_change(self) -> None:
        self._refresh()
        self.draft_changed.emit()

    def _show_folder(self) -> None:
        draft = None if self.draft is None else self._asked_draft
        self.form.rows["path"].set_note(self.data.words(draft) or self.folder.words())

    def _against(self, question: Question) -> str | None:
        if self.draft is None:
            return "There are no presets."
        is_sweep = question == "sweep" and self.is_sweeping
        outcome = self._shown_outcome() if is_sweep else self._outcome
        against = self._without_engine or disabled_reason(question, outcome, self.survey_thread.cells)
        against = against or self._unready()
        return against or (PENDING if is_sweep and self.survey() is None else None)

    def _unready(self) -> str | None:
        return self._without_engine or (self._looking if self._catalog is None else None)

    def _form_to_save(self) -> tuple[Sequence[tuple[str, Experiment]], Grid | None]:
        self.picker.finish()
        survey = self.survey()
        return self._outcome.experiments, None if survey is None else survey.grid

    def _show_presets(self, draft: Draft) -> None:
        # the chosen preset must be a listed one, or the form would list it again
        self.set_draft(draft)
        self.set_presets(all_presets())
        self.set_draft(draft)

    def _lay_out(self, trusted: TrustedCode) -> None:
        self._head = SetupHead(self.own_presets, self.reset_action, self)
        self.question_box = self._head.question_box
        self._area = FormArea(SetupForm, self)
        self._script_area = FormArea(partial(ScriptForm, trusted=trusted), self)
        self.form, self.scripts = self._area.form, self._script_area.form
        self.foot = SetupFoot(self.run_action)
        areas = (wide(self._area), wide(self._script_area))
        in_column(self._head, *areas, self.foot, parent=self, spacing=0)
        self.setMinimumWidth(288)

    def _connect(self) -> None:
        form, picker, presets = self.form, self.picker, self.own_presets
        connect_button(form.check, self.check_action, shows_text=True)
        self.question_box.chosen.connect(self.set_question)
        form.edited.connect(self._edit)
        self.scripts.changed.connect(self._on_change)
        form.axis_changed.connect(self.set_axis)
        form.tiles.chosen.connect(lambda chosen: self.change(lambda draft: draft.with_precisions(chosen)))
        form.length.unit_chosen.connect(self._set_unit)
        form.batch.find_max.clicked.connect(lambda: self.submit("limit"))
        form.model.typed.connect(lambda text: picker.set_model(text, is_typed=True))
        form.kept_code.button.clicked.connect(picker.use_file)
        picker.changed.connect(self._use_picked)
        picker.script_opened.connect(self.open_script)
        picker.reread.connect(self.reread)
        picker.check_wanted.connect(self.check_action.trigger)
        picker.reported.connect(self.reported)
        presets.form = self._form_to_save
        presets.chosen.connect(self._show_presets)
        presets.deleted.connect(self.changed_itself)
        presets.reported.connect(self.reported)
        self.folder.changed.connect(self._show_folder)
        self.data.changed.connect(self._on_change)
        self.survey_thread.changed.connect(self._on_change)
