"""How an archive is refused: one plain sentence, and that nothing was imported."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from engine.problem import ProblemError, request_problem
from engine.text import shortened

ANOTHER = "Nothing was imported. Choose a .zip that Ammeter exported."
AGAIN = "Nothing was imported. Export the runs again, and copy the file whole."


def refuse(path: Path, sentence: str, remedy: str = AGAIN) -> NoReturn:
    """Raises ProblemError about the archive at `path`; `sentence` follows its name."""
    raise ProblemError(request_problem(f"{path.name} {sentence}.", remedy, key="file", value=path)) from None


def fault(error: ValueError) -> str:
    """What is wrong with a value, in a few words on one line; what it quotes of the file is made harmless."""
    text = str(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))[:100]
        text = f"{place}: {first['msg']}" if place else str(first["msg"])
    return shortened(text, 200)
