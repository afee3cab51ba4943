"""The window: its bar, its places and what they share."""
