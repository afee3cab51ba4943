"""Sweeps: training of every combination of several settings, its results, charts and estimated time."""
