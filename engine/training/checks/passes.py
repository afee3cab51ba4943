"""A forward and a backward pass of a small batch on the CPU, and the mistakes found in them."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import nn

from engine.experiment.catalog import OWN_DATA, Precision
from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.experiment.value import shortened
from engine.installation.missing import package_remedy
from engine.protocol.advice import Finding, FindingKind, Severity
from engine.training.checks import places, watches
from engine.training.checks.autocasts import AutocastWatch
from engine.training.checks.places import CodePlace, ModuleOutputs
from engine.training.checks.static import definition_place
from engine.training.data.batches import Batch, move_batch
from engine.training.models.build import REGRESSION_FEATURES
from engine.training.models.own import error_line, own_frames, run_backward, with_forward_line
from engine.training.models.weightless import CudaSemantics
from engine.training.precision import autocast, leaf_tensors
from engine.training.runs.plan import RunPlan
from engine.training.runs.prepare import with_plain_step
from engine.training.runs.workload import Workload
from engine.training.steps.own import ADDED_UP, BrokenRuleError, OwnStep

SAMPLES = 2  # in a batch: the fewest with which a batch norm can be trained
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Subject:
    """The model and batches that Check runs on the CPU. The run itself will use the plan's device."""

    plan: RunPlan
    model: nn.Module
    batches: tuple[Batch, ...]

    @property
    def workload(self) -> Workload:
        return self.plan.workload

    @property
    def is_cuda(self) -> bool:
        return self.plan.device.type == "cuda"

    def loss(self, outputs: Any, targets: Any) -> Any:
        """Return the loss, not yet validated if it is the user's own."""
        own = self.workload.own
        function = own.function("loss") if own is not None else None
        return (function or self.workload.loss)(outputs, targets)


def small_batches(plan: RunPlan) -> tuple[Batch, ...]:
    """Return two small batches of the plan's data on the CPU. Raises ProblemError, and errors of the data."""
    return tuple(move_batch(batch, CPU) for batch in islice(_batches(plan), 2))


def _batches(plan: RunPlan) -> Iterator[Batch]:
    few = plan.workload.small_own_batch()
    if few is not None:
        yield from (few, few)
        return
    if not plan.dataset_entry.needs_path:
        yield from (_random_batch(plan, number) for number in range(2))
        return
    data = plan.experiment.data.model_copy(update={"workers": 0, "on_device": False})
    workload = copy.copy(plan.workload)
    workload.experiment = plan.experiment.model_copy(update={"batch_size": SAMPLES, "data": data})
    with closing(workload.source(CPU, torch.contiguous_format)) as source:
        yield from islice(source.epoch(1), 2)


def _random_batch(plan: RunPlan, number: int) -> Batch:
    # in the shapes of the catalog's dataset, which may have to be downloaded
    experiment, generator = plan.experiment, torch.Generator().manual_seed(number)
    classes = (0, max(1, experiment.num_classes or 1))
    task = experiment.dataset.task
    if task == "language":
        shape = (SAMPLES, experiment.sequence_length)
        tokens = torch.randint(*classes, shape, generator=generator)
        return tokens, torch.randint(*classes, shape, generator=generator)
    if task == "regression":
        inputs = torch.randn(SAMPLES, REGRESSION_FEATURES, generator=generator)
        return inputs, torch.randn(SAMPLES, 1, generator=generator)
    side = plan.facts.image_size
    pictures = torch.randn(SAMPLES, plan.workload.channels, side, side, generator=generator)
    return pictures, torch.randint(*classes, (SAMPLES,), generator=generator)


# errors that a device of another type may not have
_ONLY_ON_CPU = re.compile(
    r"cuda|\bcpu\b|triton|flash|not implemented for|same device|mkldnn|could not create a primitive", re.I
)


class Pass:
    """One forward pass of Check in one precision, with a backward pass if `has_backward`, and its findings.

    `counts` is True if an error in this pass would also end the run.
    """

    def __init__(
        self, subject: Subject, batch: Batch, precision: Precision, *, counts: bool, has_backward: bool
    ) -> None:
        self.outputs = self.loss = ""
        self.findings: list[Finding] = []
        self.is_complete = False
        self.counts, self._goes_back = counts, has_backward
        self._names: tuple[str, ...] = ("loss", "forward")
        self.tree = ModuleOutputs(subject.model)
        self._subject, self._batch, self._precision = subject, batch, precision
        self._waits = watches.SyncWatch()
        self._losses = watches.LossWatch(self.tree, is_cuda=subject.is_cuda, counts=counts)
        self._refusals = self._refusal_watch(is_cuda=subject.is_cuda)
        self._gradients = watches.GradientWatch(subject.model)
        self._formats: list[watches.CastRecorder | watches.EpsilonWatch] = []
        if not precision.is_autocast:
            self._formats.append(watches.CastRecorder(subject.model))
        elif subject.workload.experiment.precision in (Precision.FP16, Precision.FP16_UNSCALED):
            # perhaps tried in BF16, which is quicker
            self._formats.append(watches.EpsilonWatch(is_cuda=subject.is_cuda))
        target = subject.plan.device.type
        self._autocasts = AutocastWatch(subject.workload.experiment, precision, target)
        # without effect in a pass of another precision than the run's
        device = subject.plan.device if counts else torch.device("meta")
        self._attention = watches.AttentionWatch(subject.workload.experiment.step.attention, device)
        self._infinite_loss: float | None = None
        self._step: OwnStep | None = None

    @property
    def unused(self) -> watches.Unused | None:
        """The trainable parameters without a gradient in the pass. None without a complete backward pass."""
        return None if self.reached is None else self._gradients.missing

    @property
    def reached(self) -> frozenset[int] | None:
        """The ids of the parameters that got a gradient. None without a complete backward pass."""
        is_known = self.is_complete and (self._goes_back or self._subject.workload.body is not None)
        return frozenset(self._gradients.reached) if is_known else None

    def run(self) -> None:
        """Make the pass. Any error of the model becomes a finding."""
        self._subject.model.zero_grad(set_to_none=True)
        try:
            with ExitStack() as stack:
                stack.enter_context(CudaSemantics() if self._subject.is_cuda else nullcontext())
                watched = (self._gradients, self._losses, self._refusals, self._waits, self._autocasts)
                for watch in (*watched, *self._formats, self._attention):
                    stack.enter_context(watch)
                stack.enter_context(self.tree.watching())
                with_forward_line(self._make)
            if self._step is not None:
                self._find_a_step(self._step)
            self.is_complete = True
            if self._infinite_loss is not None:
                self.findings.append(self._not_finite(self._infinite_loss))
            if self._refusals and not self._subject.is_cuda:
                self._look_again_as_on_cuda()
        except BaseException as error:  # noqa: BLE001 - the user's code may raise anything, SystemExit too
            self.findings.append(self._raised(error))
        noting = (self._waits, self._losses, self._refusals, self._attention, *self._formats)
        self.findings = [*(found for watch in noting for found in watch.findings()), *self.findings]
        self.findings += self._autocasts.findings(counts=self.counts)

    def _refusal_watch(self, *, is_cuda: bool) -> watches.RefusalWatch:
        asked = self._subject.workload.experiment.precision
        is_fp16 = asked in (Precision.FP16, Precision.FP16_UNSCALED)
        half = torch.float16 if is_fp16 else torch.bfloat16
        return watches.RefusalWatch(half, is_cuda=is_cuda, counts=self.counts)

    def _look_again_as_on_cuda(self) -> None:
        # other operations have 16 bits there
        found, self._refusals = list(self.findings), self._refusal_watch(is_cuda=False)
        # what fails only there is known by name
        with suppress(Exception), CudaSemantics(), self._refusals:
            self._make()
        self.findings = found

    def _make(self) -> None:
        if self._subject.workload.body is not None:
            self._own_step()
            return
        workload, model = self._subject.workload, self._subject.model
        inputs, targets = self._batch
        with autocast(self._precision, CPU):
            outputs = workload.call(model, inputs)
            self.outputs = places.describe_tensors(outputs)
            self.findings += _output_findings(outputs, places.forward_place(model))
            loss = self._subject.loss(outputs, targets)
        self.loss = places.describe_tensors(loss)
        found = list(self._loss_findings(loss))
        self.findings += found
        if self._goes_back and not any(finding.severity == "error" for finding in found):
            self._names = ("forward",)
            run_backward(loss, loss.backward)

    def _not_finite(self, loss: float) -> Finding:
        # the pass is made again to see where that began
        subject, watch = self._subject, watches.NonfiniteWatch()
        inputs, targets = self._batch
        with CudaSemantics() if subject.is_cuda else nullcontext(), watch, autocast(self._precision, CPU):
            subject.loss(subject.workload.call(subject.model, inputs), targets)
        why, remedy = watch.explained()
        message = f"The loss of a first batch is {loss} in {self._precision.label}{why}."
        place = watch.place or self._loss_place
        return places.finding_at(place, FindingKind.LOSS_NOT_FINITE, "warning", message, remedy)

    def _own_step(self) -> None:
        # on a model that is thrown away
        subject, workload = self._subject, self._subject.workload
        settings = with_plain_step(workload.experiment).model_copy(update={"precision": self._precision})
        self._names = ("optimizer",)
        step = workload.step(subject.model, settings, CPU)
        self._names = ("step",)
        step([self._batch])
        assert isinstance(step, OwnStep)
        self._step = step

    def _find_a_step(self, step: OwnStep) -> None:
        # it may skip a batch, but not all of them
        with self._gradients:
            while not step.has_stepped:
                step([self._batch])
        place = definition_place(self._subject.workload.experiment.own_code, "step")
        severity: Severity = "error" if self._subject.workload.experiment.uses_scaler else "warning"
        for rule, broken_at in step.rules.broken.items():
            message, at = f"In FP16, {rule.message}", broken_at and CodePlace(*broken_at)
            self.findings.append(
                places.finding_at(at, FindingKind.SCALER_RULE, severity, message, rule.remedy)
            )
        if step.adds_up:
            self.findings.append(places.finding_at(place, FindingKind.SKIPS_BATCHES, "warning", *ADDED_UP))

    def _loss_findings(self, loss: Any) -> Iterator[Finding]:
        place = self._loss_place
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            is_tensor = isinstance(loss, torch.Tensor)
            what = f"tensor of shape {tuple(loss.shape)}" if is_tensor else type(loss).__name__
            message = f"The loss is a {what}, but it must be a scalar tensor."
            yield places.finding_at(
                place, FindingKind.LOSS_NOT_SCALAR, "error", message, "Reduce it, for example with .mean()."
            )
        elif not loss.requires_grad:
            message = "The loss does not depend on a parameter, so it has no gradient."
            remedy = "Compute it from the outputs without .detach(), .item() or torch.no_grad()."
            yield places.finding_at(place, FindingKind.NO_GRADIENT, "error", message, remedy)
        elif not bool(torch.isfinite(loss)):
            self._infinite_loss = loss.item()
        elif loss.dtype in (torch.float16, torch.bfloat16) and self._precision.is_autocast:
            rounded = "so it is rounded to 3 digits, and in FP16 a typical loss scale makes it overflow"
            message = f"The loss itself is {places.dtype_text(loss)}, {rounded}."
            remedy = "Compute the loss from outputs.float()."
            yield places.finding_at(place, FindingKind.HALF_IN_LOSS, "warning", message, remedy)

    @property
    def _loss_place(self) -> CodePlace | None:
        return definition_place(self._subject.workload.experiment.own_code, "loss")

    def _raised(self, error: BaseException) -> Finding:
        experiment = self._subject.workload.experiment
        finding = error_finding(error, experiment, *self._names)
        changes: dict[str, str] = {} if self.counts else {"severity": "warning"}
        is_ours = isinstance(error, ProblemError) or experiment.own_code is None
        if not is_ours and experiment.dataset != OWN_DATA:
            inputs = f"{experiment.dataset}, {places.describe_tensors(self._subject.batches[0][0])}"
            choices = "Correct the model, choose other data, or define batch(size) or dataset()"
            changes["remedy"] = f"The inputs come from {inputs}. {choices}."
        if self._subject.plan.device.type != "cpu" and _ONLY_ON_CPU.search(str(error)) is not None:
            message = f"The model could not be checked on the CPU: {finding.message}"
            changes = {
                "severity": "note",
                "message": message,
                "remedy": "Train it on its device to find out more.",
            }
        return finding.model_copy(update=changes)


def error_finding(error: BaseException, experiment: Experiment, *names: str) -> Finding:
    """Return the finding for an error in the user's code, at the line that raised it.

    If the error was raised in other code, it is placed at the first function of `names` that the user's file
    defines.
    """
    remedy = "Fix the line, then check again."
    if isinstance(error, ProblemError) and error.__cause__ is not None and own_frames(error.__cause__):
        error = error.__cause__
    place, code = places.place_of(error), experiment.own_code
    file, line = (None, None) if place is None else (place.file, place.line)
    if code is not None and (place is None or not place.is_users):
        defined = next(filter(None, (definition_place(code, name) for name in names)), None)
        file, line = (file or code.file, line) if defined is None else (defined.file, defined.line)
    if isinstance(error, ProblemError):
        message, remedy = error.problem.message, error.problem.remedy
    elif isinstance(error, SystemExit):
        message = "The code calls sys.exit, which ends the process that runs it."
    else:
        words = shortened(" ".join(error_line(error).split()), _LONGEST).rstrip(".")
        kind = type(error).__name__
        message = f"The code raises an error: {words} ({kind})." if words else f"The code raises {kind}."
        remedy = package_remedy(error, "the file" if code is None else code.file) or remedy
    return Finding(
        kind=FindingKind.SCALER_RULE if isinstance(error, BrokenRuleError) else FindingKind.RAISES,
        severity="error",
        message=message,
        remedy=remedy,
        file=file,
        line=line,
        detail=places.user_traceback(error),
    )


_LONGEST = 500


def _output_findings(outputs: Any, place: CodePlace | None) -> Iterator[Finding]:
    tensors = leaf_tensors(outputs)
    if not tensors or any(tensor.is_floating_point() for tensor in tensors):
        return
    returned = places.describe_tensors(outputs)
    message = f"The model returns {returned}, which is not floating-point, so it has no gradient."
    remedy = "Return the logits themselves, not their argmax or a cast to integers."
    yield places.finding_at(place, FindingKind.OUTPUT_NOT_FLOAT, "error", message, remedy)
