"""The doctor: checks whether machine, package and PyTorch are ready, and suggests fixes. Imports no torch."""
