"""The setup panel on a CPU and on a GPU, and somebody who fills it in."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.checks import Catalog, DatasetEntry, DeviceEntry, ModelEntry, PrecisionEntry
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.own.code import OWN_DATA
from engine.experiment.presets import all_presets
from gui.setup.controls import NumberEdit
from gui.setup.panel import SetupPanel
from gui.theme.theme import theme


def device(name: str, *able: Precision) -> DeviceEntry:
    entries = tuple(
        PrecisionEntry(
            precision=precision,
            available=precision in able,
            reason=None if precision in able else "it has no Tensor Cores",
        )
        for precision in Precision
    )
    return DeviceEntry(name=name, title="A device", memory_mib=16_384, precisions=entries)


def catalog(device: DeviceEntry) -> Catalog:
    return Catalog(
        devices=(device,),
        models=(
            ModelEntry(name="small-cnn", task="classification", parameters=421_642, min_image_size=8),
            ModelEntry(name="resnet50", task="classification", parameters=25_557_032, min_image_size=32),
            ModelEntry(name="linear", task="regression", parameters=11),
            ModelEntry(name="gpt", task="language", parameters=5_000_000, max_sequence_length=1_024),
        ),
        datasets=(
            DatasetEntry(
                name="fashion",
                title="Fashion-MNIST, built in",
                task="classification",
                image_size=28,
                num_classes=10,
                train_samples=6_000,
                validation_samples=1_000,
            ),
            DatasetEntry(
                name="synthetic",
                title="Synthetic",
                task="classification",
                image_size=224,
                num_classes=1_000,
                any_classes=True,
            ),
            DatasetEntry(name="synthetic-regression", title="Regression", task="regression"),
            DatasetEntry(
                name="image-folder",
                title="A folder of pictures",
                task="classification",
                image_size=224,
                needs_path=True,
                can_augment=True,
                fits_device=False,
                loads=True,
            ),
            DatasetEntry(
                name="arrays", title="Arrays", task="own", any_classes=True, needs_path=True, loads=True
            ),
            DatasetEntry(name=OWN_DATA, title="The model's own", task="own"),
            DatasetEntry(
                name="synthetic-tokens", title="Tokens", task="language", num_classes=32_000, any_classes=True
            ),
        ),
    )


@pytest.fixture
def cpu() -> Catalog:
    """What a machine without a GPU can do."""
    return catalog(device("cpu", Precision.FP32, Precision.FP16, Precision.BF16))


@pytest.fixture
def gpu() -> Catalog:
    """What a machine can do whose GPU has every precision."""
    return catalog(device("cuda:0", *Precision))


Asked = dict[str, list[tuple[Any, ...]]]


@pytest.fixture
def asked() -> Asked:
    """What the panel asked its window for: by the name of the signal, what it carried."""
    return defaultdict(list)


@pytest.fixture
def panel(qtbot: QtBot, cpu: Catalog, asked: Asked) -> SetupPanel:
    theme()
    panel = SetupPanel()
    for name in ("submitted", "check_wanted", "page_wanted", "changed_itself", "reported"):
        getattr(panel, name).connect(lambda *given, name=name: asked[name].append(given))
    qtbot.addWidget(panel)
    panel.set_presets(all_presets())
    panel.choose_preset("fashion")
    panel.set_catalog(cpu)
    panel.resize(320, 848)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


def switch_unit(panel: SetupPanel) -> None:
    """Chooses the other unit of the length."""
    unit = panel.form.length.unit
    unit.edited.emit("steps" if unit.value() == "epochs" else "epochs")


class User:
    """Chooses among the options of the panel, and sees what would be trained."""

    def __init__(self, panel: SetupPanel) -> None:
        self._panel = panel
        self._rows = panel.form.more.form.rows

    def option(self, key: str) -> NumberEdit:
        control = self._rows[key].editor
        assert isinstance(control, NumberEdit)
        return control

    def choose(self, key: str, value: str) -> None:
        self._rows[key].editor.edited.emit(value)

    def shown(self) -> set[str]:
        """The keys of the options that can be seen."""
        return {key for key, row in self._rows.items() if row.isVisible()}

    def experiments(self) -> list[Experiment]:
        return [experiment for _, experiment in self._panel.outcome().experiments]


@pytest.fixture
def user(panel: SetupPanel) -> User:
    return User(panel)
