"""Stands in for a worker on another machine that trains, where no torch is needed: many steps a second.

A resumed run begins after the tenth step. BF16 is half as fast again as FP32, and the second node of a
cluster three times slower. It has neither a catalog nor anything else to tell. While the file
TRAIN_NO_FURTHER exists no run gets past the step in it, however busy the machine is.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from engine.experiment.problem import request_problem
from engine.protocol import jobs
from engine.protocol.events import Event, Failed, Finished, Log, Samples, Summary, to_line
from tests.records import ENVIRONMENT, started_of

_PAUSE_SECONDS = 0.004


def say(event: Event) -> None:
    os.write(1, to_line(event))


def furthest(step: int) -> int:
    with suppress(OSError):
        return int(Path(os.environ["TRAIN_NO_FURTHER"]).read_text())
    return step


def train(job: jobs.Train, is_stopped: threading.Event) -> None:
    experiment = job.experiment
    if experiment.path is not None:
        missing = request_problem("path is no folder.", "Check it.", key="path", value=experiment.path)
        say(Failed(problem=missing))
        return
    total, step = experiment.steps or 1, 10 if job.resume else 0
    node = os.environ.get("SLURMD_NODENAME")
    speed = (150.0 if experiment.precision == "bf16" else 100.0) / (3 if node == "n2" else 1)
    environment = ENVIRONMENT.model_copy(update={"device_name": "a card there", "node": node})
    say(started_of(experiment, total, total, environment, resumed_step=step if job.resume else None))
    while step < total and not is_stopped.is_set():
        if step >= furthest(total):
            time.sleep(_PAUSE_SECONDS)
            continue
        step += 1
        say(
            Samples(
                step=(step,),
                seconds=(step / 100,),
                loss=(1 / step,),
                samples_per_second=(speed,),
                learning_rate=(0.01,),
            )
        )
        time.sleep(_PAUSE_SECONDS)
    say(Finished(summary=Summary(steps=step, samples_per_second=speed), stopped=is_stopped.is_set()))


def main() -> None:
    stops, has_job = threading.Event(), threading.Event()
    given: list[jobs.Train] = []

    def read() -> None:
        for line in sys.stdin.buffer:
            request = jobs.from_line(line)
            if isinstance(request, jobs.Train):
                given.append(request)
                has_job.set()
            elif isinstance(request, jobs.Stop):
                stops.set()
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    say(Log(message="ready"))
    has_job.wait()
    train(given[0], stops)
    os._exit(0)


main()
