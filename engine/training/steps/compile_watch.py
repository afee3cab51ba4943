"""Watch what torch.compile does: recompilations and graph breaks with their reasons, and its cache."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

import torch

from engine.experiment.value import shortened
from engine.protocol.summary import MOST_COMPILE_EVENTS, Compilation, CompileEvent

_TORCH = Path(torch.__file__).parent
_COMPILE_ID = re.compile(r"^\S*\d+/\d+\S*: ")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)')
_GUARD = re.compile(r"# (?P<file>[^#\n]+):(?P<line>\d+) in (?P<name>\S+)")
_EXPLANATION = re.compile(r"^\s*Explanation: (.+)$", re.MULTILINE)
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")
"""The name of the rest of a function after a graph break."""
_NOT_TRACED = ("Unsupported", "UserError")
_LONGEST = 200


_Position = tuple[int, Any, int, int, int]
"""Compiled functions, the last record, graph breaks, and the hits and misses of the cache."""


class CompileWatch:
    """Counts recompilations and graph breaks, as PyTorch itself records them, in what `watching` encloses.

    Other code, such as torchao's optimizers, may also be compiled. `has_compiled` is True if anything was
    compiled in the last enclosed call.
    """

    def __init__(self) -> None:
        from torch._dynamo import utils  # loads the compiler, which takes seconds

        self._dynamo = utils
        self._events: dict[CompileEvent, None] = {}
        self._functions: dict[str, str] = {}
        self._recompilations = self._hits = self._misses = 0
        self.has_compiled = False

    @contextmanager
    def watching(self) -> Iterator[list[CompileEvent]]:
        """Watch the enclosed calls. The list has the new events after them, each only once in a run."""
        before, new = self._position(), list[CompileEvent]()
        yield new
        self.has_compiled = self._dynamo.counters["frames"]["total"] != before[0]
        if self.has_compiled:
            new += self._read(before)

    def compilation(self, measured_steps: int, measured_seconds: float) -> Compilation:
        """Return the counts so far, with the measured steps in which something was compiled."""
        return Compilation(
            recompilations=self._recompilations,
            graph_breaks=sum(event.kind == "graph break" for event in self._events),
            events=tuple(self._events)[:MOST_COMPILE_EVENTS],
            measured_steps=measured_steps,
            measured_seconds=measured_seconds,
            is_cached=not self._misses if self._hits or self._misses else None,
        )

    def _position(self) -> _Position:
        dynamo = self._dynamo
        records, counters = dynamo.get_compilation_metrics(), dynamo.counters
        # a graph comes from the cache of forward and backward passes, or else from that of single graphs
        graphs, passes = counters["inductor"], counters["aot_autograd"]
        return (
            counters["frames"]["total"],
            records[-1] if records else None,
            len(dynamo.graph_break_reasons),
            graphs["fxgraph_cache_hit"] + passes["autograd_cache_hit"],
            graphs["fxgraph_cache_miss"] + graphs["fxgraph_cache_bypass"],
        )

    def _read(self, before: _Position) -> Iterator[CompileEvent]:
        (_, last, known_breaks, *cache), (*_, hits, misses) = before, self._position()
        self._hits += hits - cache[0]
        self._misses += misses - cache[1]
        records = self._dynamo.get_compilation_metrics()
        # PyTorch keeps the last 64
        known = next((at for at, record in enumerate(records, 1) if record is last), 0)
        found = [event for record in records[known:] if (event := self._event_of(record)) is not None]
        self._recompilations += sum(event.kind == "recompilation" for event in found)
        for reason in self._dynamo.graph_break_reasons[known_breaks:]:
            frames = ((frame.filename, frame.lineno or 0, frame.name) for frame in reason.user_stack)
            found.append(_event("graph break", _explained(reason.reason), _place_in(frames)))
        for event in found:
            if event not in self._events:
                self._events[event] = None
                yield event

    def _event_of(self, record: Any) -> CompileEvent | None:
        # one of PyTorch's CompilationMetrics; a first compilation is no event
        frame = str(record.compile_id).partition("/")[0]
        if record.co_filename:
            self._functions[frame] = _place(record.co_filename, record.co_firstlineno, record.co_name)
        function = self._functions.get(frame, "an unknown line")
        if record.recompile_reason:
            text = _COMPILE_ID.sub("", record.recompile_reason)
            reason = text.partition("\n")[0].partition("  # ")[0].strip()
            if record.fail_type:
                reason = f"{reason}. PyTorch stopped compiling this function"
            return _event("recompilation", reason, _place_of_guard(text) or function)
        if record.fail_type in _NOT_TRACED:
            file, line = record.fail_user_frame_filename, record.fail_user_frame_lineno
            place = _place(file, line) if file else function
            return _event("graph break", _explained(record.fail_reason or record.fail_type), place)
        return None


def _event(kind: Any, reason: str, place: str) -> CompileEvent:
    return CompileEvent(kind=kind, reason=shortened(reason, _LONGEST), place=place)


def _explained(message: str) -> str:
    # "Unsupported Tensor.item() call", with its explanation in the second line, then hints
    if message.startswith("generic_jump"):
        return "Data-dependent branching"
    first, explanation = message.strip().partition("\n")[0], _EXPLANATION.search(message)
    return first if explanation is None else f"{first.rstrip('.')} ({explanation[1].rstrip('.')})"


def _place_of_guard(text: str) -> str:
    # newer versions add the user's stack, all name the line in a comment
    for pattern in (_FRAME, _GUARD):
        found = ((match["file"], int(match["line"]), match["name"]) for match in pattern.finditer(text))
        if place := _place_in(found):
            return place
    return ""


def _place_in(frames: Iterable[tuple[str, int, str]]) -> str:
    """Return the innermost frame outside PyTorch: "net.py:12, forward". "" without any."""
    own = [frame for frame in frames if not _is_torchs(_TORCH / frame[0])]
    return _place(*own[-1]) if own else ""


def _place(file: str, line: int, name: str = "") -> str:
    own = _RESUMED.sub(r"\1", name)
    return f"{PurePath(file).name}:{line}{f', {own}' if own else ''}"


def _is_torchs(path: Path) -> bool:
    # PyTorch shortens the paths of its own files, and of others cuts the root
    return path.is_relative_to(_TORCH) and path.exists()
