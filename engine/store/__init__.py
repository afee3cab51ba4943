"""The saved runs and searches, in SQLite."""
