"""The window's state and work: the engine's thread, runs, and orders such as searches."""
