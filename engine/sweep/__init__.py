"""Sweeps: pilots, runs and repeats of a grid's cells, their results, and the time left."""
