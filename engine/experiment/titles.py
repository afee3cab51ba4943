"""Titles and help of settings, and the titles of a machine's facts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from engine.experiment.experiment import all_settings
from engine.experiment.problem import Problem, request_problem
from engine.experiment.text import in_sentence

FACTS: Mapping[str, str] = MappingProxyType(
    {
        "device_name": "Device name",
        "device_memory_mib": "Device memory",
        "torch": "PyTorch",
        "cuda": "CUDA",
        "driver": "Driver",
        "python": "Python",
        "os": "System",
        "ammeter": "Ammeter",
    }
)
"""The titles of what a run records of its machine."""


def setting_title(key: str) -> str:
    """The title of a setting by its dotted key, or of a machine's fact; any other key as it is."""
    setting = all_settings().get(key)
    return setting.title if setting else FACTS.get(key, key)


def setting_help(key: str) -> str:
    """A line of help."""
    return all_settings()[key].about


def named(key: str) -> str:
    """The title within a sentence: "learning rate"; an abbreviation keeps its capitals."""
    return in_sentence(setting_title(key))


def setting_problem(
    key: str, message: str, remedy: str, *, value: object = None, allowed: str | None = None
) -> Problem:
    """A problem of kind `REQUEST`; `message` continues a sentence that begins with the setting's title."""
    return request_problem(f"{setting_title(key)} {message}", remedy, key=key, value=value, allowed=allowed)
