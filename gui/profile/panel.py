"""The page Profile: where a step's time goes, side by side, and what would make it faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QAction, QDesktopServices
from PySide6.QtWidgets import QGridLayout, QScrollArea, QWidget

from engine.compare.verdict import step_energy_text
from engine.experiment.value import in_sentence
from engine.export.formats import PROFILE
from engine.profile.names import ENERGY_COUNTERS, advice_by_side, failures, side_names
from engine.profile.tables import (
    BY_DEVICE,
    BY_SIZE,
    DEVICE_HEADINGS,
    HOW_MEASURED,
    SIZE_HEADINGS,
    TABLES,
    communication_by_side,
    communication_sentences,
    device_rows,
    size_rows,
)
from engine.profile.verdict import PEAK_MEANING, Gain, Verdict, gains, peak_sentence, verdicts
from engine.protocol.profile import Profiles, StepPart, StepProfile
from engine.words.names import dataset_words, listed
from engine.words.numbers import number, share_text
from gui.profile.charts import BarsView, RooflineView
from gui.profile.rows_view import RowsView
from gui.session.studies import StudyView
from gui.session.study_page import StudyHead, StudyPage, state_words
from gui.widgets import Button, ElidedLabel, EmptyState, Marker, label, set_text
from gui.widgets.answer_page import (
    AdviceView,
    AdviceWords,
    AnswerPage,
    ViewTab,
    ViewTabs,
    changes_words,
    wrapped,
)
from gui.widgets.boxes import Part, Placed, in_column, in_row, wide
from gui.widgets.labels import plain_tip
from gui.widgets.shortcuts import tab_after
from gui.widgets.table import ResultTable
from gui.widgets.table.columns import word_columns

_VIEWER = "https://ui.perfetto.dev"
TRACE_WRITTEN = "Open it at ui.perfetto.dev, or at chrome://tracing."


class ProfileAdvice(AdviceView):
    """Shows advice on how to speed up each profiled side (precision)."""

    def __init__(self) -> None:
        super().__init__(
            AdviceWords(
                question="What would make a step faster?",
                hint="A profile comes with advice and the measurements behind it.",
                action="Profile",
                tooltip="Profile a few steps with the form's settings",
                none="The measurements here do not support any advice.",
            )
        )

    def show_profiles(self, profiles: Profiles | None) -> None:
        """Show the advice for all sides. For None, show the empty state."""
        self.show_advice(None if profiles is None or not profiles.measured() else advice_by_side(profiles))


class DevicesView(AnswerPage):
    """Shows the communication between the devices of a run, by device and by message size."""

    def __init__(self) -> None:
        super().__init__(
            "Devices",
            "How long do the devices communicate, and which one do the others wait for?",
            "Splits the step of each device into computing, overlapped and exposed communication, and "
            "waiting. This needs a profile of a run on multiple devices.",
            "Profile",
            "Profile a few steps with the form's settings",
        )

    def show_profiles(self, profiles: Profiles | None) -> None:
        """Show the communication in all profiles. For None, show the empty state."""
        if profiles is None or not (devices := device_rows(profiles)):
            self.show_empty()
            return
        answer, *more = communication_sentences(profiles)
        parts: list[Part] = [wrapped(sentence, "body") for sentence in more]
        tables = ((BY_DEVICE, DEVICE_HEADINGS, devices), (BY_SIZE, SIZE_HEADINGS, size_rows(profiles)))
        for title, headings, rows in tables:
            if rows:
                parts += [label(title, "heading"), _table(title, headings, rows)]
        self.show_answer(answer, *parts, wrapped(HOW_MEASURED, "hint"))


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> ResultTable[Sequence[str]]:
    table = ResultTable(title, word_columns(headings, headings[1:], rows), whole=True, sorts=False)
    table.show_rows(rows)
    return table


_View = BarsView | RowsView | RooflineView | DevicesView | ProfileAdvice


class ProfilePanel(StudyPage[StudyView[Profiles]]):
    """The page that shows the profiles of several precisions side by side.

    `profile_wanted` asks to profile the form's experiments. The button `again` profiles the shown experiments
    again. `changes_wanted` carries Changes for the form.
    """

    profile_wanted = Signal()
    changes_wanted = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        self.again = Button("Profile again", "strip", "Profile the same again and keep this profile")
        super().__init__(StudyHead("Profile", "profile", "steps", PROFILE.formats, self.again), parent)
        self._shown: Profiles | None = None
        self._stale: set[str] = set()
        self._traces = self._offer_viewer()
        self.empty = EmptyState(
            "Where does a step's time go, and what would make it faster?",
            "Records a few steps after warm-up and splits their time into matrix work, memory, copies, the "
            "optimizer and waiting, for each precision side by side.",
            "Profile",
            "Profile the form's experiments, FP32 first",
            is_solid=True,
        )
        self.failures = wrapped("", "problem")
        self.answer = ProfileAnswer()
        self.notes = ElidedLabel("", "hint")
        self.bars, self.rows = BarsView(), RowsView()
        self.roofline, self.devices, self.advice = RooflineView(), DevicesView(), ProfileAdvice()
        self._views: Mapping[str, _View] = {
            "bars": self.bars,
            "rows": self.rows,
            "roofline": self.roofline,
            "devices": self.devices,
            "advice": self.advice,
        }
        self.tabs = ViewTabs(
            "Views of the profile",
            (
                ViewTab("bars", "Step", "profile-a-step", self._step()),
                ViewTab("rows", "Kernels, operations, modules", "kernels-and-roofline", self.rows),
                ViewTab("roofline", "Roofline", "kernels-and-roofline", self.roofline),
                ViewTab("devices", "Devices", "multiple-gpus", self.devices),
                ViewTab("advice", "Advice", "profile-a-step", self.advice),
            ),
        )
        self._content = QWidget()
        parts = (self.failures, self.answer.large, wide(self.tabs), self.notes)
        in_column(*parts, parent=self._content, spacing=8)
        self._awaited = label("Waiting for the first profile.", "empty")
        self._awaited.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.lay_out(self.empty, self._awaited, self._content)
        self._connect()
        self.show_view(None)

    def show_view(self, view: StudyView[Profiles] | None) -> None:
        """Show the profiles known so far. For None, show the empty state."""
        self._view = view
        profiles = None if view is None else view.answer
        self.again.setVisible(view is not None and not view.is_unfinished)
        if view is None:
            self.head.show_view(None)
            self._pages.setCurrentWidget(self.empty)
        else:
            precision = view.study.experiments[view.study.place].precision
            is_known = view.answer.is_known
            self.head.show_view(view, note(view), view.progress, precision, is_known=is_known)
            shows = view.study.is_known or not view.is_unfinished
            self._pages.setCurrentWidget(self._content if shows else self._awaited)
        if profiles != self._shown:
            # the worker's phase changes often: nothing is filled again for it
            self._shown = profiles
            self._show_profiles(profiles)

    def state(self) -> dict[str, Any]:
        """Return the state to remember, as plain JSON values."""
        return {"tab": self.tabs.name(), "table": self.rows.shown_table()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raise KeyError for a broken one."""
        if state:
            self.tabs.open(state["tab"])
            self.rows.open_table({table: table for table in TABLES}[state["table"]])

    def _show_profiles(self, profiles: Profiles | None) -> None:
        measured = () if profiles is None else profiles.measured()
        self._traces.setEnabled(any(profile.trace is not None for profile in measured))
        set_text(self.failures, "\n".join(failures(profiles)) if measured and profiles is not None else "")
        self.failures.setVisible(bool(self.failures.text()))
        self.answer.show_profiles(profiles)
        self.notes.set_whole_text("" if profiles is None else notes(profiles))
        self.notes.setVisible(bool(self.notes.whole_text()))
        self.tabs.show_tab("devices", profiles is not None and bool(communication_by_side(profiles)))
        self._stale = set(self._views)
        self._fill_tab()

    def _fill_tab(self) -> None:
        # the other views are filled when they are opened: filling all takes too long
        name = self.tabs.name()
        if name in self._stale:
            self._stale.remove(name)
            self._views[name].show_profiles(self._shown)

    def _offer_viewer(self) -> QAction:
        # the menu's action for the traces is its last
        menu = self.head.export
        menu.setToolTipsVisible(True)
        traces = menu.actions()[-1]
        traces.setToolTip("Save every recorded kernel and operation, one file per profile")
        open_viewer = menu.addAction("Open the trace viewer Perfetto")
        open_viewer.setToolTip("Open ui.perfetto.dev. The trace stays in your browser.")
        open_viewer.triggered.connect(lambda: QDesktopServices.openUrl(QUrl(_VIEWER)))
        return traces

    def _connect(self) -> None:
        self.empty.pressed.connect(self.profile_wanted)
        self.tabs.currentChanged.connect(self._fill_tab)
        self.bars.part_chosen.connect(self._show_kernels)
        for view in self._views.values():
            view.wanted.connect(self.profile_wanted)
        self.answer.guide.clicked.connect(lambda: self.guide_wanted.emit("how-it-is-measured"))
        for source in (self.answer, self.advice):
            source.changes_wanted.connect(self.changes_wanted)
        self.tabs.guide_wanted.connect(self.guide_wanted)

    def _show_kernels(self, part: StepPart) -> None:
        self.rows.open_table("kernels")
        self.rows.show_part(part)
        self.tabs.open("rows")

    def _step(self) -> QScrollArea:
        page, area = QWidget(), QScrollArea()
        in_column(self.answer, wide(self.bars), parent=page, spacing=4)
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setAccessibleName("Step")
        area.setWidget(page)
        return area


class ProfileAnswer(QWidget):
    """A summary of the profiles: the speedup, and for each side its bottleneck and a fix.

    `large` is the label of the largest speedup, which the page places itself. `changes_wanted` carries
    Changes for the form.
    """

    changes_wanted = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.large = wrapped("", "stat")
        self.guide = Button("About energy", "link", "Learn what the joules include and how to compare them")
        self._sides = QWidget()
        self._texts: list[str] = []
        below = Placed(self.guide, alignment=Qt.AlignmentFlag.AlignRight)
        self._column = in_column(self._sides, below, parent=self, margins=(2, 8, 2, 0), spacing=8)

    def show_profiles(self, profiles: Profiles | None) -> None:
        """Show the known part of the answer."""
        measured = () if profiles is None else profiles.measured()
        for part in (self, self.large):
            part.setVisible(bool(measured))
        if profiles is None or not measured:
            return
        known, gained = verdicts(profiles), gains(profiles)
        best = max(filter(None, gained), key=lambda gain: gain.ratio or 0.0, default=None)
        if best is not None:
            told = large = best.sentence
        else:
            names = zip(side_names(profiles), known, strict=True)
            name, told = next((name, verdict.sentence) for name, verdict in names if verdict is not None)
            large = f"{name}: {told}" if len(profiles.sides) > 1 else told
        # Qt would break a line within "TFLOP/s"
        self.large.setText(large.replace("/", "/\N{WORD JOINER}"))
        self._show_sides(profiles, known, gained, told)
        self.guide.setVisible(any(profile.energy is not None for profile in measured))

    def text(self) -> str:
        return "\n".join([self.large.text(), *self._texts])

    def _show_sides(
        self, profiles: Profiles, verdicts: Sequence[Verdict | None], gains: Sequence[Gain | None], told: str
    ) -> None:
        sides, self._texts = QWidget(), []
        grid = QGridLayout(sides)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(2)
        grid.setColumnStretch(1, 1)
        top = Qt.AlignmentFlag.AlignTop
        rows = zip(side_names(profiles), profiles.sides, verdicts, gains, strict=True)
        for place, (name, side, verdict, gain) in enumerate(rows):
            if verdict is None or side.profile is None:
                continue
            helps = not _suggests_shown_precision(verdict, profiles)
            gained = gain.sentence if gain is not None else ""
            sentences = (gained, verdict.sentence, verdict.next_step if helps else "")
            words = " ".join(sentence for sentence in sentences if sentence and sentence != told)
            self._texts.append(f"{name}: {words}")
            row, holder, beside = 3 * place, QWidget(), wrapped(words, "body")
            in_row(Marker(side.experiment.precision), label(name, "strong"), parent=holder, spacing=6)
            beside.setAlignment(top)
            grid.addWidget(holder, row, 0, top)
            grid.addWidget(beside, row, 1)
            if helps and verdict.changes:
                grid.addWidget(self._button(verdict), row, 2, top)
            if shown := measurements(side.profile):
                below = wrapped(shown, "hint")
                below.setToolTip(plain_tip(measurements_tip(side.profile)))
                grid.addWidget(below, row + 1, 1, 1, 2)
            grid.setRowMinimumHeight(row + 2, 4)
        self._column.replaceWidget(self._sides, sides)
        # they may hold the button whose press led here
        self._sides.hide()
        self._sides.deleteLater()
        self._sides = sides
        tab_after(self.guide, sides)

    def _button(self, verdict: Verdict) -> Button:
        words = changes_words(verdict.changes)
        button = Button(verdict.action, "inline", f"Put into the form: {in_sentence(words)}")
        button.setAccessibleDescription(words)
        button.clicked.connect(lambda: self.changes_wanted.emit(verdict.changes))
        return button


def _suggests_shown_precision(verdict: Verdict, profiles: Profiles) -> bool:
    precisions = {side.experiment.precision.value for side in profiles.sides}
    return bool(verdict.changes) and all(
        key == "precision" and text in precisions for key, text in verdict.changes
    )


def note(view: StudyView[Profiles]) -> str:
    """Return the experiments, the device and the date, or the progress in words."""
    first, names = view.answer.sides[0].experiment, side_names(view.answer)
    place = f", {view.study.place + 1} of {len(names)}" if len(names) > 1 else ""
    what = f"{first.model} on {dataset_words(first.dataset)}: {listed(names)}"
    return state_words(view, what, f"{names[view.study.place]}{place}")


def measurements(profile: StepProfile) -> str:
    """Return a profile's % of measured peak and its energy, if known."""
    fraction = profile.fraction_of_measured_peak
    parts = [] if fraction is None else [f"{share_text(fraction)} of measured peak"]
    if (energy := profile.energy) is not None:
        parts += [step_energy_text(energy), f"{number(energy.per_thousand_samples())} J per 1,000 samples"]
    return "  ·  ".join(parts)


def measurements_tip(profile: StepProfile) -> str:
    """Return the tooltip of `measurements`."""
    known = profile.fraction_of_measured_peak is not None
    parts = [peak_sentence(profile), PEAK_MEANING if known else None]
    if (energy := profile.energy) is not None:
        parts.append(ENERGY_COUNTERS[energy.source])
        if (net := energy.net_joules) is not None:
            parts.append(f"Without the device's idle power, a step takes {number(net / energy.steps)} J.")
    return "\n".join(filter(None, parts))


def notes(profiles: Profiles) -> str:
    """Return the profiles' notes. A note that not all profiles share starts with their names."""
    sides: dict[str, list[str]] = {}
    for name, side in zip(side_names(profiles), profiles.sides, strict=True):
        for note in side.profile.notes if side.profile is not None else ():
            sides.setdefault(note, []).append(name)
    return " ".join(
        note if len(names) == len(profiles.sides) else f"{listed(names)}: {note}"
        for note, names in sides.items()
    )
