"""The fewest modules that need FP32 for a run to be as good as FP32. Each set is tried in a run."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from engine.experiment.catalog import Precision
from engine.experiment.experiment import setting_error
from engine.experiment.value import BYTES_PER_MIB
from engine.protocol import jobs
from engine.protocol.events import Event
from engine.protocol.numerics import Fp32Modules, Fp32Trial
from engine.statistics import Band, band_of
from engine.training.numerics.bench import Bench, StepMetrics, numerics_phase, with_precision
from engine.training.numerics.divergence import (
    REPEATS,
    Trials,
    affordable_steps,
    first_step_outputs,
    in_precision,
)
from engine.words.names import listed
from engine.words.numbers import memory_text, number

Kept = frozenset[str]


@dataclass
class KeepableModules:
    """The modules of a model that can be kept in FP32, parents before their children, in `names`.

    Keeping a module in FP32 keeps all modules inside it: `covers` maps its name to theirs and its own.
    Containers such as nn.Sequential compute nothing themselves and are not in `names`, but in `within`, which
    maps every module to those inside it.
    """

    names: list[str] = field(default_factory=list)
    covers: dict[str, Kept] = field(default_factory=dict)
    within: dict[str, Kept] = field(default_factory=dict)

    @classmethod
    def of(cls, model: nn.Module) -> KeepableModules:
        tree = cls()
        tree._visit("", model, set())
        return tree

    def _visit(self, name: str, module: nn.Module, seen: set[int]) -> Kept:
        seen.add(id(module))
        computes = bool(name) and type(module).forward not in (nn.Module.forward, nn.Sequential.forward)
        below = {name} if computes else set()
        if computes:
            self.names.append(name)
        for child_name, child in module.named_children():
            if id(child) not in seen:
                below |= self._visit(f"{name}.{child_name}" if name else child_name, child, seen)
        self.within[name] = frozenset(below)
        if computes:
            self.covers[name] = self.within[name]
        return self.within[name]

    def covered_by(self, names: Iterable[str]) -> Kept:
        """Return the names of all modules that are in FP32 if these are."""
        return frozenset().union(*(self.covers[name] for name in names))

    def shortest(self, kept: Collection[str]) -> tuple[str, ...]:
        """Return the fewest names that keep exactly these, a parent's in place of all modules within it."""
        whole = [name for name, within in self.within.items() if name and within and within <= set(kept)]
        return tuple(name for name in whole if not any(name.startswith(f"{other}.") for other in whole))


def search_fewest(tree: KeepableModules) -> Generator[Kept, bool, tuple[str, ...] | None]:
    """Yield each set of modules to try in FP32, receive whether it is good, and return the fewest modules.

    Return None if even all of them are not enough. The search assumes that more modules in FP32 are no worse.
    Bisection finds the shortest end of the tree's order that is good. Its first module is needed, and the
    search continues behind it. So k of n modules take about k * (log2(n) + 1) trials. Finally each is removed
    once, which must be bad. It searches ends and not beginnings, because the output of an FP32 module is FP32
    too, which keeps later operations in their input's dtype from overflowing. The last module that helps is
    the faulty one.
    """
    if (yield frozenset()):
        return ()
    if not (yield frozenset(tree.names)):
        return None
    needed: list[str] = []
    rest, held = list(tree.names), frozenset[str]()
    while True:
        good, bad = 0, len(rest)
        while bad - good > 1:
            middle = (good + bad) // 2
            if (yield held | frozenset(rest[middle:])):
                good = middle
            else:
                bad = middle
        needed.append(rest[good])
        held = tree.covered_by(needed)
        if (yield held):
            break
        rest = [name for name in rest[good + 1 :] if name not in held]
    yield from _verified(tree, needed)
    return tuple(sorted(needed, key=tree.names.index))


def _verified(tree: KeepableModules, needed: list[str]) -> Generator[Kept, bool, None]:
    index = 0
    while index < len(needed):
        others = [*needed[:index], *needed[index + 1 :]]
        if (yield tree.covered_by(others)):
            needed[:] = others
            index = 0
        else:
            index += 1


_BUDGET_SECONDS = 300.0
_USUAL_TRIALS = 14
"""The number of trials that the budget allows. They find one or two of 150 modules."""

_MOST_SKIPPED = 0.1
"""The share of steps that may be skipped once the loss scaler has found its scale: each is a lost batch."""

_WARM_STEPS, _TIMED_STEPS, _ROUNDS = 1, 3, 2
_SMALL_PERCENT = 5
"""So few steps cannot distinguish smaller differences in speed from none."""


@dataclass
class _Search:
    bench: Bench
    trials: Trials
    band: Band
    tree: KeepableModules
    tried: dict[Kept, Fp32Trial] = field(default_factory=dict)

    def try_out(self, kept: Kept) -> Generator[Event, None, Fp32Trial]:
        if kept not in self.tried:
            modules = self.tree.shortest(kept)
            began = time.perf_counter()
            made = yield from self.trials.run(
                _trial_title(modules, len(self.tried) + 1),
                with_precision(self.bench.experiment, fp32_modules=modules),
                is_over=lambda made: bool(self._run_fault(made)),
            )
            reason = self._run_fault(made) or self._divergence(made)
            self.tried[kept] = Fp32Trial(
                modules=modules,
                is_good=not reason,
                reason=reason,
                final_loss=made[-1].loss,
                skipped=sum(step.skipped for step in made),
                seconds=time.perf_counter() - began,
            )
        return self.tried[kept]

    def _run_fault(self, made: Sequence[StepMetrics]) -> str:
        last, step = made[-1], len(made)
        if not math.isfinite(last.loss) and math.isfinite(self.band.low[step - 1]):
            return f"the loss is {number(last.loss)} at step {step}"
        if last.skipped and last.grad_scale is not None and last.grad_scale < 1:
            return f"the loss scale drops below 1 at step {step}"
        # the first step's are the search for a scale
        skipped = sum(one.skipped for one in made[1:])
        if skipped > _MOST_SKIPPED * self.trials.steps:
            return f"the loss scaler skips {skipped} of the first {step} steps"
        return ""

    def _divergence(self, made: Sequence[StepMetrics]) -> str:
        diverges_at = self.band.first_step_outside([step.loss for step in made])
        return "" if diverges_at is None else f"the loss leaves FP32's band at step {diverges_at}"


def find_fp32_modules(bench: Bench, job: jobs.StudyNumerics) -> Generator[Event, None, Fp32Modules]:
    """Search the module tree for the fewest modules that need FP32.

    Raise ProblemError for a precision without autocast.
    """
    precision = bench.experiment.precision
    if not precision.is_autocast:
        why = "no module can be kept in FP32" if precision.is_narrow else "every module is in FP32 already"
        raise setting_error(
            "precision",
            f"is {precision.label}, in which {why}.",
            "Select FP16 AMP or BF16 AMP.",
            value=precision,
        )
    search = yield from _open_search(bench)
    steps = search.trials.steps
    broken = next((step for step, low in enumerate(search.band.low, 1) if not math.isfinite(low)), None)
    if broken is not None:
        sentence = f"FP32's own loss is not finite from step {broken} on, so FP32 modules cannot help. "
        return Fp32Modules(steps=steps, sentence=sentence + "Try a lower learning rate.")
    searching = search_fewest(search.tree)
    modules: tuple[str, ...] | None
    try:
        kept = next(searching)
        while True:
            trial = yield from search.try_out(kept)
            kept = searching.send(trial.is_good)
    except StopIteration as end:
        modules = end.value
    speed_ratio, memory_added_mib = yield from _costs(bench, modules or ())
    return Fp32Modules(
        modules=modules,
        is_minimal=modules is not None,
        trials=tuple(search.tried.values()),
        steps=steps,
        most_skipped_fraction=_MOST_SKIPPED,
        speed_ratio=speed_ratio,
        memory_added_mib=memory_added_mib,
        changes=_module_changes(bench, modules),
        sentence=_result_sentence(search, modules, precision, speed_ratio, memory_added_mib),
    )


def _open_search(bench: Bench) -> Generator[Event, None, _Search]:
    experiment = bench.experiment
    precision = experiment.precision
    yield numerics_phase(f"the first step in FP32 and {precision.label}", 0.0)
    plain = in_precision(experiment, Precision.FP32)
    seconds = (1 + 2 * REPEATS) * first_step_outputs(bench, plain)[1]
    seconds += _USUAL_TRIALS * first_step_outputs(bench, with_precision(experiment, fp32_modules=()))[1]
    steps = affordable_steps(bench, seconds, _BUDGET_SECONDS)
    trials = Trials(bench, steps, runs=1 + 2 * REPEATS + _USUAL_TRIALS, is_known=False)
    made = yield from trials.run("FP32", plain)
    repeats = yield from trials.repeats(Precision.FP32, [[step.loss for step in made]])
    repeats = yield from trials.repeats(precision, repeats)
    return _Search(bench, trials, band_of(repeats), KeepableModules.of(bench.plan.workload.build()))


def _costs(
    bench: Bench, modules: tuple[str, ...]
) -> Generator[Event, None, tuple[float | None, float | None]]:
    if not modules:
        return None, None
    seconds: dict[bool, list[float]] = {False: [], True: []}
    peaks: dict[bool, float | None] = {}
    for _ in range(_ROUNDS):
        for is_kept in (False, True):
            if bench.is_stopped:
                return None, None
            yield numerics_phase("cost of the FP32 modules", 1.0)
            timed, peaks[is_kept] = _time_run(bench, modules if is_kept else ())
            seconds[is_kept] += timed
    with_modules, without = peaks[True], peaks[False]
    added = None if with_modules is None or without is None else with_modules - without
    return statistics.median(seconds[False]) / statistics.median(seconds[True]), added


def _time_run(bench: Bench, modules: tuple[str, ...]) -> tuple[list[float], float | None]:
    seconds: list[float] = []
    counts = bench.device.type in ("cuda", "xpu")
    with bench.trainee(with_precision(bench.experiment, fp32_modules=modules)) as trainee:
        for index, group in enumerate(bench.groups(_WARM_STEPS + _TIMED_STEPS)):
            if index == _WARM_STEPS and counts:
                torch.get_device_module(bench.device).reset_peak_memory_stats(bench.device)
            began = time.perf_counter()
            trainee.train(group)
            if index >= _WARM_STEPS:
                seconds.append(time.perf_counter() - began)
        peak = torch.get_device_module(bench.device).max_memory_allocated(bench.device) if counts else None
    return seconds, None if peak is None else peak / BYTES_PER_MIB


def _module_changes(bench: Bench, modules: tuple[str, ...] | None) -> tuple[tuple[str, str], ...]:
    if modules is None or set(modules) == set(bench.experiment.step.fp32_modules):
        return ()
    return (("step.fp32_modules", ", ".join(modules)),)


def _trial_title(modules: tuple[str, ...], number_of_trial: int) -> str:
    shown = modules if len(modules) <= 3 else (*modules[:2], f"{len(modules) - 2} more")
    kept = f"{listed(shown)} in FP32" if modules else "no module in FP32"
    return f"trial {number_of_trial}, {kept}"


def _result_sentence(
    search: _Search,
    modules: tuple[str, ...] | None,
    precision: Precision,
    speed_ratio: float | None,
    memory_added_mib: float | None,
) -> str:
    without = search.tried[frozenset()]
    as_good = f"{precision.label} is as good as FP32 for {search.trials.steps} steps"
    if modules is None:
        with_all = search.tried[frozenset(search.tree.names)]
        return (
            f"Even with all modules in FP32, {precision.label} is not as good as FP32: {with_all.reason}. "
            f"The cause is in {_other_places(precision)}."
        )
    if not modules:
        return f"No module needs to stay in FP32: {as_good}."
    names = listed(modules)
    if len(modules) == 1:
        text = f"{names} needs FP32. With it, {as_good}. Without it, {without.reason}."
    else:
        text = f"{names} need FP32. With them, {as_good}. Without any one of them, it is not. "
        text += f"Without all of them, {without.reason}."
    return text + _cost_words(speed_ratio, memory_added_mib)


def _other_places(precision: Precision) -> str:
    places = "the loss, or in code of the model outside of its modules"
    if precision is Precision.FP16_UNSCALED:
        return f"gradients too small for FP16, which a loss scaler would fix, in {places}"
    return places


def _cost_words(speed_ratio: float | None, memory_added_mib: float | None) -> str:
    words = []
    if speed_ratio is not None:
        percent = round(100 * (1 - speed_ratio))
        if abs(percent) <= _SMALL_PERCENT:
            words.append("costs little or no throughput")
        else:
            words.append(
                f"costs about {percent}% of the throughput" if percent > 0 else "makes it faster here"
            )
    if memory_added_mib is not None and memory_added_mib >= 0.05:
        words.append(f"adds {memory_text(memory_added_mib)} of memory")
    return f" This {' and '.join(words)}." if words else ""
