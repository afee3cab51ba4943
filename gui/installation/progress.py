"""The progress of an installation, made of its events, and in words. No Qt."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.installation.wanted import Fetched, InstallEvent, Planned, Stage, StageBegan, Unpacked
from engine.words.numbers import duration, share_text
from gui.installation.words import size_text

STAGES = {
    Stage.RESOLVING: "Look up",
    Stage.FETCHING: "Download",
    Stage.UNPACKING: "Unpack",
    Stage.TRYING: "Try",
}
_TITLES = {
    Stage.RESOLVING: "Looking up the files",
    Stage.FETCHING: "Downloading PyTorch",
    Stage.UNPACKING: "Unpacking PyTorch",
    Stage.TRYING: "Training a step with it",
}


@dataclass(frozen=True)
class Progress:
    """`done_bytes` and `total_bytes` are those of the stage; None where it counts none.

    `retry` is why a connection was cut that is tried again. `is_waiting`: it begins once nothing is measured.
    """

    stage: Stage = Stage.RESOLVING
    done_bytes: int | None = None
    total_bytes: int | None = None
    bytes_per_second: float | None = None
    seconds_left: float | None = None
    file: str = ""
    retry: str | None = None
    is_paused: bool = False
    is_waiting: bool = False

    def after(self, event: InstallEvent) -> Progress:
        """The progress after an event."""
        match event:
            case StageBegan(stage=stage):
                return Progress(stage, is_paused=self.is_paused)
            case Planned(plan=plan):
                return replace(self, done_bytes=plan.fetched_bytes, total_bytes=plan.download_bytes)
            case Fetched():
                return Progress(
                    Stage.FETCHING,
                    event.done_bytes,
                    event.total_bytes,
                    event.bytes_per_second,
                    event.seconds_left,
                    event.file,
                    event.retry,
                    self.is_paused,
                )
            case Unpacked(done_bytes=done, total_bytes=total):
                return Progress(Stage.UNPACKING, done, total, is_paused=self.is_paused)
        return self

    def paused(self, is_paused: bool) -> Progress:
        return replace(self, is_paused=is_paused)

    @property
    def fraction(self) -> float | None:
        """The share of the stage that is done, 0 to 1; None where that is not known."""
        if self.stage not in (Stage.FETCHING, Stage.UNPACKING) or not self.total_bytes:
            return None
        return min((self.done_bytes or 0) / self.total_bytes, 1.0)

    @property
    def title(self) -> str:
        if self.is_waiting:
            return "Waiting for the work in progress"
        return f"{_TITLES[self.stage]}{', paused' if self.is_paused else ''}"

    @property
    def percent(self) -> str:
        """The share of the stage that is done, as "43 %"; "" where that is not known."""
        return "" if self.fraction is None else share_text(int(100 * self.fraction) / 100)

    @property
    def left(self) -> str:
        """The time left: "3 min left"; "" where that is not known."""
        if self.is_paused or self.retry is not None or self.seconds_left is None:
            return ""
        return f"{duration(self.seconds_left)} left"

    @property
    def amount(self) -> str:
        """The amount that is done, and its rate: "1.1 GiB of 2.6 GiB · 14 MiB/s"."""
        if self.is_waiting:
            return "It begins when that has ended or is stopped; what is queued waits for it."
        if self.fraction is None:
            return ""
        done = f"{size_text(self.done_bytes or 0)} of {size_text(self.total_bytes or 0)}"
        is_moving = self.bytes_per_second is not None and not self.is_paused and self.retry is None
        return f"{done} · {size_text(self.bytes_per_second or 0)}/s" if is_moving else done

    @property
    def line(self) -> str:
        """All of it, short: "Downloading PyTorch: 43 %, 3 min left"."""
        return f"{self.title}: {self.facts}" if self.facts else self.title

    @property
    def facts(self) -> str:
        """The share that is done and the time left: "43 %, 3 min left"; "" where neither is known."""
        return ", ".join(part for part in (self.percent, self.left) if part)
