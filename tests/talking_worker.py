"""Stands in for a worker on another machine where no torch is needed: it says numbered lines at a set pace.

TALK in its environment has the number of lines after its job, and the seconds between them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time


def say(event: dict[str, object]) -> None:
    os.write(1, json.dumps(event).encode() + b"\n")


def main() -> None:
    lines, pause = json.loads(os.environ.get("TALK", "[100, 0.01]"))
    has_job, stops, pauses = threading.Event(), threading.Event(), threading.Event()

    def read() -> None:
        for line in sys.stdin:
            job = json.loads(line)["job"]
            (stops if job == "stop" else pauses if job == "pause" else has_job).set()
            if job == "continue":
                pauses.clear()
            say({"event": "log", "message": f"took {job}"})
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    say({"event": "log", "message": "ready"})
    has_job.wait()
    # what its supervisor gives the time to end well
    say({"event": "phase", "name": "profiling"})
    number = 0
    while number < lines and not stops.is_set():
        number += not pauses.is_set()
        say({"event": "heartbeat", "step": number})
        if number % 10 == 0:
            sys.stderr.write(f"error {number}\n")
            sys.stderr.flush()
        time.sleep(pause)
    say({"event": "finished", "summary": {"steps": number}, "stopped": stops.is_set()})
    os._exit(0)


main()
