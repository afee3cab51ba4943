"""Mistakes visible in the text of a workload file. Nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code
from engine.protocol.advice import Finding, FindingKind
from engine.training.checks.loops import STEP, File, last_name, loop_findings
from engine.training.checks.places import CodePlace, finding_at

_READS = frozenset({"item", "tolist", "numpy", "cpu"})
_PASSES = frozenset({"forward", "loss"})
_HALF = frozenset({"half", "bfloat16", "float16"})
_METHODS = {"float16": "half", "float64": "double"}


def static_findings(experiment: Experiment) -> list[Finding]:
    """Find mistakes in the training loops of the file and its modules, and a loss scaler with BF16."""
    code, is_bf16 = experiment.own_code, experiment.precision is Precision.BF16
    files = parse_files(code)
    found = [finding for file in files for finding in loop_findings(file, is_bf16=is_bf16)]
    if is_bf16 and experiment.scaler.mode == "on":
        message = "The loss scaler is on, but BF16 has the range of FP32 and does not need it."
        kind = FindingKind.SCALER_WITH_BF16
        found.append(finding_at(None, kind, "warning", message, "Set the loss scaler to auto."))
    return found


def find_syncs_in_text(code: Code) -> list[Finding]:
    """Find calls in forward, loss and step that synchronize with the GPU, if forward could not run."""
    return [finding for file in parse_files(code) for finding in _waits(file)]


def find_half_cast(code: Code | None, dtype: str = "") -> CodePlace | None:
    """Find the first text that names a dtype, or any 16-bit one, such as `.half()` or "float16"."""
    names = {dtype, _METHODS.get(dtype, dtype)} if dtype else _HALF
    for file in parse_files(code):
        for node in ast.walk(file.tree):
            match node:
                case ast.Attribute(attr=name) | ast.Constant(value=name) if name in names:
                    return CodePlace(file.name, node.lineno)
    return None


def definition_place(code: Code | None, name: str) -> CodePlace | None:
    """Return the place of a function or class of the workload file. None without it."""
    body = ast.parse("" if code is None else code.text).body
    found = (node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name)
    return next((CodePlace(code.file, node.lineno) for node in found if code is not None), None)


def parse_files(code: Code | None) -> Iterator[File]:
    """Yield the workload file and its companion modules, parsed. Nothing without a file."""
    for name, text in ((code.file, code.text), *code.beside.items()) if code is not None else ():
        # importing a module that is not Python says so
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            yield File(name, text, ast.parse(text))


def _waits(file: File) -> Iterator[Finding]:
    for function in _functions(file.tree, {*_PASSES, STEP}):
        for call in _calls(function):
            name = last_name(call.func)
            if isinstance(call.func, ast.Attribute) and name in _READS and not call.args:
                what = f".{name}()"
            elif isinstance(call.func, ast.Name) and name == "print" and _prints_value(call):
                what = "print(...)"
            else:
                continue
            waits = "which synchronizes with the GPU each time and prevents a CUDA graph"
            remedy = "Keep the value on the device as a tensor."
            message, place = f"{function.name} calls {what}, {waits}.", CodePlace(file.name, call.lineno)
            yield finding_at(place, FindingKind.WAITS, "warning", message, remedy)


def _prints_value(call: ast.Call) -> bool:
    return any(not isinstance(argument, ast.Constant) for argument in call.args)


def _functions(tree: ast.Module, names: set[str]) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            yield node


def _calls(tree: ast.AST) -> list[ast.Call]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))
