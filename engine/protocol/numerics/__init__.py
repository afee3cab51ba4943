"""Results of an experiment's numerics, part by part."""
