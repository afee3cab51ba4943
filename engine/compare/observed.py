"""The observations of a script in words: rows of a table, one sentence, and the cautions about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.protocol.summary import Observed, Summary
from engine.words.names import listed
from engine.words.numbers import NONE

OBSERVED = "What the observer saw"


class Fact(NamedTuple):
    """An observation: its title, its value in a table, and both in few words for a line."""

    title: str
    text: str
    brief: str


def facts_of(observed: Observed) -> tuple[Fact, ...]:
    """Return the observations of a script, the same ones in the same order for every script."""
    autocast, share = observed.autocast, ""
    if autocast is not None and observed.layers:
        share = f"{100 * observed.layers.get(autocast, 0.0):.0f}% of layers"
    lead = "no autocast" if autocast is None else f"{autocast} autocast"
    scaler = "GradScaler" if observed.has_scaler else "none"
    tf32, compiled = _tf32(observed), "compiled" if observed.is_compiled else "not compiled"
    batch = "" if observed.batch_size is None else f"{observed.batch_size:,}"
    count, formats = parameter_count(observed), listed(sorted(observed.parameters))
    several = f"{observed.processes:,} processes" if observed.processes > 1 else ""
    return (
        Fact(
            "Autocast",
            ": ".join(filter(None, (autocast or "none", share))),
            _phrase(lead, " in ", share) or lead,
        ),
        Fact("Loss scaler", scaler, "no GradScaler" if scaler == "none" else scaler),
        Fact("TF32", tf32 or NONE, _phrase("TF32", " ", tf32)),
        Fact("torch.compile", compiled, compiled),
        Fact("Batch", batch or NONE, _phrase("batch", " ", batch)),
        Fact(
            "Parameters",
            _phrase(count, ", ", formats) or NONE,
            _phrase(f"{count} parameters", " in ", formats),
        ),
        Fact("Optimizer", observed.optimizer or NONE, observed.optimizer),
        Fact("Processes", f"{observed.processes:,}", several),
    )


def _phrase(lead: str, joint: str, rest: str) -> str:
    return f"{lead}{joint}{rest}" if rest else ""


def observed_sentence(observed: Observed) -> str:
    """Return what the observer saw, in one sentence."""
    return f"The observer saw {listed([fact.brief for fact in facts_of(observed) if fact.brief])}."


def parameter_count(observed: Observed) -> str:
    """Return the number of parameters: "124.3 M"."""
    count = float(sum(observed.parameters.values()))
    for size, unit in ((1e9, " B"), (1e6, " M"), (1e3, " k")):
        if count >= size:
            return f"{count / size:,.1f}{unit}"
    return f"{count:,.0f}"


def cautions_of(summary: Summary, name: str = "") -> Iterator[str]:
    """Yield a sentence for each reason to trust a script's metrics less, with the `name` of its side."""
    observed = summary.observed
    if observed is None:
        return
    lead = f"{f'{name}: ' if name else ''}autocast({observed.autocast}) is on, but"
    if observed.autocast is not None and observed.layers and not observed.layers.get(observed.autocast):
        yield f"{lead} no Linear or Conv layer ran in it."
    if observed.autocast is not None and observed.is_compiled and not observed.layers:
        yield f"{lead} torch.compile hid in which format the layers ran."
    if observed.autocast == "float16" and not observed.has_scaler:
        yield f"{lead} a GradScaler is missing, so small gradients become zero."


def _tf32(observed: Observed) -> str:
    if observed.tf32_matmuls is None and observed.tf32_convolutions is None:
        return ""
    if observed.tf32_matmuls:
        return "on" if observed.tf32_convolutions is not False else "in matmuls"
    return "in convolutions" if observed.tf32_convolutions else "off"
