"""Names of C++ functions out of the mangled ones that the traces of Windows have for kernels."""

from __future__ import annotations

import re
from functools import lru_cache

_TYPES = {"b": "bool", "d": "double", "f": "float", "i": "int", "l": "long"}
_TOKEN = re.compile(
    r"L[a-z](?P<number>n?\d+)E"
    # types named before, parameters of templates, bounds of arrays, abbreviations of the library's names
    r"|S[\dA-Z]*_|T\d*_|A\d*_|S[a-z]|D[a-zA-Z]"
    r"|(?P<open>U[lt]|L_Z|[NIXJFLZ])|(?P<close>E)|(?P<length>\d+)|(?P<type>.)",
    re.DOTALL,
)
_NUMBER_OF_LAMBDA = re.compile(r"\d*_")
_UNNAMED = "_GLOBAL__N"


@lru_cache(10_000)
def readable(name: str) -> str:
    """A kernel's name with its template's arguments, "at::native::fill_kernel<float>" of "_ZN2at6native...".

    Types that were named before are left out: only the whole grammar would tell which they are. A name that
    is not mangled is returned as it is.
    """
    if not name.startswith("_Z"):
        return name
    text, place, opened, is_within = "", len("_Z"), [""], False
    while place < len(name) and (token := _TOKEN.match(name, place)) is not None:
        place, joint, is_within = token.end(), "::" if is_within else " ", False
        if token["open"] == "L" and opened[-1] in ("", "N", "Z"):
            is_within = joint == "::"  # a function that its file alone knows
        elif token["open"]:
            opened.append(token["open"])
            text += "<" if token["open"] == "I" else ""
        elif token["close"]:
            closed = opened.pop() if len(opened) > 1 else ""
            text += ">" if closed == "I" else ""
            if closed.startswith("U") and (number := _NUMBER_OF_LAMBDA.match(name, place)):
                place = number.end()
            is_within = opened[-1] == "N"
        elif token["length"] and not (opened[-1] == "L" and name[place : place + 1] == "E"):
            word = name[place : place + int(token["length"])]
            place += len(word)
            text += joint + (_UNNAMED if word.startswith(_UNNAMED) else word)
            is_within = opened[-1] == "N"
        elif opened[-1] in ("I", "J", "") and (piece := token["number"] or _TYPES.get(token["type"] or "")):
            text += f" {piece}"
        if text and len(opened) <= 1 and "(" not in text and name[place : place + 1] != "I":
            text += "("
    listed = text.replace("< ", "<").replace("( ", "(").strip().replace(" ", ", ")
    return f"{listed})".replace(_UNNAMED, "(anonymous namespace)") if "(" in listed else name
