"""The AMP engine: it describes, trains, measures and records experiments, and knows nothing of the window."""

__version__ = "0.1.0"
