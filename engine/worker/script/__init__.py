"""Runs and observes a script of the user's own."""
