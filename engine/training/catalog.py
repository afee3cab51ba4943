"""What can be chosen on this machine, read from PyTorch."""

from __future__ import annotations

from engine.catalog import Catalog
from engine.training.data.datasets import dataset_entries
from engine.training.devices import device_entries
from engine.training.models.build import model_entries


def read_catalog() -> Catalog:
    """This machine's devices, and the models and datasets that there are. Builds and downloads nothing."""
    return Catalog(devices=device_entries(), models=model_entries(), datasets=dataset_entries())
