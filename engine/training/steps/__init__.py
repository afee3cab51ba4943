"""The optimizer step: plain PyTorch, compiled, captured as a CUDA graph, or the user's own."""
