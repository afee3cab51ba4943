"""Constructed recordings, event by event, as torch.profiler writes them."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

from engine.training.profile import recording
from engine.training.profile.chrome import read_trace
from engine.training.profile.trace import Trace

MAIN, AUTOGRAD = 100, 200


def names_in(file: str) -> list[dict[str, str]]:
    """The rows of a table of kernels' names in this folder."""
    lines = Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


class Recorded:
    """A recording under construction; times are in microseconds."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []

    def mark(self, name: str, begin: float, end: float) -> None:
        """Marks a stretch of the training thread."""
        self._add("user_annotation", name, begin, end, MAIN)

    def step(self, begin: float, end: float) -> None:
        """Marks a step."""
        self.mark(recording.STEP, begin, end)

    def operation(self, name: str, begin: float, end: float, thread: int = MAIN, **args: Any) -> None:
        """Adds a host operation; its arguments: `sequence`, `forward`, `inputs` ((shape, type), ...)."""
        written = {
            "External id": len(self._events) + 1,
            **({"Sequence number": args["sequence"]} if "sequence" in args else {}),
            **({"Fwd thread id": args["forward"]} if "forward" in args else {}),
        }
        if inputs := args.get("inputs"):
            written["Input Dims"] = [shape for shape, _ in inputs]
            written["Input Strides"] = [_strides(shape) for shape, _ in inputs]
            written["Input type"] = [kind for _, kind in inputs]
            written["Concrete Inputs"] = args.get("values", ["" for _ in inputs])
        self._add("cpu_op", name, begin, end, thread, **written)

    def kernel(self, name: str, begin: float, end: float, launched: float | None = None, **args: Any) -> None:
        """Adds a kernel, and its launch for 1 us where it is known when that was."""
        correlation = 10_000 + len(self._events)
        stream = args.get("stream", 7)
        if launched is not None:
            self.runtime("cudaLaunchKernel", launched, launched + 1, args.get("thread", MAIN), correlation)
        self._add(
            args.get("category", "kernel"),
            name,
            begin,
            end,
            stream,
            stream=stream,
            correlation=args.get("correlation", correlation),
            **({"bytes": args["bytes"]} if "bytes" in args else {}),
            **args.get("written", {}),
        )

    def gloo(self, name: str, begin: float, end: float, size: int, thread: int = 300) -> None:
        """Adds what gloo sends, `size` numbers in FP32, on a thread of its own."""
        self._add(
            "user_annotation",
            f"gloo:{name}",
            begin,
            end,
            thread,
            **{"Input Dims": [[size]], "Input type": ["float"]},
        )

    def nccl(
        self, name: str, begin: float, end: float, launched: float, size: int, given: int | None = None
    ) -> None:
        """Adds NCCL's kernel that sends `size` numbers in BF16 and gives `given`, on a stream of its own."""
        sizes = {"In msg nelems": size, "Out msg nelems": size if given is None else given}
        written = {"Collective name": name, **sizes, "dtype": "BFloat16"}
        self.kernel(
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", begin, end, launched, stream=30, written=written
        )

    def copy(self, name: str, begin: float, end: float, launched: float, count: int) -> None:
        """Adds a copy by the device."""
        self.kernel(name, begin, end, launched, category="gpu_memcpy", bytes=count)

    def runtime(
        self, name: str, begin: float, end: float, thread: int = MAIN, correlation: int | None = None
    ) -> None:
        """Adds a call of the CUDA runtime."""
        number = 10_000 + len(self._events) if correlation is None else correlation
        self._add("cuda_runtime", name, begin, end, thread, correlation=number)

    def written(self, path: Path) -> Path:
        """Writes the recording to a file."""
        text = json.dumps({"schemaVersion": 1, "traceEvents": [*_NOISE, *self._events]}).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path

    def read(self, folder: Path) -> Trace:
        """The recording as it is read again."""
        return read_trace(self.written(folder / "trace.json"))

    def _add(self, category: str, name: str, begin: float, end: float, thread: int, **args: Any) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread}
        self._events.append({**event, "ts": begin, "dur": end - begin, "args": args})


def _strides(shape: list[int]) -> list[int]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return strides if shape else []


_NOISE = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}},
    {"ph": "s", "id": 1, "pid": 1, "tid": MAIN, "ts": 1, "cat": "ac2g", "name": "ac2g"},
    {
        "ph": "X",
        "cat": "Trace",
        "name": "PyTorch Profiler (0)",
        "pid": "Spans",
        "tid": "x",
        "ts": 0,
        "dur": 9e9,
    },
    {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 9e9},
]
