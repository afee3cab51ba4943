"""The metrics of each device of a multi-device run, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.compare.metrics import SPEED
from engine.protocol.summary import RankMetrics, Summary, slowest_rank
from engine.words.names import speed_unit
from engine.words.numbers import NONE, memory_text, number

HEADINGS = ("Device", "Throughput", "Step time", "Synchronizing gradients", "Peak memory", "Waiting for data")
_IN_A_LINE = ("{}", "step {}", "synchronizing gradients {}", "peak {}", "waiting for data {}")
BY_DEVICE = "By device"


@dataclass(frozen=True)
class DeviceRow:
    """The table row of one device in a multi-device run: its name and its metrics, one per column.

    A metric that is unknown is `NONE`.
    """

    name: str
    cells: tuple[str, ...]

    @property
    def words(self) -> str:
        """The known metrics in one line."""
        known = zip(_IN_A_LINE, self.cells, strict=True)
        return " · ".join(form.format(cell) for form, cell in known if cell != NONE)


def device_rows(summary: Summary | None, dataset: str) -> tuple[DeviceRow, ...]:
    """Return one row per device.

    The slowest device and the largest memory peak are marked, unless all devices are equal.
    """
    return () if summary is None else tuple(_rank_rows(summary.ranks, speed_unit([dataset])))


def _rank_rows(ranks: Sequence[RankMetrics], unit: str) -> Iterator[DeviceRow]:
    slowest = slowest_rank(ranks)
    peaks = [rank.peak_mib for rank in ranks if rank.peak_mib is not None]
    largest = max(peaks) if len(peaks) == len(ranks) and len(set(peaks)) > 1 else None
    for place, rank in enumerate(ranks):
        exchange = rank.communication_ms
        speed = NONE if rank.samples_per_second is None else f"{SPEED.text(rank.samples_per_second)} {unit}"
        peak = NONE if rank.peak_mib is None else memory_text(rank.peak_mib)
        cells = (
            f"{speed}, slowest" if slowest is not None and place == slowest[0] else speed,
            NONE if rank.step_ms is None else f"{number(rank.step_ms)} ms",
            NONE if exchange is None else f"{number(exchange)} ms",
            f"{peak}, largest" if largest is not None and rank.peak_mib == largest else peak,
            NONE if rank.data_wait_fraction is None else f"{100 * rank.data_wait_fraction:.1f}%",
        )
        yield DeviceRow(f"Rank {place}, {rank.device}", cells)
