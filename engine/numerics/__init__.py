"""Runs numerics studies in a worker, and draws the histograms of their value ranges."""
