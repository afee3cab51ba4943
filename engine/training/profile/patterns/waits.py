"""Patterns in what a step waits for: data, copies, the host's launches, the device, and idle cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from engine.protocol.advice import Advice, AdviceKind
from engine.protocol.profile import StepPart
from engine.protocol.profiles import (
    fast_recipe,
    fused_optimizer,
    kept_on_device,
    larger_batch,
    more_workers,
    pinned_memory,
)
from engine.training.profile.patterns.case import (
    Case,
    TimeAdvice,
    calling_operation,
    modules_of,
    names_words,
    trying,
)
from engine.training.profile.traces.trace import Wait
from engine.words.numbers import counted, number, share_text

_LAUNCH_US = 5.0
"""PyTorch's shortest launch of a kernel from Python; shorter kernels cannot keep the device busy."""

_MOST_TINY = 0.5
_LEAST_BYTES = 4_096
"""Copies of less are of single numbers."""


def starved(case: Case) -> Iterator[TimeAdvice]:
    """A loader that does not keep up."""
    ms, evidence = case.profile.bar.ms(StepPart.DATA), ""
    message, remedy, saved_ms = "keep the dataset on the device.", kept_on_device(case.experiment), ms
    if (workers := more_workers(case.experiment, case.profile)) is not None:
        message, (remedy, least_ms) = "let more processes load samples.", workers
        saved_ms = case.profile.step_ms - least_ms
        evidence = f" With {dict(remedy.changes)['data.workers']} a step takes {number(least_ms)} ms at best."
    yield TimeAdvice(
        saved_ms,
        Advice(
            kind=AdviceKind.STARVED,
            message=f"The loader does not keep up: {message}",
            evidence=f"Training waits for data {case.of_step(ms)}, with "
            f"{counted(case.experiment.data.workers, 'loader worker')}.{evidence}",
            **trying(remedy),
        ),
    )


def pageable_copy(case: Case) -> Iterator[TimeAdvice]:
    """Copies to the device out of memory that it cannot read by itself."""
    copies = [
        work
        for work in case.work
        if work.copy_kind == "HtoD" and work.is_pageable and (work.bytes or _LEAST_BYTES) >= _LEAST_BYTES
    ]
    ms = case.ms(copies)
    moved = sum(work.bytes or 0.0 for work in copies) / case.steps
    rate = f", at {number(moved / ms / 1e6)} GB/s" if moved and ms else ""
    remedy = pinned_memory(case.experiment)
    yield TimeAdvice(
        ms,
        Advice(
            kind=AdviceKind.PAGEABLE_COPY,
            message="Copies to the device come from pageable memory, and the program waits for each of them: "
            + ("pin the batches, to copy them while it computes." if remedy else "pin what is copied."),
            evidence=f"They take {case.of_step(ms)}, in {case.count(copies, 'transfer')}{rate}"
            f"{_called(copy.operation and calling_operation(copy.operation) for copy in copies)}.",
            modules=modules_of(copies),
            **trying(remedy),
        ),
    )


def synchronisation(case: Case) -> Iterator[TimeAdvice]:
    """The host waits for the device within a step, so that it launches too late."""
    copied = {id(work.operation) for work in case.work if work.is_pageable and work.copy_kind == "HtoD"}
    waits = [
        wait
        for wait in case.trace.waits
        if wait.place.step is not None
        and not wait.place.in_data
        and (wait.operation is None or id(wait.operation) not in copied)
    ]
    of_scaler = [wait for wait in waits if wait.place.in_optimizer and case.experiment.uses_scaler]
    others = [wait for wait in waits if wait not in of_scaler]
    yield from _of_scaler(case, of_scaler)
    ms = case.ms(others)
    modules = modules_of(others)
    yield TimeAdvice(
        min(ms, case.profile.bar.ms(StepPart.HOST)),
        Advice(
            kind=AdviceKind.SYNCHRONISATION,
            message="The program waits for the device within a step and launches nothing meanwhile"
            f"{f', in {names_words(modules)}' if modules else ''}: read values less often, and keep shapes "
            "independent of them.",
            evidence=f"It waits {case.of_step(ms)}, in {case.count(others, 'wait')}"
            f"{_called(calling_operation(wait.operation) or wait for wait in others)}.",
            modules=modules,
        ),
    )


def _of_scaler(case: Case, waits: Sequence[Wait]) -> Iterator[TimeAdvice]:
    ms = case.ms(waits)
    yield TimeAdvice(
        min(ms, case.profile.bar.ms(StepPart.HOST)),
        Advice(
            kind=AdviceKind.SYNCHRONISATION,
            message="GradScaler.step waits for the device, to know whether gradients overflowed; a fused "
            "optimizer finds that out on the device.",
            evidence=f"It waits {case.of_step(ms)}.",
            **trying(fused_optimizer(case.experiment)),
        ),
    )


def tiny_kernels(case: Case) -> Iterator[TimeAdvice]:
    """Kernels shorter than their launch, for which the device waits."""
    kernels = [work for work in case.work if work.kind == "kernel"]
    launched = [work for work in kernels if not work.is_in_graph]
    tiny = [work for work in launched if work.us < _LAUNCH_US]
    if not tiny or len(tiny) < _MOST_TINY * len(kernels):
        return
    experiment, ms = case.experiment, case.profile.bar.ms(StepPart.HOST)
    at_once = fast_recipe(experiment, "capture") if case.profile.device_type == "cuda" else None
    yield TimeAdvice(
        ms * len(tiny) / len(launched),
        Advice(
            kind=AdviceKind.TINY_KERNELS,
            message="Most kernels are shorter than their launch, so that the device waits for the next: "
            + ("launch the whole step at once." if at_once else "give each of them more work."),
            evidence=f"{share_text(len(tiny) / len(kernels))} of a step's "
            f"{case.count(kernels, 'kernel')} take less than {_LAUNCH_US:g} µs"
            f"{_called(calling_operation(work.operation) for work in tiny)}; "
            f"the device waits {case.of_step(ms)}.",
            **trying(at_once or larger_batch(experiment)),
        ),
    )


def idle_threads(case: Case) -> Iterator[TimeAdvice]:
    """Cores of the processor that do not compute."""
    threads, cores = case.profile.threads, case.profile.cores
    if threads is None or cores is None or threads >= cores:
        return
    bar = case.profile.bar
    computing = (StepPart.MATRIX_UNITS, StepPart.MATRIX, StepPart.MEMORY, StepPart.OPTIMIZER)
    ms = sum(bar.ms(part) for part in computing)
    yield TimeAdvice(
        ms * (1 - threads / cores),
        Advice(
            kind=AdviceKind.IDLE_THREADS,
            message=f"PyTorch computes on {threads:,} of {cores:,} cores: see what limits it, such as "
            "OMP_NUM_THREADS.",
            evidence=f"Its operations take {case.of_step(ms)}, and {share_text(1 - threads / cores)} of the "
            "cores are idle.",
        ),
    )


def _called(callers: Iterator[object]) -> str:
    """The operations that are to blame, the most frequent first: ", by aten::item and aten::nonzero"."""
    counts = Counter(str(getattr(by, "name", by)) for by in callers if by is not None)
    return f", by {names_words(name for name, _ in counts.most_common())}" if counts else ""
