"""The search for the first NaN or Inf against models with one planted fault each, in FP16 on the CPU.

    uv run python tests/benchmarks/planted_faults.py [--only NAME] [--sentences]

A fault is named if its module, direction and operation are, and its cause is one that fits.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from planted import PLANTED

from engine.experiment.experiment import Experiment
from engine.protocol import jobs
from engine.protocol.events import PartMeasured
from engine.protocol.jobs import Control
from engine.protocol.numerics.nonfinite import NonfiniteSearch
from engine.training.numerics.parts import study_numerics


def search_of(experiment: Experiment) -> NonfiniteSearch:
    """What the whole run's search found."""
    job = jobs.StudyNumerics(experiment=experiment, parts=("nan",))
    results = [event.result for event in study_numerics(job, Control()) if isinstance(event, PartMeasured)]
    (search,) = (result for result in results if isinstance(result, NonfiniteSearch))
    return search


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help="the fault of that name")
    parser.add_argument("--sentences", action="store_true", help="prints what the search says too")
    options = parser.parse_args()
    chosen = [planted for planted in PLANTED if options.only in (None, planted.name)]
    named = 0
    for planted in chosen:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            search = search_of(planted.experiment(Path(folder)))
        is_named = planted.is_named_by(search)
        named += is_named
        first = search.first
        what = (
            "nothing"
            if first is None
            else f"{first.module}: {first.operation}, {first.direction}, {first.cause}"
        )
        verdict = "named" if is_named else "MISSED"
        print(f"{verdict:7} {planted.name:50} {what:55} {time.perf_counter() - began:5.1f} s", flush=True)
        if options.sentences:
            print(f"        {search.sentence}")
            if first is not None:
                print(f"        {first.sentence}\n        {first.remedy} {first.changes}")
    print(f"{named} of {len(chosen)} named")


if __name__ == "__main__":
    main()
