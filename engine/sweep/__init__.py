"""Sweeps: every cell of a grid piloted, trained and repeated; what is known of it, and the time left."""
