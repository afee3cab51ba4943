"""Mistakes that the text of a workload file shows. Nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code
from engine.protocol.advice import Finding, FindingKind
from engine.training.checks.places import CodePlace, finding_at

_CLIPPING = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "clip_grad_norm"})
_UNSCALING = frozenset({"unscale", "unscale_"})
_READS = frozenset({"item", "tolist", "numpy", "cpu"})
_STEP = "step"
_PASSES = frozenset({"forward", "loss"})
_SCHEDULER = re.compile(r"sched", re.IGNORECASE)
_SCHEDULER_CLASS = re.compile(r"(LR|Scheduler|Restarts)$")
# names in a condition that tells a skipped optimizer step
_LOOKS = re.compile(r"scale|skip|found_inf", re.IGNORECASE)
_HALF = frozenset({"half", "bfloat16", "float16"})
_METHODS = {"float16": "half", "float64": "double"}


def static_findings(experiment: Experiment) -> list[Finding]:
    """The mistakes in the loop body of the file and the modules beside it, and the scaler with BF16."""
    code = experiment.own_code
    found = [finding for file in (_files(code) if code else ()) for finding in _in_file(file, experiment)]
    if experiment.precision is Precision.BF16 and experiment.scaler.mode == "on":
        message = "The loss scaler is on, but BF16 has the range of FP32 and needs none."
        kind = FindingKind.SCALER_WITH_BF16
        found.append(finding_at(None, kind, "warning", message, "Set the loss scaler to auto."))
    return found


def waits_in_text(code: Code) -> list[Finding]:
    """Calls in forward, loss and step that make the host wait, for a model whose forward could not be run."""
    return [finding for file in _files(code) for finding in _waits(file)]


def half_place(code: Code | None, dtype: str = "") -> CodePlace | None:
    """Find the first mention of a dtype, or of any in 16 bits, such as `.half()` or "float16"."""
    names = {dtype, _METHODS.get(dtype)} if dtype else _HALF
    for file in _files(code) if code is not None else ():
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Attribute | ast.Constant):
                named = node.attr if isinstance(node, ast.Attribute) else node.value
                if named in names:
                    return CodePlace(file.name, node.lineno)
    return None


def definition_place(code: Code | None, name: str) -> CodePlace | None:
    """The place of a function or class of the workload file; None without it."""
    body = ast.parse("" if code is None else code.text).body
    found = (node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name)
    return next((CodePlace(code.file, node.lineno) for node in found if code is not None), None)


@dataclass(frozen=True)
class _File:
    name: str
    tree: ast.Module


def _files(code: Code) -> Iterator[_File]:
    for name, text in ((code.file, code.text), *code.beside.items()):
        # importing a module that is not Python says so
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            yield _File(name, ast.parse(text))


def _in_file(file: _File, experiment: Experiment) -> list[Finding]:
    found = []

    def add(call: ast.Call, kind: FindingKind, message: str, remedy: str) -> None:
        found.append(_finding(file, call, kind, message, remedy))

    for call in _calls(file.tree) if experiment.precision is Precision.BF16 else ():
        if _last_name(call.func) == "GradScaler":
            message = "A GradScaler is made, but BF16 has the range of FP32 and needs none."
            remedy = "Remove it: train.backward and train.step scale where the precision needs it."
            add(call, FindingKind.SCALER_WITH_BF16, message, remedy)
    schedulers = {*_scheduler_names(file.tree)}
    for step in _functions(file.tree, {_STEP}):
        calls = _calls(step)
        unscaled = [call.lineno for call in calls if _last_name(call.func) in _UNSCALING]
        guarded = {
            inner
            for node in ast.walk(step)
            if isinstance(node, ast.If) and _looks(node.test)
            for statement in (*node.body, *node.orelse)
            for inner in ast.walk(statement)
        }
        for call in calls:
            name = _last_name(call.func)
            if name in _CLIPPING and not any(line <= call.lineno for line in unscaled):
                late = f"is called {'before' if unscaled else 'without'} train.unscale(optimizer)"
                clips = "so in FP16 it clips gradients that are still multiplied by the loss scale"
                message = f"{name} {late}, {clips}."
                remedy = "Call train.unscale(optimizer) before clipping."
                add(call, FindingKind.CLIPPING_BEFORE_UNSCALING, message, remedy)
            if call in guarded or not (isinstance(call.func, ast.Attribute) and call.func.attr == "step"):
                continue
            owner = _last_name(call.func.value)
            if owner in schedulers or _SCHEDULER.search(owner):
                message = "The scheduler steps even where the loss scaler has skipped the optimizer step."
                remedy = "Step it only if not train.was_skipped(optimizer)."
                add(call, FindingKind.SCHEDULER_AFTER_SKIP, message, remedy)
    return sorted(found, key=lambda finding: finding.line or 0)


def _finding(file: _File, call: ast.Call, kind: FindingKind, message: str, remedy: str) -> Finding:
    return finding_at(CodePlace(file.name, call.lineno), kind, "warning", message, remedy)


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
            waits = "the host waits for the device each time, and the step cannot be captured"
            remedy = "Keep the value on the device as a tensor."
            yield _finding(file, call, FindingKind.WAITS, f"{function.name} calls {what}: {waits}.", remedy)


def _prints_value(call: ast.Call) -> bool:
    return any(not isinstance(argument, ast.Constant) for argument in call.args)


def _functions(tree: ast.Module, names: set[str]) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            yield node


def _calls(tree: ast.AST) -> list[ast.Call]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def _scheduler_names(tree: ast.Module) -> Iterator[str]:
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
