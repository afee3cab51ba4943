"""How long the packaged program takes to its first painted window, beside the checkout's, alternating.

The package holds no torch. Its first start is told apart: it reads from the disk what is not in memory, which
is everything after `sync; echo 1 > /proc/sys/vm/drop_caches`. Without a package only the checkout is timed.

    dpkg-deb --extract dist/ammeter_*.deb unpacked
    uv run tests/benchmarks/packaged_start.py --package unpacked [--repeats 10]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "packaging")]

from smoke_test.steps import INSTALLED, Painted, first_paint  # noqa: E402

PACKAGE, CHECKOUT = "the package", "the checkout"


def main() -> None:
    """Starts both in turn and prints their times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", type=Path, metavar="FOLDER", help="the folder of the unpacked package")
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    interpreters = {CHECKOUT: Path(sys.executable)}
    if options.package:
        packaged = options.package.resolve() / INSTALLED / "python/bin/python3"
        interpreters = {PACKAGE: packaged} | interpreters
    starts: dict[str, list[Painted]] = {name: [] for name in interpreters}
    with tempfile.TemporaryDirectory() as home:
        # the later starts are those of somebody who has seen the welcome
        (Path(home) / "window.json").write_text('{"theme": "system"}', encoding="utf-8")
        common = {"PATH": os.environ["PATH"], "HOME": home, "AMMETER_HOME": home}
        common["QT_QPA_PLATFORM"] = os.environ.get("QT_QPA_PLATFORM", "offscreen")
        paths = {PACKAGE: {}, CHECKOUT: {"PYTHONPATH": str(ROOT)}}
        for name, interpreter in interpreters.items():
            first = first_paint(interpreter, common | paths[name])
            print(f"{'first start, ' + name:<40}{first.seconds:>10.2f}")
        for _ in range(options.repeats):
            for name, interpreter in interpreters.items():
                starts[name].append(first_paint(interpreter, common | paths[name]))
    for title, times in (
        ("by the clock", lambda start: start.seconds),
        ("processor time", lambda start: start.processor_seconds),
    ):
        print(f"{'first painted window, ' + title:<40}{'median s':>10}{'min s':>8}{'max s':>8}")
        for name, measured in starts.items():
            values = [times(start) for start in measured]
            print(f"{name:<40}{statistics.median(values):>10.2f}{min(values):>8.2f}{max(values):>8.2f}")
    loaded = {start.torch for measured in starts.values() for start in measured}
    print(f"torch in the window's process: {' '.join(map(str, sorted(loaded)))}")


if __name__ == "__main__":
    main()
