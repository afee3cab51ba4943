"""Reads a Chrome trace of torch.profiler."""

from __future__ import annotations

import gzip
import json
import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from sys import intern
from typing import Any, Literal, NamedTuple

from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.numerics import Direction
from engine.training.profile import recording
from engine.training.profile.trace import (
    Collective,
    DeviceWork,
    HostOperation,
    LaunchPlace,
    MarkedSpan,
    Signature,
    Trace,
    Wait,
    WorkKind,
)


def read_trace(path: Path) -> Trace:
    """Read a Chrome trace that torch.profiler has written, gzipped or not.

    A kernel belongs to the host's call with its correlation number, and that call to the innermost operation
    around it. A forward operation belongs to the module with the innermost mark around it. A backward
    operation belongs to the module of the forward operation that created its autograd node, which is the last
    operation that started with the node's sequence number. A gradient's accumulation belongs to the node
    before it. Recomputation by a checkpoint counts as forward again. Raise ProblemError for a damaged file.
    """
    events = _Events()
    try:
        written = path.read_bytes()
        if path.suffix == ".gz":
            written = gzip.decompress(written)
        json.loads(written.decode(errors="replace"), strict=False, object_hook=events.take)
    except (OSError, EOFError, ValueError, KeyError) as error:
        raise ProblemError(
            Problem(
                kind=Kind.INTERNAL,
                message="The recorded trace is damaged. PyTorch's profiler did not write all of it.",
                remedy="Check that the disk for temporary files has free space, and profile again.",
            )
        ) from error
    return _trace(events)


@dataclass(slots=True, eq=False)
class _Call:
    kind: Literal["operation", "mark", "runtime"]
    name: str
    begin: float
    end: float
    thread: int
    args: dict[str, Any]
    children_us: float = 0.0
    parent: _Call | None = None
    mark: str | None = None
    node: tuple[int, int] | None = None
    """The autograd node in which it ran: its forward thread's number, and its own. None outside of any."""
    made: HostOperation | None = None


class _RawWork(NamedTuple):
    kind: WorkKind
    name: str
    begin: float
    end: float
    args: dict[str, Any]


class _Events:
    def __init__(self) -> None:
        self.calls: dict[int, list[_Call]] = defaultdict(list)
        self.work: list[_RawWork] = []
        self.sent: list[_RawWork] = []
        self._signatures: dict[str, Signature] = {}

    def take(self, value: dict[str, Any]) -> Any:
        if "ph" not in value:
            return value
        category = value.get("cat")
        if value["ph"] != "X" or category is None:
            return None
        name, begin, args = intern(value["name"]), float(value["ts"]), value.get("args", {})
        end = begin + float(value["dur"])
        if category in _WORK:
            self.work.append(_RawWork(_WORK[category], demangled(name), begin, end, args))
        elif category == "cpu_op":
            kept = {key: args[key] for key in _KEPT if key in args}
            kept["signature"] = self._signature(args)
            self._add(_Call("operation", name, begin, end, value["tid"], kept))
        elif category == "user_annotation" and name.startswith("ammeter."):
            self._add(_Call("mark", name, begin, end, value["tid"], {}))
        elif category == "user_annotation" and name.startswith(_GLOO):
            self.sent.append(_RawWork("kernel", name.removeprefix(_GLOO), begin, end, args))
        elif category.endswith(("_runtime", "_driver")):
            self._add(_Call("runtime", name, begin, end, value["tid"], args))
        return None

    def _add(self, call: _Call) -> None:
        self.calls[call.thread].append(call)

    def _signature(self, args: dict[str, Any]) -> Signature | None:
        parts = [args.get(key, ()) for key in _SIGNATURE]
        if not parts[0]:
            return None
        key = str(parts)
        if key not in self._signatures:
            self._signatures[key] = Signature(*map(_frozen, parts))
        return self._signatures[key]


_WORK: dict[str, WorkKind] = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "set"}
_KEPT = ("External id", "Sequence number", "Fwd thread id")
_SIGNATURE = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")
_NODE = "autograd::engine::evaluate_function: "
_COPY = re.compile(r"Memcpy (\w+) \((\w+) -> (\w+)\)")
_WAIT = re.compile(r"(cuda|hip)(\w*Synchronize|Memcpy|Memcpy2D)(_v\d+|_ptsz)?$")


_GLOO = "gloo:"
"""The prefix of communication through CPU memory, on gloo's own threads."""


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _trace(events: _Events) -> Trace:
    for thread_calls in events.calls.values():
        thread_calls.sort(key=lambda call: (call.begin, -call.end))
        _nest(thread_calls)
    calls = list(chain.from_iterable(events.calls.values()))
    places = _Places(calls)
    operations = [_operation(call, places) for call in calls if call.kind == "operation"]
    work = _device_work(events.work, calls, places)
    waits = (
        Wait(call.begin, call.end, call.name, _operation_around(call), places.of(call))
        for call in calls
        if call.kind == "runtime" and _WAIT.match(call.name)
    )
    pairs = zip(events.work, work, strict=True)
    sent = [
        (raw, each.place.step) for raw, each in pairs if raw.kind == "kernel" and raw.name.startswith("nccl")
    ]
    sent += [(raw, _number(places.steps, raw.begin)) for raw in events.sent]
    collectives = (_collective(raw, step) for raw, step in sent if step is not None)
    backward = dict.fromkeys(call.thread for call in calls if call.node is not None)
    return Trace(
        work=tuple(sorted(work, key=attrgetter("begin_us"))),
        operations=tuple(operations),
        waits=tuple(sorted(waits, key=attrgetter("begin_us"))),
        steps=places.steps,
        data=places.data,
        validation=places.validation,
        module_calls=places.module_calls(),
        threads=tuple({places.thread: None} | backward),
        collectives=tuple(sorted(collectives, key=attrgetter("begin_us"))),
    )


def _nest(calls: Sequence[_Call]) -> None:
    stack: list[_Call] = []
    last_node: tuple[int, int] | None = None
    for call in calls:
        while stack and stack[-1].end <= call.begin:
            stack.pop()
        parent = call.parent = stack[-1] if stack else None
        if parent is not None:
            call.mark, call.node = parent.mark, parent.node
        if call.kind == "mark" and call.name.startswith(recording.MODULE):
            call.mark, call.node = call.name.removeprefix(recording.MODULE), None
        elif call.name.startswith(_NODE):
            # an accumulation runs right after the node that made its gradient, and has no number
            if "Sequence number" in call.args:
                last_node = (call.args.get("Fwd thread id", 0), call.args["Sequence number"])
            call.mark, call.node = None, last_node
        if call.kind == "operation" and (caller := _caller(call)) is not None:
            caller.children_us += min(call.end, caller.end) - call.begin
        stack.append(call)


def _caller(call: _Call) -> _Call | None:
    above = call.parent
    while above is not None and above.kind != "operation":
        above = above.parent
    return above


def _operation_around(call: _Call) -> HostOperation | None:
    above = _caller(call)
    return None if above is None else above.made


class _Places:
    def __init__(self, calls: Sequence[_Call]) -> None:
        self._marks = sorted((call for call in calls if call.kind == "mark"), key=attrgetter("begin"))
        self.steps, self.data, self.optimizer, self.validation = (
            tuple(MarkedSpan(call.begin, call.end) for call in self._marks if call.name == name)
            for name in (recording.STEP, recording.DATA, recording.OPTIMIZER, recording.VALIDATION)
        )
        self.thread = next((call.thread for call in (*self._marks, *calls)), 0)
        nodes = Counter(call.node[0] for call in calls if call.node is not None)
        self._number_of_thread = nodes.most_common(1)[0][0] if nodes else None
        self._modules = {
            (call.thread, call.args["Sequence number"]): call.mark
            for call in calls
            if call.node is None and "Sequence number" in call.args and not call.args.get("Fwd thread id")
        }

    def module_calls(self) -> tuple[tuple[str, int], ...]:
        calls = Counter(
            call.name.removeprefix(recording.MODULE)
            for call in self._marks
            if call.name.startswith(recording.MODULE) and _number(self.steps, call.begin) is not None
        )
        return tuple(calls.items())

    def of(self, call: _Call) -> LaunchPlace:
        if call.node is None:
            return self.at(call.begin, call.mark, "forward")
        thread, number = call.node
        made_on = self.thread if thread == self._number_of_thread else call.thread
        return self.at(call.begin, self._modules.get((made_on, number)), "backward")

    def at(self, time: float, module: str | None = None, direction: Direction = "forward") -> LaunchPlace:
        return LaunchPlace(
            step=_number(self.steps, time),
            module=module,
            direction=direction,
            in_optimizer=_number(self.optimizer, time) is not None,
            in_data=_number(self.data, time) is not None,
            validation=_number(self.validation, time),
        )


def _number(stretches: tuple[MarkedSpan, ...], time: float) -> int | None:
    number = bisect_right(stretches, time, key=attrgetter("begin_us")) - 1
    return number if number >= 0 and time < stretches[number].end_us else None


def _operation(call: _Call, places: _Places) -> HostOperation:
    call.made = HostOperation(
        name=call.name,
        begin_us=call.begin,
        end_us=call.end,
        self_us=max(0.0, call.end - call.begin - call.children_us),
        thread=call.thread,
        parent=_operation_around(call),
        signature=call.args["signature"],
        place=places.of(call),
    )
    return call.made


def _device_work(found: Sequence[_RawWork], calls: Sequence[_Call], places: _Places) -> list[DeviceWork]:
    launches = {call.args.get("correlation", 0): call for call in calls if call.kind == "runtime"}
    by_number = {call.args.get("External id", 0): call for call in calls if call.kind == "operation"}

    def work(raw: _RawWork) -> DeviceWork:
        correlation, external_id = raw.args.get("correlation", 0), raw.args.get("External id", 0)
        launch = launches.get(correlation) if correlation else None
        # in old traces the external id is the correlation number again, and that of another operation
        asked = launch or (by_number.get(external_id) if external_id not in (0, correlation) else None)
        is_in_graph = launch is not None and "GraphLaunch" in launch.name
        copy = _COPY.match(raw.name)
        return DeviceWork(
            name=raw.name,
            kind=raw.kind,
            begin_us=raw.begin,
            end_us=raw.end,
            operation=None if asked is None or is_in_graph else asked.made or _operation_around(asked),
            place=places.at(raw.begin) if asked is None else places.of(asked),
            is_in_graph=is_in_graph,
            copy_kind=copy[1] if copy else None,
            is_pageable=copy is not None and "Pageable" in copy.groups(),
            bytes=raw.args.get("bytes"),
        )

    return [work(raw) for raw in found]


_SIZES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "long": 8, "long int": 8, "int": 4}


def _collective(raw: _RawWork, step: int) -> Collective:
    # NCCL's kernels record their message, gloo's calls have inputs as operations do. An all-gather reads a
    # shard and a reduce-scatter writes one, so the full size is the larger.
    args = raw.args
    count = max(args.get("In msg nelems") or 0, args.get("Out msg nelems") or 0) or math.prod(
        next(iter(args.get("Input Dims", ())), (0,))
    )
    kind = args.get("dtype") or next(iter(args.get("Input type", ())), "")
    size = _SIZES.get(kind.lower().removeprefix("c10::"))
    name = args.get("Collective name", raw.name)
    return Collective(raw.begin, raw.end, name, step, count * size if count and size else None)


_TYPES = {"b": "bool", "d": "double", "f": "float", "i": "int", "l": "long"}
_TOKEN = re.compile(
    r"L[a-z](?P<number>n?\d+)E"
    # types named before, parameters of templates, bounds of arrays, abbreviations of the library's names
    r"|S[\dA-Z]*_|T\d*_|A\d*_|S[a-z]|D[a-zA-Z]"
    r"|(?P<open>U[lt]|L_Z|[NIXJFLZ])|(?P<close>E)|(?P<length>\d+)|(?P<type>.)",
    re.DOTALL,
)
_NUMBER_OF_LAMBDA = re.compile(r"\d*_")
_UNNAMED = "_GLOBAL__N"


@lru_cache(10_000)
def demangled(name: str) -> str:
    """Demangle a kernel's name with its template arguments, to "at::native::fill_kernel<float>".

    Types that were named before are skipped, since only the full grammar would show which they are. A name
    that is not mangled is returned as it is.
    """
    if not name.startswith("_Z"):
        return name
    text, place, opened, is_within = "", len("_Z"), [""], False
    while place < len(name) and (token := _TOKEN.match(name, place)) is not None:
        place, joint, is_within = token.end(), "::" if is_within else " ", False
        if token["open"] == "L" and opened[-1] in ("", "N", "Z"):
            is_within = joint == "::"  # a function that its file alone knows
        elif token["open"]:
            opened.append(token["open"])
            text += "<" if token["open"] == "I" else ""
        elif token["close"]:
            closed = opened.pop() if len(opened) > 1 else ""
            text += ">" if closed == "I" else ""
            if closed.startswith("U") and (number := _NUMBER_OF_LAMBDA.match(name, place)):
                place = number.end()
            is_within = opened[-1] == "N"
        elif token["length"] and not (opened[-1] == "L" and name[place : place + 1] == "E"):
            word = name[place : place + int(token["length"])]
            place += len(word)
            text += joint + (_UNNAMED if word.startswith(_UNNAMED) else word)
            is_within = opened[-1] == "N"
        elif opened[-1] in ("I", "J", "") and (piece := token["number"] or _TYPES.get(token["type"] or "")):
            text += f" {piece}"
        if text and len(opened) <= 1 and "(" not in text and name[place : place + 1] != "I":
            text += "("
    listed = text.replace("< ", "<").replace("( ", "(").strip().replace(" ", ", ")
    return f"{listed})".replace(_UNNAMED, "(anonymous namespace)") if "(" in listed else name
