"""Every preset can be run: on this machine as it would be without a GPU, and on a card as it is."""

from __future__ import annotations

import pytest

from engine.experiment.checks import Catalog, DeviceEntry, problems
from engine.experiment.presets import BUILT_IN, preset
from engine.training.data.datasets import dataset_entries
from engine.training.models.build import model_entries
from engine.training.precision import Processor, cpu_precisions, cuda_precisions

CARD = DeviceEntry(
    name="cuda:0", title="a card", memory_mib=24 * 1024, tensor_cores=True, precisions=cuda_precisions((8, 6))
)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    cpu = DeviceEntry(
        name="cpu",
        title="a processor",
        memory_mib=8 * 1024,
        precisions=cpu_precisions(Processor("a processor", 8 * 1024)),
    )
    return Catalog(devices=(cpu,), models=model_entries(), datasets=dataset_entries())


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("has_gpu", [True, False])
def test_a_preset_fits_the_machine_it_is_for(catalog: Catalog, name: str, has_gpu: bool) -> None:
    machine = catalog.model_copy(update={"devices": (CARD, *catalog.devices)}) if has_gpu else catalog
    for label, experiment in preset(name).experiments(has_gpu):
        assert problems(experiment, machine) == (), label
        # long enough for a speed, but where the point is another
        dataset = machine.dataset(experiment.dataset)
        assert dataset is not None
        samples = dataset.train_samples or experiment.samples
        steps = experiment.steps or (experiment.epochs or 1) * (samples // experiment.step_samples)
        is_measured = name not in ("hello-amp", "resnet50-memory", "batch-limit")
        assert (steps >= experiment.least_steps) == is_measured
