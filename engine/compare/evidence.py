"""Evidence behind a comparison: block speeds, epochs, doubts, and likely reasons for a small gain.

A doubt qualifies a metric, or it disqualifies the measurement, which then has no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from engine.busyness import TOLERATED_MIB
from engine.compare.observed import cautions_of, parameter_count
from engine.compare.sides import (
    Side,
    changes_training,
    is_interleaved,
    known_speeds,
    node_of,
    paired_repeats,
    pairs_on_nodes,
    side_with_outliers,
    training_differences,
    unlike_settings,
)
from engine.experiment.experiment import LEAST_BLOCKS, Precision, named
from engine.experiment.settings import PLAIN, parts_of
from engine.experiment.value import in_sentence
from engine.lazy_imports import np
from engine.protocol.events import Epoch, Event, Started
from engine.protocol.summary import Summary
from engine.statistics import Interval, is_wide, shared_drifts, steadiness
from engine.store.record import Overview, RunRecord, Status
from engine.store.store import Store
from engine.words.names import listed, sample_unit, setting_text
from engine.words.numbers import counted, memory_text, number

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Evidence:
    """The recorded data of one run that supports a comparison: its record, block speeds and epochs.

    `block_speeds` are the samples per second of each full block after warm-up. `epochs` are the completed
    epochs. `little_gain_reason` is a clause on why the precision saves little time on the device.
    """

    run: RunRecord
    block_speeds: NDArray[np.float64]
    epochs: tuple[Epoch, ...]
    little_gain_reason: str | None = None


def evidence_of(store: Store, runs: Sequence[RunRecord]) -> tuple[Evidence, ...]:
    """Return the evidence of each run, in order. Raises ProblemError if the store cannot be read."""
    return tuple(evidence_from(run, store.events(run.id), store.curves(run.id).bins()) for run in runs)


def evidence_from(run: RunRecord, events: Sequence[Event], samples: Mapping[str, NDArray[Any]]) -> Evidence:
    """Return the evidence of a run from its events and its samples, one row per step or bin of steps."""
    return Evidence(
        run,
        block_speeds(run, samples),
        epochs=tuple(event for event in events if isinstance(event, Epoch)),
        little_gain_reason=next(
            (event.hardly_faster for event in events if isinstance(event, Started)), None
        ),
    )


def block_speeds(run: RunRecord, samples: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return the samples per second of each full block of `measure.block_steps` steps after warm-up.

    A block's speed is the harmonic mean over its steps, which is samples over time if batches have one size.
    Blocks with a step without a usable speed are skipped. With binned steps a block has at least one bin.
    """
    speeds = samples.get("samples_per_second")
    if speeds is None:
        return np.empty(0)
    rows = -(-run.experiment.measure.block_steps // steps_per_row(samples))
    counted = np.asarray(speeds, dtype=np.float64)[count_warmup_rows(run, samples) :]
    whole = len(counted) // rows * rows
    blocks = counted[:whole].reshape(-1, rows)
    usable = blocks[np.all(np.isfinite(blocks) & (blocks > 0), axis=1)]
    return np.asarray(1.0 / np.mean(1.0 / usable, axis=1), dtype=np.float64)


def steps_per_row(samples: Mapping[str, NDArray[Any]]) -> int:
    """Return how many steps one row of samples represents: 1 unless steps were binned."""
    steps = samples.get("step", np.empty(0))
    mean = float(steps[-1]) / len(steps) if len(steps) else 1.0
    # a damaged file may hold anything
    return max(1, round(mean)) if math.isfinite(mean) else 1


def speed_interval(run: RunRecord, block_speeds: NDArray[np.float64] | None) -> Interval | None:
    """Return the 95% interval of the speed within one run, in samples per second: the recorded interval, or
    else one computed from the speeds of its blocks of steps.
    """
    own = run.summary.samples_per_second_ci if run.summary is not None else None
    return steadiness(block_speeds) if own is None and block_speeds is not None else own


def count_warmup_rows(run: RunRecord, samples: Mapping[str, NDArray[Any]]) -> int:
    """Return the number of warm-up rows, which includes the time of compiling and capturing."""
    merged = steps_per_row(samples)
    # a bin may hold the end of the warm-up and steps after it
    rows = run.experiment.measure.warmup_steps // merged + (merged > 1)
    seconds, summary = samples.get("seconds"), run.summary
    if seconds is None or summary is None or not (summary.compile_seconds or summary.capture_seconds):
        return rows
    warm = int(np.searchsorted(seconds, (summary.warmup_seconds or 0.0) * (1 + 1e-9), "right"))
    return max(rows, warm + (merged > 1))


_Disqualifying = Literal["other-program", "throttled", "spilled"]
_OfSides = Literal["order", "outliers", "node", "device", "version", "workload", "setting", "observed"]
_OfRuns = Literal[
    "drift",
    "unsteady",
    "too-short",
    "unfinished",
    "no-speed",
    "nan",
    "lost-updates",
    "recompiled",
    "excluded",
]
DoubtKind = _Disqualifying | _OfSides | _OfRuns

DISQUALIFYING: frozenset[DoubtKind] = frozenset(get_args(_Disqualifying))
"""Kinds that disqualify a measured speed. The other kinds only qualify it."""

_STEADY_CLOCKS = 0.95
"""Least ratio of the lowest to the highest mean clock of repeats. Below it, a clock was throttled."""


@dataclass(frozen=True)
class Doubt:
    """A reason, in a sentence, to trust a metric less. `side_id` is None if it concerns no single side.

    `difference` describes the setting that differs from the baseline, if that is the reason.
    """

    side_id: str | None
    kind: DoubtKind
    sentence: str
    difference: str = ""

    @property
    def disqualifies(self) -> bool:
        """True if the measurement is invalid, so that there is no verdict, advice or explanation."""
        return self.kind in DISQUALIFYING


_LEAST_REPEATS = 5


def excluded_repeats(sides: Sequence[Side]) -> frozenset[str]:
    """Return the ids of the runs of all repeats in which other programs disturbed a run, on every side.

    Their times are excluded. None are if fewer than 5 repeats with a throughput would remain, or fewer than
    half of them.
    """
    repeats = paired_repeats(*sides) or []
    disturbed = [runs for runs in repeats if any(map(_is_beside_others, runs))]
    known = [runs for runs in repeats if all(map(_has_speed, runs))]
    kept = [runs for runs in known if runs not in disturbed]
    if len(kept) < max(_LEAST_REPEATS, len(known) / 2):
        return frozenset()
    return frozenset(run.id for runs in disturbed for run in runs)


def _has_speed(run: RunRecord) -> bool:
    return run.summary is not None and run.summary.samples_per_second is not None


def _is_beside_others(run: RunRecord) -> bool:
    return any(kind == "other-program" for kind, _ in machine_disturbances(run.summary))


def doubts_of(
    side: Side,
    baseline: Side,
    evidence: Mapping[str, Evidence],
    excluded: Collection[str] = (),
) -> tuple[Doubt, ...]:
    """Return the doubts about the metrics of `side` and the baseline. `evidence` is by run id.

    `excluded` has the ids of runs whose times are excluded.
    """
    doubts = [*_side_doubts(side, evidence, excluded)]
    if side is not baseline:
        doubts += _side_doubts(baseline, evidence, excluded)
        doubts += _pair_doubts(side, baseline, excluded)
    return tuple(doubts)


def is_disturbed(doubts: Iterable[Doubt]) -> bool:
    """Return True if any doubt disqualifies the times. Comparisons, sweeps and tunings share this rule."""
    return any(doubt.disqualifies for doubt in doubts)


def was_slowed_down(summary: Measured | None) -> bool:
    """Return True if something on the machine is known to have slowed down the run."""
    return any(kind in DISQUALIFYING for kind, _ in machine_disturbances(summary))


def _side_doubts(side: Side, evidence: Mapping[str, Evidence], excluded: Collection[str]) -> Iterator[Doubt]:
    sentences: dict[tuple[DoubtKind, int], list[str]] = {}
    measured = [run.id for run in side.runs if run.id in evidence]
    changes = dict(
        zip(measured, shared_drifts([evidence[run].block_speeds for run in measured]), strict=True)
    )
    for run in side.runs:
        kinds: list[DoubtKind] = []
        known = evidence.get(run.id)
        of_times = (*machine_disturbances(run.summary), *_about_pace(run, known, changes.get(run.id)))
        if run.id in excluded:
            of_times = tuple(
                ("excluded", f"{clause.rstrip('.')}. The times of this repeat are excluded")
                for kind, clause in of_times
                if kind == "other-program"
            )
        for kind, what in (*_about_end(run, known), *of_times):
            sentence = f"{side.name_of(run)} {what.rstrip('.')}."
            sentences.setdefault((kind, kinds.count(kind)), []).append(sentence)
            kinds.append(kind)
    for (kind, _), (first, *more) in sentences.items():
        alike = f" The same applies to {len(more):,} more of its runs." if more else ""
        yield Doubt(side.id, kind, first + alike)
    for sentence in cautions_of(side.seen, side.precision, side.title):
        yield Doubt(side.id, "observed", sentence)
    kept = side.without(excluded).runs
    clocks = [run.summary.clock_mhz for run in kept if run.summary and run.summary.clock_mhz]
    if clocks and min(clocks) < _STEADY_CLOCKS * max(clocks):
        apart = f"{min(clocks):,.0f} and {max(clocks):,.0f} MHz"
        yield Doubt(side.id, "throttled", f"The GPU clock varied between {apart} in repeats of {side.title}.")


def _about_end(run: RunRecord, evidence: Evidence | None) -> Iterator[tuple[DoubtKind, str]]:
    summary = run.summary
    if run.status is not Status.FINISHED:
        reason = f": {run.problem.message}" if run.problem else ""
        yield "unfinished", f"{run.status.clause}{reason}"
    elif summary is None or summary.samples_per_second is None:
        blocks = 0 if evidence is None else len(evidence.block_speeds)
        note = f": {in_sentence(summary.speed_note)}" if summary and summary.speed_note else ""
        yield "too-short" if blocks < LEAST_BLOCKS else "no-speed", f"has no measured throughput{note}"
    first = None if summary is None else summary.first_nan_step
    loss = None if summary is None else summary.final_train_loss
    if first is not None or (loss is not None and not math.isfinite(loss)):
        since = "" if first is None else f" since step {first:,}"
        yield "nan", f"has a NaN or infinite loss{since}"
    unchanged = 0.0 if summary is None else summary.unchanged_weights_fraction or 0.0
    # rounded stochastically, a weight that stays makes up for it in another step
    if unchanged >= _MANY_UNCHANGED and not run.experiment.rounds_stochastically:
        share = f"{100 * unchanged:.0f}% of its weights unchanged"
        yield "lost-updates", f"left {share} by a step, because their updates were lost to rounding"
    compiled = None if summary is None else summary.compilation
    if compiled is not None and compiled.measured_steps:
        reasons = (f": {event.words}" for event in compiled.events_of("recompilation")[-1:])
        often = f"{counted(compiled.measured_steps, 'measured step')} ({compiled.measured_seconds:,.1f} s)"
        yield "recompiled", f"was recompiled in {often}, which its throughput excludes{''.join(reasons)}"


_MANY_UNCHANGED = 0.1


_NO_FALLBACK = "Turn this off under “CUDA - Sysmem Fallback Policy” in the NVIDIA Control Panel"


Measured = Summary | Overview
"""The metrics of a run from which disturbances of its measurement are detected."""


def machine_disturbances(summary: Measured | None) -> Iterator[tuple[DoubtKind, str]]:
    """Yield each disturbance of a run: its kind, and a clause, "was disturbed: other programs used ..."."""
    if summary is None:
        return
    note = summary.speed_note
    if note and summary.samples_per_second is not None:
        yield "throttled" if summary.slowed_by else "other-program", f"was disturbed: {note}"
    if summary.spilled_mib is not None:
        spilled = memory_text(summary.spilled_mib)
        moved = f"did not fit in GPU memory: the driver moved {spilled} to system memory"
        yield "spilled", f"{moved} (system memory fallback). {_NO_FALLBACK}"
    others_mib = summary.other_programs_mib
    if others_mib is not None and others_mib > TOLERATED_MIB:
        used = memory_text(others_mib)
        yield "other-program", f"shared the GPU: other programs used {used} of its memory"


def _about_pace(
    run: RunRecord, evidence: Evidence | None, change: float | None
) -> Iterator[tuple[DoubtKind, str]]:
    interval = speed_interval(run, None if evidence is None else evidence.block_speeds)
    has_speed = run.summary is not None and run.summary.samples_per_second is not None
    # a drift is why the interval is wide
    if change is not None:
        by = f"{100 * abs(change):.0f}% {'faster' if change > 0 else 'slower'}"
        yield "drift", f"was {by} at the end than at the start"
    elif has_speed and interval is not None and is_wide(interval):
        low, high = map(number, interval)
        yield "unsteady", f"varied in throughput between {low} and {high} {sample_unit(run.experiment)}"


def _pair_doubts(side: Side, baseline: Side, excluded: Collection[str]) -> Iterator[Doubt]:
    timed = side.without(excluded), baseline.without(excluded)
    if not is_interleaved(*timed):
        # the same sentence whichever of the two is the baseline
        both = " and ".join(sorted((side.title, baseline.title)))
        sentence = f"The runs of {both} were not interleaved, so drift of the machine could look like a"
        yield Doubt(side.id, "order", f"{sentence} difference. No interval is given.")
    outlying = side_with_outliers(*timed)
    if outlying is not None:
        low, high = (number(edge(known_speeds(outlying.runs))) for edge in (min, max))
        unit = sample_unit(outlying.runs[0].experiment)
        only = f"Only {outlying.title} has outliers among its repeats ({low} to {high} {unit})"
        yield Doubt(side.id, "outliers", f"{only}. No interval is given.")
    partners = pairs_on_nodes(side, baseline)
    if partners is not None and len(partners) < min(len(side.runs), len(baseline.runs)):
        nodes = ({str(node_of(run)) for run in each.runs} for each in (side, baseline))
        mine_on, theirs_on = (" and ".join(sorted(each)) for each in nodes)
        what = f"{side.title} was trained on {mine_on} and {baseline.title} on {theirs_on}"
        yield Doubt(side.id, "node", f"{what}. Throughput on different nodes is not comparable.")
    mine, theirs = side.first_started, baseline.first_started
    if mine.environment is not None and theirs.environment is not None:
        for name, kind, words in _FACTS:
            values = [getattr(run.environment, name) for run in (mine, theirs)]
            # the names of the sides tell of a script's version of PyTorch
            if values[0] != values[1] and not (name == "torch" and f"torch {values[0]}" == side.label):
                one, other = (value or "none" for value in values)
                what = f"{side.title} was measured {words} {one} and {baseline.title} {words} {other}."
                yield Doubt(side.id, kind, what)
    for work in training_differences(theirs.experiment, mine.experiment):
        yield Doubt(side.id, "workload", f"Different {work.what}: {work.other} vs. {work.one}.")
    for key, value, other in unlike_settings(mine.experiment, theirs.experiment):
        if changes_training(key):
            continue
        difference = f"{named(key)}: {setting_text(key, value)} vs. {setting_text(key, other)}."
        # the same sentence for every such side, so that a report says it once
        yield Doubt(side.id, "setting", f"Differs from the baseline in {difference}", difference)
    yield from _unlike_scripts(side, baseline)
    recipes = [run.summary.recipe if run.summary else None for run in (mine, theirs)]
    asked = [run.experiment.step.recipe for run in (mine, theirs)]
    # earlier versions did not name the counters
    applied = [{*parts_of(recipe or PLAIN)} - {"host_counters"} for recipe in recipes]
    if asked[0] == asked[1] and None not in recipes and applied[0] != applied[1]:
        both = f"{recipes[0]} for {side.title}, {recipes[1]} for {baseline.title}"
        yield Doubt(side.id, "setting", f"Applied optimizations: {both}.")
    kernels = [listed(sorted({use.kernel for use in each.seen.attention})) for each in (side, baseline)]
    # a precision may choose the kernel by itself
    if all(kernels) and kernels[0] != kernels[1] and side.precision is baseline.precision:
        both = f"{kernels[0]} for {side.title}, {kernels[1]} for {baseline.title}"
        yield Doubt(side.id, "setting", f"Attention kernels: {both}.")


def _unlike_scripts(side: Side, baseline: Side) -> Iterator[Doubt]:
    seen, base = side.observed, baseline.observed
    if seen is None or base is None:
        return
    counts = [parameter_count(each) for each in (seen, base)]
    if seen.parameters and base.parameters and counts[0] != counts[1]:
        different = f"{counts[0]} vs. {counts[1]} parameters"
        yield Doubt(side.id, "setting", f"The scripts trained different models: {different}.")
    if None not in (seen.batch_size, base.batch_size) and seen.batch_size != base.batch_size:
        different = f"{seen.batch_size:,} vs. {base.batch_size:,}"
        yield Doubt(side.id, "setting", f"The scripts used different batch sizes: {different}.")


_FACTS: tuple[tuple[str, DoubtKind, str], ...] = (
    ("device_name", "device", "on"),
    ("torch", "version", "with PyTorch"),
    ("cuda", "version", "with CUDA"),
    ("driver", "version", "with driver"),
)


LITTLE_GAIN = 1.1  # a ratio below this calls for a reason
_WAITING_FRACTION = 0.2
_BUSY_PERCENT = 80.0
_TILE = 8
"""Tensor Cores are less efficient off multiples of 8 (NVIDIA, Matrix Multiplication Background, Table 1)."""

_MOST_REASONS = 2


def likely_reason(evidence: Evidence, baseline: RunRecord) -> str | None:
    """Return a clause on why this 16-bit run was barely faster than `baseline`, or None if unknown."""
    if not evidence.run.experiment.precision.is_narrow:
        return None
    return " and ".join(list(_small_gain_reasons(evidence, baseline))[:_MOST_REASONS]) or None


def _small_gain_reasons(evidence: Evidence, baseline: RunRecord) -> Iterator[str]:
    run, summary = evidence.run, evidence.run.summary
    experiment, usual = run.experiment, baseline.experiment.precision
    if evidence.little_gain_reason:
        yield evidence.little_gain_reason
    if _is_on_cuda(baseline) and usual in (Precision.TF32, Precision.DEFAULT):
        in_tf32 = "" if usual is Precision.TF32 else " (convolutions in TF32)"
        yield f"{usual.label} uses Tensor Cores too{in_tf32}"
    waiting = summary.data_wait_fraction if summary else None
    busy = summary.gpu_utilization_percent if summary else None
    if waiting is not None and waiting >= _WAITING_FRACTION:
        yield f"the training waited for data {100 * waiting:.0f}% of the time"
    elif busy is not None and busy < _BUSY_PERCENT:
        batch = f"a batch size of {experiment.batch_size:,} is too small to fill it"
        yield f"the GPU was busy {busy:.0f}% of the time, so {batch}"
    if _is_on_cuda(run):
        sizes: dict[str, int | None] = {"batch size": experiment.batch_size}
        if experiment.dataset.task == "language":
            sizes |= {"vocabulary": experiment.num_classes, "sequence length": experiment.sequence_length}
        odd = [f"{name} of {size:,}" for name, size in sizes.items() if size and size % _TILE]
        if odd:
            verb = "is not a multiple" if len(odd) == 1 else "are not multiples"
            yield f"the {' and the '.join(odd)} {verb} of 8, which is slower on Tensor Cores"


def _is_on_cuda(run: RunRecord) -> bool:
    return run.environment is not None and run.environment.cuda is not None
