"""The ladder: losses by step, rungs, and a rung's errors by module."""
