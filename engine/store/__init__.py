"""Save runs, studies and the queue in one SQLite file."""
