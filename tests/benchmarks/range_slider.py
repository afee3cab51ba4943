"""How long a move of the slider of loss scales takes: all modules' histograms, shares and sentences.

Run it with `python tests/benchmarks/range_slider.py [modules] [moves]`; it prints a table. A move sets the
slider and paints the view again, at the room that it has in a window of 1440x900.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from PySide6.QtWidgets import QApplication

from engine.protocol.numerics.formats import Exponents
from engine.protocol.numerics.ranges import SCALE_EXPONENTS, ModuleRange, Ranges
from gui.numerics.range_view import RangeView
from gui.theme.theme import theme
from gui.window.app import make_application

_FIRST, _EXPONENTS = -60, 60


def ranges(modules: int) -> Ranges:
    """Gradients of which each module's lie elsewhere."""
    rows = []
    for number in range(modules):
        middle = -26 + number % 14
        shape = (math.exp(-(((_FIRST + place - middle) / 4) ** 2)) for place in range(_EXPONENTS))
        counts = tuple(round(1_000_000 * height) for height in shape)
        top = max(place for place, count in enumerate(counts) if count)
        exponents = Exponents(first=_FIRST, counts=counts, largest=1.5 * 2.0 ** (_FIRST + top))
        name = f"layers.{number // 4}.attention.projection{number % 4}"
        rows.append(ModuleRange(module=name, quantity="gradient", exponents=exponents))
    return Ranges(rows=tuple(rows), scale=65_536.0)


def measure(modules: int, moves: int) -> np.ndarray:
    """Milliseconds of each move."""
    view = RangeView()
    view.resize(1000, 560)
    view.show_ranges(ranges(modules))
    view.show()
    QApplication.processEvents()
    taken = []
    for move in range(moves):
        exponent = SCALE_EXPONENTS[move % len(SCALE_EXPONENTS)]
        begun = time.perf_counter()
        view.loss_scale.slider.setValue(exponent)
        QApplication.processEvents()
        taken.append((time.perf_counter() - begun) * 1000.0)
    view.close()
    view.deleteLater()
    return np.array(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("modules", nargs="?", type=int)
    parser.add_argument("moves", nargs="?", type=int, default=200)
    options = parser.parse_args()
    moves = options.moves
    sizes = [50, 500] if options.modules is None else [options.modules]
    application = make_application([])
    theme().set_mode("dark")
    print("modules   moves   median ms   95th percentile ms   longest ms")
    for modules in sizes:
        taken = measure(modules, moves)
        middle, high, longest = np.percentile(taken, (50, 95, 100))
        print(f"{modules:>7,}   {moves:>5}   {middle:>9.1f}   {high:>18.1f}   {longest:>10.1f}")
    application.processEvents()


if __name__ == "__main__":
    main()
