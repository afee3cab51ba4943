"""A run from its experiment to its last event: what is prepared, trained, tried and saved."""
