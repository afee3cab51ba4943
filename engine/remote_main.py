"""The program on a remote machine: `python -P -m engine.remote_main HOME engine show` runs a command.

With HOME and `install` or `plan` it installs PyTorch as requested by lines of JSON on stdin. It writes only
in the folder HOME.
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
    from engine.installation.request import InstallEvent


def main(arguments: list[str]) -> int:
    """Run the command in `arguments[1:]` with the folder `arguments[0]`, and return the exit status."""
    home, *verb = arguments
    os.environ.update({name: str(Path(home, folder)) for name, folder in FOLDERS.items()})
    # imported once the folders are known
    from engine.cli.app import main as run

    return _install(only_plans=verb == ["plan"]) if len(verb) == 1 else run(verb)


def _install(*, only_plans: bool) -> int:
    from engine.cli.engine import checked_request
    from engine.experiment.problem import ProblemError
    from engine.installation.installer import Installer
    from engine.installation.request import Planned, event_line, read_request
    from engine.worker.launcher import try_out

    def report(event: InstallEvent) -> None:
        sys.stdout.buffer.write(event_line(event))
        sys.stdout.buffer.flush()

    try:
        wanted = checked_request(read_request(sys.stdin.buffer.readline()))
        installer = Installer(None, try_out)
        if only_plans:
            report(Planned(installer.plan(wanted)))
            return 0
        threading.Thread(target=_stop_at_end, args=(installer,), daemon=True).start()
        for event in installer.install(wanted):
            report(event)
    except ProblemError as error:
        sys.stdout.buffer.write(event_line(error.problem))
        return 1
    return 0


def _stop_at_end(installer: Installer) -> None:
    """Stop the installation at the end of stdin, also when the connection is lost."""
    # not through the buffer, whose lock would abort the interpreter as it ends
    while os.read(sys.stdin.fileno(), 4096):
        pass
    installer.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
