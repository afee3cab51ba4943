"""The doctor: checks of the machine, the package and PyTorch, with fixes. Imports no torch."""
