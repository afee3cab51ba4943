"""Where a step's time goes: steps recorded by torch.profiler, and what the records say."""
