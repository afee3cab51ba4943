"""Steps of a smoke test: each is printed with its seconds, and fails with a plain sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from recipe import deb
from recipe.source import RecipeError


class SmokeError(Exception):
    """Raised if a step of the smoke test fails. The text is a sentence for the user."""


@dataclass
class Steps:
    """Runs the steps of a smoke test, prints each one with its duration, and keeps the durations."""

    times: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, says: str) -> Iterator[None]:
        """Return a context manager that prints and times one step. `says` describes what the step checks."""
        began = time.monotonic()
        print(f"{says} … ", end="", flush=True)
        try:
            yield
        except BaseException:
            print("failed", flush=True)
            raise
        took = time.monotonic() - began
        self.times.append((says, took))
        print(f"{took:.1f} s", flush=True)


def check(is_so: object, otherwise: str) -> None:
    """Raise SmokeError with the sentence `otherwise` unless `is_so`."""
    if not is_so:
        raise SmokeError(otherwise)


def wait_for(is_so: Callable[[], object], otherwise: str, seconds: float = 60, every: float = 0.1) -> None:
    """Wait until `is_so()`. Raises SmokeError with the sentence `otherwise` after `seconds`."""
    end = time.monotonic() + seconds
    while not is_so():
        check(time.monotonic() < end, f"{otherwise} after {seconds:.0f} seconds")
        time.sleep(every)


def output_of(
    command: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    seconds: float = 600,
) -> str:
    """Run a command and return its output. Raises SmokeError with the end of its output if it fails."""
    words = [str(word) for word in command]
    try:
        said = subprocess.run(
            words,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise SmokeError(f"{words[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise SmokeError(f"{' '.join(words)} did not end within {seconds:.0f} seconds") from None
    if said.returncode != 0:
        end = "\n".join((said.stdout + said.stderr).strip().splitlines()[-20:])
        raise SmokeError(f"{' '.join(words)} ended with status {said.returncode}:\n{end}")
    return said.stdout


ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
FIRST_PAINT = Path(__file__).with_name("first_paint.py")
INSTALLED = Path("usr/lib/ammeter")
"""The program's folder in a root."""


def build_deb(into: Path, *, is_quick: bool) -> Path:
    """Build the `.deb`, with little compression if `is_quick`. Raises SmokeError."""
    try:
        return deb.build_deb(into, is_quick)
    except RecipeError as error:
        raise SmokeError(f"the package cannot be built: {error}") from None


def raised(package: Path, into: Path) -> Path:
    """Return the same package with a higher version."""
    folder = into / "raised"
    output_of(["dpkg-deb", "--raw-extract", package, folder])
    control = folder / "DEBIAN" / "control"
    old = output_of(["dpkg-deb", "--field", package, "Version"]).strip()
    control.write_text(control.read_text().replace(f"Version: {old}\n", f"Version: {old}+upgrade\n"))
    path = into / f"{package.stem}+upgrade.deb"
    output_of(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", folder, path])
    shutil.rmtree(folder)
    return path


@dataclass(frozen=True)
class Painted:
    """How long the program took to show its window, and the modules and libraries it had loaded by then.

    `torch` is True if it had loaded PyTorch. `first_paint.py` reports it.
    """

    seconds: float
    processor_seconds: float
    torch: bool
    libraries: list[str]
    modules: list[str]


def first_paint(interpreter: Path, environment: dict[str, str]) -> Painted:
    """Open the program's window, wait for its first paint, and close it. Raises SmokeError."""
    began = {"AMMETER_BEGAN": str(time.monotonic())}
    said = output_of([interpreter, "-P", FIRST_PAINT], environment | began, seconds=120)
    try:
        return Painted(**json.loads(said.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        raise SmokeError(f"the window was never painted; the program said: {said.strip()}") from None
