"""Finding the fastest settings of an experiment by successive halving, and proving them."""
