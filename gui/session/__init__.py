"""What the window does and knows without a widget: the engine's thread, runs, searches."""
