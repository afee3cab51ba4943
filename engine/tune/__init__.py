"""Find the fastest settings of an experiment by successive halving, and verify them."""
