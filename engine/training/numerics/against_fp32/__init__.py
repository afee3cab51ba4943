"""Comparisons with FP32, which trains several times to show its own spread."""
