"""Which process runs a run, so that another can tell later whether it is still there."""

from __future__ import annotations

import functools
import socket
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

# psutil derives a start from the boot time, which moves a little when the clock is set
_START_TOLERANCE_SECONDS = 2.0


class Owner(BaseModel):
    """A process: a pid is reused, so its start is kept beside it; `boot` is empty where there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    boot: str
    pid: int
    started: float

    @property
    def is_gone(self) -> bool:
        """Whether the process has surely ended; of another host that cannot be known, so False."""
        if self.host != socket.gethostname():
            return False
        if self.boot != _boot_id():
            return True
        try:
            started = psutil.Process(self.pid).create_time()
        except psutil.NoSuchProcess:
            return True
        except psutil.AccessDenied:
            return False
        return abs(started - self.started) > _START_TOLERANCE_SECONDS


def owner_from(text: str) -> Owner | None:
    """The owner that a run was saved with; None for one that another version wrote in another way."""
    try:
        return Owner.model_validate_json(text)
    except ValidationError:
        return None


@functools.cache
def this_process() -> Owner:
    """The process that asks. Read once: its start would come out otherwise after the clock was set."""
    process = psutil.Process()
    return Owner(host=socket.gethostname(), boot=_boot_id(), pid=process.pid, started=process.create_time())


@functools.cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
