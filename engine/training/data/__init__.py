"""Datasets, and the batch sources that feed a training run on its device."""
