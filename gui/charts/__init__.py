"""Plots of training curves, live or saved, with a legend that shows the values at the crosshair."""
