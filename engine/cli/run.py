"""The verbs `run` and `resume`."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.cli import options, output, tables
from engine.cli.saved import RunId
from engine.cli.workshop import (
    DONE,
    FAILED,
    INTERRUPTED,
    TargetOption,
    Workshop,
    has_gpu,
    tell_of_busyness,
    train,
    workshop,
)
from engine.events import Event, Failed
from engine.experiment import Precision, experiment_from
from engine.launcher import Target
from engine.records.record import RunRecord

_PRECISIONS = f"{', '.join(list(Precision)[:-1])} or {list(Precision)[-1]}."


def run(
    ctx: typer.Context,
    preset: options.PresetName = None,
    config: options.ConfigFile = None,
    model: options.Model = None,
    dataset: options.Dataset = None,
    image_size: options.ImageSize = None,
    precision: Annotated[str | None, options.flag("--precision", _PRECISIONS, "NAME")] = None,
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
    """Train one experiment, save it, and print its summary."""
    asked = options.asked(ctx.params)
    experiment_from(asked.settings(True))
    with workshop(target) as shop:
        # asking costs an import of torch, so it is done only where the answer matters
        on_gpu = not asked.depends_on_gpu or has_gpu(asked, shop.runner.catalog())
        shop.heed_interrupt()
        experiment = experiment_from(asked.settings(on_gpu))
        tell_of_busyness(shop, experiment)
        outcome = _train(shop, shop.store.add(experiment, name=name))
    return _tell(*outcome, as_json)


def resume(run: RunId, as_json: options.AsJson = False, target: TargetOption = Target.PROCESS) -> int:
    """Go on with a run that ended early, from its last checkpoint, as if it had never been stopped."""
    with workshop(target) as shop:
        queued = shop.store.requeue(shop.store.run(run).id)
        tell_of_busyness(shop, queued.experiment)
        outcome = _train(shop, queued)
    return _tell(*outcome, as_json)


def _train(shop: Workshop, queued: RunRecord) -> tuple[Event, RunRecord, bool]:
    """Trains the queued run: its last event, what was saved of it, and whether Ctrl+C was pressed."""
    last = train(shop, queued, f"{queued.name}, {queued.experiment.precision.label}")
    return last, shop.store.run(queued.id), shop.interrupt.asked


def _tell(last: Event, done: RunRecord, interrupted: bool, as_json: bool) -> int:
    if isinstance(last, Failed):
        output.error(last.problem, as_json, run=done.to_dict())
        return FAILED
    if as_json:
        output.json_object(done.to_dict())
    else:
        tables.run_summary(done)
    return INTERRUPTED if interrupted else DONE
