"""The pages of Show other than the race: a pair of runs being measured, and why there is no race."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QWidget

from engine.drawing.looks import precision_look
from engine.experiment.experiment import Experiment, Precision
from engine.protocol.events import PhaseName
from engine.protocol.pictures import patterns
from engine.race.headline import numbers
from engine.race.race import MOST_BLOCKS
from engine.race.showcase import Showcase, pace_of
from engine.race.tanks import Tank
from gui.session.live_run import LiveRun
from gui.show.scale import Scale, ShowButton, Span
from gui.show.stage import LaneHead, ShowStage
from gui.show.text import TextBlock, TextRow
from gui.widgets import centre
from gui.widgets.boxes import Stretch, in_column, in_row, wide

if TYPE_CHECKING:
    from engine.race.race import Which


@dataclass(frozen=True)
class MeasuredLane:
    """One of the two runs: `samples` so far of `samples_in_all`, and the highest `peak_mib` so far.

    `detail` is shown beside the name ("32-bit numbers (FP32)"), `state` after the count ("images so far").
    """

    precision: Precision
    name: str
    detail: str
    samples_in_all: int
    samples: float = 0.0
    peak_mib: float | None = None
    state: str = ""

    @property
    def fraction(self) -> float:
        """How much of the run is done, 0 to 1."""
        return min(max(self.samples / self.samples_in_all, 0.0), 1.0) if self.samples_in_all else 0.0


@dataclass(frozen=True, eq=False)
class Measuring:
    """Both runs, and which of them is running.

    `title` is the large line and `sentence` the one below it; `subject` is what is trained ("ResNet-50, 64
    images at once"); `phase` is that of a run without steps ("saving"). `seconds_left` are those of both
    runs, the second taken to last as long as the first, None if unknown. `tiles` are grey pictures of shape
    (count, side, side), or None.
    """

    title: str
    sentence: str
    subject: str
    running: Which
    full: MeasuredLane
    mixed: MeasuredLane
    seconds_left: float | None = None
    phase: str = ""
    tiles: NDArray[np.uint8] | None = None

    @property
    def lane(self) -> MeasuredLane:
        """The lane of the current run."""
        return self.full if self.running == "full" else self.mixed

    def words(self) -> tuple[str, str]:
        """What is being measured and the time left: "Measuring full precision" and "4 s left"."""
        return f"Measuring {self.lane.name[:1].lower()}{self.lane.name[1:]}", self._left()

    def _left(self) -> str:
        if self.phase:
            return self.phase
        if self.seconds_left is None:
            return "just begun"
        whole = max(0, round(self.seconds_left))
        about = "about " if self.running == "full" else ""
        return f"{about}{whole:,} s left" if whole else "almost done"


_WIDTH = 760
_SHOW_ME, _TRY_AGAIN = " Show me", " Try again"


class RefusedPage(QWidget):
    """`compare_wanted` to choose other runs, `show_me_wanted` to measure a new pair."""

    compare_wanted = Signal()
    show_me_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._sentence, self._remedy = TextBlock(30, 600, "text"), TextBlock(17)
        self.show_me = ShowButton(
            _SHOW_ME, "showPrimary", "Measure both precisions now, and play them", "play"
        )
        self.compare = ShowButton("Choose runs in Results", "show", "Tick the runs to show side by side")
        self.show_me.clicked.connect(self.show_me_wanted)
        self.compare.clicked.connect(self.compare_wanted)
        self._buttons = in_row(self.show_me, self.compare, Stretch(1))
        self._inner = QWidget()
        self._column = in_column(self._sentence, self._remedy, self._buttons, parent=self._inner)
        centre(self, self._inner)

    def set_scale(self, scale: Scale) -> None:
        for part in (self._sentence, self._remedy, self.show_me, self.compare):
            part.set_scale(scale)
        self._inner.setFixedWidth(scale.px(_WIDTH))
        self._column.setSpacing(scale.px(14))
        self._buttons.setContentsMargins(0, scale.px(14), 0, 0)
        self._buttons.setSpacing(scale.px(12))

    def show_refusal(self, sentence: str, remedy: str, *, was_measured: bool = False) -> None:
        """Shows why there is no race, and what to do; what `was_measured` can be tried again."""
        self.show_me.setText(_TRY_AGAIN if was_measured else _SHOW_ME)
        self.show_me.setAccessibleName(self.show_me.text().strip())
        self._sentence.set_words(sentence)
        self._remedy.set_words(remedy)
        self._remedy.setVisible(bool(remedy))
        self.setAccessibleName("There is nothing to show")
        self.setAccessibleDescription(self.words())

    def words(self) -> str:
        """The whole text."""
        return f"{self._sentence.words()} {self._remedy.words()}".strip()


NAMES = {"full": "Full precision", "mixed": "Mixed precision"}
STARTING = "starting"

_PHASES = {
    PhaseName.DOWNLOADING: "getting the pictures",
    PhaseName.CHECKING: "checking the pictures",
    PhaseName.BUILDING: "preparing the model",
    PhaseName.COMPILING: "preparing the model",
    PhaseName.CAPTURING: "preparing the model",
    PhaseName.VALIDATING: "checking what it has learnt",
    PhaseName.SAVING: "saving",
    PhaseName.PAUSED: "paused",
}


@dataclass(frozen=True, eq=False)
class Progress:
    """The progress of "Show me": `full` and `mixed` are the runs that have begun.

    `phase` replaces that of the current run; "" for none.
    """

    showcase: Showcase | None
    running: Which
    full: LiveRun | None = None
    mixed: LiveRun | None = None
    phase: str = ""
    tiles: NDArray[np.uint8] | None = None


def measuring(progress: Progress) -> Measuring:
    """The page's content for a moment of the measurement."""
    case = progress.showcase
    live = progress.full if progress.running == "full" else progress.mixed
    return Measuring(
        title="The same training, once in each precision",
        sentence=case.why if case is not None else "",
        subject=_subject(case.sides[0][1]) if case is not None else "",
        running=progress.running,
        full=_lane("full", case, progress.full, progress.running),
        mixed=_lane("mixed", case, progress.mixed, progress.running),
        seconds_left=_seconds_left(live, is_last=progress.running == "mixed"),
        phase=progress.phase or _phase(live),
        tiles=progress.tiles,
    )


def _subject(experiment: Experiment) -> str:
    return f"{experiment.model}, {experiment.batch_size:,} images at once"


def _lane(which: Which, case: Showcase | None, live: LiveRun | None, running: Which) -> MeasuredLane:
    if case is None:
        precision = Precision.FP32 if which == "full" else Precision.BF16
        return MeasuredLane(precision, NAMES[which], "", 0, state="not begun yet")
    experiment = case.sides[0 if which == "full" else 1][1]
    samples = 0 if live is None else live.step * experiment.step_samples
    return MeasuredLane(
        precision=experiment.precision,
        name=NAMES[which],
        detail=numbers(experiment.precision),
        samples_in_all=(experiment.steps or 0) * experiment.step_samples,
        samples=samples,
        peak_mib=None if live is None else _peak(live),
        state=_state(which, samples, running),
    )


def _state(which: Which, samples: int, running: Which) -> str:
    if which == "full" and running == "mixed":
        return "images, measured"
    return "images so far" if samples else "not begun yet"


def _peak(live: LiveRun) -> float | None:
    for name in ("allocated_mib", "resident_mib"):
        values = live.column(name)[live.rows_until(live.warmup_steps) :]
        if len(values) and np.isfinite(values).any():
            return float(np.nanmax(values))
    return None


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
        return STARTING
    return _PHASES.get(live.phase.name, "")


class MeasuringPage(QWidget):
    """Repaints only what changed: the measured run has the machine to itself.

    `stop_wanted` to give up the measurement.
    """

    stop_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.stage = ShowStage()
        self.stage.memory.tanks.set_growing("not yet")
        self.stage.memory.show_words(("", ""))
        self._tiles: NDArray[np.uint8] | None = None
        self._heads: tuple[LaneHead, ...] = ()
        self._state: tuple[str, ...] = ()
        self._foot = QFrame()
        self._foot.setProperty("surface", "foot")
        self.stop = ShowButton(" Stop", "showPrimary", "Stop measuring; a finished run is kept", "stop")
        self.stop.clicked.connect(self.stop_wanted)
        self._why, self._subject = TextRow(), TextRow()
        why = "One after the other, so that neither slows the other down. Then both are played side by side."
        self._why.set_spans([Span(why, 14, 400, "text2")])
        self._why.set_spoken(why)
        self._row = in_row(self.stop, wide(self._why), self._subject, parent=self._foot, margins=None)
        in_column(wide(self.stage), self._foot, parent=self, spacing=0)

    def set_scale(self, scale: Scale) -> None:
        for part in (self.stage, self.stop, self._why, self._subject):
            part.set_scale(scale)
        self._foot.setFixedHeight(max(scale.px(64), 46))
        self.stop.setFixedWidth(max(scale.px(106), 100))
        self._row.setContentsMargins(scale.px(48), 0, scale.px(48), 0)
        self._row.setSpacing(scale.px(18))
        self._subject.keep_width()

    def show_measuring(self, measuring: Measuring) -> None:
        """Shows the progress; cheap enough for each repaint during a run."""
        self.stage.headline.show_words(measuring.title, measuring.sentence)
        self._subject.set_spans([Span(measuring.subject, 14, 400, "text3")])
        self._subject.set_spoken(measuring.subject)
        self._subject.keep_width()
        self._show_heads(measuring)
        for lane, shown in ((measuring.full, self.stage.full), (measuring.mixed, self.stage.mixed)):
            shown.set_count(round(MOST_BLOCKS * lane.fraction), f"{lane.samples:,.0f}", lane.state)
        self.stage.middle.set_number(None)
        self.stage.middle.show_words(*measuring.words())
        self._show_memory(measuring)
        self._tell(measuring)

    def _tell(self, measuring: Measuring) -> None:
        state = (measuring.title, measuring.running, measuring.phase)
        if state == self._state:
            # not at each count: a screen reader would never finish
            return
        self._state = state
        self.stage.set_spoken()
        self.setAccessibleName("Measuring")
        self.setAccessibleDescription(self.words())

    def words(self) -> str:
        """The whole text."""
        stage = self.stage
        return " ".join(part.words() for part in (stage.headline, stage.full, stage.middle, stage.mixed))

    def _show_heads(self, measuring: Measuring) -> None:
        heads = tuple(map(_head, (measuring.full, measuring.mixed)))
        if heads == self._heads and measuring.tiles is self._tiles:
            return
        self._heads, self._tiles = heads, measuring.tiles
        tiles = measuring.tiles
        shown = tiles if tiles is not None and len(tiles) else patterns(MOST_BLOCKS)
        for head, lane in zip(heads, (self.stage.full, self.stage.mixed), strict=True):
            lane.show_lane(head, shown, MOST_BLOCKS)

    def _show_memory(self, measuring: Measuring) -> None:
        lanes = ("Full", measuring.full), ("Mixed", measuring.mixed)
        full, mixed = (Tank((name,), precision_look(lane.precision), lane.peak_mib) for name, lane in lanes)
        self.stage.memory.show_tanks(full, mixed)


def _head(lane: MeasuredLane) -> LaneHead:
    return LaneHead(lane.precision, "full", lane.name, lane.detail)
