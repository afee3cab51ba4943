"""Compares runs: ratios and confidence intervals relative to a baseline, doubts, and a verdict in words."""
