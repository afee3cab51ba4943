"""The command line on a machine whose window is elsewhere: `python -P -m engine.there HOME engine show`.

Everything that it writes is in the folder HOME.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDERS = {"AMMETER_HOME": "home", "AMMETER_DATA": "datasets", "AMMETER_ENGINE": "engine"}


def main(arguments: list[str]) -> int:
    """Runs a verb of the command line with the folders in `arguments[0]`, and returns its exit status."""
    home = Path(arguments[0])
    os.environ.update({name: str(home / folder) for name, folder in FOLDERS.items()})
    # imported once the folders are known
    from engine.cli import main as run

    return run(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
