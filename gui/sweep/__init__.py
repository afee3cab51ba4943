"""The page Sweep, which trains a grid of settings (every combination of their values) and plots results."""
