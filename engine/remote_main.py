"""The one program on a remote machine: `python -P -m engine.remote_main HOME VERB ...`.

    follow WORKER AT NONCE   open a worker and follow its events from a byte on (`follower.py`)
    keep WORKER              own a worker until it ends (`keeper.py`)
    forget WORKER            delete a worker's files
    serve ALLOCATION         start the keepers of a cluster's job (`allocation.py`)
    give-back ALLOCATION     end that job once nothing runs in it
    install, plan            install PyTorch as requested by lines of JSON on stdin

Other verbs are those of the command line, such as `engine show`. It writes only in the folder HOME.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from engine.worker.allocation import NAME, Allocation
from engine.worker.follower import FOLDERS, Follower, forget
from engine.worker.keeper import keep

if TYPE_CHECKING:
    from engine.installation.installer import Installer
    from engine.installation.request import InstallEvent


def main(arguments: list[str]) -> int:
    """Run the verb in `arguments[1:]` with the folder `arguments[0]`, and return the exit status."""
    home, verb, *rest = arguments
    if rest and NAME.fullmatch(rest[0]):
        return _serve_worker(Path(home).resolve(), verb, *rest)
    os.environ.update({name: str(Path(home, folder)) for name, folder in FOLDERS.items()})
    # imported once the folders are known
    from engine.cli.app import main as run

    return _install(only_plans=verb == "plan") if not rest else run([verb, *rest])


def _serve_worker(home: Path, verb: str, name: str, *rest: str) -> int:
    os.umask(0o077)
    try:
        match verb, rest:
            case "follow", (at, nonce):
                Follower(home, name, int(at), nonce).follow()
            case "keep", ():
                keep(home / "workers" / name)
            case "forget", ():
                forget(home, name)
            case "serve", ():
                Allocation(home, name).serve()
            case "give-back", ():
                Allocation(home, name).give_back()
            case _:
                raise ValueError(f"unknown command: {verb}")
    except BrokenPipeError:
        return 0
    except OSError as error:
        sys.stderr.write(f"ammeter: {error}\n")
        return 1
    return 0


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
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # a thread that reads stdin would hold up the interpreter's end
    os._exit(status)
