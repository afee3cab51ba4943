"""Steps recorded by torch.profiler, with marks that tell what each record belongs to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, chdir, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from engine.training.profile.marks import DATA, MODULE, OPTIMIZER, STEP, VALIDATION
from engine.training.profile.steps import Steps
from engine.training.runs.run import Run
from engine.training.steps.own import OwnStep
from engine.training.steps.plain import PlainStep, TrainingStep

_DEVICE_ACTIVITIES = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}
_LEAST_WARMUP = 2


def record(steps: Steps, recorded: int, path: Path, *, shapes: bool = True) -> bool:
    """Writes the Chrome trace of `recorded` steps and a validation batch to `path`; False if stopped.

    The steps before them are made with the profiler switched on but not recorded: its start is slow, and a
    loader fills its queue meanwhile. With `shapes` the operations' inputs are described.
    """
    run = steps.run
    _prepare_kineto(is_captured=run.step.running is None)
    data = run.experiment.data
    warmup = _LEAST_WARMUP + data.workers * data.prefetch
    steps.only_whole = True
    steps.wait()
    with ExitStack() as stack:
        profiler = stack.enter_context(
            profile(
                activities=_activities(run.device),
                schedule=schedule(wait=0, warmup=warmup, active=recorded, repeat=1),
                record_shapes=shapes,
            )
        )
        for number in range(warmup + recorded):
            if steps.must_end:
                return False
            if number == warmup:
                stack.enter_context(_marks_within(run.step))
            steps.enter_epoch()
            with record_function(STEP):
                with record_function(DATA):
                    group = steps.next_group()
                run.train_on(group)
            if number == warmup - 1:
                # kernels still in flight have no recorded launch, and would count for the first step
                _wait(run.device)
            if number < warmup + recorded - 1:
                profiler.step()
        _wait(run.device)
        validate_batch(run, record_function(VALIDATION))
        steps.interrupt_loading()
    steps.wait()
    # on Windows Kineto opens no file whose name the code page lacks, such as a temporary folder of its user's
    is_plain = str(path).isascii()
    with nullcontext() if is_plain else chdir(path.parent):
        profiler.export_chrome_trace(str(path) if is_plain else path.name)
    return True


def _prepare_kineto(*, is_captured: bool) -> None:
    # what torch.profiler's library says is for its authors, not for a run's log
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    if is_captured:
        # as torch.profiler does for the compiler's graphs: CUPTI must not go and come back under a graph
        os.environ.setdefault("TEARDOWN_CUPTI", "0")
        os.environ.setdefault("DISABLE_CUPTI_LAZY_REINIT", "1")


def validate_batch(run: Run, mark: AbstractContextManager[Any]) -> None:
    """Validates on one batch within `mark`, where the experiment validates."""
    validation = run.experiment.validation
    if not (validation.every and run.source.has_validation):
        return
    batches = list(islice(run.source.validation(validation.limit), 1))
    with mark:
        run.validate_on(batches)


def hides_modules(step: TrainingStep) -> bool:
    """True for a step that runs without the Python code of its modules."""
    return step.running is None or step.running.watched is not step.model


def _activities(device: torch.device) -> list[ProfilerActivity]:
    of_device = _DEVICE_ACTIVITIES.get(device.type)
    return [ProfilerActivity.CPU, *([] if of_device is None else [of_device])]


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


@contextmanager
def _marks_within(step: TrainingStep) -> Iterator[None]:
    with ExitStack() as stack:
        if step.running is not None:
            stack.enter_context(_optimizer_marks(step.running))
        if not hides_modules(step):
            stack.enter_context(_module_marks(step.model))
        yield


@contextmanager
def _optimizer_marks(step: PlainStep) -> Iterator[None]:
    names = ("unscale", "make", "end_cycle") if isinstance(step, OwnStep) else ("update",)
    for name in names:
        setattr(step, name, record_function(OPTIMIZER)(getattr(step, name)))
    try:
        yield
    finally:
        for name in names:
            delattr(step, name)


@contextmanager
def _module_marks(model: nn.Module) -> Iterator[None]:
    handles = []
    for name, module in _watchable(model):
        begin, end = _mark_hooks(MODULE + name)
        handles += [
            module.register_forward_pre_hook(begin),
            # also after a failed forward: recomputing activations ends with an exception
            module.register_forward_hook(end, always_call=True),
        ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _watchable(model: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    if isinstance(model, torch.jit.ScriptModule | torch._dynamo.OptimizedModule):
        return
    yield name, model
    for child_name, child in model.named_children():
        yield from _watchable(child, f"{name}.{child_name}" if name else child_name)


def _mark_hooks(mark: str) -> tuple[Callable[..., None], Callable[..., None]]:
    # a module may call itself, and is called again where its activations are recomputed
    open_marks: list[Any] = []

    def begin(*_: Any) -> None:
        opened = record_function(mark)
        opened.__enter__()  # type: ignore[no-untyped-call]
        open_marks.append(opened)

    def end(*_: Any) -> None:
        if open_marks:
            open_marks.pop().__exit__(None, None, None)

    return begin, end
