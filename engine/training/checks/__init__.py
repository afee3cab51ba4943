"""Checks a model, its loss and its file for mixed-precision mistakes before a step is trained."""
