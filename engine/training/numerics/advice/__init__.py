"""Advice on an experiment's numerics, each with the evidence that it rests on."""
