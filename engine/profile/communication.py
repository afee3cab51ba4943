"""The communication between a step's devices: sentences, and tables by device and message size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from engine.experiment.value import BYTES_PER_MIB
from engine.profile.names import side_names
from engine.protocol.profile import Communication, RankProfile, StepPart, StepProfile
from engine.protocol.profiles import Profiles
from engine.words.numbers import NONE, counted, memory_text, number, share_text

BY_DEVICE, BY_SIZE = "By device", "Bus bandwidth by message size"
DEVICE_HEADINGS = ("Device", "Step", "Computing", "Host", "Data", "Exposed", "Overlapped", "Skew")
SIZE_HEADINGS = ("Message", "GB/s", "Sent per step")
HOW_MEASURED = (
    "Times are milliseconds per step. Host and Data are waits for the host and for data. Communication is "
    "exposed while the device computes nothing, and overlapped while it computes. Skew is the part of both "
    "in which another device had not started: the extra time of a message relative to the device where it is "
    "shortest. Bus bandwidth is the traffic on each link in an all-reduce. For n devices it is 2 (n - 1) / n "
    "times the bytes of the message, divided by the time."
)


def communication_by_side(profiles: Profiles) -> tuple[tuple[str, Communication], ...]:
    """Return the sides that multiple devices trained, by name. A single side has an empty name."""
    return tuple((name, exchange) for name, _, exchange in _exchanges(profiles))


def _exchanges(profiles: Profiles) -> tuple[tuple[str, StepProfile, Communication], ...]:
    return tuple(
        (name if len(profiles.sides) > 1 else "", side.profile, side.profile.exchange)
        for name, side in zip(side_names(profiles), profiles.sides, strict=True)
        if side.profile is not None and side.profile.exchange is not None
    )


def communication_sentences(profiles: Profiles) -> tuple[str, ...]:
    """Describe the communication of each side's devices, and which one the others wait for."""
    return tuple(
        f"{name}: {sentence}" if name else sentence
        for name, profile, exchange in _exchanges(profiles)
        for sentence in ((_UNRELIABLE,) if profile.disturbance is not None else _sentences(exchange))
    )


_UNRELIABLE = "The times of the devices are unreliable, as the steps were disturbed."


def _sentences(exchange: Communication) -> Iterator[str]:
    first, sizes = exchange.ranks[0], exchange.messages
    share = first.exposed_ms / first.step_ms if first.step_ms else 0.0
    yield (
        f"Rank 0 spends {number(first.exposed_ms)} ms of a {number(first.step_ms)} ms step "
        f"({share_text(share)}) on exposed communication. {number(first.overlapped_ms)} ms are overlapped."
    )
    if sizes:
        sent, together = counted(len(sizes), "message"), _size(sum(sizes))
        yield (
            f"It sends {sent} of {together} per step."
            if len(sizes) == 1
            else f"It sends {sent} per step, {together} in total."
        )
    slowest = exchange.slowest
    if slowest is not None:
        waits = [rank.skew_ms or 0.0 for rank in exchange.ranks]
        named = exchange.ranks[slowest].named(slowest)
        yield f"The others wait for {named}, for up to {number(max(waits))} ms per step."
    elif any(rank.skew_ms is None for rank in exchange.ranks):
        yield "The devices did not send the same messages, so their waits are unknown."


def device_rows(profiles: Profiles) -> tuple[tuple[str, ...], ...]:
    """Return the rows under `DEVICE_HEADINGS`, in milliseconds. Mark the slowest device of each side."""
    rows = []
    for name, exchange in communication_by_side(profiles):
        for place, rank in enumerate(exchange.ranks):
            named = f"{name}, {rank.named(place)}" if name else rank.named(place)
            rows.append(_device_row(named, rank, exchange.slowest == place))
    return tuple(rows)


def _device_row(name: str, rank: RankProfile, is_slowest: bool) -> tuple[str, ...]:
    return (
        f"{name}, slowest" if is_slowest else name,
        *map(
            number, (rank.step_ms, rank.computing_ms, rank.bar.ms(StepPart.HOST), rank.bar.ms(StepPart.DATA))
        ),
        *map(number, (rank.exposed_ms, rank.overlapped_ms, rank.skew_ms)),
    )


def size_rows(profiles: Profiles) -> tuple[tuple[str, ...], ...]:
    """Return the rows under `SIZE_HEADINGS`, for the first side whose devices were measured.

    Each message of a step counts for the size nearest to it.
    """
    found = next((exchange for _, exchange in communication_by_side(profiles) if exchange.rates), None)
    if found is None:
        return ()
    sizes = [rate.size for rate in found.rates]
    sent = Counter(min(sizes, key=lambda size: abs(math.log(size / own))) for own in found.messages)
    return tuple(
        (_size(rate.size), number(rate.gb_per_second), f"{sent[rate.size]:,}" if sent[rate.size] else NONE)
        for rate in found.rates
    )


def _size(count: float) -> str:
    mib = count / BYTES_PER_MIB
    return memory_text(mib) if mib >= 1 else f"{number(1_024 * mib, 0)} KiB"
