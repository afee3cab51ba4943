"""The strip above the plots: the current run, its phase, the time left, Pause and Stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QActionGroup, QColor, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from engine.experiment.command import refusal
from engine.experiment.experiment import Precision
from engine.protocol.events import PhaseName
from engine.words.names import batch_words
from engine.words.numbers import duration, memory_text
from gui.charts.smoothing import WINDOWS, smoothing
from gui.session.live_run import LiveRun
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.train import figures
from gui.widgets import Button, ElidedLabel, IconButton, Marker, Segmented, draw_bar, label, set_text
from gui.widgets.actions import keys_of, with_keys
from gui.widgets.boxes import Part, in_row, wide
from gui.widgets.labels import describe, plain_tip

_STILL = (
    PhaseName.WAITING,
    PhaseName.DOWNLOADING,
    PhaseName.CHECKING,
    PhaseName.BUILDING,
    PhaseName.COMPILING,
    PhaseName.CAPTURING,
)
_BETWEEN = (PhaseName.VALIDATING, PhaseName.SAVING)
_MORE = {
    PhaseName.CHECKING: " the images",
    PhaseName.COMPILING: ", this can take a minute",
    PhaseName.CAPTURING: " the step as one graph",
    PhaseName.SAVING: " a checkpoint",
}
_SILENT_SECONDS = 2


def phase_words(run: LiveRun, *, brief: bool = False) -> str:
    """Return the run's phase, with its progress or its seconds. Empty while the run is measured."""
    phase = run.phase
    if run.status != "running" or phase is None:
        return ""
    if phase.name not in (*_STILL, *_BETWEEN, PhaseName.WARMING_UP):
        return ""
    words = phase.name.value
    if not brief and phase.name is PhaseName.WAITING:
        words = phase.detail or words
    elif not brief:
        words += f" {phase.detail}" if phase.detail else _MORE.get(phase.name, "")
    if (fraction := phase_fraction(run)) is not None:
        return f"{words} · {fraction:.0%}"
    seconds = still_seconds(run)
    return f"{words} · {duration(seconds)}" if seconds >= _SILENT_SECONDS else words


def still_seconds(run: LiveRun) -> int:
    """Return the full seconds of a phase without steps, which show that the run does not hang."""
    if run.phase is None or run.phase.name not in (*_STILL, *_BETWEEN) or phase_fraction(run) is not None:
        return 0
    return int(run.phase_seconds)


def phase_fraction(run: LiveRun) -> float | None:
    """Return the progress of a phase without steps, 0 to 1. None if unknown."""
    if run.phase is None or run.phase.name not in (*_STILL, *_BETWEEN):
        return None
    return run.phase.fraction


_NARROW, _TIGHT, _CRAMPED = 940, 800, 680
_WHY = "Profile a few steps: see where time goes and what would help"


@dataclass(frozen=True)
class Wishes:
    """What the user has asked the current run to do, until it does: stop, pause (True) or resume (False).

    `pause` is None if neither was asked.
    """

    stop: bool = False
    pause: bool | None = None


class LiveStrip(QWidget):
    """The bar above the live plots: title, status, time left and buttons. The panel connects the buttons.

    Its chooser of the x axis has the keys "step" and "seconds".
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = ElidedLabel("", "title")
        self._marker = Marker(Precision.FP32)
        self.status = ElidedLabel("", "legend")
        self.left = label("", "legend")
        self.by = Segmented(
            (("step", "Steps"), ("seconds", "Time")), "Horizontal axis", "Plot against steps or against time"
        )
        self.stop = Button("Stop", "strip", with_keys("Stop and keep what was recorded", "stop"), "stop")
        self.pause = Button("Pause", "strip", "Pause after the current step", "pause")
        self.details = IconButton("info", "Details", "Show details: optimizations, warm-up, memory and GPU")
        self.details.setCheckable(True)
        self.view = PlotsMenu()
        self.replay = Button("Replay", "strip", "Replay both runs side by side", "play")
        self.profile = Button("Profile", "strip", _WHY, "profile")
        self.command = Button("Copy command", "strip", "Copy the command that measures this again", "log")
        self.export = Button("Export…", "strip", "Save a report, charts, data or a script", "export")
        self._answer = (self.replay, self.profile, self.command, self.export)
        for button in self._answer:
            button.hide()
        while_it_runs = (self.left, self.by, self.view, self.details, self.pause, self.stop)
        parts = (4, self._marker, wide(self.status), *while_it_runs, *self._answer)
        self._row = in_row(self.title, *parts, parent=self, spacing=10)
        self.setFixedHeight(32)
        self._tight = False
        self._work_left: tuple[float, bool] | None = None

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._tight = event.size().width() < _TIGHT
        self._row.setSpacing(6 if event.size().width() < _NARROW else 10)
        for button in (self.pause, self.stop):
            _set_words(button, button.accessibleName(), self._tight)
        for button in self._answer:
            _set_words(button, button.accessibleName(), event.size().width() < _CRAMPED)
        self.left.setVisible(not self._tight)

    def show_answer(
        self,
        is_over: bool,
        when: str,
        not_profiled: str | None,
        *,
        has_curves: bool = True,
        is_script: bool = False,
    ) -> None:
        """Replace Pause and Stop by the actions on finished runs.

        `when` says when they ended, once the answer is known. `not_profiled` is why they cannot be profiled.
        """
        hidden = self.profile if is_script else self.command
        for button in self._answer:
            button.setVisible(is_over and button is not hidden)
        for part in (self.by, self.view, self.details):
            part.setVisible(has_curves)
        self.profile.setEnabled(not_profiled is None)
        self.profile.setToolTip(plain_tip(not_profiled or _WHY))
        if when and is_over:
            self.status.set_whole_text(when, when.partition(",")[0])

    def set_work_left(self, seconds: float | None, *, at_least: bool = False) -> None:
        """Set the remaining time of the whole queue. None if only the current run is left."""
        self._work_left = None if seconds is None else (seconds, at_least)

    def show_runs(
        self, title: str, runs: Sequence[LiveRun], wishes: Wishes, *, tells_why: bool = True
    ) -> None:
        """Show the state of the runs, and why a run failed if `tells_why`."""
        current = current_run(runs)
        if current is None:
            return
        self.title.set_whole_text(title or title_of([run.label for run in runs]))
        busy = current.status == "running"
        self.pause.setVisible(busy)
        self.stop.setVisible(any(run.status in ("running", "queued") for run in runs))
        self.stop.setEnabled(busy and not wishes.stop)
        self._show_pause(current, wishes)
        self._show_status(current, runs, wishes, tells_why=tells_why)
        self._show_left(current)

    def _show_pause(self, run: LiveRun, wishes: Wishes) -> None:
        is_paused = run.is_paused if wishes.pause is None else wishes.pause
        words = "Resume" if is_paused else "Pause"
        if self.pause.accessibleName() != words:
            self.pause.set_icon("play" if is_paused else "pause")
        _set_words(self.pause, words, self._tight)
        pausing = "Pause after the current step. The measured throughput is not affected."
        against = refusal("pause", [run.experiment.command])
        tip = f"{'Resume training' if is_paused else pausing} ({keys_of('pause')})"
        self.pause.setToolTip(tip if against is None else f"{against.message} {against.remedy}")
        self.pause.setEnabled(not wishes.stop and against is None)

    def _show_status(
        self, current: LiveRun, runs: Sequence[LiveRun], wishes: Wishes, *, tells_why: bool
    ) -> None:
        self._marker.set_precision(current.precision, current.status == "queued")
        place = f", {runs.index(current) + 1} of {len(runs)}" if len(runs) > 1 else ""
        over = all(run.is_over for run in runs)
        if over and len(runs) > 1 and {run.status for run in runs} == {"finished"}:
            self.status.set_whole_text("both finished" if len(runs) == 2 else f"all {len(runs)} finished")
            self._marker.hide()
            return
        self._marker.show()
        word = _state(current, wishes)
        whole, brief = phase_words(current), phase_words(current, brief=True)
        phase = f" · {whole}" if whole else ""
        reason = f": {current.problem.message}" if current.problem is not None and tells_why else ""
        # where there is no room for both, the phase says more than "running"
        state = brief if brief and word == "running" else word
        brief_forms = (f"{current.label} {state}{place}", f"{current.label} {state}")
        briefly = brief_forms if current.status == "running" else ()
        state = f"{current.label} {word}{place}{phase}{reason}"
        subject = subject_of(current) if current.status in ("running", "queued") else ""
        forms = (f"{subject} · {state}", state) if subject else (state,)
        self.status.set_whole_text(*forms, *briefly)

    def _show_left(self, run: LiveRun) -> None:
        is_known = run.status == "running" and phase_fraction(run) is None and not run.is_paused
        seconds = run.seconds_left() if is_known else None
        own = f"{duration(seconds)} left" if seconds is not None else ""
        if seconds is None or self._work_left is None:
            words, tip = own, ""
        else:
            work_seconds, at_least = self._work_left
            # of a sweep nothing may be known yet
            whole = duration(max(work_seconds, seconds))
            words = f"{'at least ' if at_least else ''}{whole} left"
            tip = f"For the whole queue. This run: {own}"
        set_text(self.left, words)
        self.left.setToolTip(tip)


def _set_words(button: Button, words: str, tight: bool) -> None:
    button.setAccessibleName(words)
    shown = "" if tight else words
    if button.text() != shown:
        button.setText(shown)


def _state(run: LiveRun, wishes: Wishes) -> str:
    if run.status != "running":
        return run.status
    if wishes.stop:
        return "stopping"
    if run.is_paused:
        return "paused" if wishes.pause is not False else "resuming"
    return "pausing" if wishes.pause else run.status


def title_of(labels: Sequence[str]) -> str:
    """Return the title of sides: "FP32 and BF16 AMP", or their number if there are more: "8 precisions"."""
    if len(labels) < 3:
        return " and ".join(labels)
    are_precisions = {precision.label for precision in Precision}.issuperset(labels)
    return f"{len(labels)} {'precisions' if are_precisions else 'sides'}"


def subject_of(run: LiveRun) -> str:
    """Return what a run trains: "resnet50, batch 64, 1,000 steps"."""
    steps = run.total_steps or run.experiment.steps
    experiment = run.experiment
    model = experiment.command.script if experiment.is_script else experiment.model
    parts = (model, batch_words(experiment), f"{steps:,} steps" if steps else "")
    return ", ".join(filter(None, parts))


def current_run(runs: Sequence[LiveRun]) -> LiveRun | None:
    """Return the run in progress, else the next one queued, else the last."""
    for status in ("running", "queued"):
        current = next((run for run in runs if run.status == status), None)
        if current is not None:
            return current
    return runs[-1] if runs else None


class PlotsMenu(IconButton):
    """A button with a menu for all plots: logarithmic axes, smoothing, and the whole run.

    `log_chosen` carries whether axes are logarithmic. `whole_wanted` asks for the whole run.
    """

    log_chosen = Signal(bool)
    whole_wanted = Signal()

    def __init__(self) -> None:
        super().__init__("smooth", "Plots", "Change the axes and the smoothing of all plots")
        menu = self.choices = QMenu(self)
        self.log = menu.addAction("Logarithmic axes")
        self.log.setCheckable(True)
        self.log.toggled.connect(self.log_chosen)
        smooth = menu.addMenu("Smoothing")
        self._windows = QActionGroup(self)
        for steps in WINDOWS:
            action = smooth.addAction(f"{steps} steps" if steps else "None")
            action.setCheckable(True)
            action.setData(steps)
            self._windows.addAction(action)
        self._windows.triggered.connect(lambda action: smoothing().set_steps(action.data()))
        menu.addAction("Show the whole run", self.whole_wanted.emit)
        menu.aboutToShow.connect(self._check_smoothing)
        self.setMenu(menu)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)

    def _check_smoothing(self) -> None:
        for action in self._windows.actions():
            action.setChecked(action.data() == smoothing().steps)


class _RunLine(QWidget):
    """A line on the run in progress, or on the last one, after its marker. Hidden if there is nothing to say.

    It is hidden in a low window, too, where the plots need the height.
    """

    def __init__(self, height: int, *parts: Part, parent: QWidget | None) -> None:
        super().__init__(parent)
        self.setFixedHeight(height)
        self._has_room, self._has_content, self._marker = True, False, Marker(Precision.FP32)
        in_row(self._marker, *parts, parent=self, margins=(4, 0, 4, 0), spacing=8)
        self.hide()

    def set_room(self, has_room: bool) -> None:
        """Set whether the window is high enough for the line."""
        self._has_room = has_room
        self.setVisible(self._has_room and self._has_content)

    def show_runs(self, runs: Sequence[LiveRun]) -> None:
        """Show the line of the run in progress, or of the last one."""
        run = current_run([run for run in runs if run.status != "queued"])
        self._has_content = run is not None and self._fill(run)
        self.setVisible(self._has_room and self._has_content)
        if run is not None:
            self._marker.set_precision(run.precision)

    def _fill(self, run: LiveRun) -> bool:
        """Show the content. Return False if there is none."""
        raise NotImplementedError


class LiveGauges(_RunLine):
    """A line with the GPU's load, temperature and power. Hidden on a CPU."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.words = ElidedLabel("", "legend")
        super().__init__(20, wide(self.words), parent=parent)

    def _fill(self, run: LiveRun) -> bool:
        words = figures.gauge_words(run)
        self.words.set_whole_text(f"{run.label}   {words}" if words else "")
        return bool(words)


_BARS_HEIGHT, _BAR, _GAP, _WORDS = 28, 4, 10, 68
"""In pixels: the line, a bar, the gap between two, and the room that a bar's words need."""


class _Bars(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.run: LiveRun | None = None
        self.mib: tuple[float, ...] = ()
        self.capacity_mib = 0.0
        theme().changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.run is None or not self.mib:
            return
        palette, painter = theme().palette, QPainter(self)
        ink = palette.look(self.run.precision).color
        pitch = (self.width() + _GAP) / len(self.mib)
        are_alike = len({memory_text(mib) for mib in self.mib}) == 1
        for rank, mib in enumerate(self.mib):
            room = QRectF(rank * pitch, 0, pitch - _GAP, _BARS_HEIGHT)
            if room.width() >= _WORDS:
                is_largest = not are_alike and mib == max(self.mib)
                painter.setFont(font(12, 600 if is_largest else 400))
                painter.setPen(QColor(palette.text if is_largest else palette.text2))
                words = room.adjusted(0, 2, 0, -_BAR - 6)
                painter.drawText(words, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, f"{rank}")
                painter.drawText(
                    words, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, memory_text(mib)
                )
            bar = QRectF(room.left(), _BARS_HEIGHT - _BAR - 3, room.width(), _BAR)
            draw_bar(painter, bar, mib / self.capacity_mib, ink, palette.bg3)
        painter.end()


class RankMemoryStrip(_RunLine):
    """The memory in use on each device of a multi-device run, as bars. Hidden for single-device runs."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._words, self._bars = label("", "legend"), _Bars()
        super().__init__(_BARS_HEIGHT, self._words, wide(self._bars), parent=parent)

    def _fill(self, run: LiveRun) -> bool:
        mib = figures.memory_by_rank(run)
        self._bars.run, self._bars.mib = run, mib
        if not mib:
            return False
        known = 0.0 if run.environment is None else run.environment.device_memory_mib
        self._bars.capacity_mib = max(known, *mib, 1.0)
        what = "Memory" if run.summary is None else "Peak memory"
        set_text(self._words, f"{what} by rank")
        whose = "the machine's" if figures.is_on_cpu(run) else "a device's"
        told = "\n".join(f"Rank {rank}: {memory_text(each)}" for rank, each in enumerate(mib))
        tip = f"{told}\nA full bar is {whose} total memory, {memory_text(self._bars.capacity_mib)}"
        describe(self, f"{self._words.text()}. {tip}".replace("\n", ", "), plain_tip(tip))
        self._bars.update()
        return True
