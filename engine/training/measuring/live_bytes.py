"""How many bytes of tensors live after each operation, counted without computing anything."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the storages of all results made in its context, as long as they live.

    `timeline` has the bytes that lived right after each operation since `restart`. Each storage takes a
    multiple of `block_bytes`, as an allocator hands them out. Made for fake tensors: enter it within
    `FakeTensorMode`. Unlike torch.distributed's MemTracker it keeps no account of modules, which took that
    four fifths of its time, and it tells every moment, where MemTracker tells the peak alone.
    """

    def __init__(self, block_bytes: int = 1) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.timeline: list[int] = []
        self._block_bytes = block_bytes
        # by the identity of the storage; the reference takes its own entry away when the storage dies
        self._living: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def restart(self) -> None:
        """Begins the timeline anew; what lives goes on being counted."""
        self.timeline = [self.now]

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                self._count(value.untyped_storage())
        self.timeline.append(self.now)
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        identity = storage._cdata
        if identity in self._living:
            return
        size = -(-storage.nbytes() // self._block_bytes) * self._block_bytes

        def forget(_: object) -> None:
            del self._living[identity]
            self.now -= size

        self._living[identity] = weakref.ref(storage, forget)
        self.now += size
