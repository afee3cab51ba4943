"""Formats numbers, durations and sizes as text, and names settings, optimizations and units."""
