"""What this card does where the program relies on it, a line each: what it told, and what is expected."""

from __future__ import annotations

import gc
import math
import os
import statistics
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pynvml
import torch
from torch.nn.functional import cross_entropy, dropout

from day.work import StepError, Work
from engine.experiment.experiment import Experiment, layered
from engine.experiment.value import BYTES_PER_MIB
from engine.limit.result import TOLERATED_LEAK_MIB
from engine.protocol import jobs
from engine.protocol.events import Failed, Profiled
from engine.protocol.jobs import Control
from engine.protocol.profile import Limits, Peak
from engine.protocol.trials import Tried
from engine.training.measuring.memory import memory_meter
from engine.training.measuring.sensors import NvmlReader, ThreadedGauge, nvml_handle
from engine.training.measuring.telemetry import clock_for
from engine.training.models.build import build_model
from engine.training.runs.trial import try_batch
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import build_step, cudnn_search
from engine.worker.launcher import iterate

_LIMITS = Limits(peaks=(Peak(format="fp32", tflops=20.0),), gb_per_second=1_000)
"""Measuring them would take longer than the recording that is looked at."""
_GRAPH_SECONDS = 120.0


def suspects(work: Work) -> None:
    """Asks one after another.

    First it records a graph that was captured before the profiler began, in a worker of its own: that made
    CUPTI hang or die (https://github.com/pytorch/pytorch/issues/75504), until CUDA 12.6 as is said.
    """
    kernels, why = _kernels_of_a_graph(work)
    work.tell("graph", kernels, why)
    ask, broken = _Suspects(work), []
    for suspect in (
        ask.processes,
        ask.cost_of_looking,
        ask.host_time_of_a_step,
        ask.cost_of_the_gauge,
        ask.broken_captures,
        ask.ooms_in_a_capture,
        ask.marks,
    ):
        try:
            print(f"{suspect.__name__}: {suspect()}", flush=True)
        except Exception:  # noqa: BLE001 - the next one is asked whatever became of this one
            traceback.print_exc()
            broken.append(suspect.__name__)
    work.tell("suspects", len(broken), ", ".join(broken))


def _kernels_of_a_graph(work: Work) -> tuple[int, str]:
    """How many kernels were recorded, and why none."""
    asked = {
        "model": work.small("resnet18", "small-cnn"),
        "dataset": "synthetic",
        "image_size": 32,
        "batch_size": work.small(128, 4),
        "precision": work.half,
        "device": work.device,
        "steps": 40,
        "step": {"recipe": "fused+capture"},
    }
    job = jobs.Profile(experiment=Experiment.model_validate(asked), limits=_LIMITS)
    until = time.monotonic() + _GRAPH_SECONDS
    with work.launcher() as launcher:
        session = launcher.start(job)
        try:
            for event in iterate(session):
                match event:
                    case Failed(problem=problem):
                        return 0, problem.message
                    case Profiled(profile=profile):
                        is_graph = any("one graph" in note for note in profile.notes)
                        if not is_graph and not work.is_rehearsal:
                            return 0, f"nothing was captured: {profile.notes}"
                        return len(profile.kernels), f"in {profile.recorded_ms:,.2f} ms a step"
                if time.monotonic() > until:
                    return 0, f"it hung for {_GRAPH_SECONDS:.0f} s"
        finally:
            session.close()
    return 0, "nothing was told"


class _Peeking(torch.nn.Module):
    """Reads a value on the host, which no graph can hold; drops some at random."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.nn.Linear(3 * 32 * 32, 100)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.last(dropout(inputs.flatten(1), 0.5, self.training))
        return outputs * (1.0 if outputs.sum().item() > 0 else 0.5)


@dataclass(frozen=True)
class _Suspects:
    """Each answers in words. On a CPU, which has no NVML and no allocator to ask, only the rest is asked."""

    work: Work

    @property
    def _device(self) -> torch.device:
        return torch.device(self.work.device)

    def processes(self) -> str:
        """Whether NVML knows this process; what it takes for other programs makes a comparison unclean."""
        if self.work.is_rehearsal:
            return "there is no card"
        held = torch.empty(300 * BYTES_PER_MIB, dtype=torch.uint8, device=self._device)
        reader = NvmlReader(self._device)
        handle = nvml_handle(self._device)
        listed = {
            each.pid: each.usedGpuMemory for each in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        }
        used_mib = pynvml.nvmlDeviceGetMemoryInfo(handle).used / BYTES_PER_MIB
        others = reader.read().values.get("other_programs_mib")
        reader.close()
        del held
        own = f"this one ({os.getpid()}) among them: {os.getpid() in listed}"
        return (
            f"{listed}, {own}; {used_mib:,.0f} MiB used; "
            f"other programs: {others} MiB (expected: 0, or None where the driver does not tell)"
        )

    def cost_of_looking(self) -> str:
        """Measure the host's time for what a run asks several times a second, and for each mark."""
        meter, clock = memory_meter(self._device), clock_for(self._device)
        earlier, later = clock.mark(), clock.mark()
        self._wait()
        calls: dict[str, Callable[[], object]] = {
            "memory sample": meter._read,
            "mark": clock.mark,
            "time between marks": lambda: clock.seconds_between(earlier, later),
        }
        if not self.work.is_rehearsal:
            reader = NvmlReader(self._device)
            calls["NVML look"] = reader.read
        return ", ".join(f"{name} {self._microseconds(call):,.0f} us" for name, call in calls.items())

    def host_time_of_a_step(self) -> str:
        step = self._steady()
        count, batch = self.work.small(50, 2), self._batch()
        self._wait()
        began = time.perf_counter()
        for _ in range(count):
            step(batch)
        host = time.perf_counter() - began
        self._wait()
        whole = time.perf_counter() - began
        return (
            f"a step takes the host {host / count * 1e6:,.0f} us and the card {whole / count * 1e6:,.0f} us; "
            f"in force: {step.record.recipe}, left out: {dict(step.record.left_out)}"
        )

    def cost_of_the_gauge(self) -> str:
        """Captured steps a second while a thread asks NVML, over those without it."""
        step, batch, count = self._steady(), self._batch(), self.work.small(600, 2)

        def speed(is_asked: bool) -> float:
            gauge = None
            if is_asked and not self.work.is_rehearsal:
                reader = NvmlReader(self._device)
                gauge = ThreadedGauge(reader.read, on_close=reader.close)
            self._wait()
            began = time.perf_counter()
            for _ in range(count):
                step(batch)
            self._wait()
            taken = time.perf_counter() - began
            if gauge is not None:
                gauge.close()
            return count / taken

        ratios = []
        for number in range(self.work.small(6, 1)):
            asked, not_asked = (
                (speed(True), speed(False)) if number % 2 else (speed(False), speed(True))[::-1]
            )
            ratios.append(asked / not_asked)
        return f"{statistics.median(ratios):.3f} (expected: at least 0.995)"

    def broken_captures(self) -> str:
        """What captures that fail leave behind, and whether one that can be made still works after them."""
        told = []
        for _ in range(self.work.small(3, 1)):
            step = self._steady(model=_Peeking())
            left_out = dict(step.record.left_out)
            del step
            told.append(f"{left_out}, held after it: {self._held_bytes():,} bytes")
        works = self._steady()
        if not self.work.is_rehearsal:
            pinned = torch.empty(4 * BYTES_PER_MIB, dtype=torch.uint8, pin_memory=True)
            told.append(f"pinned memory is still to be had: {pinned.is_pinned()}")
        record = works.record
        return f"{'; '.join(told)}; then in force: {record.recipe}, left out: {dict(record.left_out)}"

    def ooms_in_a_capture(self) -> str:
        """Batches around what fits, some of which break in the capture itself."""
        sizes = self.work.small((32, 128, 256, 384, 448, 512, 576, 640, 768, 32), (2,))
        told = [self._tried(size) for size in sizes]
        words = [
            f"{one.trial.batch_size}{'' if one.trial.fits else f' x after {one.trial.steps} steps'}"
            for one in told
        ]
        most = max(one.leaked_mib for one in told)
        # a CPU's process that was in use before keeps pieces of its heap
        if most > self.work.small(TOLERATED_LEAK_MIB, math.inf) or not told[-1].trial.fits:
            raise StepError(f"{most:,.1f} MiB leaked, or the last does not fit: {', '.join(words)}")
        return f"{', '.join(words)}; at most {most:.3f} MiB leaked"

    def marks(self) -> str:
        """Marks in a row, whose differences show how coarse the device's clock is."""
        clock = clock_for(self._device)
        first = clock.mark()
        later = [clock.mark() for _ in range(5)]
        self._wait()
        return ", ".join(f"{clock.seconds_between(first, mark) * 1e6:.2f} us" for mark in later)

    def _tried(self, batch_size: int) -> Tried:
        asked: Mapping[str, Any] = {
            "model": "small-cnn",
            "dataset": "synthetic",
            "image_size": 64,
            "num_classes": 10,
            "samples": 1_000_000,
            "device": self.work.device,
            "steps": 20,
            "memory_cap_gib": 0.5,
            "precision": self.work.half,
            "step": {"recipe": "fused+capture"},
            "batch_size": batch_size,
        }
        last = list(try_batch(Experiment.model_validate(asked), Control()))[-1]
        assert isinstance(last, Tried)
        return last

    def _steady(self, model: torch.nn.Module | None = None) -> PlainStep:
        """A small captured step after its warm-up and its capture."""
        recipe = "fused+capture" if model is not None else "channels_last+fused+capture"
        tables = {"precision": self.work.half, "measure": {"warmup_steps": 3}, "step": {"recipe": recipe}}
        experiment = Experiment.model_validate(layered(tables))
        if model is None:
            name = self.work.small("resnet18", "small-cnn")
            model = build_model(name, image_size=32, channels=3, num_classes=100, seed=0)
        with cudnn_search(bool(experiment.step.parts)):
            step = build_step(model, cross_entropy, experiment, self._device, is_convolutional=True)
            for _ in range(self.work.small(20, 2)):
                step(self._batch())
        return step

    def _batch(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        count = self.work.small(128, 4)
        pictures = torch.randn(count, 3, 32, 32, device=self._device)
        channels_last = pictures.contiguous(memory_format=torch.channels_last)
        return [(channels_last, torch.randint(100, (count,), device=self._device))]

    def _held_bytes(self) -> int:
        gc.collect()
        if self.work.is_rehearsal:
            return 0
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        return int(torch.cuda.memory_allocated())

    def _microseconds(self, call: Callable[[], object]) -> float:
        call()
        self._wait()
        taken = []
        for _ in range(self.work.small(200, 2)):
            began = time.perf_counter()
            call()
            taken.append(time.perf_counter() - began)
        return statistics.median(taken) * 1e6

    def _wait(self) -> None:
        if not self.work.is_rehearsal:
            torch.cuda.synchronize()
