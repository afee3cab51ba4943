"""How long a key takes in the model box, with the form's check and repaint, among many models of libraries.

QT_QPA_PLATFORM=offscreen python tests/benchmarks/model_box.py [--names 2000]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from engine.experiment.catalog import Catalog, DeviceEntry, ModelEntry, Precision, PrecisionEntry
from engine.experiment.presets import all_presets
from gui.setup.panel import SetupPanel
from gui.window.app import make_application

_KINDS = ("resnet", "convnext", "vit", "swin", "efficientnet", "regnet", "mobilenet", "densenet")
_SIZES = ("tiny", "small", "base", "large", "xlarge")
_TYPED = ("resnet50", "timm vit base 224", "qqqq", "hf:gpt2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=2_000)
    count = parser.parse_args().names
    application = make_application([])
    panel = SetupPanel()
    panel.set_presets(all_presets())
    panel.set_catalog(_catalog(count))
    panel.show()
    box = panel.form.model
    taken: dict[str, list[float]] = {}
    for text in _TYPED:
        box.field.setFocus()
        box.showPopup()
        for key in (*text, *("\b" for _ in text)):
            began = time.perf_counter()
            if key == "\b":
                QTest.keyClick(box.list, Qt.Key.Key_Backspace)
            else:
                QTest.keyClicks(box.list, key)
            application.processEvents()
            panel.grab()
            box.list.grab()
            taken.setdefault(text, []).append(time.perf_counter() - began)
        box.hidePopup()
    print(f"{count:,} names, a key in the model box until form and list are painted")
    for text, seconds in taken.items():
        print(f"  {text}: {_ms(statistics.median(seconds))}, {_ms(max(seconds))} at most")
    panel.close()


def _catalog(count: int) -> Catalog:
    dice = random.Random(0)
    names = {f"timm:{dice.choice(_KINDS)}_{dice.choice(_SIZES)}.{number}_in1k" for number in range(count)}
    entries = (
        PrecisionEntry(precision=precision, available=True, reason=None, note=None) for precision in Precision
    )
    return Catalog(
        devices=(DeviceEntry(name="cpu", title="A CPU", memory_mib=8_192, precisions=tuple(entries)),),
        models=(ModelEntry(name="resnet50", task="classification", parameters=25_557_032, family="ResNet"),),
        datasets=(),
        library_models=tuple(
            ModelEntry(name=name, task="classification", parameters=None, family="timm")
            for name in sorted(names)
        ),
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1_000:,.1f} ms"


if __name__ == "__main__":
    main()
