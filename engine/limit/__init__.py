"""Finds the largest batch that fits into a device's memory, by trials in worker processes."""
