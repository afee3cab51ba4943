"""Replays of two recorded runs side by side, as in a race, and the two runs of the demo (Show me)."""
