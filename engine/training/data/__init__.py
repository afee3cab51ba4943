"""Datasets, and their batches on a device."""
