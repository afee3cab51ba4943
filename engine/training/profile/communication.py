"""The communication between the devices of a step, its time and bandwidth, and advice on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

import torch
from torch import distributed

from engine.experiment.experiment import Experiment
from engine.protocol.advice import (
    Advice,
    AdviceKind,
    Remedy,
    larger_buckets,
    sent_less_often,
    shorter_gradients,
)
from engine.protocol.profile import Bar, BusRate, Communication, RankProfile, StepPart, StepProfile
from engine.training.measuring.telemetry import clock_for
from engine.training.profile.breakdown import StepBar
from engine.training.profile.trace import Collective, Trace, merged_spans
from engine.training.ranks import current_rank, gather_from_ranks
from engine.words.numbers import number, share_text, size_text

_SIZES = tuple(4**power * 2**14 for power in range(8))  # from 16 KiB to 256 MiB
_LARGEST_ON_CPU = 64 * 2**20
_REPEATS = 5
_IN_A_ROW = 10  # on a card, which works through them while the host launches: its delay counts once
_MOST_SECONDS = 0.3  # a message that takes longer is the last: larger ones are no faster by then


def measure_bus_bandwidth(device: torch.device) -> tuple[BusRate, ...]:
    """Return the bus bandwidth by message size, measured by all processes together.

    Each is the fastest of some calls in FP32, on the slowest process.
    """
    rates = []
    count = current_rank().count
    for size in _SIZES:
        if device.type == "cpu" and size > _LARGEST_ON_CPU:
            break
        message = torch.zeros(size // 4, device=device)
        own = [_all_reduce_seconds(message) for _ in range(1 + _REPEATS)][1:]
        # all know the times of all, and so end with the same message
        seconds = min(max(times) for times in zip(*gather_from_ranks(own, device), strict=True))
        rates.append(BusRate(size=size, gb_per_second=2 * (count - 1) / count * size / seconds / 1e9))
        if seconds > _MOST_SECONDS:
            break
    return tuple(rates)


def _all_reduce_seconds(message: torch.Tensor) -> float:
    is_on_cpu, clock = message.device.type == "cpu", clock_for(message.device)
    calls = 1 if is_on_cpu else _IN_A_ROW
    distributed.barrier()
    begun = clock.mark()
    for _ in range(calls):
        distributed.all_reduce(message)
    ended = clock.mark()
    if not is_on_cpu:
        torch.accelerator.synchronize(message.device)
    return clock.seconds_between(begun, ended) / calls


_MOST_MESSAGES = 2_000


def measure_communication(
    trace: Trace, found: StepBar, step_ms: float, device: torch.device, names: Sequence[str]
) -> Communication | None:
    """Measure the communication of the ranks on the devices `names` in a step. Return None for a single rank.

    All ranks call it together. A collective ends on all ranks at the same time, but each starts it when it is
    ready. Its extra time relative to the rank where it is shortest is waiting for that rank. Messages are
    matched by their kind and size, in their order within a step.
    """
    if current_rank().count == 1:
        return None
    steps = max(1, len(trace.steps))
    sent_ms = sum(end - begin for begin, end in merged_spans(trace.collectives)) / 1e3 / steps * found.scale
    overlapped_ms = max(0.0, sent_ms - found.bar.ms(StepPart.COMMUNICATION))
    rows = gather_from_ranks([step_ms, overlapped_ms, *(found.bar.ms(part) for part in StepPart)], device)
    waits = _waits(trace.collectives, device)
    ranks = []
    for place, (own_ms, beside_ms, *parts) in enumerate(rows):
        bar = Bar.of(zip(StepPart, parts, strict=True))
        skew_ms = None
        if waits is not None:
            skew_ms = min(
                waits[place] / 1e3 / steps * found.scale, bar.ms(StepPart.COMMUNICATION) + beside_ms
            )
        ranks.append(
            RankProfile(
                device=names[place], step_ms=own_ms, bar=bar, overlapped_ms=beside_ms, skew_ms=skew_ms
            )
        )
    first = [each.bytes for each in trace.collectives if each.step == 0 and each.bytes]
    return Communication(
        ranks=tuple(ranks), messages=tuple(first[:_MOST_MESSAGES]), rates=measure_bus_bandwidth(device)
    )


def _waits(collectives: Sequence[Collective], device: torch.device) -> list[float] | None:
    # microseconds of each rank in all steps. None if they did not send the same messages
    matched = sorted(collectives, key=lambda each: (each.step, each.name, each.bytes or 0.0, each.begin_us))
    counts = [int(count) for (count,) in gather_from_ranks([len(matched)], device)]
    if not matched or len(set(counts)) > 1:
        return None
    times = gather_from_ranks([each.us for each in matched], device)
    least = [min(of_one) for of_one in zip(*times, strict=True)]
    return [sum(us - shortest for us, shortest in zip(own, least, strict=True)) for own in times]


# the milliseconds of a step that advice could save at most, with the advice
_Found = Iterator[tuple[float, Advice]]
_ENOUGH = 0.7
"""The share of the best bandwidth below which messages are too small."""
_HALVED = 0.5
"""The share of the transfer left with a format of half the bytes, or with sending every second step."""


def advise_on_communication(profile: StepProfile, experiment: Experiment) -> _Found:
    """Yield advice on a step's communication, with the milliseconds of a step that it could save."""
    exchange = profile.exchange
    if exchange is None:
        return
    yield from _straggler(exchange)
    first = exchange.ranks[0]
    # overlapped communication costs no time
    exposed_ms = max(0.0, first.exposed_ms - (first.skew_ms or 0.0))
    yield from _larger_buckets(exchange, exposed_ms, experiment)
    yield from _shorter_gradients(exchange, exposed_ms, experiment)
    yield from _sent_less_often(exchange, exposed_ms, experiment)


def _straggler(exchange: Communication) -> _Found:
    slowest = exchange.slowest
    if slowest is None:
        return
    own = exchange.ranks[slowest]
    others = [rank for rank in exchange.ranks if rank is not own]
    waited_ms = sum(rank.skew_ms or 0.0 for rank in others) / len(others) - (own.skew_ms or 0.0)
    host = "between operations" if own.device == "cpu" else "waiting for the host"
    longer = {
        "waiting for data": _extra_ms(own, others, StepPart.DATA),
        host: _extra_ms(own, others, StepPart.HOST),
        "computing": own.computing_ms - sum(rank.computing_ms for rank in others) / len(others),
    }
    where, more_ms = max(longer.items(), key=lambda item: item[1])
    because = f" It spends {number(more_ms)} ms more {where}." if more_ms > 0 else ""
    yield (
        waited_ms,
        Advice(
            kind=AdviceKind.STRAGGLER,
            message=f"The others wait for {own.named(slowest)}. Find out what slows it down, "
            "such as its data, its temperature, or another program on it.",
            evidence=f"The others wait for it for {number(waited_ms)} ms of a "
            f"{number(own.step_ms)} ms step.{because}",
        ),
    )


def _extra_ms(own: RankProfile, others: Sequence[RankProfile], part: StepPart) -> float:
    return own.bar.ms(part) - sum(rank.bar.ms(part) for rank in others) / len(others)


def _larger_buckets(exchange: Communication, exposed_ms: float, experiment: Experiment) -> _Found:
    remedy, sizes = larger_buckets(experiment), exchange.messages
    if remedy is None or len(sizes) < 2 or not exchange.rates:
        return
    best = max(exchange.rates, key=attrgetter("gb_per_second"))
    now_s = sum(size / (exchange.rate(size) or best.gb_per_second) for size in sizes)
    share = sum(sizes) / best.gb_per_second / now_s
    if share >= _ENOUGH or max(sizes) >= best.size:
        return
    mean = sum(sizes) / len(sizes)
    yield (
        exposed_ms * (1 - share),
        Advice(
            kind=AdviceKind.LARGER_BUCKETS,
            message="Gradients are sent in messages too small for the link. Send them in larger buckets.",
            evidence=f"A step sends {len(sizes):,} messages of {size_text(mean)} on "
            f"average, at {number(exchange.rate(mean))} GB/s. With {size_text(best.size)} "
            f"the devices reach {number(best.gb_per_second)} GB/s.",
            **remedy._asdict(),
        ),
    )


def _shorter_gradients(exchange: Communication, exposed_ms: float, experiment: Experiment) -> _Found:
    remedy = shorter_gradients(experiment)
    if remedy is not None:
        message = "Send the gradients in BF16 to halve the bytes. They are rounded before they are summed."
        yield _transfer_advice(AdviceKind.SHORTER_GRADIENTS, message, exchange, exposed_ms, remedy)


def _sent_less_often(exchange: Communication, exposed_ms: float, experiment: Experiment) -> _Found:
    remedy = sent_less_often(experiment)
    message = "Accumulate gradients over more batches to send them less often. Updates have more samples."
    yield _transfer_advice(AdviceKind.SENT_LESS_OFTEN, message, exchange, exposed_ms, remedy)


def _transfer_advice(
    kind: AdviceKind, message: str, exchange: Communication, exposed_ms: float, remedy: Remedy
) -> tuple[float, Advice]:
    step_ms = exchange.ranks[0].step_ms
    evidence = (
        f"For {number(exposed_ms)} ms of a {number(step_ms)} ms step ({share_text(exposed_ms / step_ms)}), "
        "rank 0 only sends, without waiting for others."
    )
    return exposed_ms * _HALVED, Advice(kind=kind, message=message, evidence=evidence, **remedy._asdict())
