"""Saved runs: the store, and statistics over runs. No torch here."""
