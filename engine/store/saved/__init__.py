"""Saved studies and sweeps, and the traces of profiles."""
