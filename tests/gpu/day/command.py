"""The command line, which runs each step in a process with a time limit and keeps the results."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from day import child
from day.results import Ended, Results, Seen, read
from day.steps import STEPS
from day.work import ROOT
from engine.installation.hardware import hardware_here

_MARGIN_SECONDS, _LEAST_SECONDS, _GRACE_SECONDS = 15.0, 30.0, 5.0
_ABOUT = """\
Measure what only a machine with a GPU can show: step after step, each in a process of its own, and a table of
figures and aims (day.json, day.md) that grows from call to call. Logs are in day.log, pictures and reports
in files.tar.gz.
"""
_VERSIONS = ("torch", "torchvision", "triton", "PySide6-Essentials", "lightning", "accelerate")


def main() -> int:
    """Run the named steps; return 1 if one failed."""
    parser = _parser()
    options = parser.parse_args()
    names = _names(parser, options.step) or (list(STEPS) if options.rehearse else [])
    if options.told is not None:
        return child.run_steps(
            names, options.out, options.told, options.seconds, is_rehearsal=options.rehearse
        )
    if not names and not options.earlier:
        parser.print_help()
        return 0
    out = options.out / "rehearsal" if options.rehearse else options.out
    out.mkdir(parents=True, exist_ok=True)
    results = Results(is_rehearsal=options.rehearse)
    known = [] if options.rehearse else [*options.earlier, *sorted(out.glob("day.json"))]
    for path in known:
        results.merge(read(path))
    with tempfile.TemporaryDirectory(prefix="ammeter-day-") as scratch:
        day = Day(out, Path(scratch), results, options.seconds)
        is_well = day.rehearse(names) if options.rehearse else day.run(names)
    results.save(out)
    if not options.rehearse:
        print(results.markdown())
    return 0 if is_well else 1


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, STEPS))
    steps = "\n".join(
        f"  {name:<{width}}  {step.seconds:>3.0f} s at most  {step.about}" for name, step in STEPS.items()
    )
    parser = argparse.ArgumentParser(
        prog="python tests/gpu/day",
        description=f"{_ABOUT}\n{steps}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("step", nargs="*", help="one of the above; without any only the table is made")
    out = Path(os.environ.get("OUT") or ROOT / ".gpu" / "out")
    parser.add_argument("--out", type=Path, default=out, help="the folder of all that is written")
    parser.add_argument("--earlier", type=Path, action="append", default=[], help="a day.json to go on from")
    parser.add_argument("--seconds", type=float, default=540.0, help="for all steps of this call")
    parser.add_argument(
        "--rehearse", action="store_true", help="on the CPU, in small: tries the steps themselves"
    )
    parser.add_argument("--told", type=Path, help=argparse.SUPPRESS)
    return parser


def _names(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    names, rest = [], list(words)
    while rest:
        name = rest.pop(0)
        if name == "speed" and rest:
            name += f" {rest.pop(0)}"
        if name not in STEPS:
            parser.error(f"There is no step {name}. The steps are {', '.join(STEPS)}.")
        names.append(name)
    return names


class Day:
    """A call of the command: runs steps in processes and collects their results."""

    def __init__(self, out: Path, scratch: Path, results: Results, seconds: float) -> None:
        self._out, self._scratch, self._results = out, scratch, results
        self._ends = time.monotonic() + seconds
        self._machine = _machine()
        self._log = out / "day.log"
        self._packed = out / "files.tar.gz"
        if results.is_rehearsal:
            self._log.unlink(missing_ok=True)
        elif self._packed.exists():
            with tarfile.open(self._packed) as packed:
                packed.extractall(scratch, filter="data")

    def run(self, names: Sequence[str]) -> bool:
        """Run one step after another; return whether all succeeded."""
        print(self._machine, flush=True)
        is_well = True
        for name in names:
            left = self._ends - time.monotonic() - _MARGIN_SECONDS
            if left < _LEAST_SECONDS:
                print(f"== {name}: left out, no time left", flush=True)
                is_well = False
                continue
            is_well &= self._process([name], min(STEPS[name].seconds, left), shows=True)
            self._results.save(self._out)
            self._pack()
        return is_well

    def rehearse(self, names: Sequence[str]) -> bool:
        """Run small versions in one process; return whether all succeeded and reported."""
        is_well = self._process(names, self._ends - time.monotonic(), shows=False)
        missing = self._results.unreported()
        if missing:
            print(f"No step reported {', '.join(missing)}.")
        return is_well and not missing

    def _process(self, names: Sequence[str], seconds: float, *, shows: bool) -> bool:
        """Run the steps in one process, ended after `seconds`; return whether they succeeded."""
        home = Path(tempfile.mkdtemp(dir=self._scratch))
        told = home / "told.jsonl"
        is_rehearsal = self._results.is_rehearsal
        command = [sys.executable, str(ROOT / "tests" / "gpu" / "day"), *" ".join(names).split()]
        command += ["--told", str(told), "--out", str(self._scratch / "files"), "--seconds", str(seconds)]
        process = subprocess.Popen(
            [*command, *(["--rehearse"] if is_rehearsal else [])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=ROOT,
            env=_environment(home, is_rehearsal=is_rehearsal),
            start_new_session=True,
        )
        lines: list[str] = []
        reader = threading.Thread(target=self._follow, args=(process, lines), kwargs={"shows": shows})
        reader.start()
        try:
            status: int | None = process.wait(seconds + _MARGIN_SECONDS / 2)
        except subprocess.TimeoutExpired:
            status = None
        _end(process)
        reader.join(_GRACE_SECONDS)
        ended = self._take(told, names, status, seconds)
        if not shows:
            for name in names:
                print(f"rehearsed {name:<20}{ended[name].seconds:>5.0f} s  {ended[name].problem}", flush=True)
            if any(each.problem for each in ended.values()):
                print("".join(lines), flush=True)
        return not any(each.problem for each in ended.values())

    def _follow(self, process: subprocess.Popen[str], lines: list[str], *, shows: bool) -> None:
        assert process.stdout is not None
        with process.stdout, self._log.open("a", encoding="utf-8", buffering=1) as log:
            for line in process.stdout:
                lines.append(line)
                log.write(line)
                if shows:
                    print(line, end="", flush=True)

    def _take(self, told: Path, names: Sequence[str], status: int | None, seconds: float) -> dict[str, Ended]:
        """Collect the reported results, and add how a step ended that could not report it."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        later = Results(is_rehearsal=self._results.is_rehearsal)
        for line in told.read_text(encoding="utf-8").splitlines() if told.exists() else ():
            entry = json.loads(line)
            if "step" in entry:
                later.steps[entry.pop("step")] = Ended(at=at, **entry)
            else:
                later.figures[entry.pop("key")] = Seen(at=at, machine=self._machine, **entry)
        problem = f"ended after {seconds:,.0f} s" if status is None else f"died with status {status}"
        for name in names:
            later.steps.setdefault(name, Ended(at=at, seconds=seconds, problem=problem))
        self._results.merge(later)
        return later.steps

    def _pack(self) -> None:
        files = self._scratch / "files"
        if files.exists() and any(path.is_file() for path in files.rglob("*")):
            with tarfile.open(self._packed, "w:gz") as packed:
                packed.add(files, "files")


def _end(process: subprocess.Popen[str]) -> None:
    """End the process and all that it started."""
    for force in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, force)
            process.wait(_GRACE_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _environment(home: Path, *, is_rehearsal: bool) -> dict[str, str]:
    own = {"AMMETER_HOME": home / "home", "AMMETER_DATA": home / "data"}
    for folder in own.values():
        folder.mkdir()
    environment = {
        **os.environ,
        # what a step starts finds the project, wherever it was started from
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
        "QT_QPA_PLATFORM": os.environ.get("QT_QPA_PLATFORM", "offscreen"),
        **{name: str(folder) for name, folder in own.items()},
    }
    # every worker imports torch anew, which takes several times as long where nothing compiled is kept
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if is_rehearsal:
        environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return environment


def _machine() -> str:
    hardware = hardware_here()
    cards = ", ".join(gpu.name for gpu in hardware.gpus) or "no card"
    found = [f"{name} {known}" for name in _VERSIONS if (known := _version(name))]
    driver = f", driver {hardware.nvidia_driver}" if hardware.nvidia_driver else ""
    return f"{cards}{driver}; {hardware.processor}, {os.cpu_count()} cores; {', '.join(found)}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
