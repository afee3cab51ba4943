"""The session of a window: the engine thread, the queue, runs, studies and sweeps."""
