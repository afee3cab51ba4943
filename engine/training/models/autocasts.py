"""The autocast contexts of the user's own code, found in its text around the running line."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from engine.experiment.own.code import Code, last_name, parse_files
from engine.training.models.own import is_own_file, shown_file


@dataclass(frozen=True)
class AutocastContext:
    """An `autocast` context in a file of the user's code that covers the lines from `first` to `last`.

    An argument is None if its value cannot be read from the source text.
    """

    file: str
    first: int
    last: int
    line: int
    device: str | None
    is_on: bool | None
    dtype: torch.dtype | None


class AutocastContexts:
    """The autocast contexts in the text of the user's code."""

    def __init__(self, code: Code | None) -> None:
        self._by_file = {file.name: [*_contexts(file.name, file.tree)] for file in parse_files(code)}

    def around(self) -> Iterator[AutocastContext]:
        """Yield the contexts around the running line of the user's code, and its callers, innermost first."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            path, line = frame.f_code.co_filename, frame.f_lineno
            if is_own_file(path):
                known = self._by_file.get(shown_file(path), ())
                within = (it for it in known if it.first <= line <= it.last)
                yield from sorted(within, key=lambda it: -it.first)
            frame = frame.f_back

    def reason(self, device_type: str, *, is_off: bool) -> str:
        """Return the context around the running line that decides its dtype, as a clause. "" for none."""
        for context in self.around():
            if context.device in (None, device_type) and context.is_on in (None, not is_off):
                verb = "turns autocast off" if is_off else "enters autocast"
                return f"line {context.line} of {context.file} {verb}"
        return ""


def _contexts(file: str, tree: ast.Module) -> Iterator[AutocastContext]:
    for node in ast.walk(tree):
        calls: list[ast.expr] = []
        if isinstance(node, ast.With | ast.AsyncWith):
            calls = [item.context_expr for item in node.items]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            calls = node.decorator_list
        for call in calls:
            if isinstance(call, ast.Call) and (found := _context(file, call, node)) is not None:
                yield found


def _context(file: str, call: ast.Call, node: Any) -> AutocastContext | None:
    name, given = last_name(call.func), {it.arg: it.value for it in call.keywords}
    is_cast = name == "custom_fwd" and "cast_inputs" in given
    if name != "autocast" and not is_cast:
        return None
    if call.args:
        # the older torch.cuda.amp.autocast is given `enabled` first
        is_bool = isinstance(_constant(call.args[0]), bool)
        given.setdefault("enabled" if is_bool else "device_type", call.args[0])
    device = _constant(given.get("device_type"))
    if "device_type" not in given and (isinstance(call.func, ast.Name) or is_cast):
        device = "cuda"
    elif "device_type" not in given and isinstance(call.func, ast.Attribute):
        older = ast.unparse(call.func.value)
        device = next((kind for kind in ("cuda", "cpu", "xpu") if f"{kind}.amp" in older), None)
    if device is None and not call.args and not call.keywords:
        return None  # train.autocast()
    is_on: object = not is_cast
    if "enabled" in given:
        is_on = _constant(given["enabled"])
    dtype = getattr(torch, last_name(given["dtype"]), None) if "dtype" in given else None
    first = node.body[0].lineno
    return AutocastContext(
        file=file,
        first=first,
        last=node.end_lineno or first,
        line=call.lineno,
        device=device if isinstance(device, str) else None,
        is_on=is_on if isinstance(is_on, bool) else None,
        dtype=dtype if isinstance(dtype, torch.dtype) else None,
    )


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None
