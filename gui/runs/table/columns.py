"""The columns of the runs table: those of every run, differences to the baseline, figures and settings."""

from __future__ import annotations

from enum import IntEnum
from functools import reduce
from types import MappingProxyType
from typing import Any

from engine.compare.figures import ACCURACY, ENERGY, FIGURES, LOSS, PEAK_MEMORY, SPEED, Figure
from engine.experiment.experiment import Experiment, all_settings, flattened

_IN_COLUMNS = ("model", "dataset", "precision", "step.recipe", "batch_size")
_DEFAULTS = {key: value for key, value in flattened(Experiment()).items() if key not in _IN_COLUMNS}
SETTINGS = tuple(_DEFAULTS)
"""The keys of the settings that have a column named after them."""


class Column(IntEnum):
    """The columns in their usual order. The numbers are the sections of this version's table: what is saved
    of a column is its `name`.

    Those below are followed by the settings, whose names are their dotted keys.
    """

    _ignore_ = "place key"

    TICK = 0
    NAME = 1
    TAGS = 2
    WHEN = 3
    SPEED = 4
    PEAK = 5
    ACCURACY = 6
    RATIO = 7
    MODEL = 8
    DATASET = 9
    PRECISION = 10
    RECIPE = 11
    BATCH = 12
    STATUS = 13
    STEP_RATIO = 14
    PEAK_RATIO = 15
    ACCURACY_GAIN = 16
    LOSS_GAIN = 17
    STEP_MS = 18
    LOSS = 19
    ENERGY = 20
    GRAD_SCALE = 21
    SKIPPED_STEPS = 22
    DURATION = 23
    FOLDER = 24
    for place, key in enumerate(SETTINGS, FOLDER + 1):
        vars()[key] = place

    @property
    def setting(self) -> str | None:
        """The dotted key of the setting that it shows; None for another column."""
        return self.name if self > Column.FOLDER else None


USUAL = tuple(column for column in Column if column <= Column.RATIO)
"""The columns that are shown until the user chooses others."""
FIXED = (Column.TICK, Column.NAME)
"""The columns that cannot be hidden."""

_BY_NAME = {figure.name: figure for figure in FIGURES}
STEP_TIME = _BY_NAME["step_ms"]
COMPARED = MappingProxyType(
    {
        Column.RATIO: SPEED,
        Column.STEP_RATIO: STEP_TIME,
        Column.PEAK_RATIO: PEAK_MEMORY,
        Column.ACCURACY_GAIN: ACCURACY,
        Column.LOSS_GAIN: LOSS,
    }
)
"""The figures that these columns compare with the baseline's: their ratio, or their difference."""
RECORDED: MappingProxyType[Column, Figure] = MappingProxyType(
    {
        Column.STEP_MS: STEP_TIME,
        Column.LOSS: LOSS,
        Column.ENERGY: ENERGY,
        Column.SKIPPED_STEPS: _BY_NAME["skipped_steps"],
    }
)
"""The figures of a run's summary that these columns show."""

HEADINGS = {
    Column.TICK: (
        "",
        "Tick runs to see and compare their curves; this box ticks all shown, or none",
    ),
    Column.NAME: ("Name", "What it is called; F2 renames it"),
    Column.TAGS: ("Tags", "What the run was tagged with; right-click a run to tag it"),
    Column.WHEN: ("When", "When it was started; press it to see runs below their comparisons again"),
    Column.MODEL: ("Model", "The network that was trained"),
    Column.DATASET: ("Dataset", "What it was trained on"),
    Column.PRECISION: ("Precision", "The number format it was trained in"),
    Column.RECIPE: ("Recipe", "How a step is made: plain, fast, or some parts of that"),
    Column.BATCH: ("Batch", "Samples that go through the network at once"),
    Column.SPEED: ("samples/s", "Samples trained in a second, warm-up not counted"),
    Column.PEAK: ("Peak GiB", "The most memory that training took, warm-up not counted"),
    Column.ACCURACY: ("Acc. %", "Validation accuracy at the end of the run"),
    Column.RATIO: ("vs {}", "Speed as a multiple of that of {}"),
    Column.STATUS: ("Status", "The state of the run"),
    Column.STEP_RATIO: ("Step vs {}", "Time of a step as a multiple of that of {}"),
    Column.PEAK_RATIO: ("Peak vs {}", "Peak memory as a multiple of that of {}"),
    Column.ACCURACY_GAIN: ("Acc. vs {}", "Validation accuracy, in percentage points above that of {}"),
    Column.LOSS_GAIN: ("Loss vs {}", "Mean training loss of the last epoch, less that of {}"),
    Column.STEP_MS: ("Step ms", "Time of a step in milliseconds, warm-up not counted"),
    Column.LOSS: ("Loss", "Mean training loss of the last epoch"),
    Column.ENERGY: ("J/1,000", "Energy for 1,000 samples in joules, warm-up not counted"),
    Column.GRAD_SCALE: ("Grad scale", "The loss scale at the end of the run"),
    Column.SKIPPED_STEPS: ("Skipped", "Steps that were skipped because a gradient overflowed"),
    Column.DURATION: ("Duration", "How long training took, validation not counted"),
    Column.FOLDER: ("Folder", "The folder that the run is in"),
    **{
        Column[key]: (
            ", ".join(filter(None, (all_settings()[key].title, all_settings()[key].unit))),
            all_settings()[key].about,
        )
        for key in SETTINGS
    },
}
PICTURES_HEADING = ("img/s", "Pictures trained in a second, warm-up not counted")
"""The heading of the speed where all runs train on pictures."""

NUMBERS = frozenset(
    {
        Column.BATCH,
        Column.SPEED,
        Column.PEAK,
        Column.ACCURACY,
        Column.GRAD_SCALE,
        Column.DURATION,
        *COMPARED,
        *RECORDED,
        *(Column[key] for key, value in _DEFAULTS.items() if type(value) in (int, float)),
    }
)
"""The columns of figures."""
RIGHT = NUMBERS | {Column.WHEN}
"""The columns that are aligned to the right."""


def setting_of(experiment: Experiment, key: str) -> Any:
    """The experiment's value of a dotted key."""
    return reduce(getattr, key.split("."), experiment)
