"""What decides which build of torch fits: graphics cards, drivers, and the processor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Vendor(StrEnum):
    NVIDIA = "NVIDIA"
    AMD = "AMD"
    INTEL = "Intel"
    APPLE = "Apple"


@dataclass(frozen=True)
class Gpu:
    """A graphics card. `capability` is NVIDIA's compute capability, `architecture` AMD's ("gfx1100")."""

    vendor: Vendor
    name: str
    capability: tuple[int, int] | None = None
    architecture: str | None = None


@dataclass(frozen=True)
class Hardware:
    """This machine. `system` is sys.platform, `machine` such as "x86_64".

    `nvidia_driver` is the driver's version and `cuda_of_driver` the newest CUDA that it runs, both None
    without a driver; `has_avx2` is None where it is unknown.
    """

    system: str
    machine: str
    processor: str
    gpus: tuple[Gpu, ...] = ()
    nvidia_driver: str | None = None
    cuda_of_driver: tuple[int, int] | None = None
    has_avx2: bool | None = None
