"""Saves runs, studies, sweeps and the queue in one SQLite file."""
