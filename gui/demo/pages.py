"""The pages of Demo besides the replay: two runs being measured, and the reason for a missing replay."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PySide6.QtWidgets import QWidget

from engine.drawing.looks import precision_look
from engine.experiment.experiment import Experiment, Precision
from engine.protocol.events import PhaseName
from engine.protocol.pictures import patterns
from engine.race.headline import NUMBERS
from engine.race.lanes import MOST_BLOCKS
from engine.race.scene import Count, Instant, LaneHead, Scene
from engine.race.showcase import Showcase, pace_of
from gui.demo.race_view import RaceView
from gui.demo.scale import DemoButton, Scale
from gui.session.live_run import LiveRun
from gui.widgets import ElidedLabel, center, label
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, wide

if TYPE_CHECKING:
    from engine.race.race import Which
    from gui.demo.panel import DemoPanel


@dataclass(frozen=True, eq=False)
class Measuring:
    """The content of the page that shows two runs while they are measured: `scene` at the time `instant`.

    `subject` names the model and the batch size. If `scene_key` changes, the page needs a new layout. If
    `state` changes, screen readers announce it.
    """

    scene: Scene
    instant: Instant
    subject: str
    scene_key: tuple[object, ...]
    state: tuple[str, ...]


_WIDTH = 760
_RUN_DEMO, _TRY_AGAIN = " Run demo", " Try again"


class RefusedPage(QWidget):
    """The page that explains why there is no replay, with buttons to get one."""

    def __init__(self, panel: DemoPanel) -> None:
        super().__init__()
        self._sentence, self._remedy = label("", "showTitle"), label("", "showText")
        for text in (self._sentence, self._remedy):
            text.setWordWrap(True)
        self.run_demo = DemoButton(
            _RUN_DEMO, "showPrimary", "Measure both precisions now and replay them", "play"
        )
        self.compare = DemoButton("Select runs in Results", "show", "Select the runs to replay side by side")
        self.run_demo.clicked.connect(panel.demo_wanted)
        self.compare.clicked.connect(panel.compare_wanted)
        self._buttons = in_row(self.run_demo, self.compare, Stretch(1))
        self._inner = QWidget()
        self._column = in_column(self._sentence, self._remedy, self._buttons, parent=self._inner)
        center(self, self._inner)

    def set_scale(self, scale: Scale) -> None:
        for part in (self.run_demo, self.compare):
            part.set_scale(scale)
        self._inner.setFixedWidth(scale.px(_WIDTH))
        self._column.setSpacing(scale.px(14))
        self._buttons.setContentsMargins(0, scale.px(14), 0, 0)
        self._buttons.setSpacing(scale.px(12))

    def show_refusal(self, sentence: str, remedy: str, *, was_measured: bool = False) -> None:
        """Show the reason and the remedy. If it `was_measured`, the measurement can be repeated."""
        self.run_demo.set_words(_TRY_AGAIN if was_measured else _RUN_DEMO)
        self._sentence.setText(sentence)
        self._remedy.setText(remedy)
        self._remedy.setVisible(bool(remedy))
        self.setAccessibleName("Nothing to replay")
        self.setAccessibleDescription(self.words())

    def words(self) -> str:
        """Return the whole text."""
        return f"{self._sentence.text()} {self._remedy.text()}".strip()


_NAMES = {"full": "Full precision", "mixed": "Mixed precision"}
_STARTING = "starting"
_LONGEST_PHASE = "testing what it has learned"
_NOT_BEGUN = "not started yet"

_PHASES = {
    PhaseName.WAITING: "waiting in the queue",
    PhaseName.DOWNLOADING: "getting the images",
    PhaseName.CHECKING: "checking the images",
    PhaseName.BUILDING: "preparing the model",
    PhaseName.COMPILING: "preparing the model",
    PhaseName.CAPTURING: "preparing the model",
    PhaseName.VALIDATING: _LONGEST_PHASE,
    PhaseName.SAVING: "saving",
    PhaseName.PAUSED: "paused",
}


@dataclass(frozen=True, eq=False)
class Progress:
    """The progress of Demo's measurement. `full` and `mixed` are its runs, None until they have started.

    `phase` is shown instead of the phase of the current run, unless it is "".
    """

    showcase: Showcase | None
    running: Which
    full: LiveRun | None = None
    mixed: LiveRun | None = None
    phase: str = ""
    tiles: NDArray[np.uint8] | None = None


def measuring(progress: Progress) -> Measuring:
    """Return the page's content at a moment of the measurement."""
    case, running = progress.showcase, progress.running
    runs: tuple[tuple[Which, LiveRun | None], ...] = (("full", progress.full), ("mixed", progress.mixed))
    heads = _head("full", case), _head("mixed", case)
    full, mixed = (_count(which, case, live, running) for which, live in runs)
    phase = progress.phase or _phase(dict(runs)[running])
    first = None if case is None else case.sides[0][1]
    subject = "" if first is None else f"{first.model}, {first.batch_size:,} images at once"
    title, sentence = "The same training, once in each precision", case.why if case is not None else ""
    caption = f"Measuring {_NAMES[running].lower()}", phase or _left(dict(runs)[running], running)
    peaks = _peak(progress.full), _peak(progress.mixed)
    tiles = progress.tiles if progress.tiles is not None and len(progress.tiles) else patterns(MOST_BLOCKS)
    longest = _instant((_longest("full", case), _longest("mixed", case)), (caption[0], _LONGEST_PHASE))
    scene = Scene(
        title=title,
        sentence=sentence,
        heads=heads,
        blocks=MOST_BLOCKS,
        tiles=tiles,
        at=lambda seconds: longest,
        absent="not yet",
        is_final=False,
    )
    return Measuring(
        scene,
        replace(_instant((full, mixed), caption), peaks_mib=peaks),
        subject=subject,
        scene_key=(sentence, heads, longest, id(progress.tiles)),
        state=(title, running, phase),
    )


def _instant(counts: tuple[Count, Count], caption: tuple[str, str]) -> Instant:
    return Instant(counts, None, caption, spoken=" ".join(caption))


def _experiment(which: Which, case: Showcase) -> Experiment:
    return case.sides[0 if which == "full" else 1][1]


def _head(which: Which, case: Showcase | None) -> LaneHead:
    precision = Precision.FP32 if which == "full" else Precision.BF16
    if case is not None:
        precision = _experiment(which, case).precision
    detail = "" if case is None else NUMBERS[precision]
    return LaneHead(_NAMES[which], detail, precision_look(precision), (which.capitalize(),))


def _count(which: Which, case: Showcase | None, live: LiveRun | None, running: Which) -> Count:
    if case is None or live is None:
        return Count(0, "0", _NOT_BEGUN, _NOT_BEGUN)
    experiment = _experiment(which, case)
    samples, in_all = live.step * experiment.step_samples, _samples_in_all(experiment)
    blocks = round(MOST_BLOCKS * min(samples / in_all, 1.0)) if in_all else 0
    words = "images so far" if samples else _NOT_BEGUN
    if which == "full" and running == "mixed":
        words = _MEASURED
    return Count(blocks, f"{samples:,}", words, words)


_MEASURED = "images, measured"


def _longest(which: Which, case: Showcase | None) -> Count:
    in_all = 0 if case is None else _samples_in_all(_experiment(which, case))
    return Count(MOST_BLOCKS, f"{in_all:,}", _MEASURED, _MEASURED)


def _samples_in_all(experiment: Experiment) -> int:
    return (experiment.steps or 0) * experiment.step_samples


def _peak(live: LiveRun | None) -> float | None:
    if live is None:
        return None
    for name in ("allocated_mib", "resident_mib"):
        values = live.column(name)[live.rows_until(live.warmup_steps) :]
        if len(values) and np.isfinite(values).any():
            return float(np.nanmax(values))
    return None


def _left(live: LiveRun | None, running: Which) -> str:
    seconds = _seconds_left(live, is_last=running == "mixed")
    if seconds is None:
        return "just started"
    whole = max(0, round(seconds))
    about = "about " if running == "full" else ""
    return f"{about}{whole:,} s left" if whole else "almost done"


def _seconds_left(live: LiveRun | None, *, is_last: bool) -> float | None:
    if live is None or live.experiment is None or live.experiment.steps is None:
        return None
    pace = pace_of(live.experiment, live.column("samples_per_second"))
    if pace is None:
        return None
    steps = live.experiment.steps
    return (max(0, steps - live.step) + (0 if is_last else steps)) / pace


def _phase(live: LiveRun | None) -> str:
    if live is None or live.phase is None:
        return _STARTING
    return _PHASES.get(live.phase.name, "")


class MeasuringPage(QWidget):
    """The page that shows the two runs while they are measured.

    It repaints only the parts that changed, so it does not slow down the run.
    """

    def __init__(self, panel: DemoPanel) -> None:
        super().__init__()
        self.view = RaceView()
        self._shown: tuple[object, ...] = ()
        self._state: tuple[str, ...] = ()
        self._foot = Surface("foot")
        self.stop = DemoButton(" Stop", "showPrimary", "Stop measuring. A finished run is kept.", "stop")
        self.stop.clicked.connect(panel.stop_wanted)
        why = "The runs train one after the other, so neither slows the other down. Then both are replayed."
        self._why, self._subject = ElidedLabel(why, "showFoot"), ElidedLabel("", "showSubject")
        self._row = in_row(self.stop, wide(self._why), self._subject, parent=self._foot, margins=None)
        in_column(wide(self.view), self._foot, parent=self, spacing=0)

    def set_scale(self, scale: Scale) -> None:
        for part in (self.view, self.stop):
            part.set_scale(scale)
        self._foot.setFixedHeight(max(scale.px(64), 46))
        self.stop.setFixedWidth(max(scale.px(106), 100))
        self._row.setContentsMargins(scale.px(48), 0, scale.px(48), 0)
        self._row.setSpacing(scale.px(18))

    def show_measuring(self, measuring: Measuring) -> None:
        """Show the progress. This is cheap enough for each repaint during a run."""
        self._subject.set_whole_text(measuring.subject)
        if measuring.scene_key == self._shown:
            self.view.show_instant(measuring.instant)
        else:
            self._shown = measuring.scene_key
            self.view.show_scene(measuring.scene, measuring.instant)
        if measuring.state != self._state:
            # not at each count: a screen reader would never finish
            self._state = measuring.state
            self.view.announce()
            self.setAccessibleName("Measuring")
            self.setAccessibleDescription(self.words())

    def words(self) -> str:
        """Return the whole text."""
        return self.view.words()
