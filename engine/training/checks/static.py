"""Mistakes visible in the text of a workload file: training loops, loss scalers and casts. Nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code, File, last_name, parse_files
from engine.protocol.advice import Finding, FindingKind
from engine.training.checks.places import CodePlace, finding_at

STEP = "step"
_CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "clip_grad_norm")
_SCALER_CLASS = "GradScaler"
_ENABLED = 5  # arguments before it, those of torch.cuda.amp.GradScaler are one fewer
_SCALER = re.compile(r"scaler", re.IGNORECASE)
_OPTIMIZER = re.compile(r"optim|^opt", re.IGNORECASE)
_SCHEDULER = re.compile(r"sched", re.IGNORECASE)
_SCHEDULER_CLASS = re.compile(r"(LR|Scheduler|Restarts)$")
# names in a condition that tells a skipped optimizer step
_LOOKS = re.compile(r"scale|skip|found_inf", re.IGNORECASE)
# names in a condition that tells the precision
_CHOOSES = re.compile(r"16|half|amp|dtype|precision|scaler", re.IGNORECASE)


@dataclass(frozen=True)
class _Call:
    """A method or function call, with the innermost loop and the conditions that contain it.

    Each condition has the branch of the call.
    """

    node: ast.Call
    loop: ast.AST | None
    conditions: tuple[tuple[str, bool], ...]

    @property
    def name(self) -> str:
        return last_name(self.node.func)

    @property
    def owner(self) -> str:
        """The name of the object whose method is called, empty for a function."""
        return last_name(self.node.func.value) if isinstance(self.node.func, ast.Attribute) else ""

    @property
    def argument(self) -> str:
        return last_name(self.node.args[0]) if self.node.args else ""

    @property
    def line(self) -> int:
        return self.node.lineno

    def excludes(self, other: _Call) -> bool:
        """Return True if the other call is in another branch of a condition, so only one of them runs."""
        mine = dict(self.conditions)
        return any(mine.get(condition, branch) is not branch for condition, branch in other.conditions)

    def is_under(self, words: re.Pattern[str]) -> bool:
        """Return True if a condition that contains the call has one of the words."""
        return any(words.search(condition) for condition, _ in self.conditions)


@dataclass
class _Scope:
    """The calls in a function, or in a file outside of its functions."""

    name: str
    calls: list[_Call] = field(default_factory=list)

    def of(self, *names: str) -> list[_Call]:
        return [call for call in self.calls if call.name in names]


def loop_findings(file: File, *, is_bf16: bool) -> list[Finding]:
    """Find the mistakes in a file's training loops, including loops that Ammeter does not run, by line."""
    scopes = [*_scopes(file)]
    schedulers = {*_assigned(file.tree, _SCHEDULER_CLASS)}
    scalers = {*_assigned(file.tree, _SCALER)}
    by_scope = [
        (scope, [call for call in scope.calls if _SCALER.search(call.owner) or call.owner in scalers])
        for scope in scopes
    ]
    is_updated = any(call.name == "update" for _, scaled in by_scope for call in scaled)
    found: list[Finding] = []
    for scope, scaled in by_scope:
        found += _scaler_findings(file, scope, is_bf16=is_bf16)
        if scope.name != STEP and not any(call.name in ("scale", STEP) for call in scaled):
            continue
        found += _clipping_findings(file, scope, scaled)
        found += _scheduler_findings(file, scope, scaled, schedulers)
        found += _rule_findings(file, scope, scaled, is_updated=is_updated)
    return sorted(found, key=lambda finding: finding.line or 0)


def _scaler_findings(file: File, scope: _Scope, *, is_bf16: bool) -> Iterator[Finding]:
    for call in scope.of(_SCALER_CLASS):
        if call.loop is not None and any(used.loop is call.loop for used in scope.of("scale")):
            message = "A new GradScaler is created in each pass of the loop, so its scale never adapts."
            remedy = "Create it once, before the loop."
            yield _finding(file, call, FindingKind.SCALER_RULE, message, remedy)
        if is_bf16 and not _may_be_disabled(call):
            message = "A GradScaler is created, but BF16 has the range of FP32 and does not need it."
            remedy = "Remove it. train.backward and train.step scale the loss if the precision needs it."
            yield _finding(file, call, FindingKind.SCALER_WITH_BF16, message, remedy)


def _may_be_disabled(call: _Call) -> bool:
    """Return True if the scaler is created or enabled depending on a condition."""
    given = next((it.value for it in call.node.keywords if it.arg in ("enabled", None)), None)
    if given is None and len(call.node.args) >= _ENABLED:
        given = call.node.args[-1]
    is_on = given is None or (isinstance(given, ast.Constant) and given.value is True)
    return not is_on or call.is_under(_CHOOSES)


def _clipping_findings(file: File, scope: _Scope, scaled: list[_Call]) -> Iterator[Finding]:
    owner = "train.unscale" if scope.name == STEP else "scaler.unscale_"
    unscaling = scope.of("unscale", "unscale_")
    for call in scope.of(*_CLIPPING):
        if scope.name != STEP and all(call.excludes(used) for used in scaled):
            continue
        here = [other.line for other in unscaling if not call.excludes(other)]
        if not any(line <= call.line for line in here):
            late = f"is called {'before' if here else 'without'} {owner}(optimizer)"
            clips = "so in FP16 it clips gradients that are still multiplied by the loss scale"
            message, remedy = f"{call.name} {late}, {clips}.", f"Call {owner}(optimizer) before clipping."
            yield _finding(file, call, FindingKind.CLIPPING_BEFORE_UNSCALING, message, remedy)


def _scheduler_findings(
    file: File, scope: _Scope, scaled: list[_Call], schedulers: set[str]
) -> Iterator[Finding]:
    # a scheduler of epochs steps outside the loop over batches
    loops = {call.loop for call in scaled if call.name == STEP}
    for call in scope.of(STEP):
        is_scheduler = call.owner in schedulers or _SCHEDULER.search(call.owner)
        if is_scheduler and not call.is_under(_LOOKS) and (scope.name == STEP or call.loop in loops):
            message = "The scheduler steps even if the loss scaler has skipped the optimizer step."
            remedy = "Step it only if not train.was_skipped(optimizer)."
            if scope.name != STEP:
                remedy = "Step it only if scaler.get_scale() has not become smaller."
            yield _finding(file, call, FindingKind.SCHEDULER_AFTER_SKIP, message, remedy)


def _rule_findings(file: File, scope: _Scope, scaled: list[_Call], *, is_updated: bool) -> Iterator[Finding]:
    steps = [call for call in scaled if call.name == STEP]
    scales = [call for call in scaled if call.name == "scale"]
    kind, passes = FindingKind.SCALER_RULE, scope.of("backward")
    if steps and passes and not scales:
        message = "scaler.step divides gradients by the loss scale, but the loss was not multiplied by it."
        yield _finding(file, passes[0], kind, message, "Call scaler.scale(loss).backward().")
    if steps and not is_updated:
        message = "scaler.update is not called after scaler.step, so the second scaler.step fails."
        yield _finding(file, steps[-1], kind, message, "Call scaler.update() at the end of each step.")
    for call in scope.of(STEP) if scales else ():
        is_beside = _OPTIMIZER.search(call.owner) and not any(call.excludes(other) for other in scales)
        if is_beside and not any(call.excludes(other) for other in steps):
            message = f"{call.owner}.step ignores the loss scaler, so scaled gradients reach the weights."
            yield _finding(file, call, kind, message, f"Call scaler.step({call.owner}).")
    for call in (call for call in scaled if call.name == "unscale_"):
        after = [step.line for step in steps if step.argument == call.argument and step.line > call.line]
        end = min(after, default=0)
        if any(call.line < other.line < end and not call.excludes(other) for other in passes):
            message = "scaler.unscale_ is called before the last backward pass, which adds scaled gradients."
            yield _finding(file, call, kind, message, "Call it after the last backward pass.")


def _finding(file: File, call: _Call, kind: FindingKind, message: str, remedy: str) -> Finding:
    return finding_at(CodePlace(file.name, call.line), kind, "warning", message, remedy)


def _scopes(file: File) -> Iterator[_Scope]:
    outside = _Scope("")
    scopes = [outside]
    waiting: list[tuple[ast.AST, _Scope, ast.AST | None, tuple[tuple[str, bool], ...]]]
    waiting = [(file.tree, outside, None, ())]
    lines = file.text.splitlines(keepends=True)
    # not recursive: a file may be deeper than Python's stack
    while waiting:
        node, scope, loop, conditions = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and scope.name != STEP:
            scope, loop, conditions = _Scope(node.name), None, ()
            scopes.append(scope)
        if isinstance(node, ast.Call):
            scope.calls.append(_Call(node, loop, conditions))
        condition = _condition(lines, node.test) if isinstance(node, ast.If | ast.IfExp) else None
        for part, value in ast.iter_fields(node):
            inner = node if isinstance(node, ast.For | ast.AsyncFor | ast.While) and part == "body" else loop
            under = conditions
            if condition is not None and part != "test":
                text, branch = condition
                under = (*conditions, (text, branch is (part == "body")))
            children = value if isinstance(value, list) else [value]
            waiting += [(child, scope, inner, under) for child in children if isinstance(child, ast.AST)]
    for scope in scopes:
        scope.calls.sort(key=lambda call: (call.node.lineno, call.node.col_offset))
    yield from scopes


def _condition(lines: list[str], test: ast.expr) -> tuple[str, bool]:
    """Return a condition's text, and whether it must be true: ("x", False) for "not x" and "x is None"."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _source(lines, operand), False
        case ast.Compare(
            left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]
        ):
            return _source(lines, left), isinstance(op, ast.IsNot)
    return _source(lines, test), True


def _source(lines: list[str], node: ast.expr) -> str:
    first, last = node.lineno - 1, node.end_lineno or node.lineno
    part = [line.encode() for line in lines[first:last]]
    part[-1] = part[-1][: node.end_col_offset]
    part[0] = part[0][node.col_offset :]
    return b"".join(part).decode(errors="replace")


def _assigned(tree: ast.Module, made: re.Pattern[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=ast.Call(func=called)) if made.search(last_name(called)):
                yield from map(last_name, targets)


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


def _waits(file: File) -> Iterator[Finding]:
    for function in _functions(file.tree, {*_PASSES, STEP}):
        for call in _calls(function):
            name = last_name(call.func)
            if isinstance(call.func, ast.Attribute) and name in _READS and not call.args:
                what = f".{name}()"
            elif (
                isinstance(call.func, ast.Name)
                and name == "print"
                and not all(isinstance(argument, ast.Constant) for argument in call.args)
            ):
                what = "print(...)"
            else:
                continue
            waits = "which synchronizes with the GPU each time and prevents a CUDA graph"
            remedy = "Keep the value on the device as a tensor."
            message, place = f"{function.name} calls {what}, {waits}.", CodePlace(file.name, call.lineno)
            yield finding_at(place, FindingKind.WAITS, "warning", message, remedy)


def _functions(tree: ast.Module, names: set[str]) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            yield node


def _calls(tree: ast.AST) -> list[ast.Call]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))
