"""A run from its experiment to its last event: preparation, training, trials and saving."""
