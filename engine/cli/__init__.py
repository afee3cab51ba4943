"""The command line: every verb of the window, for a server, a script or a test. No Qt and no torch here."""

from engine.cli.app import VERBS, main

__all__ = ["VERBS", "main"]
