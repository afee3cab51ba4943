"""Asks servers for several things side by side, such as the sizes of wheels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from engine.experiment.problem import ProblemError, request_problem
from engine.installation.fetching.connection import Broken, Connections
from engine.installation.fetching.control import Stopped
from engine.installation.problems import unreachable
from engine.installation.wanted import Source, Wheel

_AT_ONCE, _POLL_SECONDS = 8, 0.1

_Thing = TypeVar("_Thing")
_Answer = TypeVar("_Answer")


def with_sizes(wheels: list[Wheel], source: Source, is_stopped: Callable[[], bool]) -> list[Wheel]:
    """The wheels with the sizes that the index did not tell, which the servers are asked for.

    Raises ProblemError, and Stopped.
    """
    connections = Connections(source.mirror)

    def sized(wheel: Wheel) -> Wheel:
        return (
            wheel if wheel.size_bytes else replace(wheel, size_bytes=_size_bytes(wheel.address, connections))
        )

    return at_once(sized, wheels, connections, is_stopped)


def at_once(
    ask: Callable[[_Thing], _Answer],
    things: Iterable[_Thing],
    connections: Connections,
    is_stopped: Callable[[], bool],
) -> list[_Answer]:
    """The answers for several things, asked for side by side. Raises their errors, and Stopped."""
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        asked = [pool.submit(ask, thing) for thing in things]
        waiting = set(asked)
        while waiting:
            answered, waiting = wait(waiting, _POLL_SECONDS, FIRST_EXCEPTION)
            if is_stopped():
                raise Stopped
            for answer in answered:
                answer.result()
    except BaseException:
        connections.close()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return [answer.result() for answer in asked]


_SIZE = re.compile("[1-9][0-9]{0,14}")


def _size_bytes(address: str, connections: Connections) -> int:
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path)).stat().st_size
    try:
        # not HEAD: addresses that are signed for GET refuse it
        with connections.open(address, {"Range": "bytes=0-0"}) as answer:
            whole = (answer.headers["Content-Range"] or "").rpartition("/")[2]
            told = whole or answer.headers["Content-Length"] or ""
    except Broken as error:
        raise ProblemError(unreachable(parts.hostname or address)) from error
    if _SIZE.fullmatch(told) is None:
        message = f"{parts.hostname} does not tell the size of {PurePosixPath(parts.path).name}."
        raise ProblemError(request_problem(message, "Choose another source, or a folder of wheels."))
    return int(told)
