"""The process that trains a run, or in whose queue an item waits, and whether it is still alive."""

from __future__ import annotations

import functools
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from engine import Later

if TYPE_CHECKING:
    import psutil
else:
    psutil = Later("psutil")

# psutil derives the start from the boot time, which shifts a little when the clock is set
_START_TOLERANCE_SECONDS = 2.0


class Owner(BaseModel):
    """A process. Pids are reused, so its start is kept too; `boot` is empty where there is no boot id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    boot: str
    pid: int
    started: float

    @property
    def is_gone(self) -> bool:
        """Whether the process has certainly ended; False for another host's, where that cannot be known."""
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
    """The owner saved with a run; None if another version wrote it in another form."""
    try:
        return Owner.model_validate_json(text)
    except ValidationError:
        return None


@functools.cache
def this_process() -> Owner:
    """This process. Read once: setting the clock would change its start."""
    process = psutil.Process()
    return Owner(host=socket.gethostname(), boot=_boot_id(), pid=process.pid, started=process.create_time())


@functools.cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
