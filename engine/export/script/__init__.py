"""A run as a stand-alone PyTorch program that shows everything the run did."""
