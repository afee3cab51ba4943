"""The formats that a run computed in, and a script's observations: rows of a table, a sentence, cautions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from engine.experiment.catalog import NARROW_FORMATS, Precision
from engine.protocol.summary import Observed, Summary
from engine.words.names import listed
from engine.words.numbers import NONE

OBSERVED = "What the observer saw"


class Fact(NamedTuple):
    """An observation: its title, its value in a table, and both in few words for a line."""

    title: str
    text: str
    brief: str


def formats_of(summary: Summary) -> Mapping[str, float]:
    """Return the FLOP shares (0 to 1) of matmuls and convolutions by dtype. For a script, of its layers."""
    observed = summary.observed
    return summary.formats if observed is None else observed.layers


def facts_of(summary: Summary) -> tuple[Fact, ...]:
    """Return a script's observations, then the matmul dtypes and attention kernels of the run."""
    facts = [] if summary.observed is None else [*_script_facts(summary.observed)]
    if formats := formats_of(summary):
        shares = [(_percent(share), dtype) for dtype, share in formats.items() if _percent(share) != "0%"]
        text = ", ".join(f"{share} {dtype}" for share, dtype in shares)
        brief = listed([f"{share} in {dtype}" for share, dtype in shares])
        facts.append(Fact("Matmuls and convolutions", text, f"matmul FLOPs {brief}"))
    if summary.attention:
        kernels = listed([f"{use.kernel} in {use.dtype}" for use in summary.attention])
        facts.append(Fact("Attention", kernels, f"attention by {kernels}"))
    return tuple(facts)


def _script_facts(observed: Observed) -> Iterator[Fact]:
    autocast = observed.autocast
    yield Fact("Autocast", autocast or "none", "no autocast" if autocast is None else f"{autocast} autocast")
    scaler = "GradScaler" if observed.has_scaler else "none"
    yield Fact("Loss scaler", scaler, "no GradScaler" if scaler == "none" else scaler)
    tf32, compiled = _tf32(observed), "compiled" if observed.is_compiled else "not compiled"
    yield Fact("TF32", tf32 or NONE, _phrase("TF32", " ", tf32))
    yield Fact("torch.compile", compiled, compiled)
    batch = "" if observed.batch_size is None else f"{observed.batch_size:,}"
    yield Fact("Batch", batch or NONE, _phrase("batch", " ", batch))
    count, formats = parameter_count(observed), listed(sorted(observed.parameters))
    parameters = _phrase(f"{count} parameters", " in ", formats)
    yield Fact("Parameters", _phrase(count, ", ", formats) or NONE, parameters)
    yield Fact("Optimizer", observed.optimizer or NONE, observed.optimizer)
    several = f"{observed.processes:,} processes" if observed.processes > 1 else ""
    yield Fact("Processes", f"{observed.processes:,}", several)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _phrase(lead: str, joint: str, rest: str) -> str:
    return f"{lead}{joint}{rest}" if rest else ""


def observed_sentence(summary: Summary) -> str:
    """Return what the observer saw, in one sentence."""
    return f"The observer saw {listed([fact.brief for fact in facts_of(summary) if fact.brief])}."


def parameter_count(observed: Observed) -> str:
    """Return the number of parameters: "124.3 M"."""
    count = float(sum(observed.parameters.values()))
    for size, unit in ((1e9, " B"), (1e6, " M"), (1e3, " k")):
        if count >= size:
            return f"{count / size:,.1f}{unit}"
    return f"{count:,.0f}"


def cautions_of(summary: Summary, precision: Precision, name: str = "") -> Iterator[str]:
    """Yield a sentence for each reason to doubt a run's formats, with the `name` of its side."""
    observed, begin = summary.observed, f"{name}: " if name else ""
    autocast = None if observed is None else observed.autocast
    lead = f"{begin}autocast({autocast}) is on, but"
    contradiction = _contradiction(
        formats_of(summary), precision.formats if autocast is None else (autocast,)
    )
    if contradiction and autocast is not None:
        yield f"{lead} {contradiction}."
    elif contradiction:
        why = f", because {summary.formats_reason}" if summary.formats_reason else ""
        yield f"{begin}{contradiction}{why}."
    if observed is None or autocast is None:
        return
    if observed.is_compiled and not observed.layers:
        yield f"{lead} the dtypes of compiled layers are unknown."
    if autocast == "float16" and not observed.has_scaler:
        yield f"{lead} a GradScaler is missing, so small gradients can underflow to zero."


_MOST, _TELLING = 0.5, 0.1
"""The least share in the dtypes of a 16-bit precision, and the least in 16 bits that contradicts FP32."""


def _contradiction(formats: Mapping[str, float], wanted: tuple[str, ...]) -> str:
    if wanted[0] in NARROW_FORMATS:
        share, named = sum(formats.get(dtype, 0.0) for dtype in wanted), wanted
        is_wrong = bool(formats) and share < _MOST
    else:
        named = tuple(dtype for dtype in formats if dtype in NARROW_FORMATS)
        share = sum(formats[dtype] for dtype in named)
        is_wrong = share >= _TELLING
    dtypes = " or ".join(named)
    return f"{_percent(share)} of the FLOPs of matmuls and convolutions ran in {dtypes}" if is_wrong else ""


def _tf32(observed: Observed) -> str:
    if observed.tf32_matmuls is None and observed.tf32_convolutions is None:
        return ""
    if observed.tf32_matmuls:
        return "on" if observed.tf32_convolutions is not False else "in matmuls"
    return "in convolutions" if observed.tf32_convolutions else "off"
