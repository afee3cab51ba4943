"""Check: two small batches on the CPU through the model and loss of an experiment, without training."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.experiment.value import MOST_ENTRIES
from engine.protocol.advice import Checked, Finding, FindingKind, LinearLayer, NotInFP8, Severity
from engine.training.checks.passes import CPU, Pass, Subject, error_finding, small_batches
from engine.training.checks.places import (
    CodePlace,
    ModuleOutputs,
    describe_tensors,
    dtype_text,
    finding_at,
    running_line,
)
from engine.training.checks.static import find_half_cast, find_syncs_in_text, static_findings
from engine.training.checks.watches import gradient_findings, name_first
from engine.training.doctor import read_catalog
from engine.training.models.build import count_parameters
from engine.training.models.forward import removed_at_end
from engine.training.models.tensor_cores import layers_sentence, layers_table, size_findings
from engine.training.precision import EMULATED_NOTE
from engine.training.runs.plan import RunPlan
from engine.training.runs.prepare import UNCOMPILED_FP8
from engine.training.steps.optimizers import list_optimizers
from engine.training.steps.own import parameters_of

LIMIT_SECONDS = 60.0
# A model that takes longer in FP32 goes only forward under autocast, and in BF16 in place of FP16: a CPU may
# have to emulate both, FP16 ten times slower. Autocast casts the same operations to either.
_QUICK_SECONDS = 1.0
_LARGE = 100_000_000  # parameters of a model that a CPU may take minutes to pass a batch through
# functions of the user's that may take long to read what they read
_READ_DATA = frozenset({"dataset", "validation_dataset", "__getitem__", "__iter__", "collate"})
_GRAVITY = ("error", "warning", "note")


def check(experiment: Experiment, limit_seconds: float = LIMIT_SECONDS) -> Checked:
    """Check the experiment's model, loss and file on the CPU and return the findings.

    It takes at most about `limit_seconds`. Raises ProblemError.
    """
    began = time.perf_counter()
    work = _Work(experiment)
    # not in this thread: one that never returns cannot be left
    thread = threading.Thread(target=work.run, name="check", daemon=True)
    with _counted_parameters(work):
        thread.start()
        thread.join(limit_seconds)
    if thread.is_alive():
        work.report_timeout(limit_seconds, *running_line(thread.ident))
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
                self.findings.append(error_finding(error, experiment, *names))

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
            one = Pass(subject, batch, tried, counts=counts, has_backward=is_quick)
            self._passes.append(one)
            one.run()
            self.findings += one.findings
        code = experiment.own_code
        if code is not None and not any(one.is_complete for one in self._passes):
            seen = {(finding.file, finding.line) for finding in self.findings}
            self.findings += [told for told in find_syncs_in_text(code) if (told.file, told.line) not in seen]

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
        findings = tuple(_sorted_findings(self.findings))[:MOST_ENTRIES]
        if subject is None:
            return Checked(findings=findings, seconds=seconds)
        passes = sorted(self._passes, key=lambda one: (one.is_complete, one.counts))
        return Checked(
            findings=findings,
            tree=passes[-1].tree.rows() if passes else ModuleOutputs(subject.model).rows(),
            linear_layers=self._linear_layers[:MOST_ENTRIES],
            parameters=count_parameters(subject.model),
            inputs=describe_tensors(subject.batches[0][0]),
            outputs=passes[-1].outputs if passes else "",
            loss=passes[-1].loss if passes else "",
            seconds=seconds,
        )


@contextmanager
def _counted_parameters(work: _Work) -> Iterator[None]:
    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        work.built_parameters += 0 if parameter is None else parameter.numel()

    with removed_at_end([register_module_parameter_registration_hook(count)]):
        yield


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
        remedy = "Train it on a GPU of compute capability 8.9 or later to measure its throughput."
        yield finding_at(None, FindingKind.EMULATED, "note", EMULATED_NOTE, remedy)
    elif is_converted and "compile" not in experiment.step.parts:
        yield finding_at(None, kind, "warning", UNCOMPILED_FP8, "Add compile to the optimizations.")


def _sorted_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by severity, errors first, then by line.

    Of equal findings only the most severe is kept.
    """
    told: dict[object, Finding] = {}
    for found in sorted(findings, key=lambda it: (_GRAVITY.index(it.severity), it.file or "", it.line or 0)):
        what = "" if found.kind is FindingKind.RAISES else found.message
        told.setdefault((found.kind, found.file, found.line, what), found)
    return list(told.values())


_TRAINED, _UNTRAINED, _UPDATED, _CONSTANT = "trained parameter", "parameter", "buffer", "constant buffer"
_IN_FLOAT32 = "Keep the weights in float32, without .half() or .bfloat16(). Autocast casts them."
# as PyTorch's errors name them
_NAMES = {torch.bfloat16: "BFloat16", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble"}
_Named = tuple[str, torch.Tensor]


class FormatCheck:
    """Finds parameters and buffers that are not in float32.

    Create it before the passes that it observes. A parameter is trained if it gets a gradient and is in an
    optimizer, so a teacher model under `torch.no_grad` is not reported. A buffer is constant unless a pass
    changes it.
    """

    def __init__(self, subject: Subject) -> None:
        self._model, self._plan = subject.model, subject.plan
        self._buffers = {name: (buffer, buffer._version) for name, buffer in self._model.named_buffers()}
        self._optimizers: list[torch.optim.Optimizer] | None = None  # the file's own
        if any(it.requires_grad and it.dtype is not torch.float32 for it in self._model.parameters()):
            with suppress(Exception):  # the run says what it raises, with the line
                made = self._plan.workload.optimizers(self._model)
                self._optimizers = None if made is None else list_optimizers(made)

    def findings(self, reached: Sequence[frozenset[int]]) -> Iterator[Finding]:
        """Yield a finding for each dtype other than float32 among the trained, untrained, constant and
        updated tensors of the model. `reached` are the ids of the parameters with a gradient, for each
        backward pass. Without a pass, all parameters are checked.
        """
        experiment = self._plan.experiment
        if experiment.precision is Precision.BF16_PURE:
            return  # it casts all of them
        groups: dict[tuple[str, torch.dtype], list[_Named]] = {}
        for role, named in self._roles(reached):
            groups.setdefault((role, named[1].dtype), []).append(named)
        for (role, dtype), group in groups.items():
            severity, follows, remedy = self._finding_words(role, dtype)
            if follows:
                what = dtype_text(group[0][1])
                message = f"{name_first(role, group)} {what}{follows}."
                place = find_half_cast(experiment.own_code, what)
                yield finding_at(place, FindingKind.NOT_FLOAT32, severity, message, remedy, len(group))

    def _roles(self, reached: Sequence[frozenset[int]]) -> Iterator[tuple[str, _Named]]:
        own = self._optimizers
        held = own and {id(parameter) for each in own for parameter in parameters_of(each)}
        for name, parameter in self._model.named_parameters():
            is_trained = parameter.requires_grad and (held is None or id(parameter) in held)
            is_trained = is_trained and (not reached or any(id(parameter) in ids for ids in reached))
            yield _TRAINED if is_trained else _UNTRAINED, (name, parameter)
        for name, buffer in self._model.named_buffers():
            before, version = self._buffers.get(name, (None, 0))
            is_same = buffer is before and buffer._version == version
            yield _CONSTANT if is_same else _UPDATED, (name, buffer)

    def _finding_words(self, role: str, dtype: torch.dtype) -> tuple[Severity, str, str]:
        """Return the severity, the end of the sentence (empty for no finding), and the remedy."""
        precision = self._plan.experiment.precision
        refusal = self._refusal(dtype) if role == _TRAINED else ""
        # a CPU can unscale BF16: https://github.com/pytorch/pytorch/issues/127176
        if refusal and (dtype is not torch.bfloat16 or self._plan.device.type == "cuda"):
            remedy = "Keep trained parameters in float32, or train in BF16 AMP, which uses no loss scaler."
            return "error", f", and the loss scaler fails with “{refusal}”", remedy
        if dtype is torch.float32 or not dtype.is_floating_point:
            return "note", "", ""
        if dtype is torch.float64:
            follows = ", which autocast does not cast, so operations with it compute in float64"
            return "warning", follows, "Keep it in float32, for example with .float()."
        if role == _TRAINED:
            follows = ", so small weight updates are lost, and an FP32 run is not in FP32"
            if refusal:
                follows = f", so its small updates are lost, and an NVIDIA GPU fails with “{refusal}”"
            return "warning", follows, _IN_FLOAT32
        if role == _UPDATED:
            remedy = "Keep it in float32. Autocast casts where needed."
            return "warning", ", so its accumulated values are rounded", remedy
        if role == _UNTRAINED and not precision.is_narrow:
            follows = f" and not trained, so in {precision.label} its values are rounded too"
            return "warning", follows, "Keep it in float32 to compare with true FP32."
        follows = (
            " and not trained, which saves memory" if role == _UNTRAINED else ", so its values are rounded"
        )
        return "note", follows, "Nothing needs to change."

    def _refusal(self, dtype: torch.dtype) -> str:
        """Return PyTorch's error if the loss scaler cannot unscale gradients of this dtype, else ""."""
        if not self._plan.experiment.uses_scaler or dtype in (torch.float32, torch.float64):
            return ""
        if dtype is torch.float16:
            return "" if self._takes_scaled else "Attempting to unscale FP16 gradients"
        return f"not implemented for '{_NAMES.get(dtype, dtype)}'"

    @property
    def _takes_scaled(self) -> bool:
        """True if a fused optimizer unscales gradients itself, the only way to use FP16 gradients."""
        experiment = self._plan.experiment
        is_fused = experiment.wants_fused
        if self._optimizers is not None:
            is_fused = all(getattr(it, "_step_supports_amp_scaling", False) for it in self._optimizers)
        return is_fused and experiment.step.clip_norm is None
