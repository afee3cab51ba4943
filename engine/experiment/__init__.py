"""The settings of experiments, with validation, presets and sweeps, and the catalog of devices and models."""
