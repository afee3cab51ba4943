"""The verb `compare`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from engine.catalog import problems
from engine.cli import options, output, tables
from engine.cli.options import Asked
from engine.cli.workshop import (
    DONE,
    FAILED,
    INTERRUPTED,
    TargetOption,
    Workshop,
    has_gpu,
    train,
    workshop,
)
from engine.events import Failed
from engine.experiment import Experiment, Precision, experiment_from, layered
from engine.launcher import Target
from engine.problem import Problem, ProblemError, request_problem
from engine.records.record import RunRecord
from engine.records.variants import Variant, variants


def compare(
    ctx: typer.Context,
    preset: options.PresetName = None,
    config: options.ConfigFile = None,
    model: options.Model = None,
    dataset: options.Dataset = None,
    image_size: options.ImageSize = None,
    precision: Annotated[
        list[str] | None,
        options.flag("--precision", "A side of the comparison; the first is the baseline.", "NAME"),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, max=1_000, help="Runs of each side, in alternating order.")
    ] = 1,
    batch_size: options.BatchSize = None,
    epochs: options.Epochs = None,
    steps: options.Steps = None,
    optimizer: options.OptimizerName = None,
    lr: options.LearningRate = None,
    device: options.Device = None,
    seed: options.Seed = None,
    recipe: options.Recipe = None,
    memory_gib: options.MemoryGib = None,
    name: options.Name = None,
    set_: options.Sets = None,
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Train the same experiment in several precisions, and say what each gained."""
    asked = options.asked(ctx.params)
    _sides(asked, precision, on_gpu=True)
    with workshop(target) as shop:
        catalog = shop.runner.catalog()
        shop.heed_interrupt()
        sides = _sides(asked, precision, on_gpu=has_gpu(asked, catalog))
        for _, experiment in sides:
            found = problems(experiment, catalog)
            if found:
                raise ProblemError(*found)
        outcome = _train_sides(shop, sides, repeats, name)
    return _tell(outcome, as_json, shop.interrupt.asked)


@dataclass(frozen=True)
class _Outcome:
    baseline: str
    runs: tuple[RunRecord, ...]
    variants: tuple[Variant, ...]
    problem: Problem | None


def _sides(asked: Asked, precisions: list[str] | None, on_gpu: bool) -> list[tuple[str, Experiment]]:
    base = asked.settings(on_gpu)
    presets = asked.preset.variants_for(on_gpu) if asked.preset is not None else ()
    if presets and not precisions:
        return [(side.label, experiment_from(layered(base, side.overrides))) for side in presets]
    amp = Precision.FP16 if on_gpu else Precision.BF16
    names = precisions or [Precision.FP32.value, amp.value]
    experiments = [experiment_from({**base, "precision": name}) for name in names]
    sides = [(experiment.precision.label, experiment) for experiment in experiments]
    if len(dict(sides)) < max(2, len(sides)):
        given = ", ".join(names)
        message = f"precision is {given}, but a comparison needs two or more different ones."
        remedy = "Give --precision once for each, the baseline first."
        raise ProblemError(request_problem(message, remedy, key="precision", value=given))
    return sides


def _train_sides(
    shop: Workshop, sides: list[tuple[str, Experiment]], repeats: int, name: str | None
) -> _Outcome:
    """Every repeat in the reverse order of the one before, so that a drift of the machine hits both sides."""
    title = name or " against ".join(reversed([label for label, _ in sides]))
    comparison = shop.store.add_comparison(title)
    order = [side for index in range(repeats) for side in (sides if index % 2 == 0 else sides[::-1])]
    ids: list[str] = []
    problem: Problem | None = None
    for count, (label, experiment) in enumerate(order, 1):
        if shop.interrupt.asked:
            break
        own_name = f"{name}, {label}" if name else None
        added = shop.store.add(experiment, name=own_name, comparison=comparison, label=label)
        last = train(shop, added, f"{count} of {len(order)}, {label}")
        if isinstance(last, Failed):
            problem = problem or last.problem
        ids.append(added.id)
    runs = tuple(shop.store.run(run_id) for run_id in ids)
    baseline = sides[0][0]
    samples = {run.id: shop.store.samples(run.id) for run in runs}
    known = variants(runs, samples, baseline) if any(run.label == baseline for run in runs) else ()
    return _Outcome(baseline, runs, known, problem)


def _tell(outcome: _Outcome, as_json: bool, interrupted: bool) -> int:
    found: dict[str, Any] = {
        "baseline": outcome.baseline,
        "runs": [run.to_dict() for run in outcome.runs],
        "variants": [tables.variant_dict(variant) for variant in outcome.variants],
    }
    if not as_json:
        tables.comparison(outcome.runs, outcome.variants)
    if outcome.problem is not None:
        output.error(outcome.problem, as_json, **found)
    elif as_json:
        output.json_object(found)
    if interrupted:
        return INTERRUPTED
    return FAILED if outcome.problem is not None else DONE
