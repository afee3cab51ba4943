"""Looks for mistakes with mixed precision in a model, its loss and its file before a step is trained."""
