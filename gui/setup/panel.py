"""The setup panel: describes an experiment, validates it during typing, and requests its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.own.trust import TrustedCode
from engine.experiment.presets import Preset
from engine.experiment.problem import Problem
from engine.export.document import changes_words
from engine.protocol.advice import Changes, advisable_changes
from gui.session.request import Request
from gui.setup.check import Outcome, check, request, unresolved
from gui.setup.data import DataReader, FolderCounter
from gui.setup.draft import Draft
from gui.setup.fields import TIPS
from gui.setup.foot import SetupFoot
from gui.setup.form import FormArea
from gui.setup.grid_block import GridDialog
from gui.setup.model.picker import ModelPicker
from gui.setup.question import (
    QUESTIONS,
    Question,
    QuestionBox,
    build_job,
    button_text,
    disabled_reason,
    examined,
    plan_text,
)
from gui.setup.saving import OwnPresets
from gui.setup.survey import PENDING, Survey, SurveyThread, sweep_request
from gui.widgets import IconButton, label
from gui.widgets.actions import connect_button, make_action, set_enabled
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, wide

WIDTH, _LOW_BELOW = 320, 748
"""The window is 52 higher."""
_LOOKING = "Looking at this machine…"
_NOT_NOW = "The model can be checked when no run is active."
_FIRST_VALUES = "Kept the first value of each setting with several values."


def _nothing(*_: object) -> None:
    pass


@dataclass(frozen=True)
class FormActions:
    """Functions that the form calls in the window, such as to submit experiments.

    `notify_change(message, undo)` shows a message about a change that the form made by itself, with Undo.
    """

    submit: Callable[[Request], object] = _nothing
    check: Callable[[Experiment], object] = _nothing
    show_page: Callable[[Question], object] = _nothing
    report: Callable[[Problem], object] = _nothing
    notify_change: Callable[[str, Callable[[], object]], object] = _nothing
    expected_seconds: Callable[[Experiment], float | None] = lambda _: None


class SetupPanel(Surface):
    """The side panel with the setup form. It owns the chosen question and the `Draft`, which the form shows.

    `draft_changed` is emitted after every change. `preset_chosen` carries a Preset.
    """

    draft_changed = Signal()
    preset_chosen = Signal(object)  # Preset

    def __init__(
        self,
        parent: QWidget | None = None,
        trusted: TrustedCode | None = None,
        actions: FormActions | None = None,
    ) -> None:
        super().__init__("side", parent=parent)
        self.act = actions or FormActions()
        self.presets: tuple[Preset, ...] = ()
        self.draft: Draft | None = None
        self._catalog: Catalog | None = None
        self._looking = _LOOKING
        self._outcome = Outcome((), {})
        self._file_problem: Problem | None = None
        self._refused: dict[Experiment, Problem] = {}
        self._busy: str | None = None
        self._without_engine: str | None = None
        self.question: Question = "compare"
        self._has_turned = self._is_compact = False
        self._handlers: dict[Question, tuple[Callable[[Any], object], Callable[[str], object]]] = {}
        self.cpu_limit_gib: float | None = None
        """The memory for a batch-size search on a CPU without a memory cap. None for the default."""
        self.own_presets = OwnPresets(self)
        self.folder, self.data, self.survey_thread = FolderCounter(self), DataReader(self), SurveyThread(self)
        self.run_action = make_action(self, "Compare", self._submit_form)
        self.queue_action = make_action(self, "Add to queue", self._submit_form)
        self.check_action = make_action(self, "Check", self._check_model)
        self.reset_action = make_action(self, "Reset the form", lambda: self.change(Draft.reset))
        self._lay_out()
        self.picker = ModelPicker(self, self.form.model, trusted or TrustedCode())
        connect_button(self.form.check, self.check_action)
        self.folder.changed.connect(self._show_folder)
        self.data.changed.connect(self._on_change)
        self.survey_thread.changed.connect(self._on_change)
        self.foot.grid.map.clicked.connect(self._open_grid)
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
        self.set_draft(Draft(preset))
        if preset.kind in ("limit", "numerics"):
            self.set_question(preset.kind)
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

    def set_busy(self, sentence: str | None) -> None:
        """Set the sentence about the job in progress, which disables all but the queue. None if idle."""
        if sentence != self._busy:
            self._busy = sentence
            self._refresh()

    def set_question(self, question: Question) -> None:
        """Switch to another question, with its fields, button and page.

        Several values in a field make a comparison a sweep, until there is only one again.
        """
        before = self.draft
        if question == "compare" and before is not None and before.swept(self._catalog):
            self.draft, self._file_problem = self.picker.follow(before.with_first_values)
            self.act.notify_change(_FIRST_VALUES, lambda: self.set_draft(before))
        self._has_turned = False
        self._turn_to(question)

    def _turn_to(self, question: Question) -> None:
        if question != self.question:
            self.question = question
            self.question_box.set_question(question)
            self._refresh()
            self.act.show_page(question)
            self.draft_changed.emit()

    def use_changes(self, changes: Changes) -> None:
        """Put settings from advice into the form, and show a message."""
        changes = advisable_changes(changes)
        if self.draft is not None and changes:
            before = self.draft
            self.set_draft(before.with_changes(changes))
            told = f"Changed in the form: {changes_words(changes)}."
            self.act.notify_change(told, lambda: self.set_draft(before))

    def set_text(self, key: str, text: str) -> None:
        """Put a setting into the form, as if it was typed."""
        self.change(lambda draft: draft.with_change(key, text))

    def set_path(self, path: str) -> None:
        """Put a path that the user selected into the form."""
        self.picker.name_path(path)
        self.set_text("path", path)

    def text(self, key: str) -> str:
        """Return the text in the field of `key`, or the first of its values. Empty without a draft."""
        return self.draft.with_first_values.text(key) if self.draft is not None else ""

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
            submit(build_job(question, self.draft, self._outcome, self._catalog, self.cpu_limit_gib))

    def use_settings(self, experiment: Experiment, precisions: Sequence[Precision] = ()) -> None:
        """Put a run's settings into the form, as changes to the selected preset.

        With `precisions`, these are selected in place of the run's own.
        """
        if self._catalog is not None:
            experiment = unresolved(experiment, self._catalog)
        chosen = precisions or (experiment.precision,)
        self.change(lambda draft: draft.with_experiment(experiment).with_precisions(chosen))

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
        first, survey = request(self.draft, self._outcome), self.survey()
        if not self.is_sweeping:
            return first
        return None if survey is None else sweep_request(self.draft, first, survey)

    def outcome(self) -> Outcome:
        """Return the form's experiments, with the first value of each setting, and their problems."""
        return self._outcome

    def survey(self) -> Survey | None:
        """Return the survey of the sweep that the button would train. None if there is no sweep."""
        return self.survey_thread.survey() if self.is_sweeping else None

    def to_forecast(self) -> tuple[Experiment, ...]:
        """Return the experiments whose memory must be forecast for the form."""
        if self.is_sweeping:
            return () if (survey := self.survey()) is None else survey.fit.unknown
        if self._outcome.reason is not None:
            return ()
        return tuple(experiment for _, experiment in self._outcome.experiments)

    def state(self) -> dict[str, Any]:
        """Return the state to save across restarts, as plain JSON values."""
        if self.draft is None:
            return {}
        is_open, recent = self.form.more.is_open(), self.picker.state()
        own = {"options_open": is_open, "recent_models": recent, "question": self.question}
        return {**self.draft.to_state(), **own}

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
        # an earlier version had no questions
        self._turn_to(next((key for key in QUESTIONS if key == state.get("question")), self.question))

    def sizeHint(self) -> QSize:
        return QSize(WIDTH, 848)

    def set_draft(self, draft: Draft) -> None:
        """Set the draft. Several values make it a sweep."""
        if self.draft is not None and draft.text("model") != self.draft.text("model"):
            # another model has taken the place of the path that was being typed
            self.picker.pending = None
        self.draft, self._file_problem = self.picker.follow(self._here(draft))
        self._on_change()
        is_sweep = bool(self.draft.swept(self._catalog))
        if is_sweep and self.question == "compare":
            self._has_turned = True
            self._turn_to("sweep")
        elif self._has_turned and not is_sweep and self.question == "sweep":
            self._turn_to("compare")

    def change(self, change: Callable[[Draft], Draft]) -> None:
        """Change the draft, as if the user did."""
        if self.draft is not None:
            self.set_draft(change(self.draft))

    def _here(self, draft: Draft) -> Draft:
        return draft.on_machine(self._catalog is not None and self._catalog.has_gpu)

    def _submit_form(self) -> None:
        if self.draft is not None:
            self.picker.remember(self.draft)
        if self.question not in ("compare", "sweep"):
            self.submit(self.question)
        elif (wanted := self.request()) is not None:
            self.act.submit(wanted)

    def _check_model(self) -> None:
        self.reread()
        if (experiment := examined(self._outcome)) is not None and self._outcome.reason is None:
            self.act.check(experiment)

    def _refresh(self) -> None:
        draft = self.draft
        if draft is not None:
            self._show_draft(draft)
        survey, against = self.survey(), self._against(self.question)
        set_enabled(self.queue_action, against, "Run this after everything in the queue")
        unfit = self._outcome.reason or self._unready() or (self._busy and _NOT_NOW)
        set_enabled(self.check_action, unfit, TIPS["check"])
        planned = (
            "" if draft is None else plan_text(self.question, draft, self._outcome, survey, self._seconds())
        )
        set_enabled(self.run_action, against or self._busy, planned)
        self.foot.grid.show_survey(survey)
        may_wait = self.question in ("compare", "sweep")
        self.foot.set_facts(plan=planned, against=against or "", busy=self._busy, may_wait=may_wait)
        unsound = self._against("sweep") if self.is_sweeping else self._outcome.reason
        against = against or self._busy
        self.own_presets.refresh(unsound if draft is not None else against)
        set_enabled(self.reset_action, None if draft else against, "Discard the changes to the preset")

    def _seconds(self) -> float | None:
        outcome = self._outcome
        runs = [] if outcome.reason is not None else [experiment for _, experiment in outcome.experiments]
        seconds = [self.act.expected_seconds(run) for run in runs]
        return None if None in seconds else sum(filter(None, seconds)) or None

    def _show_draft(self, draft: Draft) -> None:
        catalog, refused, file_problem = self._catalog, self._refused, self._file_problem
        ignored = QUESTIONS[self.question].absent
        outcome = check(draft, catalog, refused, file_problem, look=self.data.find, ignored=ignored)
        self._outcome = outcome
        self.survey_thread.follow(draft, catalog, outcome, refused, file_problem)
        self.picker.show(draft, catalog)
        self.form.show_question(self.question)
        self.form.show_draft(draft, catalog)
        self.form.show_outcome(self._shown_outcome())
        self.form.kept_code.show_kept(draft, differs=self.picker.differs(draft))
        self.folder.set_paused(self._busy is not None)
        self.folder.follow(draft, catalog)
        self._show_folder()
        self.run_action.setText(button_text(self.question, draft, outcome, self.survey_thread.cells))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_compact = self.height() < _LOW_BELOW
        if is_compact != self._is_compact:
            self._is_compact = is_compact
            self.form.set_compact(is_compact)
            self.foot.set_compact(is_compact)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        for reader in (self.folder, self.data, self.survey_thread):
            reader.stop()

    @property
    def is_sweeping(self) -> bool:
        """Return True if the button would train a sweep."""
        return bool(self.survey_thread.cells) and self.question == "sweep"

    def _shown_outcome(self) -> Outcome:
        return self.survey_thread.with_cell_problems(self._outcome) if self.is_sweeping else self._outcome

    def _on_change(self) -> None:
        self._refresh()
        self.draft_changed.emit()

    def _open_grid(self) -> None:
        if (survey := self.survey_thread.survey()) is not None and survey.grid is not None:
            GridDialog(survey, self.window()).show()

    def _show_folder(self) -> None:
        self.form.show_path(self.data.words(self.draft) or self.folder.words())

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

    def _lay_out(self) -> None:
        buttons = []
        for icon, name, action in (
            ("pencil", "Rename the preset", self.own_presets.rename_action),
            ("trash", "Delete the preset", self.own_presets.delete_action),
            ("save", "Save as a preset", self.own_presets.save_action),
            ("reset", "Reset the form", self.reset_action),
        ):
            # without a parent it would be shown as a window of its own for a moment
            buttons.append(IconButton(icon, name, parent=self))
            connect_button(buttons[-1], action)
        title = label("What do you want to know?", "title")
        head = in_row(title, Stretch(), *buttons, margins=(16, 8, 12, 0), spacing=4)
        self.question_box = QuestionBox(self.set_question, self)
        asked = in_row(self.question_box, margins=(16, 4, 16, 12))
        area = FormArea(self)
        self.form = area.form
        self.foot = SetupFoot(self.run_action, self.queue_action)
        in_column(head, asked, wide(area), self.foot, parent=self, spacing=0)
        self.setMinimumWidth(288)
