"""Profiles one or more experiments, shows where a step's time goes, and names the bottleneck."""
