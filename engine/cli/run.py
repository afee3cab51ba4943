"""The verb `run`."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.cli import options, output, tables
from engine.cli.workshop import DONE, FAILED, INTERRUPTED, TargetOption, has_gpu, train, workshop
from engine.events import Failed
from engine.experiment import experiment_from
from engine.launcher import Target


def run(
    ctx: typer.Context,
    preset: options.PresetName = None,
    config: options.ConfigFile = None,
    model: options.Model = None,
    dataset: options.Dataset = None,
    image_size: options.ImageSize = None,
    precision: Annotated[str | None, options.flag("--precision", "fp32, tf32, fp16 or bf16.", "NAME")] = None,
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
        added = shop.store.add(experiment, name=name)
        last = train(shop, added, f"{added.name}, {experiment.precision.label}")
        done = shop.store.run(added.id)
    if isinstance(last, Failed):
        output.error(last.problem, as_json, run=done.to_dict())
        return FAILED
    if as_json:
        output.json_object(done.to_dict())
    else:
        tables.run_summary(done)
    return INTERRUPTED if shop.interrupt.asked else DONE
