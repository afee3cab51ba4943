"""Runs for other experiment trackers: TensorBoard and MLflow."""
