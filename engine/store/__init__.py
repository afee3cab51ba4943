"""The saved runs and studies, in SQLite."""
