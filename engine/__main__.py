"""`python -P -m engine`: the command line without the window."""

import sys

from engine.loading import quiet_interrupt

if __name__ == "__main__":
    with quiet_interrupt("--json" in sys.argv):
        from engine.cli import main
    sys.exit(main())
