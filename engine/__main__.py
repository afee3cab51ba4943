"""The command line's entry point, `python -P -m engine`, and Ctrl+C while its modules load."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from engine.surroundings import repair_environment

_INTERRUPTED = 130
_PROBLEM = {
    "kind": "request",
    "message": "Interrupted.",
    "remedy": "Run the command again.",
    "key": None,
    "value": None,
    "allowed": None,
}


@contextlib.contextmanager
def quiet_interrupt(as_json: bool = False) -> Iterator[None]:
    """End the process at once on Ctrl+C, without a traceback. `as_json` prints the error as a JSON object.

    For the time when there is nothing to save: KeyboardInterrupt could be raised in any of a thousand
    modules, some of which would treat it as another error. Another handler, set before or in the body, stays.
    """

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        if as_json and sys.stdout is not None:
            with contextlib.suppress(OSError):
                os.write(sys.stdout.fileno(), f"{json.dumps({'error': _PROBLEM})}\n".encode())
        os._exit(_INTERRUPTED)

    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_usual:
        signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is leave:
            signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    repair_environment()
    with quiet_interrupt("--json" in sys.argv):
        from engine.cli.app import main
    sys.exit(main())
