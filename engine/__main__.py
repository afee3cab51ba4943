"""`python -P -m engine`: the command line without the window."""

import sys

from engine.cli import main

if __name__ == "__main__":
    sys.exit(main())
