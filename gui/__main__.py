"""The program `ammeter`: without a verb it opens the window, with one it hands over to the command line."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the program on sys.argv and returns its exit status."""
    if len(sys.argv) > 1:
        from engine.cli import main as run_verb

        return run_verb(sys.argv[1:])
    from gui.display import display_problem

    problem = display_problem()
    if problem is not None:
        sys.stderr.write(f"{problem.message} {problem.remedy}\n")
        return 2 if problem.key == "display" else 1
    from gui.app import run

    return run()


if __name__ == "__main__":
    sys.exit(main())
