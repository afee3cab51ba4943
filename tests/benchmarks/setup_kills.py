"""Kills a program that sets up the engine, again and again at random moments: each next attempt goes on.

    uv run python tests/benchmarks/setup_kills.py [--kills 50] [--files 400] [--seed 1]

Installer, download, uv and index are the real ones, in a process that is killed (SIGKILL) and started again;
only the wheels are small stand-ins of many files, and a trial is a pause, since they cannot train. A kill
comes at a random moment of the time that a whole set-up takes. A set-up that ends before its kill is followed
by an update.

Aim: after each kill the engine is absent, or ready with every file; once it was ready, it stays ready. The
next attempt asks the index only for what was not on the disk. In the end there is one whole engine and
nothing else.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from unittest.mock import patch

from engine.experiment.paths import part_path
from engine.installation import installed
from engine.installation.installed import (
    State,
    downloads_folder,
    engine_here,
    installations_folder,
    missing_files_problem,
)
from engine.installation.installer import Installer
from engine.installation.request import InstallRequest, Source, StageBegan
from tests.wheel_index import Fault, WheelIndex, stand_in_wheel

_BYTES_PER_SECOND = 8e6
_TRIAL_SECONDS = 0.3
_WHEELS = ("torch-2.15.0-py3-none-any.whl", "torchvision-0.30.0-py3-none-any.whl")


def set_up(folder: Path, mirror: str) -> None:
    """The process that is killed."""
    installer = Installer(folder, lambda packages: time.sleep(_TRIAL_SECONDS))
    for event in installer.install(InstallRequest(source=Source(mirror=mirror))):
        if isinstance(event, StageBegan):
            print(event.stage.value, flush=True)


def attempt(folder: Path, mirror: str, seconds: float | None) -> str:
    """The stage in which the process was killed after so many seconds, or "" where it reached its end."""
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.setup_kills",
        "--folder",
        str(folder),
        "--mirror",
        mirror,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            printed, _ = process.communicate()
    if process.returncode > 0:
        raise SystemExit("The set-up failed; see above.")
    return "" if process.returncode == 0 else (printed.split() or ["starting"])[-1]


def on_disk(folder: Path) -> dict[str, int]:
    """How much of each wheel an earlier attempt has left."""
    sizes = {}
    for name in _WHEELS:
        path = downloads_folder(folder) / name
        for present in (path, part_path(path)):
            if present.exists():
                sizes[name] = present.stat().st_size
    return sizes


def is_sound(folder: Path, *, was_ready: bool) -> bool:
    """Whether the engine is absent, or ready with every file, and not absent once it was ready."""
    state = engine_here(folder).state
    if state is State.ABSENT:
        return not was_ready
    return state is State.READY and missing_files_problem(folder) is None


def fetched_again(index: WheelIndex, before: dict[str, int]) -> int:
    """How many files the index was asked for from another byte than the first that was missing."""
    asked = {request.path.rpartition("/")[2]: request.first_byte for request in reversed(index.requests)}
    return sum((asked[name] or 0) != before[name] for name in _WHEELS if name in before and name in asked)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--mirror", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder is not None:
        set_up(options.folder, options.mirror)
        return
    # the environment of this script has torch; that of the package has none
    with patch.object(installed, "has_own_torch", return_value=False):
        measure(options.kills, options.files, options.seed)


def measure(kills: int, files: int, seed: int) -> None:
    """Kills and goes on, prints what came of it, and exits with 1 where that is not as aimed for."""
    moments, began = random.Random(seed), time.monotonic()
    stages: Counter[str] = Counter()
    unsound = again = ends = 0
    with tempfile.TemporaryDirectory() as scratch:
        wheels, folder = Path(scratch, "wheels"), Path(scratch, "engine")
        content = {f"torch/part{number}.bin": moments.randbytes(40_000) for number in range(files)}
        stand_in_wheel(wheels, "torch", "2.15.0", {"torch/__init__.py": "", **content})
        stand_in_wheel(wheels, "torchvision", "0.30.0", requires=["torch"])
        with WheelIndex(wheels) as index:
            index.order(Fault(bytes_per_second=_BYTES_PER_SECOND))
            attempt(Path(scratch, "first"), index.simple, None)
            whole_seconds = time.monotonic() - began
            was_ready = False
            while stages.total() < kills:
                before, index.requests = on_disk(folder), []
                stage = attempt(folder, index.simple, moments.uniform(0.0, whole_seconds))
                if stage:
                    stages[stage] += 1
                else:
                    ends += 1
                again += fetched_again(index, before)
                unsound += not is_sound(folder, was_ready=was_ready)
                was_ready |= engine_here(folder).state is State.READY
            attempt(folder, index.simple, None)
        rest = sorted(path.name for path in folder.iterdir())
        is_alone = len(list(installations_folder(folder).iterdir())) == 1
        is_whole = is_sound(folder, was_ready=True)
    print(f"{kills} kills, {ends} set-ups reached their end; one takes {whole_seconds:.1f} s")
    print("killed while " + ", ".join(f"{stage} {count}" for stage, count in stages.most_common()))
    print(f"not whole and not absent {unsound}, files fetched again {again}")
    print(f"in the end: {'whole' if is_whole and is_alone else 'not whole'}; {', '.join(rest)}")
    is_good = not unsound and not again and is_whole and is_alone
    print(f"{time.monotonic() - began:.0f} s; as aimed for: {'yes' if is_good else 'no'}")
    if not is_good:
        sys.exit(1)


if __name__ == "__main__":
    main()
