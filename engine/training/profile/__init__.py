"""Profiles training steps with torch.profiler: where the time of a step goes, and advice on it."""
