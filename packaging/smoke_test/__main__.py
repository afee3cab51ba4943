"""The command `packaging/smoke`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from smoke_test.package import build_deb, raised
from smoke_test.quick import quick
from smoke_test.root import enter_namespaces, loopback_up, make_root
from smoke_test.steps import SmokeError, Steps, output_of
from smoke_test.wheels import checkout_packages, python_of, real_wheels, stand_ins
from smoke_test.whole import Whole

PACKAGE, HIGHER, WHEELS = "ammeter.deb", "ammeter-higher.deb", "wheels"
"""What a scratch folder holds before the bare root is entered."""


def main() -> int:
    """Runs the quick test or the whole, and returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="packaging/smoke", description="Tests the program as it is packaged."
    )
    parser.add_argument("--whole", action="store_true", help="in a bare root, with the window used by hand")
    parser.add_argument(
        "--package", type=Path, metavar="DEB", help="test this package, in place of a new one"
    )
    parser.add_argument(
        "--wheels", type=Path, metavar="FOLDER", help="of real wheels of torch and torchvision"
    )
    parser.add_argument("--shots", type=Path, default=Path("smoke"), metavar="FOLDER", help="for screenshots")
    parser.add_argument("--suite", default="bookworm", help="the Debian of the bare root")
    parser.add_argument("--inside", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    steps = Steps()
    try:
        if options.inside:
            _inside(steps, options)
        else:
            with tempfile.TemporaryDirectory(prefix="ammeter-smoke-") as scratch:
                if options.whole:
                    return _whole(steps, Path(scratch), options)
                quick(steps, Path(scratch), options.package)
    except SmokeError as error:
        print(f"The smoke test failed: {error}.", file=sys.stderr)
        return 1
    return 0


def _whole(steps: Steps, scratch: Path, options: argparse.Namespace) -> int:
    """Prepares everything that needs the network, and walks without it; returns the walk's status."""
    with steps.step("The package is built, and once more with a higher version"):
        package = options.package or build_deb(scratch / "built", is_quick=True)
        shutil.copy(package, scratch / PACKAGE)
        shutil.move(raised(package, scratch), scratch / HIGHER)
    with steps.step("The bare root is made, or was kept from another time"):
        lower = make_root(options.suite, scratch / PACKAGE)
    return enter_namespaces("--inside", scratch, lower, *_passed_on(options))


def _passed_on(options: argparse.Namespace) -> list[str | Path]:
    wheels = ["--wheels", options.wheels.resolve()] if options.wheels else []
    return ["--shots", options.shots.resolve(), *wheels]


def _inside(steps: Steps, options: argparse.Namespace) -> None:
    """The walk, in namespaces of its own."""
    scratch, lower = options.inside
    loopback_up()
    options.shots.mkdir(parents=True, exist_ok=True)
    output_of(["dpkg-deb", "--extract", scratch / PACKAGE, scratch / "unpacked"])
    python = python_of(scratch / "unpacked")
    shutil.rmtree(scratch / "unpacked")
    wheels, shared = scratch / WHEELS, []
    if options.wheels:
        real_wheels(wheels, options.wheels)
    else:
        stand_ins(wheels, python)
        shared = [checkout_packages(python)]
    Whole(steps, scratch / PACKAGE, scratch / HIGHER, wheels, options.shots, shared, scratch / "root").walk(
        lower
    )


if __name__ == "__main__":
    sys.exit(main())
