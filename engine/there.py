"""The program on a machine whose window is elsewhere: `python -P -m engine.there HOME engine show` runs a
verb of the command line, and HOME with `install` or `plan` installs the engine as lines of JSON ask for it.

Everything that it writes is in the folder HOME.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from engine.worker.relay import FOLDERS

if TYPE_CHECKING:
    from engine.installation.installer import Installer
    from engine.installation.wanted import InstallEvent


def main(arguments: list[str]) -> int:
    """Does in the folder `arguments[0]` what the others say, and returns the exit status."""
    home, *verb = arguments
    os.environ.update({name: str(Path(home, folder)) for name, folder in FOLDERS.items()})
    # imported once the folders are known
    from engine.cli import main as run

    return _install(only_plans=verb == ["plan"]) if len(verb) == 1 else run(verb)


def _install(*, only_plans: bool) -> int:
    from engine.cli.engine import wanted_here
    from engine.experiment.problem import ProblemError
    from engine.installation.installer import Installer
    from engine.installation.lines import event_line, read_wanted
    from engine.installation.plan import make_plan
    from engine.installation.wanted import Planned
    from engine.worker.launcher import try_out

    def tell(event: InstallEvent) -> None:
        sys.stdout.buffer.write(event_line(event))
        sys.stdout.buffer.flush()

    try:
        wanted = wanted_here(read_wanted(sys.stdin.buffer.readline()))
        if only_plans:
            tell(Planned(make_plan(wanted)))
            return 0
        installer = Installer(None, try_out)
        threading.Thread(target=_obey, args=(installer,), daemon=True).start()
        for event in installer.install(wanted):
            tell(event)
    except ProblemError as error:
        sys.stdout.buffer.write(event_line(error.problem))
        return 1
    return 0


def _obey(installer: Installer) -> None:
    """Has it pause and go on as the lines say, and stop where they end."""
    from engine.installation.lines import PAUSE

    for line in sys.stdin.buffer:
        (installer.pause if line == PAUSE else installer.resume)()
    installer.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
