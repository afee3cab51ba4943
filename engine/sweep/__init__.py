"""Sweeps: pilots, runs and repeats of every cell of a grid, its results, and the time left."""
