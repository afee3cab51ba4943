"""The columns of the runs table, left to right, with their headings. No Qt."""

from __future__ import annotations

from enum import IntEnum


class Column(IntEnum):
    """The columns of the table, left to right."""

    TICK = 0
    MARKER = 1
    NAME = 2
    TAGS = 3
    WHEN = 4
    MODEL = 5
    DATASET = 6
    PRECISION = 7
    RECIPE = 8
    BATCH = 9
    SPEED = 10
    PEAK = 11
    ACCURACY = 12
    RATIO = 13
    STATUS = 14


HEADINGS = {
    Column.TICK: (
        "",
        "Tick runs to see and compare their curves; this box ticks all shown, or none",
    ),
    Column.MARKER: ("", "The marker of the run's precision"),
    Column.NAME: ("Name", "What the run is called; F2 renames it"),
    Column.TAGS: ("Tags", "What the run was tagged with; right-click a run to tag it"),
    Column.WHEN: ("When", "When the run was started"),
    Column.MODEL: ("Model", "The network that was trained"),
    Column.DATASET: ("Dataset", "What it was trained on"),
    Column.PRECISION: ("Precision", "The number format it was trained in"),
    Column.RECIPE: ("Recipe", "How a step is made: plain, fast, or some parts of that"),
    Column.BATCH: ("Batch", "Samples that go through the network at once"),
    Column.SPEED: ("samples/s", "Samples trained in a second, warm-up not counted"),
    Column.PEAK: ("Peak GiB", "The most memory that training took, warm-up not counted"),
    Column.ACCURACY: ("Acc. %", "Validation accuracy at the end of the run"),
    Column.RATIO: ("vs FP32", "Speed as a multiple of the newest clean FP32 run with the same settings"),
    Column.STATUS: ("Status", "How the run stands"),
}
PICTURES_HEADING = ("img/s", "Pictures trained in a second, warm-up not counted")
"""The heading of the speed where all runs train on pictures."""

NUMBERS = (Column.BATCH, Column.SPEED, Column.PEAK, Column.ACCURACY, Column.RATIO)
