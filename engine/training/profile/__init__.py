"""Profiles: steps recorded by torch.profiler, the parts of their time, and advice."""
