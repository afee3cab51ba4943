"""Traces of torch.profiler as they are read: their records, and what kernels and operations do."""
