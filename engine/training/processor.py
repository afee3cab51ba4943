"""The machine's processor: its name in words, its memory, and the 16-bit formats it computes in."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
_FP16_FLAGS = frozenset({"avx512_fp16", "amx_fp16", "fphp", "asimdhp"})


@dataclass(frozen=True)
class Processor:
    """`title` as people know it; `computes_bf16` and `computes_fp16` are None where nothing tells."""

    title: str
    memory_mib: float
    computes_bf16: bool | None = None
    computes_fp16: bool | None = None


@cache
def processor() -> Processor:
    """This machine's processor."""
    memory_mib = psutil.virtual_memory().total / 2**20
    if sys.platform == "linux":
        return from_cpuinfo(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"), memory_mib)
    return Processor(platform.processor() or platform.machine() or "CPU", memory_mib)


def from_cpuinfo(text: str, memory_mib: float) -> Processor:
    """The processor that Linux's /proc/cpuinfo describes; x86 says "flags", ARM "Features"."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = frozenset((fields.get("flags") or fields.get("Features") or "").split())
    return Processor(
        title=fields.get("model name") or platform.machine() or "CPU",
        memory_mib=memory_mib,
        computes_bf16=bool(flags & _BF16_FLAGS) if flags else None,
        computes_fp16=bool(flags & _FP16_FLAGS) if flags else None,
    )
