"""The words of the pages of the engine about sizes, of this machine, and of the network. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from engine.experiment.value import BYTES_PER_MIB
from engine.installation.hardware import Hardware
from engine.installation.wanted import Plan
from engine.words.numbers import counted, memory_text

EXTRAS = {
    "timm": "over a thousand models for pictures",
    "transformers": "language models, such as GPT-2 and Llama",
}
"""The packages that can be set up as well, and what they are for."""


def size_text(size_bytes: float) -> str:
    """A size on disk, or of a download: "2.6 GiB"."""
    return memory_text(size_bytes / BYTES_PER_MIB)


def card_title(hardware: Hardware) -> str:
    """The graphics cards: "NVIDIA GeForce RTX 4090", "2 × NVIDIA H200"."""
    names = [gpu.name for gpu in hardware.gpus]
    if not names:
        return "No graphics card was found"
    distinct = list(dict.fromkeys(names))
    return ", ".join(name if names.count(name) == 1 else f"{names.count(name)} × {name}" for name in distinct)


def card_facts(hardware: Hardware) -> str:
    """The facts that decide about the build: "compute capability 8.9 · driver 580.65"."""
    facts = []
    if hardware.gpus:
        gpu = hardware.gpus[0]
        if gpu.capability is not None:
            facts.append(f"compute capability {_dotted(gpu.capability)}")
        if gpu.architecture is not None:
            facts.append(f"architecture {gpu.architecture}")
    if hardware.nvidia_driver is not None:
        facts.append(f"driver {hardware.nvidia_driver}")
    return " · ".join(facts) or hardware.processor


def download_text(plan: Plan) -> str:
    """The exact download: "2.6 GiB in 34 files, 1.1 GiB of them here already"."""
    here = f", {size_text(plan.fetched_bytes)} of them here already" if plan.fetched_bytes else ""
    return f"{size_text(plan.download_bytes)} in {counted(len(plan.wheels), 'file')}{here}"


def room_text(plan: Plan) -> str:
    """The room on the disk: "8.0 GiB needed, 120 GiB free"."""
    return f"{size_text(_still_needed(plan))} needed, {size_text(plan.free_bytes)} free"


def has_room(plan: Plan) -> bool:
    return plan.free_bytes >= _still_needed(plan)


def _still_needed(plan: Plan) -> int:
    return plan.needed_bytes - plan.fetched_bytes


def network_text(environment: Mapping[str, str]) -> str:
    """The proxy and the certificates that the environment prescribes, without passwords; "" for neither."""
    parts = []
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        if address := environment.get(name):
            parts.append(f"Through the proxy {without_password(address)} ({name})")
            break
    if certificates := environment.get("SSL_CERT_FILE"):
        parts.append(f"certificates of {certificates} (SSL_CERT_FILE)")
    text = ", ".join(parts)
    return text[:1].upper() + text[1:]


def without_password(address: str) -> str:
    """The address without the name and the password that it may hold."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().removeprefix("//")


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
