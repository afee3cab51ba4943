"""What a trial takes of a CPU's memory, in the quantity that the cap on it limits: the data segment."""

from __future__ import annotations

import gc
import mmap
import sys

from engine.training.measuring.memory import status_bytes

_MIB = 2**20


class DataSegment:
    """The data segment of this process over its size when made, which is just before the cap is set.

    Linux refuses an allocation that would take the segment over RLIMIT_DATA, but keeps a peak only of the
    whole address space. The rest of that (code, and what is only reserved) is the same at the peak as now, so
    what the peak exceeds it by is the segment's own. On other systems nothing is told.
    """

    def __init__(self, budget_mib: float) -> None:
        self.budget_mib = budget_mib
        self.other_programs_mib: float | None = None
        self._filler = _up_to_the_peak()
        self._idle = status_bytes("VmData") or 0
        self.baseline_mib = self._idle / _MIB

    def peak_mib(self) -> float | None:
        whole, peak = status_bytes("VmSize"), status_bytes("VmPeak")
        data = status_bytes("VmData")
        if whole is None or peak is None or data is None:
            return None
        return max(0, data + peak - whole - self._idle) / _MIB

    def reserved_mib(self) -> float | None:
        """None: every tensor goes back to the system as soon as it is dropped."""
        return None

    def has_spilled(self) -> bool:
        return False

    def was_refused(self) -> bool:
        """False: a refusal that a library gets over is counted by nobody."""
        return False

    def release(self) -> float:
        gc.collect()
        if self._filler is not None:
            self._filler.close()
            self._filler = None
        return max(0, (status_bytes("VmData") or 0) - self._idle) / _MIB


def _up_to_the_peak() -> mmap.mmap | None:
    """Address space that fills up to the peak of the past, which cannot be reset: glibc reserves 64 MiB more
    than it keeps when a thread first asks for memory. What cannot be written to is no part of the segment."""
    if sys.platform != "linux":
        return None
    gap = (status_bytes("VmPeak") or 0) - (status_bytes("VmSize") or 0)
    if gap <= 0:
        return None
    return mmap.mmap(-1, gap, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
