"""The process that runs steps in the order given: one on a GPU, several in a rehearsal."""

from __future__ import annotations

import gc
import json
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from day.steps import STEPS
from day.work import StepError, Work


def run_steps(names: Sequence[str], folder: Path, told: Path, seconds: float, *, is_rehearsal: bool) -> int:
    """Run the steps, append their results to `told`, and return the exit status."""
    began, status = time.monotonic(), 0
    for name in names:
        since = time.monotonic()
        print(f"== {name}", flush=True)
        place = folder / name.replace(" ", "-")
        place.mkdir(parents=True, exist_ok=True)
        problem = ""
        if is_rehearsal:
            # what was loaded stays: steps look for garbage again and again
            gc.freeze()
        try:
            STEPS[name](Work(name, place, told, seconds - (since - began), is_rehearsal))
        except StepError as error:
            problem = str(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the other steps are done all the same
            traceback.print_exc()
            problem = f"{type(error).__name__}: {error}"
        status |= bool(problem)
        taken = time.monotonic() - since
        print(f"== {name}: {taken:,.0f} s{f', {problem}' if problem else ''}", flush=True)
        with told.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": name, "seconds": taken, "problem": problem[:300]}) + "\n")
    return status
