"""Measurements of a run that do not disturb it."""
