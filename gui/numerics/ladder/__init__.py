"""The ladder's parts: losses by step, rungs, and a rung's errors by module."""
