"""Numerics studies, which a worker runs and the store keeps."""
