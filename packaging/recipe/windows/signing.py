"""Signs programs for Windows, where a certificate is named; without one SmartScreen warns of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from recipe.source import RecipeError, run

CERTIFICATE, PASSWORD, CLOCK = (
    "AMMETER_WINDOWS_CERTIFICATE",
    "AMMETER_WINDOWS_CERTIFICATE_PASSWORD",
    "AMMETER_WINDOWS_TIMESTAMP_URL",
)
"""The environment's names of a .pfx file, its password, and a server that adds the time."""


def sign(*programs: Path) -> None:
    """Signs the files in place: by signtool on Windows, elsewhere by osslsigncode. Raises RecipeError."""
    certificate = os.environ.get(CERTIFICATE)
    if not certificate:
        names = ", ".join(program.name for program in programs)
        print(f"Not signed, as {CERTIFICATE} names no certificate: {names}")
        return
    password, clock = os.environ.get(PASSWORD, ""), os.environ.get(CLOCK)
    for program in programs:
        try:
            if sys.platform == "win32":
                time = ("/tr", clock, "/td", "sha256") if clock else ()
                run("signtool", "sign", "/fd", "sha256", "/f", certificate, "/p", password, *time, program)
            else:
                signed, time = program.with_name(f"{program.name}.signed"), ("-ts", clock) if clock else ()
                key = ("-pkcs12", certificate, "-pass", password, "-h", "sha256", "-n", "Ammeter")
                run("osslsigncode", "sign", *key, *time, "-in", program, "-out", signed)
                signed.replace(program)
        except RecipeError as error:
            raise RecipeError(str(error).replace(password or "\0", "***")) from None
