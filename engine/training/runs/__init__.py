"""A training run from preparation to its last event, its checkpoints, and trials of a batch size."""
