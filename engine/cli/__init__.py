"""The command line: the window's functions for servers, scripts and tests. Imports neither Qt nor torch."""
