"""Advice on the time of a step: patterns in its recording, each with what it costs."""
