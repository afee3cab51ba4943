"""Sweeps on the command line: their options, the verbs, and what these print."""
