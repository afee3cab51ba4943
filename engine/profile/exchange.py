"""What the devices of a profiled step exchange: sentences, and the tables by device and by message size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from engine.experiment.value import BYTES_PER_MIB
from engine.profile.names import side_names
from engine.protocol.profile import Exchange, RankProfile, StepPart, StepProfile
from engine.protocol.profiles import Profiles
from engine.words.numbers import NONE, counted, memory_text, number, share_text

BY_DEVICE, BY_SIZE = "By device", "Bus bandwidth by message size"
DEVICE_HEADINGS = ("Device", "Step", "Computing", "Host", "Data", "Exposed", "Overlapped", "Skew")
SIZE_HEADINGS = ("Message", "GB/s", "Sent a step")
HOW_MEASURED = (
    "Times are milliseconds of a step; Host and Data are waits for these. Communication is exposed while the "
    "device computes nothing, and overlapped while it computes. Skew is the part of both in which another "
    "device had not come yet: what a message takes longer than on the device where it is shortest. Bus "
    "bandwidth is what each link carries while all devices sum a message: 2 (n - 1) / n times its bytes over "
    "the time, for n devices."
)


def exchanges(profiles: Profiles) -> tuple[tuple[str, Exchange], ...]:
    """The sides that several devices trained, by name; the name is empty where there is one side."""
    return tuple((name, exchange) for name, _, exchange in _exchanges(profiles))


def _exchanges(profiles: Profiles) -> tuple[tuple[str, StepProfile, Exchange], ...]:
    return tuple(
        (name if len(profiles.sides) > 1 else "", side.profile, side.profile.exchange)
        for name, side in zip(side_names(profiles), profiles.sides, strict=True)
        if side.profile is not None and side.profile.exchange is not None
    )


def exchange_sentences(profiles: Profiles) -> tuple[str, ...]:
    """What each side's devices exchange, and which of them the others wait for."""
    return tuple(
        f"{name}: {sentence}" if name else sentence
        for name, profile, exchange in _exchanges(profiles)
        for sentence in ((_DISTURBED,) if profile.disturbance is not None else _sentences(exchange))
    )


_DISTURBED = "Its steps were disturbed, so that nothing follows from the figures of its devices."


def _sentences(exchange: Exchange) -> Iterator[str]:
    first, sizes = exchange.ranks[0], exchange.messages
    share = first.exposed_ms / first.step_ms if first.step_ms else 0.0
    yield (
        f"Communication is exposed for {number(first.exposed_ms)} of rank 0's {number(first.step_ms)} ms "
        f"({share_text(share)}), and overlapped with computing for {number(first.overlapped_ms)} ms."
    )
    if sizes:
        sent, together = counted(len(sizes), "message"), _size(sum(sizes))
        yield (
            f"It sends {sent} of {together} a step."
            if len(sizes) == 1
            else f"It sends {sent} a step, {together} together."
        )
    slowest = exchange.slowest
    if slowest is not None:
        waits = [rank.skew_ms or 0.0 for rank in exchange.ranks]
        named = exchange.ranks[slowest].named(slowest)
        yield f"{named} keeps the others waiting, for up to {number(max(waits))} ms of a step."
    elif any(rank.skew_ms is None for rank in exchange.ranks):
        yield "The devices did not make the same messages, so that their waits are unknown."


def device_rows(profiles: Profiles) -> tuple[tuple[str, ...], ...]:
    """The rows under `DEVICE_HEADINGS`, in milliseconds; the slowest device of each side is marked."""
    rows = []
    for name, exchange in exchanges(profiles):
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
    """The rows under `SIZE_HEADINGS`, of the first side whose devices were measured.

    Each message of a step counts for the size nearest to it.
    """
    found = next((exchange for _, exchange in exchanges(profiles) if exchange.rates), None)
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
