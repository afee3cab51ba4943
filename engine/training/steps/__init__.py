"""The optimizer step, from the plain loop to one CUDA graph."""
