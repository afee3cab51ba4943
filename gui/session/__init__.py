"""The window's state and work: the engine's thread, runs, and studies and sweeps in order."""
