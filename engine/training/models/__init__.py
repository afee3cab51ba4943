"""Builds models and their losses, and changes their modules, e.g. to FP8 or activation checkpointing."""
