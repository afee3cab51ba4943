"""Saves studies, sweeps, complete runs of other stores, the traces of profiles, and memory forecasts."""
