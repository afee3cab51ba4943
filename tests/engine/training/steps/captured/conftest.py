"""An imitation of CUDA graphs on the CPU, as strict as they are.

What is captured is not computed, a replay reads and writes fixed memory, and a value read breaks the capture.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

NOT_PERMITTED = "operation not permitted when stream is capturing"


@dataclass(frozen=True)
class Place:
    """Where a tensor lies. As by a real graph, memory made outside of the capture is not kept alive."""

    storage: StorageWeakRef
    dtype: torch.dtype
    geometry: tuple[Any, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Place:
        geometry = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
        return cls(StorageWeakRef(tensor.untyped_storage()), tensor.dtype, geometry)

    def tensor(self) -> torch.Tensor:
        storage = torch.UntypedStorage._new_with_weak_ptr(self.storage.cdata)
        assert storage is not None, "the graph reads memory that was given back"
        return torch.empty(0, dtype=self.dtype).set_(storage, *self.geometry)


class ImitatedGraph:
    """Operations in order, on fixed memory; `owned` is the memory that belongs to the graph."""

    def __init__(self) -> None:
        self.operations: list[tuple[Any, Any, list[Place]]] = []
        self.owned: dict[int, torch.UntypedStorage] = {}
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        with torch.no_grad():
            for function, arguments, places in self.operations:
                args, kwargs = tree_map_only(Place, Place.tensor, arguments)
                made = _tensors(function(*args, **kwargs))
                for place, tensor in zip(places, made, strict=True):
                    if place.tensor().data_ptr() != tensor.data_ptr():
                        place.tensor().copy_(tensor)

    def reset(self) -> None:
        self.operations.clear()
        self.owned.clear()


class Recording(TorchDispatchMode):
    """Computes what is captured, for its shapes, and takes all of it back at the end."""

    def __init__(self, graph: ImitatedGraph) -> None:
        super().__init__()
        self.is_invalid = False
        self._graph = graph
        self._before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self._random = torch.get_rng_state()

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten._local_scalar_dense.default:
            self.is_invalid = True
            raise RuntimeError(f"CUDA error: {NOT_PERMITTED}")
        arguments = (args, kwargs or {})
        given = {tensor.untyped_storage()._cdata: tensor for tensor in _tensors(arguments)}
        for cdata, tensor in given.items():
            if cdata not in self._graph.owned and cdata not in self._before:
                storage = tensor.untyped_storage()
                self._before[cdata] = (storage, storage.clone())
        places = tree_map_only(torch.Tensor, Place.of, arguments)
        outputs = function(*args, **(kwargs or {}))
        for tensor in _tensors(outputs):
            storage = tensor.untyped_storage()
            if storage._cdata not in given:
                self._graph.owned[storage._cdata] = storage
        if "profiler" not in str(function):
            self._graph.operations.append((function, places, [Place.of(out) for out in _tensors(outputs)]))
        return outputs

    def take_back(self) -> None:
        """Nothing was computed: what was there is as before, and what was made holds rubbish."""
        for storage, before in self._before.values():
            storage.copy_(before)
        self._before.clear()
        for storage in self._graph.owned.values():
            storage.fill_(0xFF)
        torch.set_rng_state(self._random)


def _tensors(tree: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    tree_map_only(torch.Tensor, found.append, tree)
    return found


class ImitatedStream:
    device = types.SimpleNamespace(type="cpu", index=0)

    def __init__(self, device: Any = None) -> None: ...

    def wait_stream(self, other: Any) -> None: ...


class Imitation:
    """What of `torch.cuda` capturing needs; `graphs` are those made, `captures` those that were captured."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.graphs: list[ImitatedGraph] = []
        self.captures = 0
        self.is_capturing = False
        self.ends_allocation = False
        self.released: list[Any] = []
        self.restored: list[str] = []
        self.streams: list[Any] = [ImitatedStream()]
        generator = types.SimpleNamespace(
            clone_state=lambda: "state", graphsafe_set_state=lambda state: self.restored.append(state)
        )
        for name, value in {
            "Stream": ImitatedStream,
            "CUDAGraph": self._graph,
            "graph": self._capturing,
            "graph_pool_handle": lambda: (0, 1),
            "stream": self._on,
            "current_stream": lambda device=None: self.streams[-1],
            "synchronize": lambda device=None: None,
            "default_generators": [generator],
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)
        monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", self._end_allocation)
        monkeypatch.setattr(torch._C, "_cuda_releasePool", lambda device, pool: self.released.append(pool))

    def _graph(self) -> ImitatedGraph:
        self.graphs.append(ImitatedGraph())
        return self.graphs[-1]

    def _end_allocation(self, device: int, pool: Any) -> None:
        if not self.ends_allocation:
            raise RuntimeError("no such pool")

    @contextmanager
    def _on(self, stream: Any) -> Iterator[None]:
        self.streams.append(stream)
        try:
            yield
        finally:
            self.streams.pop()

    @contextmanager
    def _capturing(self, graph: ImitatedGraph, *, stream: Any, **settings: Any) -> Iterator[None]:
        recording = Recording(graph)
        self.is_capturing = True
        try:
            with self._on(stream), recording:
                yield
        finally:
            self.is_capturing = False
            recording.take_back()
            if recording.is_invalid:
                raise RuntimeError("operation failed due to a previous error during capture")
        self.captures += 1


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Imitation:
    return Imitation(monkeypatch)
