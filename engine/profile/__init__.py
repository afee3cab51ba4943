"""Profiles of one or more experiments: where a step's time goes, and the conclusions."""
