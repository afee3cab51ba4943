"""Steps that measure and test on a GPU, and a table of results and aims."""
