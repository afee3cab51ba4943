"""Drawings as lists of shapes, and their output as SVG, PDF and bitmap."""
