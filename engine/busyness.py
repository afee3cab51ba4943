"""Measures the load that other programs put on the CPU, the memory and the GPU before a run.

This process and its children do not count as other programs. Does not need torch.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.experiment.value import BYTES_PER_MIB
from engine.lazy_imports import psutil
from engine.words.numbers import memory_text, size_text

TOLERATED_SHARE = 0.15  # a window that repaints five times a second stays below this on two cores
TOLERATED_MIB = 512.0  # a desktop's windows use this much of a GPU without computing anything
_LEAST_CORE_SECONDS = 1.0
_TOLERATED_WITH_GPU = 0.5
_TOLERATED_GPU_PERCENT = 10.0
_LEAST_FREE = 0.1
_LONGEST_NAME = 32


class OtherPrograms:
    """Measures the share of CPU time that other programs used while counting was switched on.

    The process `root` (by default this one) and its children, such as data loaders, do not count as others.
    """

    def __init__(self, root: int | None = None) -> None:
        self._process = psutil.Process(root)
        self._others_seconds = 0.0
        self._core_seconds = 0.0
        self._since: tuple[float, float, float] | None = None

    def count(self, is_on: bool) -> None:
        """Switch counting on or off."""
        if is_on and self._since is None:
            self._since = self._read()
        elif not is_on and self._since is not None:
            self._others_seconds, self._core_seconds = self._so_far()
            self._since = None

    def share(self) -> float:
        """Return the fraction of all cores' time that others used, or 0 before enough was counted."""
        others, total = self._so_far()
        return max(0.0, others / total) if total >= _LEAST_CORE_SECONDS else 0.0

    def _so_far(self) -> tuple[float, float]:
        if self._since is None:
            return self._others_seconds, self._core_seconds
        busy, total, own = (now - then for now, then in zip(self._read(), self._since, strict=True))
        return self._others_seconds + busy - own, self._core_seconds + total

    def _read(self) -> tuple[float, float, float]:
        # busy seconds of all cores, all their seconds, and this process's seconds
        whole = psutil.cpu_times()
        idle = whole.idle + getattr(whole, "iowait", 0.0)
        total = sum(whole) - getattr(whole, "guest", 0.0) - getattr(whole, "guest_nice", 0.0)
        own = self._process.cpu_times()
        seconds: float = own.user + own.system + own.children_user + own.children_system
        for child in self._process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it ended, and is among the children that were waited for
                times = child.cpu_times()
                seconds += times.user + times.system
        return total - idle, total, seconds


@dataclass(frozen=True)
class Usage:
    """The amount of a resource that other programs use (or leave free), and its main user, if known.

    `program` accounts for at least half of the use by other programs.
    """

    amount: float
    program: str | None = None


@dataclass(frozen=True)
class Busyness:
    """The load by other programs at one check: CPU as a fraction of all cores, memory, and GPU.

    `memory_bytes` is the machine's memory, `memory_left` how many bytes of it are free.
    """

    cpu: Usage = field(default_factory=lambda: Usage(0.0))
    memory_bytes: int = 0
    memory_left: Usage = field(default_factory=lambda: Usage(0.0))
    has_gpu: bool = False
    gpu_percent: Usage | None = None
    gpu_mib: Usage | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why a measurement would be unreliable now, as clauses. Empty on a quiet machine."""
        return tuple(self._reasons())

    @property
    def sentence(self) -> str:
        """All reasons in a sentence. "" on a quiet machine."""
        return f"This machine is busy: {', and '.join(self.reasons)}." if self.reasons else ""

    def _reasons(self) -> Iterator[str]:
        # one or two cores feed a GPU, so with one others may use more before a run suffers
        if self.cpu.amount >= (_TOLERATED_WITH_GPU if self.has_gpu else TOLERATED_SHARE):
            yield f"other programs use {100 * self.cpu.amount:.0f}% of the CPU{_busiest_words(self.cpu)}"
        if self.gpu_percent is not None and self.gpu_percent.amount >= _TOLERATED_GPU_PERCENT:
            percent = f"{self.gpu_percent.amount:.0f}%"
            yield f"other programs keep the GPU {percent} busy{_busiest_words(self.gpu_percent)}"
        if self.gpu_mib is not None and self.gpu_mib.amount > TOLERATED_MIB:
            held = memory_text(self.gpu_mib.amount)
            yield f"other programs use {held} of GPU memory{_busiest_words(self.gpu_mib)}"
        if self.memory_bytes and self.memory_left.amount < _LEAST_FREE * self.memory_bytes:
            amounts = (self.memory_left.amount, self.memory_bytes)
            left, whole = (size_text(amount) for amount in amounts)
            holder = f", mostly used by {self.memory_left.program}" if self.memory_left.program else ""
            yield f"only {left} of {whole} of memory are free{holder}"


def _busiest_words(taken: Usage) -> str:
    return f", mostly {taken.program}" if taken.program else ""


class LoadMonitor:
    """Measures how busy other programs kept CPU and GPU since the last measurement, or since its creation.

    A measurement takes 10 to 50 ms.
    """

    def __init__(self) -> None:
        self._others = OtherPrograms()
        self._others.count(True)
        self._known = _processes()
        self._since = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the last check, which should cover at least a second of one core."""
        return time.monotonic() - self._since

    def measure(self, device: str = "auto") -> Busyness:
        """Return the load by other programs since the last check, and the memory that they use now.

        Includes the GPU that a run on the device would use: "cuda:1", or the first for "auto".
        """
        share, self._others = self._others.share(), OtherPrograms()
        self._others.count(True)
        before, self._known, self._since = self._known, _processes(), time.monotonic()
        own = _own_pids()
        others = {key: process for key, process in self._known.items() if key[0] not in own}
        worked = (
            (new.name, new.seconds - before[key].seconds) for key, new in others.items() if key in before
        )
        memory = psutil.virtual_memory()
        names = {pid: process.name for (pid, _), process in others.items()}
        gpu = None if device == "cpu" else _gpu_load(int(device.partition(":")[2] or 0), own, names)
        return Busyness(
            cpu=Usage(share, _foremost(worked)),
            memory_bytes=memory.total,
            memory_left=Usage(
                memory.available, _foremost((other.name, other.size) for other in others.values())
            ),
            has_gpu=gpu is not None,
            gpu_percent=gpu[0] if gpu else None,
            gpu_mib=gpu[1] if gpu else None,
        )


class _Process(NamedTuple):
    name: str
    seconds: float
    size: float


def _processes() -> dict[tuple[int, float], _Process]:
    # every process by its pid and start, with its CPU seconds so far and its memory in bytes
    processes = {}
    for process in psutil.process_iter(["name", "create_time", "cpu_times", "memory_info"]):
        facts = process.info
        times, memory = facts["cpu_times"], facts["memory_info"]
        if times is not None and memory is not None:
            # a thread of the kernel, which has no memory of its own, is no program that could be closed
            given = facts["name"] or "" if memory.vms else ""
            # a program may name itself anything
            name = "".join(filter(str.isprintable, given))[:_LONGEST_NAME]
            processes[process.pid, facts["create_time"]] = _Process(
                name, times.user + times.system, memory.rss
            )
    return processes


def _own_pids() -> frozenset[int]:
    own = psutil.Process()
    return frozenset([own.pid, *(child.pid for child in own.children(recursive=True))])


def _foremost(taken: Iterable[tuple[str, float]]) -> str | None:
    # the program whose processes together use at least half of the sum
    sums: defaultdict[str, float] = defaultdict(float)
    for name, amount in taken:
        sums[name] += max(0.0, amount)
    total = sum(sums.values())
    name = max(sums, key=lambda name: sums[name], default="")
    return name if name and total > 0 and sums[name] >= total / 2 else None


def _gpu_load(
    index: int, own: frozenset[int], names: Mapping[int, str]
) -> tuple[Usage | None, Usage | None] | None:
    # Percent and MiB. None without a GPU to query. While no run trains, all its work is by other programs.
    # Imported only when asked: it would be a twentieth of the window's start
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        listed = [
            *pynvml.nvmlDeviceGetComputeRunningProcesses(handle),
            *pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle),
        ]
        held = {user.pid: user.usedGpuMemory for user in listed if user.pid not in own}
        program = _foremost((names.get(pid, ""), size or 0) for pid, size in held.items())
        # without every process's size the others' share is unknown
        sizes = [size for size in held.values() if size is not None]
        mib = Usage(sum(sizes) / BYTES_PER_MIB, program) if len(sizes) == len(held) else None
        with suppress(pynvml.NVMLError):
            return Usage(float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu), program), mib
        return None, mib
    except pynvml.NVMLError:
        return None
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
