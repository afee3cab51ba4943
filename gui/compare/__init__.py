"""The result of a comparison of runs: headline, bars, metrics and curves."""
