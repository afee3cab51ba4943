"""Mistakes that the text of a workload file shows. Nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code
from engine.protocol.advice import Finding, FindingKind, Severity

_CLIPPING = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "clip_grad_norm"})
_UNSCALING = frozenset({"unscale", "unscale_"})
_READS = frozenset({"item", "tolist", "numpy", "cpu"})
_STEP = "step"
_PASSES = frozenset({"forward", "loss"})
_SCHEDULER = re.compile(r"sched", re.IGNORECASE)
_SCHEDULER_CLASS = re.compile(r"(LR|Scheduler|Restarts)$")
_LOOKS = re.compile(r"scale|skip|found_inf", re.IGNORECASE)
"""Names in a condition that tells a skipped optimizer step."""
_HALF = frozenset({"half", "bfloat16", "float16"})


def static_findings(experiment: Experiment) -> list[Finding]:
    """The mistakes in the loop body, and the scaler with BF16; in the order of the lines.

    The modules beside the file are read too.
    """
    code = experiment.own_code
    found = (
        []
        if code is None
        else [finding for file in _files(code) for finding in _FileCheck(file, experiment).findings()]
    )
    if experiment.precision is Precision.BF16 and experiment.scaler.mode == "on":
        found.append(
            _finding(
                FindingKind.SCALER_WITH_BF16,
                "The loss scaler is on, but BF16 has the range of FP32 and needs none.",
                "Set the loss scaler to auto.",
            )
        )
    return found


def waits_in_text(code: Code) -> list[Finding]:
    """Calls in forward, loss and step that make the host wait, for a model whose forward could not be run."""
    return [finding for file in _files(code) for finding in _waits(file)]


def half_place(code: Code) -> tuple[str, int] | None:
    """The file and line of the first cast to 16 bits, as by `.half()`; None without one."""
    for file in _files(code):
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Attribute) and node.attr in _HALF:
                return file.name, node.lineno
    return None


def definition_place(code: Code, name: str) -> tuple[str, int] | tuple[None, None]:
    """The file and line of a function or class of the workload file; None, None without it."""
    tree = ast.parse(code.text)
    found = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return next(((code.file, node.lineno) for node in found if node.name == name), (None, None))


@dataclass(frozen=True)
class _File:
    name: str
    tree: ast.Module


def _files(code: Code) -> Iterator[_File]:
    for name, text in ((code.file, code.text), *code.beside.items()):
        yield _File(name, ast.parse(text))


@dataclass
class _FileCheck:
    file: _File
    experiment: Experiment
    schedulers: set[str] = field(default_factory=set)

    def findings(self) -> list[Finding]:
        self.schedulers = set(_scheduler_names(self.file.tree))
        found = [*self._own_scalers()]
        for function in _functions(self.file.tree, {_STEP}):
            found += self._clipping(function)
            found += self._scheduling(function)
        return sorted(found, key=lambda finding: finding.line or 0)

    def _own_scalers(self) -> Iterator[Finding]:
        if self.experiment.precision is not Precision.BF16:
            return
        for call in _calls(self.file.tree):
            if _last_name(call.func) == "GradScaler":
                yield self._at(
                    call,
                    FindingKind.SCALER_WITH_BF16,
                    "A GradScaler is made, but BF16 has the range of FP32 and needs none.",
                    "Remove it: train.backward and train.step scale where the precision needs it.",
                )

    def _clipping(self, step: ast.FunctionDef) -> Iterator[Finding]:
        unscaled = [call.lineno for call in _calls(step) if _last_name(call.func) in _UNSCALING]
        for call in _calls(step):
            name = _last_name(call.func)
            if name not in _CLIPPING or any(line <= call.lineno for line in unscaled):
                continue
            late = "before" if unscaled else "without"
            yield self._at(
                call,
                FindingKind.CLIPPING_BEFORE_UNSCALING,
                f"{name} is called {late} train.unscale(optimizer), so in FP16 it clips gradients "
                "that are still multiplied by the loss scale.",
                "Call train.unscale(optimizer) before clipping.",
            )

    def _scheduling(self, step: ast.FunctionDef) -> Iterator[Finding]:
        guarded = {
            inner
            for node in ast.walk(step)
            if isinstance(node, ast.If) and _looks(node.test)
            for statement in (*node.body, *node.orelse)
            for inner in ast.walk(statement)
        }
        for call in _calls(step):
            if self._steps_scheduler(call) and call not in guarded:
                yield self._at(
                    call,
                    FindingKind.SCHEDULER_AFTER_SKIP,
                    "The scheduler steps even where the loss scaler has skipped the optimizer step.",
                    "Step it only if not train.was_skipped(optimizer).",
                )

    def _steps_scheduler(self, call: ast.Call) -> bool:
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "step"):
            return False
        owner = _last_name(call.func.value)
        return owner in self.schedulers or bool(_SCHEDULER.search(owner))

    def _at(self, node: ast.expr, kind: FindingKind, message: str, remedy: str) -> Finding:
        return _finding(kind, message, remedy, file=self.file.name, line=node.lineno)


def _looks(test: ast.expr) -> bool:
    words = (getattr(node, part, None) for node in ast.walk(test) for part in ("id", "attr", "arg", "value"))
    return any(isinstance(word, str) and _LOOKS.search(word) for word in words)


def _waits(file: _File) -> Iterator[Finding]:
    for function in _functions(file.tree, {*_PASSES, _STEP}):
        for call in _calls(function):
            name = _last_name(call.func)
            if isinstance(call.func, ast.Attribute) and name in _READS and not call.args:
                what = f".{name}()"
            elif isinstance(call.func, ast.Name) and name == "print" and _prints_value(call):
                what = "print(...)"
            else:
                continue
            yield _finding(
                FindingKind.WAITS,
                f"{function.name} calls {what}: the host waits for the device each time, "
                "and the step cannot be captured.",
                "Keep the value on the device as a tensor.",
                file=file.name,
                line=call.lineno,
            )


def _prints_value(call: ast.Call) -> bool:
    return any(not isinstance(argument, ast.Constant) for argument in call.args)


def _finding(
    kind: FindingKind,
    message: str,
    remedy: str,
    *,
    severity: Severity = "warning",
    file: str | None = None,
    line: int | None = None,
) -> Finding:
    return Finding(kind=kind, severity=severity, message=message, remedy=remedy, file=file, line=line)


def _functions(tree: ast.Module, names: set[str]) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            yield node


def _calls(tree: ast.AST) -> list[ast.Call]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def _scheduler_names(tree: ast.Module) -> Iterator[str]:
    """The names that are given a learning-rate scheduler."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        if _SCHEDULER_CLASS.search(_last_name(node.value.func)):
            yield from (_last_name(target) for target in node.targets)


def _last_name(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""
