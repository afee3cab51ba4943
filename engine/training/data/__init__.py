"""Datasets, and the batches that they become on a device."""
