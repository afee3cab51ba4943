"""Check: two small batches on the CPU through the model and loss of an experiment, without training."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.experiment.value import MOST_ENTRIES
from engine.protocol.advice import Checked, Finding, FindingKind, LinearLayer, NotInFP8, Severity
from engine.training.checks.formats import FormatCheck
from engine.training.checks.passes import CPU, Pass, Subject, raised, small_batches
from engine.training.checks.places import CodePlace, ModuleTree, finding_at, running, tensors_text
from engine.training.checks.static import static_findings, waits_in_text
from engine.training.checks.watches import gradient_findings
from engine.training.doctor import read_catalog
from engine.training.models.build import count_parameters
from engine.training.models.fp8 import layers_sentence, layers_table
from engine.training.models.sizes import size_findings
from engine.training.precision import EMULATED_NOTE
from engine.training.runs.prepare import UNCOMPILED_FP8, RunPlan

LIMIT_SECONDS = 60.0
# A model that takes longer in FP32 goes only forward under autocast, and in BF16 in place of FP16: a CPU may
# have to emulate both, FP16 ten times slower. Autocast casts the same operations to either.
_QUICK_SECONDS = 1.0
_LARGE = 100_000_000  # parameters of a model that a CPU may take minutes to pass a batch through
# functions of the user's that may take long to read what they read
_READ_DATA = frozenset({"dataset", "validation_dataset", "__getitem__", "__iter__", "collate"})
_GRAVITY = ("error", "warning", "note")


def check(experiment: Experiment, limit_seconds: float = LIMIT_SECONDS) -> Checked:
    """Return the findings on a model and its file, on the CPU, within the limit. Raises ProblemError."""
    began = time.perf_counter()
    work = _Work(experiment)
    # not in this thread: one that never returns cannot be left
    thread = threading.Thread(target=work.run, name="check", daemon=True)
    with _counted_parameters(work):
        thread.start()
        thread.join(limit_seconds)
    if thread.is_alive():
        work.report_timeout(limit_seconds, *running(thread.ident))
    elif work.problem is not None:
        raise work.problem
    return work.answer(time.perf_counter() - began)


class _Work:
    def __init__(self, experiment: Experiment) -> None:
        self.findings: list[Finding] = []
        self.problem: Exception | None = None
        self._experiment = experiment
        self._subject: Subject | None = None
        self._formats: FormatCheck | None = None
        self._passes: list[Pass] = []
        self._linear_layers: tuple[LinearLayer, ...] = ()
        self._is_given_up = False
        self.built_parameters = 0  # of all modules, counted as these are made

    def run(self) -> None:
        experiment = self._experiment
        try:
            self.findings += static_findings(experiment)
        except Exception as error:  # noqa: BLE001 - ours: a thread that ends by it would have found nothing
            self.problem = error
            return
        made = experiment.model.class_name or "model"
        is_there = experiment.own_code is not None and made in experiment.own_code.defines
        # what makes no model has no line to correct
        names: tuple[str, ...] = ("dataset", "batch", made) if is_there else ()
        try:
            plan = RunPlan(experiment, read_catalog())
            names = (made,)
            model = plan.workload.build().to(CPU).train()
            names = ("dataset", "batch")
            self._check(plan, Subject(plan, model, small_batches(plan)))
        except BaseException as error:  # noqa: BLE001 - the user's code may raise anything, SystemExit too
            if isinstance(error, Exception) and not self._is_users(error):
                self.problem = error
            else:
                self.findings.append(raised(error, experiment, *names))

    def _is_users(self, error: Exception) -> bool:
        # in the file, not in the other settings
        is_settings = isinstance(error, ProblemError) and error.problem.key not in (None, "model")
        return self._experiment.own_code is not None and not is_settings

    def _check(self, plan: RunPlan, subject: Subject) -> None:
        experiment = plan.experiment
        self._subject = subject
        self._formats = FormatCheck(subject)
        if plan.device_entry.tensor_cores and experiment.precision.is_narrow:
            self.findings += size_findings(subject.model, experiment.batch_size)
        if experiment.precision is Precision.FP8:
            self._linear_layers = plan.layers_of(subject.model, experiment)
            self.findings += _fp8_findings(plan, self._linear_layers)
        elif note := plan.device_entry.precision(experiment.precision).hardly_faster:
            message = f"On {plan.device_entry.title} {note}."
            remedy = "Choose another precision to save time. Memory is saved in any case."
            self.findings.append(finding_at(None, FindingKind.EMULATED, "warning", message, remedy))
        began = time.perf_counter()
        autocast = experiment.precision if experiment.precision.is_autocast else Precision.BF16
        for precision, batch in zip((Precision.FP32, autocast), subject.batches, strict=False):
            counts = precision.is_autocast == experiment.precision.is_autocast
            if self._is_given_up:
                return
            is_quick = time.perf_counter() - began < _QUICK_SECONDS
            tried = Precision.BF16 if precision.is_autocast and not is_quick else precision
            one = Pass(subject, batch, tried, counts=counts, goes_back=is_quick)
            self._passes.append(one)
            one.run()
            self.findings += one.findings
        code = experiment.own_code
        if code is not None and not any(one.is_complete for one in self._passes):
            seen = {(finding.file, finding.line) for finding in self.findings}
            self.findings += [told for told in waits_in_text(code) if (told.file, told.line) not in seen]

    def report_timeout(self, seconds: float, place: CodePlace | None, called: str) -> None:
        is_slow = self.built_parameters > _LARGE or called in _READ_DATA
        is_slow = is_slow or any(one.tree.has_advanced(seconds / 3) for one in self._passes)
        # a machine may be slow, but a loop that never ends is at some line of the user's
        is_stuck = place is not None and not is_slow
        self._is_given_up = True
        for one in self._passes:
            one.tree.give_up()
        message = f"The check of two small batches on the CPU did not end within {seconds:,.0f} seconds."
        remedy = "If the model is not large, look for an infinite loop."
        severity: Severity = "error" if is_stuck else "warning"
        self.findings.append(finding_at(place, FindingKind.TOO_SLOW, severity, message, remedy))

    def answer(self, seconds: float) -> Checked:
        subject = self._subject
        if subject is not None and self._formats is not None:
            reached = [one.reached for one in self._passes if one.reached is not None]
            self.findings += self._formats.findings(reached)
            unused = [one.unused for one in self._passes if one.unused is not None]
            experiment = subject.plan.experiment
            is_shared = experiment.devices > 1 and subject.workload.body is None
            self.findings += gradient_findings(subject.model, unused, experiment, is_shared=is_shared)
        findings = tuple(_ordered(self.findings))[:MOST_ENTRIES]
        if subject is None:
            return Checked(findings=findings, seconds=seconds)
        passes = sorted(self._passes, key=lambda one: (one.is_complete, one.counts))
        return Checked(
            findings=findings,
            tree=passes[-1].tree.rows() if passes else ModuleTree(subject.model).rows(),
            linear_layers=self._linear_layers[:MOST_ENTRIES],
            parameters=count_parameters(subject.model),
            inputs=tensors_text(subject.batches[0][0]),
            outputs=passes[-1].outputs if passes else "",
            loss=passes[-1].loss if passes else "",
            seconds=seconds,
        )


@contextmanager
def _counted_parameters(work: _Work) -> Iterator[None]:
    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        work.built_parameters += 0 if parameter is None else parameter.numel()

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


def _fp8_findings(plan: RunPlan, layers: tuple[LinearLayer, ...]) -> Iterator[Finding]:
    experiment, kind = plan.experiment, FindingKind.FP8
    is_converted = any(layer.reason is None for layer in layers)
    severity: Severity = "note" if is_converted else "warning"
    is_odd = any(layer.reason in (NotInFP8.SIZE, NotInFP8.TOKENS) for layer in layers)
    usual = "Nothing needs to change." if is_converted else "Choose BF16 AMP."
    remedy = "Multiples of 16 can be converted." if is_odd else usual
    told = finding_at(None, kind, severity, layers_sentence(layers), remedy)
    yield told.model_copy(update={"detail": layers_table(layers) if layers else ""})
    if plan.device.type == "cpu":
        remedy = "Train it on a GPU of compute capability 8.9 or later to measure its speed."
        yield finding_at(None, FindingKind.EMULATED, "note", EMULATED_NOTE, remedy)
    elif is_converted and "compile" not in experiment.step.parts:
        yield finding_at(None, kind, "warning", UNCOMPILED_FP8, "Add compile to the optimizations.")


def _ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings, errors first, then by line. Of equal ones keep the one with the greater severity."""
    told: dict[object, Finding] = {}
    for found in sorted(findings, key=lambda it: (_GRAVITY.index(it.severity), it.file or "", it.line or 0)):
        what = "" if found.kind is FindingKind.RAISES else found.message
        told.setdefault((found.kind, found.file, found.line, what), found)
    return list(told.values())
