"""Results of a diagnosis of an experiment's numerics, part by part."""
