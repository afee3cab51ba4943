"""A run as a PyTorch program of its own, in which a reader sees everything that the run did."""
