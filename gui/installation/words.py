"""Texts about the PyTorch installation: sizes, the machine and the network. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from engine.installation.builds import build_title
from engine.installation.hardware import Hardware
from engine.installation.installed import Engine, Installation, State
from engine.installation.request import InstallPlan, InstallRequest, Source
from engine.words.numbers import counted, size_text

EXTRAS = {
    "timm": "over a thousand image models",
    "torchao": "low-bit AdamW, stochastic rounding",
    "transformers": "language models, such as GPT-2 and Llama",
}
"""Optional packages and their purpose."""


def gpu_title(hardware: Hardware) -> str:
    """Return the GPUs: "NVIDIA GeForce RTX 4090", "2 × NVIDIA H200"."""
    names = [gpu.name for gpu in hardware.gpus]
    if not names:
        return "No GPU found"
    distinct = list(dict.fromkeys(names))
    return ", ".join(name if names.count(name) == 1 else f"{names.count(name)} × {name}" for name in distinct)


def gpu_facts(hardware: Hardware) -> str:
    """Return the facts that determine the build: "compute capability 8.9 · driver 580.65"."""
    facts = []
    if hardware.gpus:
        gpu = hardware.gpus[0]
        if gpu.capability is not None:
            facts.append(f"compute capability {'.'.join(map(str, gpu.capability))}")
        if gpu.architecture is not None:
            facts.append(f"architecture {gpu.architecture}")
    if hardware.nvidia_driver is not None:
        facts.append(f"driver {hardware.nvidia_driver}")
    return " · ".join(facts) or hardware.processor


def download_text(plan: InstallPlan) -> str:
    """Return the download: "2.6 GiB in 34 packages, 1.1 GiB already unpacked"."""
    here = f", {size_text(plan.kept_bytes)} already unpacked" if plan.kept_bytes else ""
    size = f"{plan.download[:1].upper()}{plan.download[1:]}"
    return f"{size} in {counted(len(plan.packages), 'package')}{here}"


def room_text(plan: InstallPlan) -> str:
    """Return the disk space: "8.0 GiB needed, 120 GiB free"."""
    needed = f"{size_text(plan.needed_bytes)} needed, " if plan.unpacked_bytes is not None else ""
    return f"{needed}{size_text(plan.free_bytes)} free"


def network_text(environment: Mapping[str, str]) -> str:
    """Return the proxy and the certificates from the environment, without passwords. "" for neither."""
    parts = []
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        if address := environment.get(name):
            parts.append(f"proxy {without_password(address)} ({name})")
            break
    if certificates := environment.get("SSL_CERT_FILE"):
        parts.append(f"certificates from {certificates} (SSL_CERT_FILE)")
    text = ", ".join(parts)
    return text[:1].upper() + text[1:]


def without_password(address: str) -> str:
    """Return the address without a name and a password."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().removeprefix("//")


class Purpose(StrEnum):
    """Why the installation page is shown, for example to install PyTorch for the first time or to repair it.

    `RESUME` is for an installation that was started and did not finish.
    """

    FIRST = "first"
    RESUME = "resume"
    REPAIR = "repair"
    UPDATE = "update"
    CHANGE = "change"


@dataclass(frozen=True)
class PageText:
    """The texts of the installation page: heading, the sentence below it, and the start button."""

    title: str
    sentence: str
    button: str
    can_begin: bool = True


def purpose_of(engine: Engine) -> Purpose:
    """Return the purpose of the page for this state of PyTorch."""
    return Purpose.REPAIR if engine.state is State.BROKEN else Purpose.FIRST


def first_choice(engine: Engine, source: Source | None = None) -> InstallRequest:
    """Return the request for the installed build, to repair or update it, or else for the best build."""
    here = engine.installation
    if here is None:
        return InstallRequest(source=source or Source())
    return InstallRequest(
        here.backend, source or Source(), tuple(name for name in EXTRAS if name in here.packages)
    )


def words_for(purpose: Purpose, engine: Engine, plan: InstallPlan | None) -> PageText:
    """Return the texts of the page. `plan` is None until the request is resolved."""
    here = _version_without_build(engine.installation.torch) if engine.installation else ""
    stays = f"PyTorch {here} stays in use until the new installation has trained a step."
    match purpose:
        case Purpose.RESUME:
            return PageText("Resume the installation", "Complete packages are kept.", "Resume")
        case Purpose.REPAIR:
            sentence = engine.problem.message if engine.problem else "Its files have changed."
            return PageText("PyTorch needs a repair", f"{sentence} Your runs are not affected.", "Repair")
        case Purpose.UPDATE if plan is not None and _version_without_build(plan.torch) == here:
            return PageText("PyTorch is up to date", f"{here} is the newest version.", "Update", False)
        case Purpose.UPDATE:
            newest = f" to {_version_without_build(plan.torch)}" if plan else ""
            return PageText("Update PyTorch", stays, f"Update{newest}")
        case Purpose.CHANGE:
            return PageText("Change the PyTorch build", stays, "Download and change")
        case Purpose.FIRST:
            return PageText("Install PyTorch", _FIRST, "Download and install")


_FIRST = (
    "Ammeter needs PyTorch, which has a separate build for each type of GPU. It is downloaded once into its "
    "own folder. Nothing else on this machine changes."
)


def _version_without_build(version: str) -> str:
    """Return the version without the build: "2.15.0" of "2.15.0+cu130"."""
    return version.partition("+")[0]


def title_of(installation: Installation) -> str:
    """Return the installed build: "PyTorch 2.15.0 for CUDA 13.0"."""
    return f"PyTorch {_version_without_build(installation.torch)} for {build_title(installation.backend)}"
