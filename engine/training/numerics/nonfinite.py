"""The search for the first NaN or Inf: trains until there is trouble, then repeats and watches the steps."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.experiment.paths import checkpoint_path
from engine.protocol import jobs
from engine.protocol.events import Event, Phase
from engine.protocol.numerics import SKIPS_IN_A_ROW, FirstNonfinite, NonfiniteSearch, most_skips
from engine.protocol.ranges import ELSEWHERE, LOSS, OPTIMIZER
from engine.training.data.batches import Batch, batch_samples
from engine.training.models.forward import original_class
from engine.training.numerics.bench import Bench, StepMetrics, Trainee, numerics_phase, with_precision
from engine.training.numerics.causes import Circumstances, Origin, explain_origin
from engine.training.numerics.trail import NonfiniteTracer, finite_range
from engine.training.precision import are_finite, floating, leaf_tensors
from engine.training.runs.checkpoints import Checkpoints, capture_state, copy_state, restore_state

_KEPT_STEPS = 4
_REPEATS = 2
_MOST_KEPT_MODULES = 4


def find_nonfinite(bench: Bench, job: jobs.StudyNumerics) -> Generator[Event, None, NonfiniteSearch]:
    """Search the job's steps for the first operation that produced a harmful NaN or Inf.

    It is harmful if the loss or a weight is not finite, if gradients overflow even at a loss scale of 1, or
    if more steps in a row are skipped than a scaler needs to find its scale.
    """
    with bench.trainee() as trainee:
        search = _Search(bench, trainee)
        note = search.begin(job)
        steps = _steps_to_search(job, bench, trainee.steps)
        for number, group in enumerate(bench.groups(steps, first=trainee.steps)):
            bench.check_stop()
            yield _phase(number / steps, f"step {trainee.steps + 1:,}")
            if search.detects_failure(group):
                break
        if search.trouble is None:
            return search.result(None, 0, f"{note}{search.all_is_well()}")
        origins = []
        for _ in range(_REPEATS):
            yield _phase(None, f"step {trainee.steps:,} again, recording every operation")
            bench.check_stop()
            origins.append(search.repeated())
        yield _phase(None, "trying fixes")
        return search.claimed(origins, note)


def _steps_to_search(job: jobs.StudyNumerics, bench: Bench, begun: int) -> int:
    last = bench.plan.total_steps
    if job.trouble_step is not None:
        # skipped steps are trouble only after some in a row
        last = min(last, job.trouble_step + most_skips(bench.plan.experiment.scaler))
    return job.steps or max(1, last - begun)


def _phase(fraction: float | None, detail: str) -> Phase:
    return numerics_phase(f"First NaN or Inf: {detail}", fraction)


@dataclass
class _SavedState:
    state: dict[str, Any]
    steps: int
    groups: list[list[Batch]] = field(default_factory=list)


class _Search:
    def __init__(self, bench: Bench, trainee: Trainee) -> None:
        self.trouble: str | None = None
        """The failure as the end of a sentence. None while all is well."""
        self._bench, self._trainee = bench, trainee
        self._skipped = self._in_a_row = 0
        self._scales: list[float] = []
        self._initial = {name: _greatest(module) for name, module in trainee.model.named_modules()}
        self._from_step = 0
        self._repeat_scale: float | None = None
        self._trouble_step: int | None = None

    def begin(self, job: jobs.StudyNumerics) -> str:
        self._trouble_step = job.trouble_step
        note = ""
        if job.checkpoints is not None and job.trouble_step is not None:
            state = _state_before(Path(job.checkpoints), job.trouble_step)
            if state is None:
                note = "No saved state from before the failure was found, so the search started at step 0. "
            else:
                _restore_state(self._trainee, state, _steps_of(state))
                self._from_step = self._trainee.steps
        self._kept = self._keep()
        return note

    def detects_failure(self, group: list[Batch]) -> bool:
        if len(self._kept.groups) == _KEPT_STEPS:
            self._kept = self._keep()
        self._kept.groups.append(group)
        step = self._trainee.train(group)
        if step.grad_scale is not None:
            self._scales.append(step.grad_scale)
        self._in_a_row = self._in_a_row + 1 if step.skipped else 0
        self._skipped += step.skipped
        self.trouble = self._detect_trouble(step, group)
        return self.trouble is not None

    def _detect_trouble(self, metrics: StepMetrics, group: list[Batch]) -> str | None:
        if not math.isfinite(metrics.loss):
            return "the loss is not finite"
        if not are_finite(list(self._trainee.model.parameters())):
            return "a weight is not finite"
        if not metrics.skipped:
            return None
        # a scaler looks for its scale by skipping: what overflows without any scale is another matter
        is_scaled = (metrics.grad_scale or 1.0) > 1.0
        if not is_scaled or (self._in_a_row == 1 and self._overflows(group, 1.0)):
            self._repeat_scale = 1.0
            return "the gradients overflow even at a loss scale of 1"
        plan = self._bench.plan
        is_last = self._trainee.steps == plan.total_steps
        if self._in_a_row >= (SKIPS_IN_A_ROW if is_last else most_skips(plan.experiment.scaler)):
            return f"the loss scaler skipped {self._in_a_row} steps in a row"
        return None

    def repeated(self) -> Origin | None:
        return self._repeated_by(self._trainee, self._repeat_scale)

    def _repeated_by(self, trainee: Trainee, scale: float | None) -> Origin | None:
        kept = self._kept
        self._rewind(trainee, scale)
        row: Tensor | None = None
        trail = NonfiniteTracer(trainee.model, trainee.device)
        with trail:
            for step, group in enumerate(kept.groups, kept.steps + 1):
                trail.begin(step, group)
                row = trainee.make_step(group)
        assert row is not None  # trouble comes in a step
        if not math.isfinite(trainee.metrics(row).loss):
            return trail.find_origin([row[:1]])
        return trail.find_origin(trainee.model.parameters()) or trail.overflow

    def _rewind(self, trainee: Trainee, scale: float | None) -> None:
        _restore_state(trainee, self._kept.state, self._kept.steps)
        if scale is not None:
            _set_scale(trainee, scale)

    def claimed(self, origins: Sequence[Origin | None], note: str) -> NonfiniteSearch:
        first = origins[0]
        trouble = f"At step {self._last_step:,} {self.trouble}"
        if first is None or any(other is None or other.identity != first.identity for other in origins):
            again = "did not start at the same operation" if all(origins) else "did not recur twice"
            sentence = f"{trouble}. In reruns from step {self._kept.steps:,}, it {again}."
            return self.result(None, 0, note + sentence)
        named = explain_origin(first, self._circumstances(first))
        sentence = (
            f"{trouble}. Repeated twice from step {self._kept.steps:,}, it started at the same operation."
        )
        return self.result(named, len(origins), note + sentence)

    def result(self, first: FirstNonfinite | None, reproduced: int, sentence: str) -> NonfiniteSearch:
        return NonfiniteSearch(
            first=first,
            from_step=self._from_step,
            steps=self._last_step - self._from_step,
            reproduced=reproduced,
            skipped=self._skipped,
            least_scale=min(self._scales, default=None),
            last_scale=self._scales[-1] if self._scales else None,
            trouble_step=self._trouble_step or (self._last_step if self.trouble else None),
            sentence=sentence,
        )

    def all_is_well(self) -> str:
        steps = self._last_step - self._from_step
        text = f"In {steps:,} step{'' if steps == 1 else 's'} no NaN or Inf reached the loss or a weight."
        if self._skipped:
            skipped = f"{self._skipped:,} step{'' if self._skipped == 1 else 's'}"
            text += f" The loss scaler skipped {skipped}, as usual while it finds its scale."
        if self._trouble_step is not None and self._trouble_step <= self._last_step:
            text += f" The run went wrong at step {self._trouble_step:,}, but this did not recur."
        return text

    @property
    def _last_step(self) -> int:
        return self._kept.steps + len(self._kept.groups)

    def _circumstances(self, origin: Origin) -> Circumstances:
        trainee = self._trainee
        module = dict(trainee.model.named_modules()).get(origin.module)
        initial = self._initial.get(origin.module)
        is_fp16 = "float16" in (*origin.inputs, *origin.outputs)
        helping = self._helpful_changes(origin) if is_fp16 else ()
        bf16 = with_precision(trainee.experiment, Precision.BF16)
        calm_scale = self._calm_scale()
        # once the origin has done harm, the weights may be NaN
        self._rewind(trainee, self._repeat_scale)
        for group in self._kept.groups[: origin.step - self._kept.steps - 1]:
            trainee.make_step(group)
        growth = _greatest(module) / initial if module is not None and initial else 1.0
        return Circumstances(
            experiment=trainee.experiment,
            class_name="" if module is None else original_class(module).__name__,
            batch=_batch_words(self._kept.groups[origin.step - self._kept.steps - 1]),
            grad_scale=self._scales[-1] if self._scales else None,
            calm_scale=calm_scale,
            growth=growth if math.isfinite(growth) else 1.0,
            helping=helping,
            bf16_helps=is_fp16 and not helping and self._origin_under(bf16) is None,
        )

    def _helpful_changes(self, origin: Origin) -> tuple[str, ...]:
        names: tuple[str, ...] = ()
        for _ in range(_MOST_KEPT_MODULES):
            if origin.module in (*names, "", LOSS, OPTIMIZER, ELSEWHERE):
                return ()
            names = (*names, origin.module)
            kept = (*self._trainee.experiment.step.fp32_modules, *names)
            next_origin = self._origin_under(with_precision(self._trainee.experiment, fp32_modules=kept))
            if next_origin is None:
                return names
            origin = next_origin
        return ()

    def _origin_under(self, settings: Experiment) -> Origin | None:
        with self._bench.trainee(settings) as trainee:
            return self._repeated_by(trainee, 1.0)

    def _calm_scale(self) -> float | None:
        if self._in_a_row < SKIPS_IN_A_ROW:
            return None
        scale, group = self._scales[-1], self._kept.groups[-1]
        while scale > 1.0:
            scale = max(1.0, scale / 2)
            if not self._overflows(group, scale):
                return scale
        return None

    def _overflows(self, group: list[Batch], scale: float) -> bool:
        state, steps = self._keep().state, self._trainee.steps
        _set_scale(self._trainee, scale)
        is_skipped = self._trainee.train(group).skipped > 0
        _restore_state(self._trainee, state, steps)
        return is_skipped

    def _keep(self) -> _SavedState:
        trainee, step = self._trainee, self._trainee.step
        state = capture_state(trainee.model, step.optimizer, step.scaler, {}, trainee.device)
        return _SavedState(copy_state(state), trainee.steps)


def _restore_state(trainee: Trainee, state: Mapping[str, Any], steps: int) -> None:
    step = trainee.step
    # copy_state, for an optimizer makes a state on its own device its own
    restore_state(copy_state(state), trainee.model, step.optimizer, step.scaler, trainee.device)
    trainee.steps = steps


def _set_scale(trainee: Trainee, scale: float) -> None:
    scaler = trainee.step.scaler
    if scaler.is_enabled():
        scaler.load_state_dict({**scaler.state_dict(), "scale": scale})


def _state_before(folder: Path, step: int) -> dict[str, Any] | None:
    states = []
    for kind in ("rewind", "last"):
        if checkpoint_path(folder, kind).is_file():
            state = Checkpoints(folder).load(kind)
            if _steps_of(state) < step and are_finite(state["model"]):
                states.append(state)
    return max(states, key=_steps_of, default=None)


def _steps_of(state: Mapping[str, Any]) -> int:
    return int(state["progress"]["tally"]["steps"])


def _greatest(module: nn.Module) -> float:
    weights = [weight.abs().max() for weight in floating(module.parameters())]
    return float(torch.stack(weights).max()) if weights else 0.0


def _batch_words(group: Sequence[Batch]) -> str:
    leaves = leaf_tensors([batch[0] for batch in group])
    samples = sum(map(batch_samples, group))
    text = f"{samples:,} sample{'' if samples == 1 else 's'}"
    shapes = dict.fromkeys("×".join(map(str, leaf.shape[1:])) for leaf in leaves if leaf.dim() > 1)
    text += f" of {' and '.join(shapes)}" if shapes else ""
    least, most = finite_range(leaves)
    return text if least is None else f"{text}, from {least:.4g} to {most:.4g}"
