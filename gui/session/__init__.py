"""The window's state and work without widgets: the engine's thread, runs and searches."""
