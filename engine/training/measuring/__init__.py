"""Measures the speed, memory, energy and GPU sensors of a training run without slowing its steps."""
