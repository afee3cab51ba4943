"""Why autocast gained little or nothing, likely, from what the run itself showed."""

from __future__ import annotations

from collections.abc import Iterator

from engine.experiment import Experiment, Precision
from engine.records.evidence import Evidence
from engine.records.record import RunRecord

LITTLE_GAIN = 1.1
"""Below this many times as fast a reason is looked for."""

_WAITING_FRACTION = 0.2
_BUSY_PERCENT = 80.0
_TILE = 8
"""Tensor Cores take sizes in multiples of 8 (NVIDIA, Train With Mixed Precision, on Tensor Core shapes)."""

_ABOUT_TIME = ("time", "slow")
_MOST_REASONS = 2


def likely_reason(evidence: Evidence, baseline: RunRecord) -> str | None:
    """Why this run under autocast was hardly faster than `baseline`, as a clause; None if nothing tells."""
    run = evidence.run
    if not run.experiment.precision.is_autocast:
        return None
    found = [
        *_of_device(evidence),
        *_of_baseline(baseline),
        *(list(_of_waiting(run)) or _of_filling(run)),
        *_of_sizes(run),
    ]
    return " and ".join(found[:_MOST_REASONS]) or None


def _of_device(evidence: Evidence) -> Iterator[str]:
    """The worker's own remark on the precision, such as that there are no Tensor Cores."""
    label = evidence.run.experiment.precision.label
    for note in evidence.notes:
        about, _, remarks = note.partition(": ")
        if about.startswith(f"{label} on "):
            for remark in remarks.rstrip(".").split("; "):
                if any(word in remark for word in _ABOUT_TIME):
                    yield _as_clause(label, remark)


def _as_clause(label: str, remark: str) -> str:
    if remark.startswith("saves"):
        return f"{label} {remark}"
    return f"{label} is {remark}" if remark.startswith(("slow", "emulated")) else remark


def _of_baseline(baseline: RunRecord) -> Iterator[str]:
    if _is_on_cuda(baseline) and baseline.experiment.precision in (Precision.TF32, Precision.DEFAULT):
        in_tf32 = "" if baseline.experiment.precision is Precision.TF32 else ", its convolutions in TF32"
        yield f"{baseline.experiment.precision.label} computes on Tensor Cores too{in_tf32}"


def _of_waiting(run: RunRecord) -> Iterator[str]:
    waiting = run.summary.data_wait_fraction if run.summary else None
    if waiting is not None and waiting >= _WAITING_FRACTION:
        yield f"the training waited for data {100 * waiting:.0f} % of the time"


def _of_filling(run: RunRecord) -> Iterator[str]:
    busy = run.summary.gpu_utilization_percent if run.summary else None
    if busy is not None and busy < _BUSY_PERCENT:
        batch = f"a batch of {run.experiment.batch_size:,} is too small to fill it"
        yield f"the GPU was busy {busy:.0f} % of the time, so {batch}"


def _of_sizes(run: RunRecord) -> Iterator[str]:
    if not _is_on_cuda(run):
        return
    odd = [f"{name} of {size:,}" for name, size in _sizes(run.experiment) if size and size % _TILE]
    if odd:
        verb = "is not a multiple" if len(odd) == 1 else "are not multiples"
        yield f"the {' and the '.join(odd)} {verb} of 8, which Tensor Cores need"


def _sizes(experiment: Experiment) -> Iterator[tuple[str, int | None]]:
    yield "batch", experiment.batch_size
    if experiment.model.startswith("causal-lm"):
        yield "vocabulary", experiment.num_classes
        yield "sequence length", experiment.sequence_length


def _is_on_cuda(run: RunRecord) -> bool:
    return run.environment is not None and run.environment.cuda is not None
