"""The command `packaging/smoke`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from smoke_test.root import (
    checkout_packages,
    enter_namespaces,
    loopback_up,
    make_root,
    python_of,
    real_wheels,
    stand_ins,
)
from smoke_test.steps import (
    INSTALLED,
    ROOT,
    SmokeError,
    Steps,
    build_deb,
    check,
    first_paint,
    output_of,
    raised,
)
from smoke_test.whole import Whole

DOWNLOAD_MB, INSTALLED_MB = 120, 350
"""The most that a package may weigh."""


def quick(steps: Steps, scratch: Path, package: Path | None) -> None:
    """Test a package, by default a new one. Raises SmokeError at the first failure."""
    if package is None:
        with steps.step("The package builds"):
            package = build_deb(scratch / "packages", is_quick=True)
    with steps.step("It unpacks, and is no larger than it may be"):
        output_of(["dpkg-deb", "--extract", package, scratch / "root"])
        folder = scratch / "root" / INSTALLED
        size = sum(path.lstat().st_size for path in folder.rglob("*")) / 1e6
        check(size <= INSTALLED_MB, f"installed it is {size:.0f} MB, and may be {INSTALLED_MB}")
        check(any(folder.rglob("engine/__pycache__/*.pyc")), "its modules are not compiled")
    environment = _lonely_environment(scratch)
    program = _Program(folder / "ammeter", environment)
    with steps.step("It tells its version"):
        said, version = program.says("--version"), output_of(["dpkg-deb", "--field", package, "Version"])
        check(
            version.strip() in said, f"`ammeter --version` says {said.strip()}, the package {version.strip()}"
        )
    with steps.step("The doctor tells what is here, and that PyTorch is not"):
        report = program.report("doctor")
        check("PyTorch" in report and "Traceback" not in report, f"`ammeter doctor` says:\n{report}")
    with steps.step("The window opens and closes, without torch and without another Python"):
        painted = first_paint(folder / "python" / "bin" / "python3", environment)
        check(not painted.torch, "the window has loaded torch")
        strange = [
            path for path in painted.modules if not path.startswith((str(folder), str(ROOT / "packaging")))
        ]
        check(not strange, f"modules come from outside the package: {', '.join(strange[:3])}")
        pythons = [
            path for path in painted.libraries if "python" in path and not path.startswith(str(folder))
        ]
        check(not pythons, f"libraries come from another Python: {', '.join(pythons[:3])}")
    with steps.step("The charts, which are loaded after the first paint, have all that they need"):
        interpreter = folder / "python" / "bin" / "python3"
        output_of([interpreter, "-P", "-c", "import gui.train.page, gui.demo.race_page"], environment)
    with steps.step("Runs made elsewhere are read, listed, compared and exported"):
        archive = _runs_of_the_checkout(scratch)
        program.says("import", archive)
        runs = json.loads(program.says("results", "--json"))["runs"]
        check(len(runs) == 2, f"of 2 runs in the archive {len(runs)} are listed")
        ids = [run["id"] for run in runs]
        for name in ("report.html", "table.csv", "curves.png", "again.ammeter"):
            program.says("export", *ids, "--to", scratch / name)
            check((scratch / name).stat().st_size > 0, f"the export {name} is empty")
        page = (scratch / "report.html").read_text(encoding="utf-8")
        check("FP16" in page and "FP32" in page, "the report does not compare FP16 with FP32")
    print(f"Download, quickly compressed: {package.stat().st_size / 1e6:.0f} MB; installed: {size:.0f} MB")
    print(f"Start to the first painted window: {painted.seconds:.2f} s")


class _Program:
    def __init__(self, launcher: Path, environment: dict[str, str]) -> None:
        self._launcher = launcher
        self._environment = environment

    def says(self, *words: str | Path) -> str:
        return output_of([self._launcher, *words], self._environment, seconds=120)

    def report(self, *words: str) -> str:
        """Its output, whatever its status."""
        return output_of(
            ["sh", "-c", '"$@" 2>&1 || :', "sh", self._launcher, *words], self._environment | _SHELL
        )


_SHELL = {"PATH": os.defpath}


def _lonely_environment(scratch: Path) -> dict[str, str]:
    """Return a new user's environment, whose PATH has only the programs that the launcher calls."""
    programs, home = scratch / "programs", scratch / "home"
    programs.mkdir()
    home.mkdir()
    for name in ("sh", "readlink"):
        found = shutil.which(name)
        check(found is not None, f"{name} is missing here")
        (programs / name).symlink_to(str(found))
    return {"PATH": str(programs), "HOME": str(home), "LANG": "C.UTF-8", "QT_QPA_PLATFORM": "offscreen"}


def _runs_of_the_checkout(scratch: Path) -> Path:
    archive = scratch / "runs.ammeter"
    environment = os.environ | {"AMMETER_HOME": str(scratch / "elsewhere"), "OMP_NUM_THREADS": "1"}
    precisions = ("--precision", "fp32", "--precision", "fp16")
    # in one process: each worker would import torch anew
    where = ("--device", "cpu", "--target", "thread")
    words = ["compare", "--preset", "hello-amp", *precisions, *where, "--json"]
    said = json.loads(output_of([sys.executable, "-m", "gui", *words], environment, ROOT))
    ids = [run["id"] for run in said["runs"]]
    output_of([sys.executable, "-m", "gui", "export", *ids, "--to", archive], environment, ROOT)
    return archive


PACKAGE, HIGHER, WHEELS = "ammeter.deb", "ammeter-higher.deb", "wheels"
"""The content of a scratch folder before the bare root is entered."""


def main() -> int:
    """Run the quick or the full test and return the exit status."""
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
