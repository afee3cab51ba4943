"""The setup panel: describes an experiment, checks it while it is typed, and requests its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import QSize, Signal, SignalInstance
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QWidget

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.own.trust import TrustedCode
from engine.experiment.presets import Preset
from engine.experiment.problem import Problem
from engine.protocol.advice import Changes, of_advice
from gui.session.request import Request
from gui.setup.check import Outcome, check, converted_length, request, unresolved
from gui.setup.data import DataReader, FolderCounter
from gui.setup.draft import Draft
from gui.setup.fields import TIPS
from gui.setup.foot import SetupFoot, attach, button_for, enable, make_action
from gui.setup.form import FormArea
from gui.setup.grid_block import GridDialog
from gui.setup.model.picker import ModelPicker
from gui.setup.question import QUESTIONS, Question, examined, ordered, plan, reason, words
from gui.setup.question_box import QuestionBox
from gui.setup.saving import OwnPresets
from gui.setup.survey import PENDING, Surveyor, sweep_request
from gui.widgets import label
from gui.widgets.answer_page import changes_words
from gui.widgets.boxes import Stretch, in_column, in_row, wide

WIDTH = 320
_LOOKING = "Looking at this machine…"
_NOT_NOW = "The model can be checked once nothing is measured."
_FIRST_VALUES = "Of each setting with several values the first is kept."


class SetupPanel(QFrame):
    """Holds a `Draft`, changes laid over a preset, which the form only shows, and the question it is for.

    The main window hands in the catalog, and gives the actions their shortcuts. `asked` carries the question
    that is asked now; `changed` what the panel changed by itself, and a function that undoes it.
    """

    run_requested = Signal(object)  # Request
    queue_requested = Signal(object)  # Request
    asked = Signal(str)  # Question
    changed = Signal(str, object)
    check_requested = Signal(object)  # Experiment
    draft_changed = Signal()
    preset_chosen = Signal(object)  # Preset

    def __init__(self, parent: QWidget | None = None, trusted: TrustedCode | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "side")
        self._presets: tuple[Preset, ...] = ()
        self._draft: Draft | None = None
        self._catalog: Catalog | None = None
        self._outcome = Outcome((), {})
        self._file_problem: Problem | None = None
        self._refused: dict[Experiment, Problem] = {}
        self.surveyor = Surveyor(self)
        self._busy: str | None = None
        self._without_engine: str | None = None
        self._question: Question = "compare"
        self._has_turned = False
        self._takers: dict[Question, tuple[Callable[[Any], object], Callable[[str], object]]] = {}
        self.cpu_limit_gib: float | None = None
        """The limit of a search on a CPU without a memory cap; None for the usual one."""
        self.own_presets = OwnPresets(self)
        self.folder, self.data = FolderCounter(self), DataReader(self)
        self.run_action = make_action(self, "Compare", lambda: self._ask(self.run_requested))
        self.queue_action = make_action(self, "Add to queue", lambda: self._ask(self.queue_requested))
        self.check_action = make_action(self, "Check", self._ask_check)
        self.reset_action = make_action(self, "Reset the form", lambda: self._change(Draft.reset))
        self._lay_out()
        self.picker = ModelPicker(self.form.model, trusted or TrustedCode(), self)
        attach(self.form.check, self.check_action)
        self._connect()
        self._refresh()

    def set_presets(self, presets: Sequence[Preset]) -> None:
        """Offers these presets, and chooses the first unless one is chosen."""
        self._presets = tuple(presets)
        self.form.set_presets(presets)
        if self._draft is None and presets:
            self.choose_preset(presets[0].name)

    def choose_preset(self, name: str) -> None:
        """Starts from a preset. Raises KeyError for one that is not offered."""
        preset = {preset.name: preset for preset in self._presets}[name]
        self._put(Draft(preset, has_gpu=self._has_gpu))
        if preset.kind in ("limit", "numerics"):
            self.ask(preset.kind)
        self.preset_chosen.emit(preset)

    def set_catalog(self, catalog: Catalog) -> None:
        """Takes what this machine can do; until then the button is disabled."""
        self._catalog = catalog
        if self._draft is not None:
            self._draft = self._draft.on_machine(self._has_gpu)
            self._refresh()

    def set_engine(self, missing: str | None, action: str = "") -> None:
        """Says why there is no engine to train with, and offers `action`; None where there is one."""
        self._without_engine = missing
        self.foot.offer_engine(action if missing is not None else "")
        self._refresh()

    def refuse(self, experiment: Experiment, problem: Problem) -> None:
        """Shows at its field why the engine refuses a setting, before anything is trained with it."""
        # a folder may be mended without a change in the form, which looks at it again by itself
        if problem.key != "path":
            self._refused[experiment] = problem
            self._refresh()
            self.draft_changed.emit()

    def set_busy(self, sentence: str | None) -> None:
        """During what `sentence` names, everything else can only be queued; None while nothing is done."""
        if sentence != self._busy:
            self._busy = sentence
            self._refresh()

    @property
    def question(self) -> Question:
        return self._question

    def ask(self, question: Question) -> None:
        """Asks another question: it decides the fields, the button and the page.

        A comparison has one value in each field: several make a sweep, until there is one again.
        """
        before = self._draft
        if question == "compare" and before is not None and before.swept(self._catalog):
            self._draft, self._file_problem = self.picker.follow(before.single)
            self.changed.emit(_FIRST_VALUES, lambda: self._put(before))
        self._has_turned = False
        self._set_question(question)

    def _set_question(self, question: Question) -> None:
        if question != self._question:
            self._question = question
            self.question_box.set_question(question)
            self._refresh()
            self.asked.emit(question)
            self.draft_changed.emit()

    def use_batch(self, batch_size: int) -> None:
        """Puts the batch size of a limit into the form."""
        self.use_changes((("batch_size", f"{batch_size}"),))

    def use_changes(self, changes: Changes) -> None:
        """Puts settings that advice may set into the form, as `changed` then tells."""
        changes = of_advice(changes)
        if self._draft is not None and changes:
            before = self._draft
            self._put(before.with_changes(changes))
            self.changed.emit(f"Put into the form: {changes_words(changes)}.", lambda: self._put(before))

    def set_text(self, key: str, text: str) -> None:
        """Puts a setting into the form, as typing it does."""
        self._change(lambda draft: draft.with_change(key, text))

    def text(self, key: str) -> str:
        """The text in the field of `key`, its first value where it has several; empty without a draft."""
        return self._draft.single.text(key) if self._draft is not None else ""

    def take_orders(
        self, question: Question, submit: Callable[[Any], object], refuse: Callable[[str], object]
    ) -> None:
        """Has `submit` take what the form orders, and `refuse` why it orders nothing."""
        self._takers[question] = submit, refuse

    def order(self, question: Question) -> None:
        """Orders what answers a question, with the form as it is; nothing before its page is made."""
        if question not in self._takers:
            return
        if self._without_engine is not None:
            self.foot.engine_wanted.emit()
            return
        self.ask(question)
        self.reread()
        submit, refuse = self._takers[question]
        against = self._against(question)
        if against is not None or self._draft is None or self._catalog is None:
            refuse(against or _LOOKING)
        else:
            submit(ordered(question, self._draft, self._outcome, self._catalog, self.cpu_limit_gib))

    def use_settings(self, experiment: Experiment) -> None:
        """Puts a run's settings into the form, as changes to the chosen preset."""
        if self._draft is None:
            return
        if self._catalog is not None:
            experiment = unresolved(experiment, self._catalog)
        self._put(self._draft.with_experiment(experiment))

    def reread(self) -> None:
        """Takes the model's file as it is on disk now, if it is the user's own."""
        if self._draft is not None:
            followed = self.picker.follow(self._draft)
            if followed != (self._draft, self._file_problem):
                self._put(self._draft)

    def request(self) -> Request | None:
        """What the button would request, with the file as it is now; None while something is wrong."""
        self.reread()
        if self._draft is None or self._shown_outcome().reason is not None:
            return None
        first, survey = request(self._draft, self._outcome), self.surveyor.survey()
        if not self.is_sweeping:
            return first
        return None if survey is None else sweep_request(self._draft, first, survey)

    def outcome(self) -> Outcome:
        """The experiments of the form, with the first value of each setting, and what is wrong with them."""
        return self._outcome

    def to_forecast(self) -> tuple[Experiment, ...]:
        """The experiments of which forecasts would tell the memory that the form needs."""
        if self.is_sweeping:
            return self.surveyor.unknown()
        if self._outcome.reason is not None:
            return ()
        return tuple(experiment for _, experiment in self._outcome.experiments)

    def state(self) -> dict[str, Any]:
        """What is remembered across a restart, as plain JSON values."""
        if self._draft is None:
            return {}
        own = {
            "options_open": self.form.more.is_open(),
            "recent_models": self.picker.state(),
            "question": self._question,
        }
        return {**self._draft.to_state(), **own}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a `state`; the settings of a preset that is gone come back as changes to another.

        Raises KeyError, TypeError or ValueError for a broken one.
        """
        if self._draft is None or not state:
            return
        self.picker.restore(state.get("recent_models", []))
        offered = {preset.name: preset for preset in self._presets}
        preset = offered.get(state["preset"], self._draft.preset)
        self._put(Draft.from_state(state, preset, has_gpu=self._has_gpu))
        self.form.more.set_open(bool(state.get("options_open", False)))
        # an earlier version had no questions
        self._set_question(next((key for key in QUESTIONS if key == state.get("question")), self._question))

    def sizeHint(self) -> QSize:
        return QSize(WIDTH, 848)

    @property
    def _has_gpu(self) -> bool:
        return self._catalog is not None and self._catalog.has_gpu

    def _put(self, draft: Draft) -> None:
        self._draft, self._file_problem = self.picker.follow(draft)
        self._refresh()
        self.draft_changed.emit()
        is_sweep = bool(self._draft.swept(self._catalog))
        if is_sweep and self._question == "compare":
            self._has_turned = True
            self._set_question("sweep")
        elif self._has_turned and not is_sweep and self._question == "sweep":
            self._set_question("compare")

    def _change(self, change: Callable[[Draft], Draft]) -> None:
        if self._draft is not None:
            self._put(change(self._draft))

    def _toggle_unit(self) -> None:
        self._change(lambda draft: draft.with_length(*converted_length(draft, self._outcome)))

    def _ask(self, requested: SignalInstance) -> None:
        if self._draft is not None:
            self.picker.used(self._draft)
        if self._question not in ("compare", "sweep"):
            self.order(self._question)
        elif (wanted := self.request()) is not None:
            requested.emit(wanted)

    def _ask_check(self) -> None:
        self.reread()
        if (experiment := examined(self._outcome)) is not None and self._outcome.reason is None:
            self.check_requested.emit(experiment)

    def _refresh(self) -> None:
        draft = self._draft
        if draft is not None:
            self._outcome = check(
                draft,
                self._catalog,
                self._refused,
                self._file_problem,
                look=self.data.look,
                ignored=QUESTIONS[self._question].absent,
            )
            self.surveyor.follow(draft, self._catalog, self._outcome, self._refused, self._file_problem)
            self.picker.show(draft, self._catalog)
            self.form.show_draft(draft, self._catalog)
            self.form.show_outcome(self._shown_outcome())
            self.form.show_question(self._question)
            self.form.kept_code.show_kept(draft, differs=self.picker.differs(draft))
            self.folder.hold(self._busy is not None)
            self.folder.follow(draft, self._catalog)
            self._show_folder()
            self.run_action.setText(words(self._question, draft, self._outcome, self.surveyor.cells))
        against = self._against(self._question)
        enable(self.queue_action, against, "Runs this after everything in the queue")
        unfit = self._outcome.reason or self._unready() or (self._busy and _NOT_NOW)
        enable(self.check_action, unfit, TIPS["check"])
        against = against or self._busy
        survey = self.surveyor.survey() if self.is_sweeping else None
        planned = "" if draft is None else plan(self._question, draft, self._outcome, survey)
        enable(self.run_action, against, planned)
        self.foot.grid.show_survey(survey)
        may_wait = self._question in ("compare", "sweep")
        only_busy = self._busy is not None and against == self._busy
        self.foot.show_plan(planned, None if only_busy else against, may_wait=may_wait)
        self.foot.set_busy(self._busy)
        unsound = self._against("sweep") if self.is_sweeping else self._outcome.reason
        grid = None if survey is None else survey.grid
        self.own_presets.follow(
            draft, self._presets, self._outcome.experiments, grid, unsound if draft is not None else against
        )
        enable(self.reset_action, None if draft else against, "Discard the changes to the preset")

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.folder.stop()
        self.data.stop()
        self.surveyor.stop()

    @property
    def is_sweeping(self) -> bool:
        """Whether the button would train a sweep."""
        return bool(self.surveyor.cells) and self._question == "sweep"

    def _shown_outcome(self) -> Outcome:
        """What is wrong with what the button would do, in a sweep with any cell."""
        return self.surveyor.judged(self._outcome) if self.is_sweeping else self._outcome

    def _take_answer(self) -> None:
        self._refresh()
        self.draft_changed.emit()

    def _show_cells(self) -> None:
        if (survey := self.surveyor.survey()) is not None and survey.grid is not None:
            GridDialog(survey, self.window()).show()

    def _show_folder(self) -> None:
        self.form.show_path(self.data.words(self._draft) or self.folder.words())

    def _against(self, question: Question) -> str | None:
        """Why the form cannot ask a question, in a sentence; None if it can."""
        if self._draft is None:
            return "There is no preset to begin with."
        is_sweep = question == "sweep" and self.is_sweeping
        outcome = self._shown_outcome() if is_sweep else self._outcome
        against = self._without_engine or reason(question, outcome, self.surveyor.cells)
        against = against or self._unready()
        return against or (PENDING if is_sweep and self.surveyor.survey() is None else None)

    def _unready(self) -> str | None:
        return self._without_engine or (_LOOKING if self._catalog is None else None)

    def _connect(self) -> None:
        self.folder.changed.connect(self._show_folder)
        self.data.changed.connect(self._take_answer)
        self.surveyor.changed.connect(self._take_answer)
        self.foot.grid.opened.connect(self._show_cells)
        self.own_presets.listed.connect(self.set_presets)
        self.own_presets.chosen.connect(lambda draft: self._put(draft.on_machine(self._has_gpu)))
        self.form.preset_chosen.connect(self.choose_preset)
        self.form.edited.connect(self.set_text)
        self.form.changed.connect(self._change)
        self.form.model.edited.connect(self.picker.take)
        self.form.model.typed.connect(lambda text: self.picker.take(text, is_typed=True))
        self.form.kept_code.file_wanted.connect(self.picker.use_file)
        self.picker.drafted.connect(self._put)
        self.picker.returned.connect(self.reread)
        self.form.unit_toggled.connect(self._toggle_unit)
        self.form.limit_asked.connect(lambda: self.order("limit"))
        self.question_box.chosen.connect(self.ask)

    def _lay_out(self) -> None:
        actions = (
            ("pencil", "Rename the preset", self.own_presets.rename_action),
            ("trash", "Delete the preset", self.own_presets.delete_action),
            ("save", "Save as a preset", self.own_presets.save_action),
            ("reset", "Reset the form", self.reset_action),
        )
        buttons = (button_for(action, icon, name, self) for icon, name, action in actions)
        title = label("What do you want to know?", "title")
        head = in_row(title, Stretch(), *buttons, margins=(16, 8, 12, 0), spacing=4)
        self.question_box = QuestionBox(self)
        asked = in_row(self.question_box, margins=(16, 4, 16, 12))
        area = FormArea(self)
        self.form = area.form
        layout = in_column(head, asked, wide(area), parent=self, spacing=0)
        self.foot = SetupFoot(self.run_action, self.queue_action)
        layout.addWidget(self.foot)
        self.setMinimumWidth(288)
