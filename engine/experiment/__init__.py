"""Experiments, and the catalog of what a machine offers, as checked values."""
