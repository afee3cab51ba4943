"""A forward and a backward pass of one small batch on the CPU, and the mistakes that they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from engine.experiment.catalog import Precision
from engine.protocol.findings import Finding, FindingKind, Severity
from engine.training.checks.places import Places
from engine.training.checks.subject import Subject
from engine.training.checks.tree import Tree, described
from engine.training.checks.watches import LossWatch, WaitWatch
from engine.training.models.weightless import AsOnCuda
from engine.training.precision import autocast

_ONLY_ON_CPU = re.compile(
    r"cuda|\bcpu\b|triton|flash|not implemented for|same device|mkldnn|could not create a primitive", re.I
)
"""Errors that a device of another type may not have."""


class Pass:
    """One pass in a precision; what it returned is described in `outputs` and `loss`, empty where it failed.

    `tree` notes what the modules return. `counts`: the experiment is trained in this precision, so that an
    error of this pass ends it.
    """

    def __init__(
        self, subject: Subject, places: Places, precision: Precision, tree: Tree, *, counts: bool
    ) -> None:
        self.outputs = self.loss = ""
        self.tree, self.counts = tree, counts
        self.findings: list[Finding] = []
        self.is_complete = False
        self._subject, self._places = subject, places
        self._precision = precision
        self._waits = WaitWatch(places)
        self._losses = LossWatch(places, is_cuda=subject.is_cuda)

    def run(self) -> None:
        """Makes the pass; whatever the model raises becomes a finding."""
        try:
            self.findings += self._passed()
            self.is_complete = True
        except BaseException as error:  # noqa: BLE001 - the user's code may raise anything, SystemExit too
            self.findings += self._raised(error)
        self.findings = [*self._waits.findings(), *self._losses.findings(), *self.findings]

    def _passed(self) -> Iterator[Finding]:
        subject = self._subject
        subject.model.zero_grad(set_to_none=True)
        inputs, targets = subject.batch(0)
        with ExitStack() as stack:
            stack.enter_context(AsOnCuda() if subject.is_cuda else nullcontext())
            stack.enter_context(autocast(self._precision, subject.device))
            with self._waits, self.tree.watching():
                outputs = subject.forward(inputs)
            self.outputs = described(outputs)
            yield from _output_findings(outputs)
            with self._losses, self._waits:
                loss = subject.loss(outputs, targets)
        self.loss = described(loss)
        found = list(self._loss_findings(loss))
        yield from found
        if not any(finding.severity == "error" for finding in found):
            loss.backward()  # type: ignore[no-untyped-call]

    def _loss_findings(self, loss: Any) -> Iterator[Finding]:
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            shape = tuple(loss.shape) if isinstance(loss, torch.Tensor) else None
            what = f"a {type(loss).__name__}" if shape is None else f"a tensor of shape {shape}"
            yield self._of_loss(
                FindingKind.LOSS_NOT_SCALAR,
                "error",
                f"The loss is {what}, but it must be a scalar tensor.",
                "Reduce it, as by .mean().",
            )
        elif not loss.requires_grad:
            yield self._of_loss(
                FindingKind.NO_GRADIENT,
                "error",
                "The loss depends on no parameter: it has no gradient.",
                "Compute it from the outputs without .detach(), .item() or torch.no_grad().",
            )
        elif not bool(torch.isfinite(loss)):
            yield self._of_loss(
                FindingKind.LOSS_NOT_FINITE,
                "warning",
                f"The loss of a first batch is {float(loss)} in {self._precision.label}.",
                "Look for a logarithm of 0, a division by 0, or inputs that are too large.",
            )
        elif loss.dtype in (torch.float16, torch.bfloat16) and self._precision.is_autocast:
            yield self._of_loss(
                FindingKind.HALF_IN_LOSS,
                "warning",
                f"The loss itself is {str(loss.dtype).removeprefix('torch.')}: it is rounded to 3 digits, "
                "and in FP16 a usual loss scale overflows it.",
                "Compute the loss from outputs.float().",
            )

    def _of_loss(self, kind: FindingKind, severity: Severity, message: str, remedy: str) -> Finding:
        file, line = self._subject.loss_place
        return Finding(kind=kind, severity=severity, message=message, remedy=remedy, file=file, line=line)

    def _raised(self, error: BaseException) -> Iterator[Finding]:
        finding = raised(error, self._places)
        is_doubtful = self._subject.is_on_accelerator and _ONLY_ON_CPU.search(str(error)) is not None
        if is_doubtful:
            yield finding.model_copy(
                update={
                    "severity": "note",
                    "message": f"The model could not be checked on the CPU: {finding.message}",
                    "remedy": "Train it on its device to know more.",
                }
            )
        else:
            yield finding if self.counts else finding.model_copy(update={"severity": "warning"})


def raised(error: BaseException, places: Places, doing: str = "") -> Finding:
    """The finding of an error that the user's code, or a library with it, has raised."""
    place = places.of_error(error)
    words = " ".join(str(error).split()) or "without a message"
    what = "calls sys.exit" if isinstance(error, SystemExit) else f"raises {type(error).__name__}: {words}"
    return Finding(
        kind=FindingKind.RAISES,
        severity="error",
        message=f"{doing or 'A pass with a small batch'} {what[:_LONGEST].rstrip('.')}.",
        remedy="Correct the line, then check again.",
        file=None if place is None else place.file,
        line=None if place is None else place.line,
        detail=places.trace(error),
    )


_LONGEST = 500


def _output_findings(outputs: Any) -> Iterator[Finding]:
    tensors = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
    if not tensors or any(tensor.is_floating_point() for tensor in tensors):
        return
    yield Finding(
        kind=FindingKind.OUTPUT_NOT_FLOAT,
        severity="error",
        message=f"The model returns {described(outputs)}, which is no float, so no gradient can pass.",
        remedy="Return the logits themselves, not their argmax or a cast of them to integers.",
    )
